/* Waiting in shared memory: signals.c, which says why nobody sleeps for ever. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* After something was published: wakes all that sleep on the signal. No system call if nobody does. */
void echo_signal_wake(_Atomic uint32_t *signal);

/* Whether a wake would now be a system call. */
int echo_signal_has_sleeper(_Atomic uint32_t *signal);

/* After a change that only this process can see: wakes all, whatever a peer has done to the signal. */
void echo_signal_raise(_Atomic uint32_t *signal);

/* Looks until it is over: 1; 0: not within spin_ns, nor before the deadline. */
int echo_signal_spin(int (*is_over)(void *), void *subject, int64_t spin_ns, int64_t deadline_ns);

/* Sleeps until it is over: 1; 0: time is up; -EINTR: a signal of the system came (one with SA_RESTART ends only a
 * sleep with a deadline). `is_over` looks at what is published before echo_signal_wake, and must be sequentially
 * consistent in that. */
int echo_signal_sleep(_Atomic uint32_t *signal, int (*is_over)(void *), void *subject, int64_t deadline_ns);
