/* A clock that costs nothing against an event of 60 ns (clock_gettime: 30 ns on some machines), and futexes.
 *
 * Ticks are for delays, of microseconds to minutes: a per mille off is no matter. They are compared by signed
 * difference, so that counters which differ a little between cores do no harm.
 */
#pragma once

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Since 1970, as everybody's clock says it. */
static inline int64_t realtime_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* When a wait ends that begins now; INT64_MAX, for a negative time: never. */
static inline int64_t deadline_after(int64_t timeout_ns)
{
    int64_t deadline_ns;

    return timeout_ns < 0 || __builtin_add_overflow(monotonic_ns(), timeout_ns, &deadline_ns) ? INT64_MAX : deadline_ns;
}

/* 1: the processor's counter runs at one rate, whatever the processor does. Set by echo_clock_start. */
extern int echo_counter_is_steady __attribute__((visibility("hidden")));

static inline int64_t ticks_now(void)
{
#if defined(__x86_64__)
    if (echo_counter_is_steady)
        return (int64_t)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (echo_counter_is_steady) {
        int64_t ticks;

        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return monotonic_ns();
}

/* Before all else; may be called more than once. */
void echo_clock_start(void);

/* The first call may take a millisecond after echo_clock_start. */
int64_t echo_ticks_of(int64_t ns);
int64_t echo_ns_of(int64_t ticks);

/* Waits while *word is `seen`. 0: woken, or it was another; -EINTR; -ETIMEDOUT. timeout_ns < 0: for ever. */
int echo_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);

static inline void futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void futex_wake_all(_Atomic uint32_t *word)
{
    futex_wake(word, INT32_MAX);
}

static inline void futex_wake_one(_Atomic uint32_t *word)
{
    futex_wake(word, 1);
}
