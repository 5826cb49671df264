/* The threads that stand by: standby.c. */
#pragma once

#include "stable_abi.h"

#include <stdatomic.h>
#include <stdint.h>

/* What the one that stands by sees of a link: how long its reader has been handing over, and whether one is wanted. */
struct watched {
    struct watched *next,
        **place;            /* of all; a mutex guards them, `seen`, `slow` and `is_called`. place: NULL: not watched */
    PyObject *link;         /* borrowed; that it is part of. Never changes */
    uint64_t id;            /* that no other link has had */
    uint64_t seen;          /* `hands` at the last look */
    _Atomic uint64_t hands; /* odd: it is handing over; one more at each beginning and end. The reader's */
    uint64_t slow;          /* `hands` when it was last found slow; written with the GIL, too */
    int is_called;          /* 1: the link is to be answered */
    int bell;               /* borrowed descriptor of its wire, armed before; -1: it was not. GIL */
    _Atomic int64_t patience_ns; /* how long its reader waits in one read; negative: for ever. The
                                      reader sets it; the mutex, where it is made negative */
    int is_kept;                 /* 1: one of the few that wait for ever and cannot be had back. The mutex */
    unsigned forks;              /* echo_forks when it was added */
};

/* 1: the one that stands by may be asleep: whoever hands over wakes it. */
extern _Atomic int echo_standby_is_asleep __attribute__((visibility("hidden")));

/* Does not block. GIL. */
void echo_standby_wake(void);

/* Whether there are links to stand by for. GIL. */
int echo_standby_is_needed(void);

/* GIL for these. A link is watched from when it is made until it is ended, and followed to its end by a thread that
 * stood by, if any did; what a child inherits is not. 0; -1 with OSError: there are no descriptors for it. */
int echo_watched_add(struct watched *watched, PyObject *link);
void echo_watched_remove(struct watched *watched);

/* A thread that stands by is to answer the link (echo_link_answer): soon, and also where it was not watched any more. */
void echo_watched_call(struct watched *watched);

/* The same, once its bell is rung or the other side is gone; wants_rings as in echo_bells_arm. 0, or -errno. */
int echo_watched_arm(struct watched *watched, int bell, int wants_rings);

/* Nobody waits for its bell until it is armed again. Does not block. */
void echo_watched_disarm(struct watched *watched);

/* How long its reader waits in one read from here on, unless it is kept: negative, for ever. */
void echo_watched_wait(struct watched *watched, int64_t patience_ns);

static inline void echo_watched_step(struct watched *watched, uint64_t steps)
{
    atomic_store_explicit(&watched->hands, atomic_load_explicit(&watched->hands, memory_order_relaxed) + steps,
                          memory_order_relaxed);
}

static inline void echo_watched_begin(struct watched *watched)
{
    echo_watched_step(watched, 1);
    if (atomic_load_explicit(&echo_standby_is_asleep, memory_order_relaxed))
        echo_standby_wake();
}

static inline void echo_watched_end(struct watched *watched)
{
    echo_watched_step(watched, 1);
}

/* Whether it is still at what it was slow in. GIL. */
static inline int is_slow(const struct watched *watched)
{
    uint64_t hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);

    return hands == watched->slow && hands % 2 == 1;
}

/* stand_by and wants_standby of the module. GIL. */
PyObject *echo_stand_by(PyObject *module, PyObject *unused);
PyObject *echo_wants_standby(PyObject *module, PyObject *unused);
