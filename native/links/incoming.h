/* What a link asks of the receiving ends of streams, and of the queues behind them. streams/incoming.c and
 * streams/queues.c answer: records go up from a link, which knows nothing of handlers and formats. */
#pragma once

#include "stable_abi.h"

#include "core/outbox/credit.h"

#include <stdint.h>

struct record {
    const uint8_t *bytes; /* at a multiple of 8; valid during the call, or as long as `owner` below */
    Py_ssize_t size;      /* several records of fixed size may stand side by side in it */
    int64_t submitted_ns; /* since 1970, when its source took it; 0: that is not told */
    int is_shared;        /* 1: another process can write to the bytes, so nothing is verified in place */
};

struct link;
struct history;
struct delivery;
struct missed;

/* What a link needs of the receiving end of a stream; the Python object IncomingStream. GIL guards it. */
struct incoming_stream {
    PyObject ob_base;          /* spelled out: PyObject_HEAD hides it */
    PyObject *deliveries;      /* owned tuple of Delivery; replaced as a whole */
    Py_ssize_t delivery_count; /* in it */
    int has_handlers;          /* 1: not all of them end in queues, or takers */
    struct delivery *derived;  /* borrowed; the first of those that take what is derived from its events here */
    int has_times;             /* 1: each frame, or loan, says when its events were submitted */
    Py_ssize_t record_size;    /* of one record; 0: records vary, and a frame holds one */
    struct link *link;         /* borrowed; that it is bound to. NULL: none */
    uint32_t stream;           /* its number there; 0: it was bound to none */
    int is_keyed;              /* 1: what is kept is the newest of each value of a key, so that not all before was */
    struct history *history;   /* owned; what sinks that come later get. NULL: nothing */
    unsigned holders;          /* sinks that are handed what is kept, and about to come up with the source */
    int64_t held_until;        /* ticks; until then the source is granted event by event for them */
    uint64_t sequence;         /* events and gaps since the stream began */
    uint64_t lost;             /* in gaps */
    struct amount taken;       /* received */
    struct amount handed;      /* and given to all deliveries, which have returned */
    struct amount window;      /* how much may be under way at most: less where a queue has less room */
    struct amount limit;       /* of `taken`, as the source has been told */
    struct amount told_done;   /* what the source was last told to be done with */
    struct amount renewed_at;  /* of `taken`: from here on it may be worth while to tell the source more */
    struct amount look_at;     /* of `handed`: from here on it may be time to tell the source something */
    int64_t told_at;           /* ticks; when */
    struct missed *missed;     /* owned, PyMem; events that a sink does not have, as the source is told when it asks */
    uint64_t question;         /* the number of the last one */
    int is_asked;              /* 1: it is not answered yet that all is done with which came before it */
    int is_told;               /* 1: but that all of it has been received */
    uint64_t asked_sequence;   /* when that was asked */
    uint64_t told_below;       /* the source knows that events below that number are done with */
    int64_t told_below_at;     /* ticks; when it was told so */
    unsigned tellings;         /* how often, since it has asked */
    uint64_t gaps;             /* events that never came, for whatever reason */
    int is_answering;          /* 1: a thread is about it */
    int is_mute;               /* 1: there was no memory to note what is missed, so nothing is said to be done with */
    int is_local;              /* 1: of a source in this process, for whose sinks there is no credit */
    PyObject *on_done;         /* owned; called instead of an answer over the link. NULL: nobody is */
    unsigned forks;            /* echo_forks when that was said: in a child nobody waits */
};

/* A source asks by that number what has become of its events: streams/answers.h. May send, and then lets go of the
 * GIL. */
void echo_incoming_ask(struct incoming_stream *incoming, uint64_t number, uint64_t first);

/* The source itself has dropped so many events from that number on. GIL; runs no code. */
void echo_incoming_note_gap(struct incoming_stream *incoming, uint64_t first, uint64_t events);

/* --- handing over, and taking that over from a thread whose handler is slow: streams/detours.c --- */

/* The records of one stream on their way to its deliveries, on the stack of the thread that hands them over. The GIL
 * guards it. */
struct handing {
    const struct record *records;
    Py_ssize_t count;
    PyObject *owner;                  /* borrowed, as the next two; of the bytes, as echo_delivery_hand has it */
    struct incoming_stream *incoming; /* the stream */
    PyObject *deliveries;             /* of the stream when this began: it may have got others meanwhile */
    Py_ssize_t delivery_count;        /* in it */
    struct amount amount;             /* of the records */
    uint64_t number;                  /* of the first event in them, among those of the source */
    Py_ssize_t next;                  /* of the deliveries; the one before it is at work. 0: none is */
    struct detour *detour; /* NULL; else another thread reads on, and this one goes on with the sink that it is at */
    struct amount held;    /* then: what that delivery holds of the records */
};

/* Records that are put aside, in their order. */
struct asides {
    struct aside *oldest, **empty; /* where the next one goes; NULL: to `oldest` */
};

/* The sinks of one link that a thread has of its own, as they are slow. GIL. */
struct detours {
    struct detour *first;  /* NULL: none, as mostly */
    struct asides derived; /* from what a delivery is at: whoever reads the link hands it on */
    struct delivery *at;   /* borrowed; to which the reading thread does so. NULL: it is at one of the stream's own */
};

/* Counts the records and hands them to each delivery. GIL; runs any code. As echo_delivery_hand. Fills in
 * all but the first three; once `detour` is set, the rest is another thread's. */
int echo_incoming_hand(struct incoming_stream *incoming, struct detours *detours, struct handing *handing);

/* Hands them to the deliveries from `next` on. Likewise. */
int echo_handing_go_on(struct detours *detours, struct handing *handing);

/* The same in the place of a thread that was left with a sink: what was derived goes first. */
int echo_handing_take_over(struct detours *detours, struct handing *handing);

/* Whether its thread can be left with the sink that it is at: it is at one, and no other thread is. GIL. */
int echo_handing_can_be_left(const struct detours *detours, const struct handing *handing);

/* From here on the thread that is at `slow` goes on with that one sink, for which records are put aside. 0, or -1 with
 * MemoryError. GIL; runs no Python code. */
int echo_detour_open(struct detours *detours, struct handing *slow);

/* Hands over what is put aside until nothing is left, and ends the detour. With an exception set, and as
 * echo_delivery_hand: behind one that is an Exception all is dropped. */
int echo_detour_go(struct detours *detours, struct detour *detour, const void *link);

/* Has a callable called behind what is put aside now, once for each detour, or each that has something of that stream: of
 * how many, or -1 with MemoryError. It is never called behind what was dropped, as what it would say is not true. GIL;
 * runs no Python code. */
Py_ssize_t echo_detours_call_behind(struct detours *detours, const struct incoming_stream *incoming,
                                    PyObject *callable);

/* Closes its deliveries. GIL; runs no Python code. */
void echo_incoming_close(const struct incoming_stream *incoming);

/* Whoever waits in get looks again. GIL. */
void echo_queue_wake(PyObject *queue);
