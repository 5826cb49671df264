/* A lock for a few instructions at a time, as of an outbox: taken and given back by one atomic access each, in line. A
 * mutex of the C library does the same in a call each, which looks up what kind of mutex it is: the three pairs that a
 * hand over and submit takes were 3 % of its instructions.
 *
 * Threads of one process only. Not fair: who comes while a sleeper wakes up may be first. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum { LOCK_FREE = 0, LOCK_TAKEN, LOCK_AWAITED /* taken, and a thread may sleep until it is not */ };

/* Zeroed: free. */
struct lock {
    _Atomic uint32_t state;
};

/* Sleeps until it is free, and takes it. */
void echo_lock_await(struct lock *lock);

/* For a thread that sleeps. */
void echo_lock_wake(struct lock *lock);

static inline void lock_take(struct lock *lock)
{
    uint32_t found = LOCK_FREE;

    if (!atomic_compare_exchange_strong_explicit(&lock->state, &found, LOCK_TAKEN, memory_order_acquire,
                                                 memory_order_relaxed))
        echo_lock_await(lock);
}

static inline void lock_give(struct lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) == LOCK_AWAITED)
        echo_lock_wake(lock);
}
