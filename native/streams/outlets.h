/* What the two files of the type Outlet know of it: outlets.c how events leave, outlet_type.c the rest. */
#pragma once

#include "links/errors.h"
#include "links/state.h"
#include "streams/history.h"
#include "types.h"

#include "core/outbox/outgoing.h"
#include "raw_codec.h"

#include <stdatomic.h>

struct follower;

/* The Python object. */
struct outlet {
    PyObject ob_base;          /* spelled out: PyObject_HEAD hides it */
    PyTypeObject *event_class; /* owned; NULL: the encoder says which, so it is asked whoever is there */
    PyObject *encode;          /* owned */
    PyObject *adopt;           /* owned; makes an event of the class of another one, or None. NULL: nobody does */
    struct raw_call raw;       /* of encode */
    Py_ssize_t record_size;    /* of one record; 0: records vary */
    PyObject *dtype;           /* owned; numpy's of one record. NULL: arrays are not taken */
    Py_ssize_t max_payload;    /* of a frame of several records */
    PyObject *outgoing;        /* owned tuple of OutgoingStream */
    PyObject *direct;          /* owned tuple of Delivery, which take events by reference */
    PyObject *converting;      /* owned tuple of Delivery, which take records */
    PyObject *branches;        /* owned tuple of Branch, by which events go to outlets that are derived from this one */
    struct history *history;   /* owned; what sinks that come later get. NULL: nothing */
    uint64_t forgotten;        /* values of the history's key, once it is gone */
    int has_times;             /* 1: events go with the time at which they were submitted */
    _Atomic uint32_t is_held;  /* 1: a sink is about to come up with it: whoever submits waits for a while. A futex */
    unsigned holders;          /* sinks that are */
    unsigned long holder;      /* the thread that hands one of them what is kept */
    int takes_records;         /* 1: outgoing or converting is not empty, there is a history, or no class, or a sink
                                * that follows `meanwhile` */
    Py_ssize_t outgoing_count, direct_count, converting_count, branch_count; /* in the tuples */
    struct follower *first_branch; /* borrowed; of branches. NULL: there is none */
    int measures;                  /* 1: records vary, and there is a queue among direct, which wants their sizes */
    uint8_t *room;                 /* owned, PyMem; where records are encoded. NULL: there is none, or it is in use */
    Py_ssize_t room_size;          /* of it, if records vary; 0: the stack's has been enough */
    int is_large;                  /* 1: the last record for which it was not was worth lending */
    PyObject *pool;                /* owned; a Pool. NULL: there is none */
    uint64_t sequence;             /* the number of the next event */
    uint64_t bytes;                /* of their records, where somebody took any */
    struct tally *tally;           /* a user of it; of the streams that were made for it */
    int is_closed;             /* 1: takes nothing, and keeps nothing alive: no event, no stream, no sink, no pool */
    int takes_long_way;        /* 1: closed, or with branches: one look for both */
    int keeps_or_branches;     /* 1: a history, or branches: likewise */
    struct history *meanwhile; /* owned; where it is derived from an outlet with a history: what passes while that is
                                * judged anew for a sink that comes later. NULL: it is not */
    uint64_t first_number;     /* of all; as many are then kept for such a sink at most */
};

/* How often anything has changed of who takes what, at any outlet of the process: whoever has counted who takes anything
 * counts again. GIL. */
extern uint64_t echo_takers_changes;

static inline void echo_outlet_free_room(struct outlet *outlet)
{
    PyMem_Free(outlet->room);
    outlet->room = NULL;
}

/* 0 with ClosedError. GIL. */
static inline int is_outlet_open(const struct outlet *outlet)
{
    if (!outlet->is_closed)
        return 1;
    echo_raise("ClosedError", "Expected an open source, got one that is closed");
    return 0;
}

struct submission;

/* The record of an event, into the room or into bytes that submission->owner then refers to. 0; -1 with an exception.
 * May run any code. */
int echo_outlet_encode(const struct outlet *outlet, PyObject *event, uint8_t *room, Py_ssize_t size,
                       struct submission *submission);

/* While a sink comes up with the source: 0, soon; -1 with what a signal handler has raised. Releases the GIL. */
int echo_outlet_await_release(struct outlet *outlet);

/* --- later.c --- */

/* What has passed with these numbers is there for sinks that follow `meanwhile`. Runs no Python code. */
void echo_outlet_note(const struct outlet *outlet, const struct record *record, uint64_t events, uint64_t number);

/* What a sink gets that comes now: `earlier`, a list of (record, time of submission or 0) whose numbers end before `next`,
 * and what has passed since then; as much of the last as may be kept. As echo_history_all; or NULL with TypeError or
 * ValueError. */
struct kept *echo_outlet_kept_later(const struct outlet *outlet, PyObject *earlier, uint64_t next, size_t *count);

/* --- outlets.c, outlet_records.c --- */

/* METH_O. May run any code. */
PyObject *echo_outlet_submit(PyObject *self, PyObject *event);
PyObject *echo_outlet_submit_records(PyObject *self, PyObject *records);
PyObject *echo_outlet_submit_array(PyObject *self, PyObject *array);

/* Records that came from another process, so many events, which are verified and which nobody writes to: to what is derived
 * from them here. `owner`: borrowed bytes that they lie in; NULL: they lie elsewhere, until this returns. An outlet that is
 * closed takes nothing. `derived`: handlers are not called, but what they are to get is added there; NULL: they are. 0, or
 * -1 with an exception. GIL; may run any code. */
int echo_outlet_relay(PyObject *self, const struct record *record, PyObject *owner, uint64_t events,
                      struct asides *derived);

extern PyType_Spec echo_link_outlet_spec;
