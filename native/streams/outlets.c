/* The type Outlet: where the events of one source leave.
 *
 * An event is encoded at most once, whoever takes it, and before anybody gets anything: what cannot be encoded
 * goes nowhere. Then it leaves for other processes, and only then do the sinks in this one get it: what their
 * handlers submit follows it on every link, and remote sinks do not wait for local handlers.
 *
 * One full backlog keeps an event from no one else: all others are served, then its error is raised. What is no
 * Exception (KeyboardInterrupt) ends the way to other processes, which are told how many events they did not get;
 * the sinks in this one are served before it is raised, unless there is a second one.
 */
#include "streams/outlets.h"

#include "streams/calls.h"
#include "streams/deliveries.h"
#include "streams/outgoing.h"

#include "links/errors.h"
#include "links/pool.h"

#include "core/forks.h"
#include "core/staging.h"

/* Records up to this size are encoded on the stack. */
#define STACK_BYTES 1024

/* Larger ones, up to this size, in memory that the outlet keeps for the next: new memory is page faults, which take
 * longer than the encoding. */
#define ROOM_BYTES (1024 * 1024)

/* Fewer bytes are copied into frames faster than a block of the pool is found and lent. */
#define LOAN_BYTES (32 * 1024)

/* One submission, on the stack of its call: what leaves, and what has gone wrong on the way. */
struct submission {
    struct record record;   /* its bytes are in a room of the caller's, in `owner`, in a buffer of the caller's, or
                             * nowhere: then only the size counts, which is 0 where nobody has to know it */
    uint64_t events;        /* in the record */
    unsigned forks;         /* echo_forks when it began: a child that a handler forks has no part in it */
    PyObject *owner;        /* owned; bytes that the record lies in. NULL: it lies elsewhere */
    PyObject *type, *value, *traceback; /* owned; the first error, if there was one */
    PyObject *interrupt;                /* owned; the first exception that is no Exception, likewise */
};

/* --- errors --- */

/* Keeps the exception that is set until everybody is served. -1: it is no Exception and stays set. */
static int keep_error(struct submission *submission)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    if (submission->type == NULL)
        PyErr_Fetch(&submission->type, &submission->value, &submission->traceback);
    else
        PyErr_Clear();
    return 0;
}

/* The end of a submission. status: -1 with an exception, which then goes before those that were kept. */
static PyObject *conclude(struct submission *submission, int status)
{
    Py_XDECREF(submission->owner);
    if (submission->interrupt != NULL)
        status = echo_raise_interrupt(submission->interrupt);
    if (status == 0 && submission->type == NULL)
        Py_RETURN_NONE;
    if (status == 0) {
        PyErr_Restore(submission->type, submission->value, submission->traceback);
        return NULL;
    }
    Py_XDECREF(submission->type);
    Py_XDECREF(submission->value);
    Py_XDECREF(submission->traceback);
    return NULL;
}

/* --- to other processes --- */

static int put(PyObject *stream, const uint8_t *bytes, Py_ssize_t size, uint64_t events, struct submission *submission)
{
    return echo_outgoing_stream_put(stream, bytes, size, events) != 0 ? keep_error(submission) : 0;
}

/* Routes that it was not the turn of. */
static void skip_from(PyObject *streams, Py_ssize_t first, uint64_t events)
{
    for (Py_ssize_t i = first; i < PyTuple_Size(streams); i++)
        echo_outgoing_stream_skip(PyTuple_GetItem(streams, i), events);
}

/* Bytes of records in a frame: as many whole ones as this side wants and the peer takes, but at least one. */
static Py_ssize_t most_in_frame(const struct outlet *outlet, PyObject *stream)
{
    Py_ssize_t taken = echo_outgoing_stream_max_payload(stream);
    Py_ssize_t most = taken < outlet->max_payload ? taken : outlet->max_payload;

    return most > outlet->record_size ? most - most % outlet->record_size : outlet->record_size;
}

/* Frame by frame, each with whole records; where one record is more than the peer takes, all are refused at once. */
static int put_records(const struct outlet *outlet, PyObject *stream, struct submission *submission)
{
    const struct record *record = &submission->record;
    Py_ssize_t at, size, most = most_in_frame(outlet, stream);

    if (outlet->record_size > echo_outgoing_stream_max_payload(stream))
        return put(stream, record->bytes, outlet->record_size, submission->events, submission);
    for (at = 0; at < record->size; at += most) {
        size = record->size - at < most ? record->size - at : most;
        if (put(stream, record->bytes + at, size, (uint64_t)(size / outlet->record_size), submission) != 0) {
            echo_outgoing_stream_skip(stream, (uint64_t)((record->size - at - size) / outlet->record_size));
            return -1;
        }
    }
    return 0;
}

/* block: where the records lie in the pool; NULL: they do not. */
static int send(const struct outlet *outlet, PyObject *stream, PyObject *block, struct submission *submission)
{
    const struct record *record = &submission->record;
    int status = 1;

    if (block != NULL)
        status = echo_outgoing_stream_lend(stream, block, record->size, submission->events);
    if (status < 0)
        return keep_error(submission);
    if (status == 0)
        return 0;
    return submission->events == 1 ? put(stream, record->bytes, record->size, 1, submission)
                                   : put_records(outlet, stream, submission);
}

/* The block of the pool that large records lie in, if a stream lends what is in it. */
static PyObject *place(const struct outlet *outlet, PyObject *streams, const struct record *record)
{
    if (outlet->pool == NULL || record->size < LOAN_BYTES)
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(streams); i++)
        if (echo_outgoing_stream_lends(PyTuple_GetItem(streams, i)))
            return echo_pool_place(outlet->pool, record->bytes, record->size);
    return NULL;
}

static int send_to_all(const struct outlet *outlet, struct submission *submission)
{
    PyObject *streams = Py_NewRef(outlet->outgoing); /* they may be replaced meanwhile */
    PyObject *block = place(outlet, streams, &submission->record);
    Py_ssize_t i, count = PyTuple_Size(streams);
    int status = 0;

    echo_submission_begin();
    for (i = 0; status == 0 && i < count; i++)
        status = send(outlet, PyTuple_GetItem(streams, i), block, submission);
    skip_from(streams, i, submission->events);
    Py_XDECREF(block);
    Py_DECREF(streams);
    return status == 0 ? 0 : echo_keep_interrupt(&submission->interrupt);
}

/* --- to sinks in this process --- */

/* What goes wrong there is reported there; an Exception that comes back all the same ends the submission. A child
 * that a handler has forked hands on nothing: the sinks are the parent's. */
static int hand_to_all(PyObject *deliveries, struct submission *submission)
{
    Py_ssize_t i, count;
    int status = 0;

    Py_INCREF(deliveries); /* they may be replaced meanwhile */
    count = PyTuple_Size(deliveries);
    for (i = 0; status == 0 && i < count && !has_forked_since(submission->forks); i++) {
        if (echo_delivery_hand(PyTuple_GetItem(deliveries, i), &submission->record, 1, submission->owner, 0) != 0)
            status = echo_keep_interrupt(&submission->interrupt);
    }
    Py_DECREF(deliveries);
    return status;
}

static int hand_event_to_all(const struct outlet *outlet, PyObject *event, struct submission *submission)
{
    PyObject *direct = Py_NewRef(outlet->direct); /* it may be replaced meanwhile */
    Py_ssize_t i, count = PyTuple_Size(direct);
    int status = 0;

    for (i = 0; status == 0 && i < count && !has_forked_since(submission->forks); i++) {
        if (echo_delivery_hand_event(PyTuple_GetItem(direct, i), event, submission->record.size) != 0)
            status = echo_keep_interrupt(&submission->interrupt);
    }
    Py_DECREF(direct);
    return status;
}

/* --- handlers that submit --- */

/* Of this thread, inside one another. Python counts its own calls only, and from 3.12 on lets C take all of the
 * stack. */
static _Thread_local int depth __attribute__((tls_model("initial-exec")));
#define MAX_DEPTH 200

static int enter(void)
{
    if (depth == MAX_DEPTH) {
        PyErr_Format(PyExc_RecursionError, "Expected handlers to end: %d have submitted inside one another", depth);
        return -1;
    }
    depth++;
    return 0;
}

static void leave(void)
{
    depth--;
}

/* --- room for records --- */

/* Where one submission encodes its record: nobody else does so there until it is given back. */
struct room {
    uint8_t *bytes;
    Py_ssize_t size;
    int is_kept; /* 1: the outlet's, else the stack's */
};

static struct room take_room(struct outlet *outlet, uint8_t *stack)
{
    struct room room = {stack, STACK_BYTES, 0};

    if (outlet->room != NULL)
        room = (struct room){outlet->room, outlet->room_size, 1};
    outlet->room = NULL;
    return room;
}

/* Whether the record lies in bytes of its own, which nobody else has, as the room was too small for it: the next one
 * gets a larger room. */
static int is_too_small(const struct room *room, const struct submission *submission)
{
    return submission->owner != NULL && Py_REFCNT(submission->owner) == 1 && submission->record.size > room->size &&
           submission->record.size <= ROOM_BYTES;
}

static void enlarge(struct room *room, Py_ssize_t size)
{
    uint8_t *bytes = PyMem_Malloc((size_t)size);

    if (bytes == NULL)
        return;
    if (room->is_kept)
        PyMem_Free(room->bytes);
    *room = (struct room){bytes, size, 1};
}

static void give_room_back(struct outlet *outlet, struct room room, const struct submission *submission)
{
    if (outlet->raw.encode != NULL && is_too_small(&room, submission))
        enlarge(&room, submission->record.size + submission->record.size / 4); /* the next one may be larger */
    if (!room.is_kept)
        return;
    PyMem_Free(outlet->room); /* of a submission that was made within this one */
    outlet->room = room.bytes;
    outlet->room_size = room.size;
    if (outlet->is_closed)
        echo_outlet_free_room(outlet);
}

/* --- submit --- */

/* What is of another class is for the encoder to refuse, whose words they are. */
static int refuse(const struct outlet *outlet, PyObject *event)
{
    PyObject *record;

    if (outlet->event_class == NULL) {
        echo_raise("FormatError", "Expected records, got %R: this source has no class for events", event);
        return -1;
    }
    record = call_one(outlet->encode, event);
    if (record != NULL)
        echo_raise("EncodeTypeError", "Expected %R, got %R", outlet->event_class, event);
    Py_XDECREF(record);
    return -1;
}

static int is_taken(const struct outlet *outlet, PyObject *event)
{
    return Py_IS_TYPE(event, outlet->event_class) ||
           (outlet->event_class != NULL && PyType_IsSubtype(Py_TYPE(event), outlet->event_class));
}

/* Into room, or into bytes that submission->owner then refers to. */
static int encode(const struct outlet *outlet, PyObject *event, struct room room, struct submission *submission)
{
    struct record *record = &submission->record;
    PyObject **owner = &submission->owner;

    record->bytes = room.bytes;
    if (outlet->raw.encode == NULL)
        *owner = call_one(outlet->encode, event);
    else if (outlet->raw.encode(outlet->raw.self, event, room.bytes, room.size, owner, &record->size) != 0)
        return -1;
    else if (*owner == NULL)
        return 0;
    if (*owner == NULL)
        return -1;
    if (!PyBytes_Check(*owner)) {
        PyErr_Format(PyExc_TypeError, "Expected bytes from the encoder, got %R", *owner);
        return -1;
    }
    record->bytes = (const uint8_t *)PyBytes_AsString(*owner);
    record->size = PyBytes_Size(*owner);
    return 0;
}

/* Its own stack frame: events that are only handed on do not pay for the room. */
static __attribute__((noinline)) int submit_record(struct outlet *outlet, PyObject *event,
                                                   struct submission *submission)
{
    _Alignas(8) uint8_t stack[STACK_BYTES];
    struct room room = take_room(outlet, stack);
    int status = encode(outlet, event, room, submission);

    if (status == 0 && !is_outlet_open(outlet)) /* encoding may have run any code */
        status = -1;
    if (status == 0) {
        outlet->sequence++;
        outlet->bytes += (uint64_t)submission->record.size;
        status = send_to_all(outlet, submission);
    }
    if (status == 0)
        status = hand_event_to_all(outlet, event, submission);
    if (status == 0)
        status = hand_to_all(outlet->converting, submission);
    give_room_back(outlet, room, submission);
    return status;
}

/* The size that the record would have. -1 with an exception. May run any code. */
static Py_ssize_t measure(const struct outlet *outlet, PyObject *event)
{
    if (outlet->raw.measure != NULL)
        return outlet->raw.measure(outlet->raw.self, event);
    return size_of_record(call_one(outlet->encode, event));
}

/* How large an event of varying size is has to be known only where it will be queued. */
static int submit_reference(struct outlet *outlet, PyObject *event, struct submission *submission)
{
    submission->record.size = outlet->measures ? measure(outlet, event) : outlet->record_size;
    if (submission->record.size < 0 || !is_outlet_open(outlet)) /* measuring may have run any code */
        return -1;
    outlet->sequence++;
    return hand_event_to_all(outlet, event, submission);
}

static PyObject *submit(struct outlet *outlet, PyObject *event)
{
    struct submission submission = {.events = 1, .forks = echo_forks};
    int status = outlet->takes_records ? submit_record(outlet, event, &submission)
                                       : submit_reference(outlet, event, &submission);

    return conclude(&submission, status);
}

PyObject *echo_outlet_submit(PyObject *self, PyObject *event)
{
    struct outlet *outlet = (struct outlet *)self;
    PyObject *result;

    if (!is_outlet_open(outlet) || (!is_taken(outlet, event) && refuse(outlet, event) != 0) || enter() != 0)
        return NULL;
    result = submit(outlet, event);
    leave();
    return result;
}

/* --- submit_records --- */

/* They share one copy: the caller may write to the buffer again. */
static int hand_buffer(const struct outlet *outlet, PyObject *records, struct submission *submission)
{
    struct record *record = &submission->record;

    if (PyTuple_Size(outlet->direct) + PyTuple_Size(outlet->converting) == 0)
        return 0;
    submission->owner = PyBytes_CheckExact(records)
                            ? Py_NewRef(records)
                            : PyBytes_FromStringAndSize((const char *)record->bytes, record->size);
    if (submission->owner == NULL)
        return -1;
    record->bytes = (const uint8_t *)PyBytes_AsString(submission->owner);
    return hand_to_all(outlet->direct, submission) != 0 ? -1 : hand_to_all(outlet->converting, submission);
}

static int submit_view(struct outlet *outlet, PyObject *records, const Py_buffer *view, struct submission *submission)
{
    if (view->len == 0)
        return 0;
    submission->record = (struct record){.bytes = view->buf, .size = view->len};
    submission->events = (uint64_t)(view->len / outlet->record_size);
    outlet->sequence += submission->events;
    outlet->bytes += (uint64_t)view->len;
    return send_to_all(outlet, submission) != 0 ? -1 : hand_buffer(outlet, records, submission);
}

/* 0: the view is open. 1: the records do not lie side by side. -1 with an exception. */
static int open_view(PyObject *records, Py_buffer *view)
{
    if (PyObject_GetBuffer(records, view, PyBUF_SIMPLE) == 0)
        return 0;
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear(); /* TypeError, BufferError, and numpy's ValueError */
    return 1;
}

static int is_whole(const struct outlet *outlet, const Py_buffer *view)
{
    if (outlet->record_size != 0 && view->len % outlet->record_size == 0)
        return 1;
    if (outlet->record_size == 0)
        echo_raise("FormatError", "Expected events, got records side by side: those of this source vary in size");
    else
        echo_raise("FormatError", "Expected records of %zd bytes each, got %zd bytes", outlet->record_size, view->len);
    return 0;
}

/* Closes the view. Opening it may have run any code. */
static PyObject *submit_and_close(struct outlet *outlet, PyObject *records, Py_buffer *view)
{
    struct submission submission = {.forks = echo_forks};
    int status = is_outlet_open(outlet) && is_whole(outlet, view) ? enter() : -1;

    if (status == 0) {
        status = submit_view(outlet, records, view, &submission);
        leave();
    }
    PyBuffer_Release(view);
    return conclude(&submission, status);
}

PyObject *echo_outlet_submit_records(PyObject *self, PyObject *records)
{
    struct outlet *outlet = (struct outlet *)self;
    Py_buffer view;
    int status;

    if (!is_outlet_open(outlet))
        return NULL;
    status = open_view(records, &view);
    if (status == 0)
        return submit_and_close(outlet, records, &view);
    if (status > 0)
        echo_raise("FormatError", "Expected a contiguous buffer of records, got %R", Py_TYPE(records));
    return NULL;
}

/* --- submit_array --- */

static void refuse_dtype(const struct outlet *outlet, PyObject *dtype)
{
    PyObject *name;

    if (outlet->dtype == NULL) {
        echo_raise("FormatError", "Expected events, got an array: the records of this source vary in size");
        return;
    }
    name = outlet->event_class != NULL ? PyType_GetName(outlet->event_class) : PyUnicode_FromString("records");
    if (name != NULL)
        echo_raise("FormatError", "Expected an array of %S, got one of %S - at `%S`", outlet->dtype, dtype, name);
    Py_XDECREF(name);
}

static int has_dtype(const struct outlet *outlet, PyObject *array)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)outlet));
    PyObject *dtype = PyObject_GetAttr(array, state->dtype_word);
    int is_it = dtype == outlet->dtype;

    if (dtype == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) { /* a list, say */
            PyErr_Clear();
            echo_raise("FormatError", "Expected a numpy array of records, got %R", Py_TYPE(array));
        }
        return 0;
    }
    if (!is_it && outlet->dtype != NULL)
        is_it = PyObject_RichCompareBool(dtype, outlet->dtype, Py_EQ);
    if (is_it == 0)
        refuse_dtype(outlet, dtype);
    Py_DECREF(dtype);
    return is_it > 0;
}

static PyObject *submit_copy(PyObject *self, PyObject *array)
{
    PyObject *copy = PyObject_CallMethod(array, "copy", NULL), *result;

    if (copy == NULL)
        return NULL;
    result = echo_outlet_submit_records(self, copy);
    Py_DECREF(copy);
    return result;
}

PyObject *echo_outlet_submit_array(PyObject *self, PyObject *array)
{
    struct outlet *outlet = (struct outlet *)self;
    Py_buffer view;
    int status;

    if (!is_outlet_open(outlet) || !has_dtype(outlet, array))
        return NULL;
    status = open_view(array, &view);
    if (status > 0)
        return submit_copy(self, array);
    return status == 0 ? submit_and_close(outlet, array, &view) : NULL;
}
