/* What the files of the type OutgoingStream know of each other. */
#pragma once

#include "links/incoming.h"
#include "links/link.h"
#include "streams/history.h"

#include "core/outbox/outgoing.h"

/* The Python object. The outgoing outlives it while frames of it wait. */
struct outgoing_stream {
    PyObject ob_base;
    struct link *link;         /* owned */
    struct outgoing *outgoing; /* owned, or orphaned */
    PyObject *name;            /* owned str; whose events go where, for errors */
};

static inline struct outgoing_stream *stream_of(PyObject *object)
{
    return (struct outgoing_stream *)(void *)object;
}

/* --- outgoing.c --- */

/* One record, or for records of fixed size several: a frame of the stream. GIL; releases it where
 * the policy is to block. 0: sent, queued, or dropped and counted. -1 with an exception: BacklogError,
 * ClosedError, KeyboardInterrupt ... Never an exception because the link is lost: the record is counted as
 * dropped, and the departure is told elsewhere. */
int echo_outgoing_stream_put(PyObject *stream, const uint8_t *payload, Py_ssize_t size, uint64_t events);

/* The same for a record, behind its time where that is told: as a copy, as there is no room for it in the caller's
 * memory. */
int echo_outgoing_stream_put_timed(PyObject *stream, const struct record *record, uint64_t events);

static inline int echo_outgoing_stream_put_record(PyObject *stream, const struct record *record, uint64_t events)
{
    return record->submitted_ns == 0 ? echo_outgoing_stream_put(stream, record->bytes, record->size, events)
                                     : echo_outgoing_stream_put_timed(stream, record, events);
}

/* The same for records in a block of the node's pool, however large they are together, as a KIND_LOAN frame. 1:
 * nothing was done, as the link shares no pool, one record is larger than the peer takes, or echo_block_lend refuses;
 * put them. */
int echo_outgoing_stream_lend(PyObject *stream, PyObject *block, const struct record *record, uint64_t events);

/* Events that are not put, as the submission has ended before: counted as dropped, so that the receiver's count stays
 * right. An exception may be set. GIL. */
void echo_outgoing_stream_skip(PyObject *stream, uint64_t events);

/* --- beginning.c --- */

/* What a stream begins with: STARTED, and what is kept of the history; NULL: its source keeps nothing. Queues it, whatever
 * has to go for that: nothing is written yet, and no other thread or Python code runs. How many events it is; -1 with
 * MemoryError, and nothing was queued. GIL. */
Py_ssize_t echo_outgoing_stream_begin(PyObject *stream, const struct history *history, const struct kept *kept,
                                      size_t count, uint64_t sequence);

extern PyType_Spec echo_link_outgoing_spec;
