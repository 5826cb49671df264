/* Lookbacks: the last seconds of what came, kept until somebody wants it. lookback.c has the rules, lookback_type.c the
 * Python face. */
#pragma once

#include "logs/taking.h"
#include "types.h"

/* Records that came one after the other, of any streams. */
struct span {
    struct span *next;
    int64_t newest_ns; /* when the last of its entries came; monotonic */
    uint64_t events;
    size_t used, room;
    uint8_t bytes[];
};

/* What came, in front of its bytes. */
struct entry {
    struct lookback_stream *stream; /* its reference is the lookback's */
    size_t size;                    /* of the records, or of the cause with its zero */
    uint64_t events;                /* in the records; 0: these never came, and there is a cause */
    uint64_t number, last;          /* of the first event, and of the last */
    int64_t time_ns;                /* since 1970 */
    int64_t came_ns;                /* monotonic */
};

enum lookback_state { LOOKING_BACK, HANDING_ON, PASSING };

/* The Python object. GIL. */
struct lookback {
    PyObject ob_base;             /* spelled out: PyObject_HEAD hides it */
    struct span *oldest, *newest; /* owned, malloc */
    size_t handed;                /* bytes of the oldest span that were handed on */
    size_t bytes, max_bytes;      /* of all spans, and at most */
    int64_t keeps_ns;             /* how long */
    int64_t since_ns;             /* what came earlier is too old, at the last look; monotonic */
    uint64_t events;              /* in all spans */
    uint64_t forgotten;           /* events that were let go of early, for want of memory */
    enum lookback_state state;
    PyObject *streams; /* owned list of LookbackStream: those that entries refer to */
};

/* The Python object: a taker of records in front of another. */
struct lookback_stream {
    PyObject ob_base;
    struct lookback *lookback;        /* owned */
    PyObject *target;                 /* owned; the other taker */
    const struct record_taker *taker; /* what it does */
    uint64_t lost_first, lost_last;   /* what found no memory while all was wanted, and is told in its place */
    int has_lost;
};

/* As struct record_taker has it. */
int64_t echo_lookback_take(struct lookback_stream *stream, const uint8_t *bytes, Py_ssize_t size, uint64_t events,
                           uint64_t number, int64_t time_ns);
int echo_lookback_miss(struct lookback_stream *stream, uint64_t first, uint64_t last, const char *cause);

/* What is kept, and not too old by now, is wanted, and so is all that comes. */
void echo_lookback_trigger(struct lookback *lookback);

/* Hands on what there is room for. 1: that was all. 0: there is more. -1 with an exception. */
int echo_lookback_hand_on(struct lookback *lookback);

/* Lets go of all. */
void echo_lookback_empty(struct lookback *lookback);
