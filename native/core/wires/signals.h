/* Waiting in shared memory: signals.c, which says why nobody sleeps for ever. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* The bits of a signal. */
#define SLEEPING UINT32_C(1)
#define RESTING UINT32_C(2)
#define WAITING (SLEEPING | RESTING)

/* For echo_signal_wake: `seen` has a bit. */
void echo_signal_call(_Atomic uint32_t *signal, uint32_t seen, int bell);

/* After something was published: wakes all that sleep on the signal, and rings for who rests, by the bell (-1: there is
 * none). No system call if nobody does either. */
static inline void echo_signal_wake(_Atomic uint32_t *signal, int bell)
{
    uint32_t seen = atomic_load(signal);

    if ((seen & WAITING) != 0)
        echo_signal_call(signal, seen, bell);
}

/* Whether a wake would now be a system call. */
static inline int echo_signal_has_waiter(_Atomic uint32_t *signal)
{
    return (atomic_load_explicit(signal, memory_order_relaxed) & WAITING) != 0;
}

/* From here on the next wake rings. `is_over` is to be looked at after this, as by echo_signal_sleep. */
void echo_signal_rest(_Atomic uint32_t *signal);

/* After a change that only this process can see: wakes all, whatever a peer has done to the signal. */
void echo_signal_raise(_Atomic uint32_t *signal);

/* Looks until it is over: 1; 0: not within spin_ns, nor before the deadline. */
int echo_signal_spin(int (*is_over)(void *), void *subject, int64_t spin_ns, int64_t deadline_ns);

/* Sleeps until it is over: 1; 0: time is up; -EINTR: a signal of the system came (one with SA_RESTART ends only a
 * sleep with a deadline). `is_over` looks at what is published before echo_signal_wake, and must be sequentially
 * consistent in that. */
int echo_signal_sleep(_Atomic uint32_t *signal, int (*is_over)(void *), void *subject, int64_t deadline_ns);
