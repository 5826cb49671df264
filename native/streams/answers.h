/* Answers: what a source is told that asks what has become of its events.
 *
 *   KIND_ASK     0        4   8         16        24
 *                | stream | 0 | number  | first   |          what has become of all before this, from that event on?
 *
 *   KIND_MISSED  0        4     8       16        24
 *                | stream | why | first | last    |          some sink does not have these
 *
 *   KIND_PROGRESS  0      4   8        16
 *                | stream | 0 | below  |                  events below that number are done with, before all is
 *
 *   KIND_ACK     0        4       8        16       24
 *                | stream | level | number | stored |        so far have all sinks come; `stored`: what they are done
 *                                                            with from that event on is on a disk, too
 *
 * A question says what all that came before it on the link is about, so no event has to carry anything. What sinks miss is
 * noted as it happens, asked or not, by the numbers of events: a few ranges, of which the oldest become one where they are
 * too many. So a source is never told too little.
 */
#pragma once

#include "streams/deliveries.h"

#define MISSED_PAYLOAD_BYTES 24
#define ACK_PAYLOAD_BYTES 24
#define PROGRESS_PAYLOAD_BYTES 16

#define MOST_MISSED 64

/* Nothing is on a disk. */
#define NOT_STORED UINT64_MAX

/* How far sinks have come. */
enum level {
    LEVEL_RECEIVED = 1, /* it waits for them, or is with them */
    LEVEL_HANDLED = 2,  /* handlers have returned, and it was taken out of queues */
    LEVEL_PARTLY = 3,   /* some of it is handled: KIND_PROGRESS */
};

/* Why a sink does not have an event. */
enum why_missed {
    MISSED_DROPPED = 1, /* on the way here, or for want of room in its queue */
    MISSED_FAILED = 2,  /* it has raised an exception, or the record could not become an event */
    MISSED_CLOSED = 3,  /* before it came to it */
};

struct missed_range {
    uint64_t first, last;
    enum why_missed why; /* of the newest in it */
};

/* Of one stream. GIL. */
struct missed {
    size_t count;
    struct missed_range ranges[MOST_MISSED]; /* the oldest first */
};

/* A sink of the stream does not have so many events from that number on. Nothing where the events are no stream's. An
 * exception may be set, and stays so. GIL; runs no code. */
void echo_delivery_miss(const struct delivery *delivery, uint64_t first, uint64_t events, enum why_missed why);
void echo_incoming_miss(struct incoming_stream *incoming, uint64_t first, uint64_t events, enum why_missed why);

/* Its sink is closed before it is done with what is pending, which may be any of what has come where it is in no queue.
 * Likewise. */
void echo_delivery_miss_pending(const struct delivery *delivery);

/* Nothing of a delivery that is taken out of a stream was asked for by that one. GIL. */
void echo_answers_join(const struct incoming_stream *incoming, struct delivery *delivery);

/* Answers what was asked, if there is anything new to be said: over that link, or by the callable. As echo_delivery_done. */
void echo_incoming_answer(struct incoming_stream *incoming, struct link *link);

/* --- for outgoing streams of this process, whose sinks are asked directly: METH_O, METH_NOARGS --- */

PyObject *echo_incoming_await_done(PyObject *self, PyObject *callable);
PyObject *echo_incoming_take_missed(PyObject *self, PyObject *unused);
PyObject *echo_incoming_pending_from(PyObject *self, PyObject *unused);
PyObject *echo_incoming_stored_from(PyObject *self, PyObject *unused);
