/* What has passed on its way: judged, encoded and derived (branches.c), it gets its numbers all at once, together with the
 * event that it is derived from. Then it leaves for other processes, after the event itself, and only then do sinks in
 * this one get any of it: what their handlers submit follows on every stream.
 */
#include "streams/branches.h"

#include "streams/outgoing.h"

/* --- before it has a number --- */

struct pass *echo_passes_add(struct passes *passes, struct branch *branch, const struct subject *subject,
                             PyObject *made, uint64_t events)
{
    struct pass *pass = PyMem_Calloc(1, sizeof *pass);

    if (pass == NULL) {
        Py_XDECREF(made);
        PyErr_NoMemory();
        return NULL;
    }
    pass->branch = (struct branch *)(void *)Py_NewRef((PyObject *)branch);
    pass->is_selected = branch->derived_size != 0 || subject->is_selected;
    pass->submission = (struct submission){.events = events, .forks = subject->what->forks};
    if (made != NULL) {
        pass->submission.owner = made;
        pass->submission.record = (struct record){.bytes = (const uint8_t *)PyBytes_AsString(made),
                                                  .size = PyBytes_Size(made),
                                                  .submitted_ns = subject->what->record.submitted_ns};
    } else {
        pass->event = subject->event;
        pass->lies = subject->what;
    }
    branch->waiting += events;
    if (passes->last != NULL)
        passes->last->next = pass;
    else
        passes->first = pass;
    passes->last = pass;
    return pass;
}

/* Whoever takes records may have come while others were judged. */
static int encode_if_needed(const struct outlet *outlet, const struct subject *subject, const struct passes *passes)
{
    const struct pass *pass = passes->first;
    int is_needed = echo_needs_records(outlet);

    for (; !is_needed && pass != NULL; pass = pass->next)
        is_needed = pass->lies != NULL && echo_needs_records(outlet_of(pass->branch));
    return is_needed ? echo_subject_encode(subject) : 0;
}

/* --- numbers --- */

static int keep(const struct outlet *outlet, const struct submission *what)
{
    Py_ssize_t one = what->events == 1 ? what->record.size : outlet->record_size;

    return echo_history_add(outlet->history, &what->record, one, outlet->sequence);
}

static uint64_t take_numbers(struct outlet *outlet, uint64_t events)
{
    uint64_t first = outlet->sequence;

    outlet->sequence += events;
    return first;
}

/* For sinks that are about to come. */
static void note(const struct outlet *outlet, const struct pass *pass)
{
    const struct record *record = pass->lies != NULL ? &pass->lies->record : &pass->submission.record;

    if (echo_history_is_followed(outlet->meanwhile) && record->bytes != NULL)
        echo_outlet_note(outlet, record, pass->submission.events, pass->submission.number);
}

/* And who is there to get it. No other code runs. */
static void number(const struct passes *passes)
{
    for (struct pass *pass = passes->first; pass != NULL; pass = pass->next) {
        struct outlet *outlet = outlet_of(pass->branch);

        pass->submission.number = take_numbers(outlet, pass->submission.events);
        note(outlet, pass);
        pass->branch->waiting -= pass->submission.events;
        pass->streams = Py_NewRef(outlet->outgoing);
        pass->sinks = sinks_of(outlet);
    }
}

/* --- to other processes --- */

/* Their numbers are taken, so whoever counts is told. */
static void skip(const struct pass *pass)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(pass->streams); i++)
        echo_outgoing_stream_skip(PyTuple_GetItem(pass->streams, i), pass->submission.events);
}

/* The record may have been made for somebody else, after the event was judged. */
static void take_record(struct pass *pass)
{
    if (pass->lies == NULL)
        return;
    pass->submission.record = pass->lies->record;
    pass->submission.owner = Py_XNewRef(pass->lies->owner);
}

/* Whether somebody takes the record, and not the event. */
static int is_record_taken(const struct pass *pass)
{
    return PyTuple_Size(pass->streams) + pass->sinks.converting_count > 0 ||
           (pass->event == NULL && pass->sinks.direct_count > 0);
}

static int send(struct pass *pass)
{
    struct submission *submission = &pass->submission;

    if (submission->record.bytes == NULL)
        return 0;
    if (is_record_taken(pass))
        outlet_of(pass->branch)->bytes += (uint64_t)submission->record.size;
    return echo_submission_send_by(outlet_of(pass->branch), pass->streams, pass->is_selected, submission);
}

static int send_all(const struct passes *passes, int status)
{
    for (struct pass *pass = passes->first; pass != NULL; pass = pass->next) {
        take_record(pass);
        if (status != 0)
            skip(pass);
        else
            status = send(pass);
    }
    return status;
}

/* All that may run code: what fails here has taken no number. */
static int prepare(const struct outlet *outlet, const struct subject *subject, struct passes *passes)
{
    int status = encode_if_needed(outlet, subject, passes);

    if (status == 0)
        status = echo_branches_follow(outlet, subject, outlet->sequence, passes);
    if (status == 0)
        status = encode_if_needed(outlet, subject, passes);
    return status == 0 && is_outlet_open(outlet) ? 0 : -1;
}

int echo_branches_send(struct outlet *outlet, const struct subject *subject, struct sinks *sinks, struct passes *passes)
{
    struct submission *what = subject->what;
    int status = subject->event != NULL || outlet->branch_count > 0 ? prepare(outlet, subject, passes) : 0;

    if (status == 0 && outlet->history != NULL)
        status = keep(outlet, what);
    if (status != 0)
        return status;
    what->number = take_numbers(outlet, what->events);
    *sinks = sinks_of(outlet);
    if (passes->first == NULL && what->record.bytes == NULL) { /* it passes nobody, and nobody takes its record */
        what->record.size = outlet->record_size;
        return 0;
    }
    number(passes);
    outlet->bytes += subject->event == NULL || outlet->takes_records ? (uint64_t)what->record.size : 0;
    if (what->record.bytes == NULL)
        what->record.size = outlet->record_size;
    else
        status = echo_submission_send(outlet, what);
    return send_all(passes, status);
}

/* --- to sinks here --- */

static int hand(struct pass *pass)
{
    struct submission *submission = &pass->submission;
    int status;

    if (pass->sinks.direct == NULL)
        return 0;
    if (submission->record.bytes == NULL)
        submission->record.size = outlet_of(pass->branch)->record_size;
    status = hand_to_all(pass->sinks.direct, pass->sinks.direct_count, pass->event, submission);
    return status == 0 ? hand_to_all(pass->sinks.converting, pass->sinks.converting_count, NULL, submission) : status;
}

/* --- to sinks here, by and by --- */

/* One copy for all whom it is left to. */
static int own_record(struct submission *submission)
{
    struct record *record = &submission->record;

    if (submission->owner != NULL)
        return 0;
    submission->owner = PyBytes_FromStringAndSize((const char *)record->bytes, record->size);
    if (submission->owner == NULL)
        return -1;
    record->bytes = (const uint8_t *)PyBytes_AsString(submission->owner);
    return 0;
}

/* A queue of another process's events never waits, and gets them at once. */
static int leave_to_each(PyObject *deliveries, Py_ssize_t count, struct submission *submission, struct asides *derived)
{
    int status = 0;

    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        PyObject *delivery = PyTuple_GetItem(deliveries, i);

        if (((struct delivery *)delivery)->is_queue)
            status = echo_delivery_hand(delivery, &submission->record, 1, submission->owner, submission->number);
        else if (own_record(submission) != 0)
            status = -1;
        else
            status = echo_asides_add(derived, delivery, &submission->record, submission->owner, submission->events,
                                     submission->number);
        if (status != 0)
            status = echo_keep_interrupt(&submission->interrupt);
    }
    return status;
}

static int leave(struct pass *pass, struct asides *derived)
{
    struct submission *submission = &pass->submission;
    int status;

    if (pass->sinks.direct == NULL)
        return 0;
    status = leave_to_each(pass->sinks.direct, pass->sinks.direct_count, submission, derived);
    return status == 0 ? leave_to_each(pass->sinks.converting, pass->sinks.converting_count, submission, derived)
                       : status;
}

/* What went wrong on the way of what is derived is raised as if it were the event's own, unless something was. */
static void leave_errors(struct pass *pass, struct submission *submission)
{
    if (submission->error == NULL)
        submission->error = pass->submission.error;
    else
        Py_XDECREF(pass->submission.error);
    if (submission->interrupt == NULL)
        submission->interrupt = pass->submission.interrupt;
    else
        Py_XDECREF(pass->submission.interrupt);
}

static void free_pass(struct pass *pass)
{
    if (pass->streams == NULL) /* it has taken no number, and takes none any more */
        pass->branch->waiting -= pass->submission.events;
    let_sinks_go(&pass->sinks);
    Py_XDECREF(pass->submission.owner);
    Py_XDECREF(pass->streams);
    Py_DECREF((PyObject *)pass->branch);
    PyMem_Free(pass);
}

static int empty(struct passes *passes, struct submission *submission, int status, struct asides *derived)
{
    struct pass *pass;

    while ((pass = passes->first) != NULL) {
        if (status == 0)
            status = derived == NULL ? hand(pass) : leave(pass, derived);
        passes->first = pass->next;
        leave_errors(pass, submission);
        free_pass(pass);
    }
    return status;
}

int echo_passes_hand(struct passes *passes, struct submission *submission, int status)
{
    return empty(passes, submission, status, NULL);
}

int echo_passes_leave(struct passes *passes, struct submission *submission, int status, struct asides *derived)
{
    return empty(passes, submission, status, derived);
}
