/* Submissions: what leaves by an outlet at once, whoever takes it. submissions.c has the rules; outlets.c submits
 * events, outlet_records.c records and arrays of them. */
#pragma once

#include "streams/deliveries.h"
#include "streams/outlets.h"

#include "core/forks.h"

/* One submission, on the stack of its call: what leaves, and what has gone wrong on the way. */
struct submission {
    struct record record; /* its bytes are in a room of the caller's, in `owner`, in a buffer of the caller's, or
                           * nowhere: then only the size counts, which is 0 where nobody has to know it */
    uint64_t events;      /* in the record */
    unsigned forks;       /* echo_forks when it began: a child that a handler forks has no part in it */
    PyObject *owner;      /* owned; bytes that the record lies in. NULL: it lies elsewhere */
    PyObject *type, *value, *traceback; /* owned; the first error, if there was one */
    PyObject *interrupt;                /* owned; the first exception that is no Exception, likewise */
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

/* To sinks of this process: the event, or where that is NULL the record. What goes wrong there is reported there; an
 * Exception that comes back all the same ends the submission, as does the second one that is none: -1. A child that a
 * handler has forked hands on nothing: the sinks are the parent's. */
static inline int hand_to_all(PyObject *deliveries, PyObject *event, struct submission *submission)
{
    Py_ssize_t i, count = PyTuple_Size(deliveries);
    PyObject *delivery;
    int status = 0;

    Py_INCREF(deliveries); /* they may be replaced meanwhile */
    for (i = 0; status == 0 && i < count && !has_forked_since(submission->forks); i++) {
        delivery = PyTuple_GetItem(deliveries, i);
        if ((event != NULL ? echo_delivery_hand_event(delivery, event, submission->record.size)
                           : echo_delivery_hand(delivery, &submission->record, 1, submission->owner, 0)) != 0)
            status = echo_keep_interrupt(&submission->interrupt);
    }
    Py_DECREF(deliveries);
    return status;
}

/* The end of a submission that has failed, or has kept what went wrong. NULL with an exception: that of `status`,
 * which is then -1, goes before those that were kept. */
PyObject *echo_submission_raise(struct submission *submission, int status);

/* The end of a submission: None, or NULL with an exception. */
static inline PyObject *conclude(struct submission *submission, int status)
{
    Py_XDECREF(submission->owner);
    if (__builtin_expect(status != 0 || submission->interrupt != NULL || submission->type != NULL, 0))
        return echo_submission_raise(submission, status);
    Py_RETURN_NONE;
}
