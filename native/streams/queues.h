/* What the two files of the type Queue know of it: queues.c its rules, queue_type.c its Python face. */
#pragma once

#include "links/incoming.h"
#include "types.h"

#include "core/clock.h"
#include "core/outbox/policy.h"

/* What is got at once. */
struct item {
    PyObject *event;   /* owned; an event, or an array of events */
    PyObject *from;    /* owned, under POLICY_DROP_OLDEST: the Delivery that counts it if it is dropped. NULL: none */
    Py_ssize_t size;   /* of their records */
    Py_ssize_t events; /* how many they are, at least 1 */
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
    int64_t timeout_ns;               /* of POLICY_BLOCK; negative: for ever */
    enum policy policy;
    char is_closed;       /* 1: nothing more is taken */
    int has_failed;       /* 1: full under POLICY_ERROR; likewise, and for ever */
    int is_stalled;       /* 1: nothing was got since a put waited in vain: the next ones do not wait again */
    uint64_t dropped;     /* events */
    struct bell filled;   /* rung for those who get */
    struct bell drained;  /* rung for those who wait to put */
    PyObject *link;       /* owned; who waits reads it. NULL: there is no one link that feeds this queue */
    unsigned long leader; /* the thread that reads it now on behalf of this queue; 0: none */
    int fd;               /* owned; an eventfd, -1 until somebody asks for it */
    unsigned fd_forks;    /* echo_forks when it was made: a forked child shares it with its parent, whose it is */
    int fd_is_readable;   /* 1: it has been written to */
};

/* How a wait for an event has ended. */
enum got {
    GOT,         /* *event is the caller's */
    GOT_NOTHING, /* time is up */
    GOT_END,     /* closed and empty */
    GOT_ERROR,   /* an exception is set */
};

/* The oldest item's, if there is one now. Waits for nothing. */
enum got echo_queue_take(struct queue *queue, PyObject **event);

/* The oldest item's. Reads the link or sleeps up to timeout_ns where there is none; negative: for ever. Releases
 * the GIL meanwhile, and may run any code. */
enum got echo_queue_get(struct queue *queue, int64_t timeout_ns, PyObject **event);

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

/* One event, or an array of `events`, whose records take `size` bytes; both or neither is queued. Takes the reference
 * over. What there is no room for is treated by the queue's policy; under POLICY_BLOCK that releases the GIL. 0:
 * queued, or dropped. -1 with an exception, and dropped: what is no Exception, or MemoryError. `from`: the Delivery
 * that brings it, which counts its events where they are dropped, now or later, besides the queue itself; NULL: nobody
 * does. */
int echo_queue_put(PyObject *queue, PyObject *event, Py_ssize_t size, Py_ssize_t events, PyObject *from);

/* Leaves no more room than there is before a put would wait. record_size: 0: records vary, and come one by one.
 * `alone`: the size of the next item, which an empty queue takes however large it is. GIL; runs no Python code. */
void echo_queue_narrow(PyObject *queue, Py_ssize_t record_size, Py_ssize_t alone, struct space *space);

extern PyType_Spec echo_link_queue_spec;
