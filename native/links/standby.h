/* The threads that stand by: standby.c. */
#pragma once

#include "links/watched.h"

/* 1: nobody may be looking for readers that are slow: whoever hands over sees to it. */
extern _Atomic int echo_standby_is_asleep __attribute__((visibility("hidden")));

/* Does not block. Any thread, as the next. */
void echo_standby_wake(void);

/* Who is away on the errand may stay away for long: another thread goes where somebody is to be answered. */
void echo_standby_call_in(void);

/* In a child that has inherited no thread. GIL. */
void echo_standby_forget(void);

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

/* stand_by and wants_standby of the module. GIL. */
PyObject *echo_stand_by(PyObject *module, PyObject *unused);
PyObject *echo_wants_standby(PyObject *module, PyObject *unused);
