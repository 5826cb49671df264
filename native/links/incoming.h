/* What a link asks of the receiving ends of streams, and of the queues behind them. streams/incoming.c and
 * streams/queues.c answer: records go up from a link, which knows nothing of handlers and formats. */
#pragma once

#include "stable_abi.h"

#include <stdint.h>

struct record {
    const uint8_t *bytes; /* at a multiple of 8; valid during the call, or as long as `owner` below */
    Py_ssize_t size;      /* several records of fixed size may stand side by side in it */
    int is_shared;        /* 1: another process can write to the bytes, so nothing is verified in place */
};

/* How much of a stream goes to its sinks before one of their queues would make the thread wait. */
struct space {
    Py_ssize_t frames; /* of records that vary in size: one in each */
    Py_ssize_t bytes;  /* of records; below 0: a queue holds more than it should */
};

/* What a link needs of the receiving end of a stream; the Python object IncomingStream. GIL guards it. */
struct incoming_stream {
    PyObject ob_base;       /* spelled out: PyObject_HEAD hides it */
    PyObject *deliveries;   /* owned tuple of Delivery; replaced as a whole */
    Py_ssize_t record_size; /* of one record; 0: records vary, and a frame holds one */
    uint64_t sequence;      /* events and gaps since the stream began */
    uint64_t events, bytes; /* received */
    uint64_t lost;          /* in gaps */
};

/* Counts the records and hands them to each delivery. GIL; runs any code. As echo_delivery_hand. */
int echo_incoming_hand(struct incoming_stream *incoming, const struct record *records, Py_ssize_t count,
                       PyObject *owner, int is_led);

/* Closes its deliveries. GIL; runs no Python code. */
void echo_incoming_close(const struct incoming_stream *incoming);

/* Leaves no more room than the sinks' queues have; `size`: of the frame that is next. GIL; runs no Python code. */
void echo_incoming_narrow(const struct incoming_stream *incoming, Py_ssize_t size, struct space *space);

/* Whoever waits in get looks again. GIL. */
void echo_queue_wake(PyObject *queue);
