/* Deliveries: the way of one stream's records to one sink. deliveries.c has the rules, delivery_type.c the Python
 * face. */
#pragma once

#include "links/incoming.h"
#include "links/state.h"

#include "logs/taking.h"
#include "raw_codec.h"

/* Of a taker that has had nothing yet: the first event may have any number. */
#define ANY_NUMBER UINT64_MAX

/* How many of the functions that decode one after another may count: a walker and the conversion before it. */
#define COUNTS 2

/* What a thread is handing out, on its stack. */
struct batch {
    struct batch *next, **place; /* among the delivery's: handlers submit in turn, and threads take turns */
    const struct record *records;
    Py_ssize_t count;
    Py_ssize_t current; /* of the records */
    Py_ssize_t begun;   /* so many bytes of it */
    uint64_t number;    /* of the event that comes next */
};

/* A call of a handler while another one is at work: handlers submit in turn, and threads at the same time. On the stack
 * of its thread. */
struct call {
    struct call *next, **place; /* among the delivery's */
    int64_t seen_ns;            /* when it was first looked at; 0: not yet */
};

/* The Python object that all deliveries to one handler have as their sink. GIL. */
struct sharers {
    PyObject ob_base;
    unsigned streams; /* of other processes, which call the handler */
};

/* The Python object. It has no tp_clear: a cycle through it leads through an IncomingStream, an Outlet, a Queue or an
 * instance of a class, which have one. */
struct delivery {
    PyObject ob_base; /* spelled out: PyObject_HEAD hides it */
    PyObject *target; /* owned; a Queue, a taker of records, an Outlet, or called with each event */
    PyObject *decode; /* owned; from a record, or if is_array from a buffer of records. For an outlet: from a record
                              * that varies in size to the same, verified. Unused by a taker */
    PyObject *dtype;  /* owned; what decode takes besides a buffer. NULL: nothing */
    PyObject *sink;   /* owned; all deliveries to one sink have the same. NULL: there is no other */
    struct sharers *sharers; /* borrowed; the sink, where it is that. NULL: it is not */
    PyObject *on_error;      /* owned; called with each exception; True: also what is no Exception is reported now */
    PyObject *on_refusal;    /* owned; on_error for what decode raises, or the same */
    PyObject *describe; /* owned; called with an event's number, and its time where that is told, says where it is from:
                           * for handlers a second argument, for queues until somebody asks. For an outlet: called with
                           * the number of what comes next, until it is true. NULL: nobody does */
    struct raw_call raw;              /* of decode */
    const struct module_state *state; /* borrowed from the module, which its type holds */
    Py_ssize_t record_size;           /* of one record; 0: records vary, and each comes by itself */
    int is_queue, is_relay;           /* what target is: a Queue, an Outlet */
    int is_array;                     /* 1: all records of a batch become one object */
    int is_closed;                    /* 1: nothing more is handed on */
    int is_plain; /* 1: neither taken, relayed, array nor closed, and nothing is passed over: one look for all */
    uint64_t had; /* of the stream's events it has had those below that number, by another link */
    struct incoming_stream *incoming; /* borrowed; whose events it takes. NULL: those of this process, or none */
    struct delivery *next, **place;   /* among those that take what is derived from its events. NULL: it is none */
    struct asides *derived;           /* borrowed; where a relay leaves that, while it judges. NULL: it hands it on */
    struct amount pending;            /* of these: taken, and not yet handled. In its queue, say */
    uint64_t asked;        /* so many of all that came to it have to be done with for an answer: streams/answers.c */
    uint64_t since;        /* the number of the first event of the stream that comes to it */
    struct batch *batches; /* on stacks; those that are handed out one record after the other */
    struct amount aside;   /* of records that wait for the thread which is at the sink: detours.c */
    unsigned forks;        /* echo_forks when it was made, or forgot: a child has no stacks but its own thread's */
    uint64_t works;        /* odd: a call of the handler is under way; one more at each beginning and end */
    struct call *calls;    /* on stacks; those that began meanwhile */
    uint64_t seen_works;   /* `works` at the last look */
    int64_t seen_ns;       /* when that was first seen, if it is odd */
    PyObject *counting[COUNTS];               /* owned; callables that have counts. NULL: none */
    const unsigned long long *counts[COUNTS]; /* in them, of what all sinks have left to Python code; never NULL */
    unsigned long long decoded;               /* events that came as records, also where that failed */
    uint64_t interpreted;                     /* of them, what was left to Python code */
    uint64_t handed;                          /* events that came by reference */
    uint64_t failures;                        /* exceptions reported */
    uint64_t bytes;                           /* of the records of all events, in the sender's layout */
    uint64_t skipped;                         /* events that were left of batches when it was closed */
    uint64_t dropped;                         /* of all, for want of room in the queue, or skipped */
    const struct record_taker *taker;         /* what target does if it takes records. NULL: it is no such thing */
    PyObject *on_gap;                         /* owned; called with the first and the last number of events that are
                                               * left out of what is taken. NULL: nobody is */
    uint64_t next_number;                     /* of what is taken; what is below was had, ANY_NUMBER: nothing was */
    PyObject *await_room;                     /* owned; called with the bytes for which a taker has no room: whether to
                                               * look again. NULL: what finds none is dropped */
    PyObject *on_held;                        /* owned; what is taken is pending until it is said to be done with, and
                                               * this called when there is some again. NULL: nothing is pending */
    int has_held;                             /* 1: it was called, and nobody has looked since */
};

/* --- deliveries.c --- */

/* Hands records of one stream, in their order, to one sink. `owner`: keeps the bytes alive and unchanged for
 * as long as it is referred to; NULL: there is no such thing, copy what is kept. `number`: of the first event
 * among those of its source. GIL; runs any code. 0, or -1
 * with an exception: WireError for a record that breaks the rules, or what is no Exception (KeyboardInterrupt):
 * the first one after all records were handed over, as nobody else would do so; the second at once. What else a
 * handler raises is reported, counted, and goes no further. A child that a handler has forked gets none of the
 * other records: they are the parent's. Nor does anybody when the delivery is closed. */
int echo_delivery_hand(PyObject *delivery, const struct record *records, Py_ssize_t count, PyObject *owner,
                       uint64_t number);

/* Records are put aside for it, and taken again to be handed to it: those that are not yet when it is closed count as
 * dropped. GIL; runs no Python code. */
void echo_delivery_put_aside(struct delivery *delivery, struct amount amount);
void echo_delivery_take_aside(struct delivery *delivery, struct amount amount);

/* What was put aside is never handed to it. */
void echo_delivery_skip_aside(struct delivery *delivery, struct amount amount);

/* Hands on nothing more, whatever is under way: what is left of it is counted as dropped. GIL; runs no Python code. */
void echo_delivery_close(PyObject *delivery);

/* An event of the sink's own type, by reference; `record`: of it, without bytes, and with the size 0 where that is not
 * known, which it has to be for one that is queued. As above. */
int echo_delivery_hand_event(PyObject *delivery, PyObject *event, const struct record *record, uint64_t number);

/* How long ago that call of the handler was first looked at which is longest at work; -1: none is, -2: nor has one been
 * since the last look. So a handler that is slow can be told of, and one that is not pays for no clock. GIL; runs no
 * Python code. */
int64_t echo_delivery_look(PyObject *delivery);

/* Hands what is raised to on_error, as for a handler. 0; -1: it stays set, and is the thread's. May run any code. */
int echo_delivery_report(struct delivery *delivery);

/* Whether a record is one, or several of fixed size. 0 with WireError. */
int echo_delivery_is_whole(const struct delivery *delivery, const struct record *record);

/* --- detours.c --- */

/* Where a relay's thread finds out whether another one has taken its place; NULL: nobody would, as it reads no link. */
struct detours *echo_detours_around(const struct delivery *relay);

/* Records with the number of the first event, which lie in `owner`, are to be handed to a delivery. 0; -1 with
 * MemoryError. */
int echo_asides_add(struct asides *asides, PyObject *delivery, const struct record *record, PyObject *owner,
                    uint64_t events, uint64_t number);

/* Hands what a relay has left to each delivery, and all others of the link besides: one that is slow holds up itself
 * alone. As echo_delivery_hand. */
int echo_detours_hand(struct detours *detours, struct delivery *relay, struct asides *derived);

/* --- taking.c --- */

/* Finds out whether the target takes records. -1 with TypeError: it is nothing that a delivery hands anything to. */
int echo_delivery_find_taker(struct delivery *delivery);

/* As echo_delivery_hand, to a taker. */
int echo_delivery_take(struct delivery *delivery, const struct record *records, Py_ssize_t count, uint64_t number);

/* --- spans.c --- */

/* The Python object that makes a buffer of foreign bytes, read-only, and holds their owner. GIL. */
PyObject *echo_span_new(PyTypeObject *span_type, const uint8_t *bytes, Py_ssize_t size, PyObject *owner);

/* --- crediting.c --- */

/* Events that a delivery has taken, and something else keeps until they are handled: their source has no credit for
 * others instead, until as many are done with. Nothing where they are not another process's. GIL. */
static inline void delivery_hold(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes)
{
    if (delivery->incoming != NULL)
        delivery->pending = amount_plus(delivery->pending, (struct amount){(uint64_t)events, (uint64_t)bytes});
}

/* May send, and then lets go of the GIL. An exception may be set, and stays so. */
void echo_delivery_done(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes);

static inline void delivery_done(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes)
{
    if (delivery->incoming != NULL)
        echo_delivery_done(delivery, events, bytes);
}

/* The same where nobody is told now. */
void echo_delivery_forget(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes);

/* What the stream gives from now on goes to this delivery too, or no more: which changes nothing where another stream
 * has it since. GIL; runs no code. */
void echo_incoming_add(struct incoming_stream *incoming, struct delivery *delivery);
void echo_incoming_remove(const struct incoming_stream *incoming, struct delivery *delivery);

/* What is derived from the stream's events here goes to this delivery too: what is pending there counts as the stream's,
 * until it is removed. Likewise. */
void echo_incoming_add_derived(struct incoming_stream *incoming, struct delivery *delivery);

/* The credit that there is now: the caller tells the source its limit. What is done is as the source has been told. */
struct credit echo_incoming_credit(struct incoming_stream *incoming);

/* Tells the source what is done, and grants more: whatever is new, over that link; or where it is worth while, over the
 * one that it is bound to. Nothing where there is none. As echo_delivery_done. */
void echo_incoming_confirm(struct incoming_stream *incoming, struct link *link);
void echo_incoming_renew(struct incoming_stream *incoming);

/* One sink more (1) or less (-1) comes up with the source; 0: still. As echo_delivery_done. */
void echo_incoming_hold(struct incoming_stream *incoming, int change);

/* Without a window no source ever has to wait. */
#define NO_WINDOW (UINT64_C(1) << 62)

/* Tells the source where it is time to. As echo_incoming_renew. */
void echo_incoming_look(struct incoming_stream *incoming);

/* Records were handed to all deliveries. */
static inline void incoming_settle(struct incoming_stream *incoming, struct amount amount)
{
    incoming->handed = amount_plus(incoming->handed, amount);
    if (!is_below(incoming->handed, incoming->look_at))
        echo_incoming_look(incoming);
}

/* --- incoming.c --- */

/* An attribute that is a tuple of `type`, and is replaced as a whole. GIL; any code may run
 * once it has been. -1 with TypeError. */
int echo_replace_tuple(PyObject **place, PyObject *tuple, PyTypeObject *type);

/* What such a tuple is now, and one item more: a new tuple. GIL; any code may have run meanwhile, but none has since the
 * tuple was looked at. NULL with MemoryError. */
PyObject *echo_tuple_and(PyObject *const *place, PyObject *item);

extern PyType_Spec echo_link_incoming_spec;
extern PyType_Spec echo_link_delivery_spec;
extern PyType_Spec echo_link_sharers_spec;
extern PyType_Spec echo_link_span_spec;
