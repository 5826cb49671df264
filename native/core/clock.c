/* The clock of outboxes, and how to wait; clock.h says what for. */
#define _GNU_SOURCE
#include "core/clock.h"

#include <errno.h>
#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* A shorter measurement would be off by more than a per mille. */
#define CALIBRATION_NS 1000000

int echo_counter_is_steady;

static int64_t start_ticks, start_ns; /* of one moment; set by echo_clock_start */
static double ticks_per_ns = 1.0;
static pthread_once_t calibration = PTHREAD_ONCE_INIT;

static int is_counter_steady(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8) != 0; /* invariant TSC */
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

static void start(void)
{
    echo_counter_is_steady = is_counter_steady();
    start_ns = monotonic_ns();
    start_ticks = ticks_now();
}

void echo_clock_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start);
}

static void calibrate(void)
{
    int64_t ns;

    do
        ns = monotonic_ns() - start_ns;
    while (ns < CALIBRATION_NS);
    ticks_per_ns = (double)(ticks_now() - start_ticks) / (double)ns;
}

int64_t echo_ticks_of(int64_t ns)
{
    if (echo_counter_is_steady)
        pthread_once(&calibration, calibrate);
    return (int64_t)((double)ns * ticks_per_ns);
}

int64_t echo_ns_of(int64_t ticks)
{
    return (int64_t)((double)ticks / ticks_per_ns);
}

int echo_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};

    if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ns < 0 ? NULL : &timeout, NULL, 0) == 0)
        return 0;
    return errno == EAGAIN ? 0 : -errno;
}
