/* Waiting in shared memory until the other process has done something.
 *
 * A signal is a count with the bits SLEEPING and RESTING, and whoever waits sleeps on it. The rule of both sides:
 *
 *   waits:  signal |= SLEEPING -> seen;  look again;  sleep if signal is still seen
 *   rests:  signal |= RESTING;           look again;  wait for the bell, a socket, among many others
 *   moves:  publish the count;  if a bit in signal: change signal, wake all that sleep; ring if RESTING
 *
 * The four accesses are sequentially consistent, so either the mover finds the bit or the waiter, who looks
 * after it has set the bit, finds the count. If the mover found the bit in an older value of signal, then its
 * change makes every sleep on that value end or not begin, and the waiter looks again. The bits are cleared by
 * who wakes, never by who slept: two threads of a process may wait at a time, one of them about to leave,
 * and a bit that is left over costs one system call. echo_signal_raise changes the word in any case.
 *
 * A peer that was killed between the change and the call leaves a sleeper behind, and so can one that puts an
 * old value back. So no sleep with a deadline is longer than MAX_SLEEP_NS, and one without is broken off by who
 * owns the wire and looks from time to time (`rouse`): a sleep that the kernel has to time costs 0.2 us more.
 */
#define _GNU_SOURCE
#include "core/wires/signals.h"

#include "core/clock.h"

#include <errno.h>
#include <sys/socket.h>

#define ONE_COUNT (WAITING + 1)
#define SECOND_NS INT64_C(1000000000)
#define MAX_SLEEP_NS (SECOND_NS / 2)
#define LOOKS_PER_CLOCK 32 /* while spinning; a look takes 10 to 50 ns, the clock 30 */

static void wake_all(_Atomic uint32_t *signal)
{
    syscall(SYS_futex, signal, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Whose bell is full has enough to wake up for; one that is closed has its own news. */
void echo_signal_call(_Atomic uint32_t *signal, uint32_t seen, int bell)
{
    uint32_t expected = seen;

    atomic_compare_exchange_strong(signal, &expected, (seen | WAITING) + 1); /* clears the bits, and counts */
    if ((seen & SLEEPING) != 0)
        wake_all(signal);
    if ((seen & RESTING) != 0 && send(bell, "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return;
}

void echo_signal_rest(_Atomic uint32_t *signal)
{
    atomic_fetch_or(signal, RESTING);
}

void echo_signal_raise(_Atomic uint32_t *signal)
{
    atomic_fetch_add(signal, ONE_COUNT);
    wake_all(signal);
}

static int64_t time_left_ns(int64_t deadline_ns)
{
    return deadline_ns != INT64_MAX ? deadline_ns - monotonic_ns() : INT64_MAX;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int echo_signal_spin(int (*is_over)(void *), void *subject, int64_t spin_ns, int64_t deadline_ns)
{
    int64_t end_ns = deadline_after(spin_ns);

    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            relax();
            if (is_over(subject))
                return 1;
        }
    } while (monotonic_ns() < (end_ns < deadline_ns ? end_ns : deadline_ns));
    return 0;
}

/* 0: something may have changed, or the time is up. -EINTR. */
static int sleep_on(_Atomic uint32_t *signal, uint32_t seen, int64_t left_ns)
{
    int64_t ns = left_ns < MAX_SLEEP_NS ? left_ns : MAX_SLEEP_NS;
    struct timespec time = {ns / SECOND_NS, ns % SECOND_NS};
    struct timespec *limit = left_ns < INT64_MAX ? &time : NULL;

    if (syscall(SYS_futex, signal, FUTEX_WAIT, seen, limit, NULL, 0) == 0 || errno == EAGAIN || errno == ETIMEDOUT)
        return 0;
    return -errno;
}

int echo_signal_sleep(_Atomic uint32_t *signal, int (*is_over)(void *), void *subject, int64_t deadline_ns)
{
    int status = 0;

    while (status == 0) {
        uint32_t seen = atomic_fetch_or(signal, SLEEPING) | SLEEPING;
        int64_t left_ns;

        if (is_over(subject))
            return 1;
        left_ns = time_left_ns(deadline_ns);
        if (left_ns <= 0)
            return 0;
        status = sleep_on(signal, seen, left_ns);
    }
    return status;
}
