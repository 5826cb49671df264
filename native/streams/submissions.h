/* Submissions: what leaves by an outlet at once, whoever takes it. submissions.c has the rules; outlets.c submits
 * events, outlet_records.c records and arrays of them. */
#pragma once

#include "streams/deliveries.h"
#include "streams/outlets.h"

#include "core/clock.h"
#include "core/forks.h"

/* Fewer bytes are copied into frames faster than a block of the pool is found and lent. */
#define LOAN_BYTES (32 * 1024)

/* One submission, on the stack of its call: what leaves, and what has gone wrong on the way. */
struct submission {
    struct record record; /* its bytes are in a room of the caller's, in `owner`, in a buffer of the caller's, or
                           * nowhere: then only the size counts, which is 0 where nobody has to know it */
    uint64_t events;      /* in the record */
    uint64_t number;      /* of the first of them, among those of the outlet */
    unsigned forks;       /* echo_forks when it began: a child that a handler forks has no part in it */
    PyObject *owner;      /* owned; bytes that the record lies in. NULL: it lies elsewhere */
    PyObject *error;      /* owned; the first exception, if there was one */
    PyObject *interrupt;  /* owned; the first that is no Exception, likewise */
};

/* Of this thread, inside one another: handlers submit. Python counts its own calls only, and from 3.12 on lets C
 * take all of the stack. The model is the one that costs no call. */
extern _Thread_local int echo_submission_depth __attribute__((tls_model("initial-exec")));
#define MAX_DEPTH 200

/* 0; -1 with RecursionError. */
static inline int enter_submission(void)
{
    if (echo_submission_depth == MAX_DEPTH) {
        PyErr_Format(PyExc_RecursionError, "Expected handlers to end: %d have submitted inside one another", MAX_DEPTH);
        return -1;
    }
    echo_submission_depth++;
    return 0;
}

static inline void leave_submission(void)
{
    echo_submission_depth--;
}

/* To other processes. 0; -1 with what is no Exception and came second, or with what ends the submission. GIL; may
 * run any code, as may all that follow. */
int echo_submission_send(const struct outlet *outlet, struct submission *submission);

/* The same by streams that the caller holds: those that there were when the events got their numbers. `is_selected`: a
 * receiver has said what is in the record, so that it is more than its side takes is no fault of the source. */
int echo_submission_send_by(const struct outlet *outlet, PyObject *streams, int is_selected,
                            struct submission *submission);

/* Whether one of such streams lends what lies in the pool. GIL. */
int echo_submission_lends(PyObject *streams);

/* What is submitted now: where somebody is told so, it is looked up when. */
static inline int64_t time_of_submission(const struct outlet *outlet)
{
    return outlet->has_times ? realtime_ns() : 0;
}

/* The sinks of this process when the event got its number: who comes later, while it is on its way to others, gets it
 * from the history, or not at all. */
struct sinks {
    PyObject *direct, *converting; /* owned; NULL: there are no sinks here */
    Py_ssize_t direct_count, converting_count;
};

static inline struct sinks sinks_of(const struct outlet *outlet)
{
    if (outlet->direct_count + outlet->converting_count == 0)
        return (struct sinks){.direct = NULL};
    return (struct sinks){Py_NewRef(outlet->direct), Py_NewRef(outlet->converting), outlet->direct_count,
                          outlet->converting_count};
}

static inline void let_sinks_go(const struct sinks *sinks)
{
    Py_XDECREF(sinks->direct);
    Py_XDECREF(sinks->converting);
}

/* To sinks of this process, which the caller holds: the event, or where that is NULL the record. What goes wrong there
 * is reported there; an Exception that comes back all the same ends the submission, as does the second one that is
 * none: -1. A child that a handler has forked hands on nothing: the sinks are the parent's. */
static inline int hand_to_all(PyObject *deliveries, Py_ssize_t count, PyObject *event, struct submission *submission)
{
    PyObject *delivery;
    int status = 0;

    for (Py_ssize_t i = 0; status == 0 && i < count && !has_forked_since(submission->forks); i++) {
        delivery = PyTuple_GetItem(deliveries, i);
        if ((event != NULL
                 ? echo_delivery_hand_event(delivery, event, &submission->record, submission->number)
                 : echo_delivery_hand(delivery, &submission->record, 1, submission->owner, submission->number)) != 0)
            status = echo_keep_interrupt(&submission->interrupt);
    }
    return status;
}

/* The end of a submission that has failed, or has kept what went wrong. NULL with an exception: that of `status`,
 * which is then -1, goes before those that were kept. */
PyObject *echo_submission_raise(struct submission *submission, int status);

/* The end of a submission: None, or NULL with an exception. */
static inline PyObject *conclude(struct submission *submission, int status)
{
    Py_XDECREF(submission->owner);
    if (__builtin_expect(status != 0 || submission->interrupt != NULL || submission->error != NULL, 0))
        return echo_submission_raise(submission, status);
    Py_RETURN_NONE;
}
