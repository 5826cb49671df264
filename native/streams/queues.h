/* What the two files of the type Queue know of it: queues.c its rules, queue_type.c its Python face. */
#pragma once

#include "streams/deliveries.h"
#include "types.h"

#include "core/clock.h"
#include "core/outbox/policy.h"

/* What is got at once, and where it is from. */
struct item {
    PyObject *event;   /* owned; an event, or an array of events */
    PyObject *from;    /* owned; the Delivery that brought it: counts it if it is dropped, and has it pending, and can
                         * describe it. NULL: none does */
    Py_ssize_t size;   /* of their records */
    Py_ssize_t events; /* how many they are, at least 1 */
    uint64_t number;   /* of the first of them, among those of its source */
    int64_t submitted_ns; /* as that of a record */
    PyObject *describe;   /* owned; where `from` has been let go: its. NULL: nobody knows */
};

/* What threads sleep on until something changes. Touched with the GIL; the kernel reads the word without. */
struct bell {
    _Atomic uint32_t word; /* counts the rings; a private futex */
    int is_awaited;        /* 1: somebody may sleep; 0: ringing would wake nobody, and costs nothing */
};

/* The Python object. The GIL guards all of it. */
struct queue {
    PyObject ob_base;                 /* spelled out: PyObject_HEAD hides it */
    struct item *items;               /* owned, PyMem; a ring. NULL: nothing was ever put */
    size_t capacity;                  /* of the ring, a power of two; 0 at first */
    size_t head;                      /* where the oldest item lies */
    size_t count;                     /* how many there are */
    Py_ssize_t events;                /* in all items */
    Py_ssize_t bytes;                 /* sizes of all items */
    Py_ssize_t max_events, max_bytes; /* of all items, unless there is only one */
    int64_t timeout_ns;               /* of a policy that waits; negative: for ever */
    enum policy policy;
    char is_closed;        /* 1: nothing more is taken */
    int has_failed;        /* 1: full under POLICY_ERROR; likewise, and for ever */
    uint64_t takes;        /* items that were got */
    struct sink_pace pace; /* in which they are, as who waits for room sees it */
    uint64_t vain_at; /* `takes` when a put had last waited in vain: until then no other waits. UINT64_MAX: none has */
    uint64_t dropped; /* events */
    unsigned feeds;   /* streams of other processes that it is fed by */
    unsigned long looper; /* the thread that iterates; 0: none has */
    int has_others;       /* 1: other threads have taken something too */
    struct bell filled;   /* rung for those who get */
    struct bell drained;  /* rung for those who wait to put */
    PyObject *link;       /* owned; who waits reads it. NULL: there is no one link that feeds this queue */
    unsigned long leader; /* the thread that reads it now on behalf of this queue; 0: none */
    int fd;               /* owned; an eventfd, -1 until somebody asks for it */
    unsigned fd_forks;    /* echo_forks when it was made: a forked child shares it with its parent, whose it is */
    int fd_is_readable;   /* 1: it has been written to */
    int with_info;        /* 1: who iterates gets pairs of an event and where it is from */
    int until_next;       /* 1: who iterates is done with an event when it asks for the next one */
    struct item held;     /* what it has until then, without the event; all NULL: nothing */
};

/* How a wait for an event has ended. */
enum got {
    GOT,         /* *event is the caller's */
    GOT_NOTHING, /* time is up */
    GOT_END,     /* closed and empty */
    GOT_ERROR,   /* an exception is set */
};

/* The oldest item, if there is one now: what it owns becomes the caller's. Waits for nothing. */
enum got echo_queue_take(struct queue *queue, struct item *item);

/* The oldest item, likewise. Reads the link or sleeps up to timeout_ns where there is none; negative: for ever. Releases
 * the GIL meanwhile, and may run any code. */
enum got echo_queue_get(struct queue *queue, int64_t timeout_ns, struct item *item);

/* The caller has the event, and is done with the rest of the item. May run any code. */
static inline void item_done(const struct item *item)
{
    Py_XDECREF(item->describe);
    if (item->from == NULL)
        return;
    delivery_done((struct delivery *)item->from, item->events, item->size);
    Py_DECREF(item->from);
}

/* The caller has the event, and is done with the one before, if there is any. May run any code. */
static inline void queue_hold(struct queue *queue, const struct item *item)
{
    struct item before = queue->held;

    queue->held = *item;
    queue->held.event = NULL;
    item_done(&before);
}

/* Whether no event will ever be put again. */
static inline int is_over(const struct queue *queue)
{
    return queue->is_closed || queue->has_failed;
}

/* Nothing more is taken; who waits is woken. Runs any code, as the link may go. */
void echo_queue_close(struct queue *queue);

/* The descriptor, which is made where there is none; -1 with OSError. */
int echo_queue_fd(struct queue *queue);

/* Drops all events, uncounted. May run any code. */
void echo_queue_empty(struct queue *queue);

/* --- for deliveries --- */

/* One event, or an array of several; both or neither is queued. Takes the reference to it over, no other of the item's.
 * What there is no room for is treated by the queue's policy, which may release the GIL. What comes from another process
 * never waits: a queue whose policy is to wait takes all that its source had credit for. 0: queued, or dropped.
 * -1 with an exception, and dropped: what is no Exception, MemoryError, or BacklogError, as there was no room in time.
 * The Delivery that brings it counts its events where they are dropped, now or later, besides the queue itself. */
int echo_queue_put(PyObject *queue, const struct item *item);

/* What a delivery has brought that is in its queue, or with whoever has taken it. GIL. */
struct amount echo_queue_held_of(const struct delivery *delivery);

/* The number of the oldest of it; UINT64_MAX: there is none. GIL. */
uint64_t echo_queue_oldest_of(const struct delivery *delivery);

/* Of that its sink does not have any more, as it is closed. GIL; runs no code. */
void echo_queue_miss_held_of(const struct delivery *delivery);

/* What one of the streams that feed it may have in it. GIL. */
struct amount echo_queue_share(const struct queue *queue);

extern PyType_Spec echo_link_queue_spec;
