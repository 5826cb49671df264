/* What a lock does where somebody else has it. */
#define _GNU_SOURCE
#include "core/lock.h"

#include "core/clock.h"

void echo_lock_await(struct lock *lock)
{
    while (atomic_exchange_explicit(&lock->state, LOCK_AWAITED, memory_order_acquire) != LOCK_FREE)
        (void)echo_futex_wait(&lock->state, LOCK_AWAITED, -1); /* a signal, too: it looks again */
}

void echo_lock_wake(struct lock *lock)
{
    futex_wake_one(&lock->state);
}
