/* A thread that stands by: standby.c. */
#pragma once

#include "stable_abi.h"

#include <stdatomic.h>
#include <stdint.h>

/* How long a link's reader has been handing over, as the one that stands by sees it. */
struct watched {
    struct watched *next, **place; /* of all; a mutex guards them, `seen` and `slow`. place: NULL: not watched */
    PyObject *link;                /* borrowed; that it is part of. Never changes */
    uint64_t seen;                 /* `hands` at the last look */
    _Atomic uint64_t hands;        /* odd: it is handing over; one more at each beginning and end. The reader's */
    uint64_t slow;                 /* `hands` when it was last found slow; written with the GIL, too */
    unsigned forks;                /* echo_forks when it was added */
};

/* 1: the one that stands by may be asleep: whoever hands over wakes it. */
extern _Atomic int echo_standby_is_asleep __attribute__((visibility("hidden")));

/* Does not block. */
void echo_standby_wake(void);

/* GIL for these four. A link is watched from when it is made until it is ended; what a child inherits is not. */
void echo_watched_add(struct watched *watched, PyObject *link);
void echo_watched_remove(struct watched *watched);

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
