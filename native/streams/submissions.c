/* How what is submitted leaves an outlet.
 *
 * An event is encoded at most once, whoever takes it, and before anybody gets anything: what cannot be encoded
 * goes nowhere. Then it leaves for other processes, and only then do the sinks in this one get it: what their
 * handlers submit follows it on every link, and remote sinks do not wait for local handlers.
 *
 * One full backlog keeps an event from no one else: all others are served, then its error is raised. What is no
 * Exception (KeyboardInterrupt) ends the way to other processes, which are told how many events they did not get;
 * the sinks in this one are served before it is raised, unless there is a second one.
 */
#include "streams/submissions.h"

#include "streams/outgoing.h"

#include "links/errors.h"
#include "links/pool.h"

#include "core/outbox/staging.h"

_Thread_local int echo_submission_depth __attribute__((tls_model("initial-exec")));

/* --- errors --- */

/* Keeps the exception that is set until everybody is served. -1: it is no Exception and stays set. */
static int keep_error(struct submission *submission)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    if (submission->error == NULL)
        submission->error = echo_take_exception();
    else
        PyErr_Clear();
    return 0;
}

/* That a record is more than the peer takes: its stream has counted it as dropped. */
static void forgive(struct submission *submission)
{
    PyObject *encode_error = echo_error("EncodeError");

    if (encode_error != NULL && PyErr_GivenExceptionMatches(submission->error, encode_error))
        Py_CLEAR(submission->error);
    Py_XDECREF(encode_error);
    PyErr_Clear();
}

PyObject *echo_submission_raise(struct submission *submission, int status)
{
    if (submission->interrupt != NULL)
        status = echo_raise_interrupt(submission->interrupt);
    if (status == 0)
        echo_give_exception(submission->error);
    else
        Py_XDECREF(submission->error);
    return NULL;
}

/* --- to other processes --- */

/* Routes that it was not the turn of. */
static void skip_from(PyObject *streams, Py_ssize_t first, uint64_t events)
{
    for (Py_ssize_t i = first; i < PyTuple_Size(streams); i++)
        echo_outgoing_stream_skip(PyTuple_GetItem(streams, i), events);
}

/* Frame by frame, each with as many whole records as this side wants and the peer takes, but at least one; where one is
 * more than the peer takes, all are refused at once. */
static int put_records(const struct outlet *outlet, PyObject *stream, struct submission *submission)
{
    const struct record *record = &submission->record;
    Py_ssize_t taken = stream_of(stream)->outgoing->max_payload - (record->submitted_ns != 0 ? TIME_BYTES : 0);
    Py_ssize_t one = outlet->record_size, most = Py_MAX(one, Py_MIN(taken, outlet->max_payload) / one * one);
    Py_ssize_t at, size;
    struct record part = *record;

    if (one > taken) {
        part.size = one;
        return echo_outgoing_stream_put_record(stream, &part, submission->events);
    }
    for (at = 0; at < record->size; at += most) {
        size = part.size = Py_MIN(record->size - at, most);
        part.bytes = record->bytes + at;
        if (echo_outgoing_stream_put_record(stream, &part, (uint64_t)(size / one)) != 0 &&
            keep_error(submission) != 0) {
            echo_outgoing_stream_skip(stream, (uint64_t)((record->size - at - size) / one));
            return -1;
        }
    }
    return 0;
}

/* Several records, or one that lies in a block of the pool (as several may; NULL: there is no block). -1 with an
 * exception, which is still to be kept. */
static int send_large(const struct outlet *outlet, PyObject *stream, PyObject *block, struct submission *submission)
{
    const struct record *record = &submission->record;
    int status = 1;

    if (block != NULL)
        status = echo_outgoing_stream_lend(stream, block, record, submission->events);
    if (status <= 0)
        return status;
    return submission->events == 1 ? echo_outgoing_stream_put_record(stream, record, 1)
                                   : put_records(outlet, stream, submission);
}

int echo_submission_lends(PyObject *streams)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(streams); i++)
        if (stream_of(PyTuple_GetItem(streams, i))->link->pool != NULL)
            return 1;
    return 0;
}

/* The block of the pool that large records lie in, if a stream lends what is in it. */
static PyObject *place(const struct outlet *outlet, PyObject *streams, const struct record *record)
{
    PyObject *block;

    if (outlet->pool == NULL || record->size < LOAN_BYTES || !echo_submission_lends(streams))
        return NULL;
    submission_prepare();
    block = echo_pool_place(outlet->pool, record->bytes, record->size);
    if (block == NULL)
        submission_prepared_is_put();
    return block;
}

static inline __attribute__((always_inline)) int send_by(const struct outlet *outlet, PyObject *streams,
                                                         Py_ssize_t count, int is_selected,
                                                         struct submission *submission)
{
    const struct record *record = &submission->record;
    PyObject *stream, *block = place(outlet, streams, record);
    Py_ssize_t i;
    int status = 0;

    submission_begin();
    for (i = 0; status == 0 && i < count; i++) {
        stream = PyTuple_GetItem(streams, i);
        status = block == NULL && submission->events == 1 ? echo_outgoing_stream_put_record(stream, record, 1)
                                                          : send_large(outlet, stream, block, submission);
        if (status != 0)
            status = keep_error(submission);
        if (is_selected && submission->error != NULL)
            forgive(submission);
    }
    if (status != 0)
        skip_from(streams, i, submission->events);
    if (block != NULL)
        submission_prepared_is_put();
    Py_XDECREF(block);
    return status == 0 ? 0 : echo_keep_interrupt(&submission->interrupt);
}

int echo_submission_send(const struct outlet *outlet, struct submission *submission)
{
    PyObject *streams = Py_NewRef(outlet->outgoing); /* they may be replaced meanwhile */
    int status = send_by(outlet, streams, outlet->outgoing_count, 0, submission);

    Py_DECREF(streams);
    return status;
}

int echo_submission_send_by(const struct outlet *outlet, PyObject *streams, int is_selected,
                            struct submission *submission)
{
    return send_by(outlet, streams, PyTuple_Size(streams), is_selected, submission);
}
