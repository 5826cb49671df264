/* Loops that call a conversion, or memcpy for the floor, and say how long a call took at best. */
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef int32_t convert_function(const uint8_t *source, uint8_t *target, uint64_t count);

static double
now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double
best_convert_ns(convert_function *convert, const uint8_t *source, uint8_t *target, uint64_t count,
                uint64_t calls, uint64_t repeats)
{
    double best = 1e300;
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        double start = now_ns();
        for (uint64_t call = 0; call < calls; call++) {
            convert(source, target, count);
            __asm__ volatile("" : : "r"(target) : "memory");
        }
        double taken = (now_ns() - start) / (double)calls;
        best = taken < best ? taken : best;
    }
    return best;
}

double
best_copy_ns(const uint8_t *source, uint8_t *target, uint64_t size, uint64_t calls, uint64_t repeats)
{
    double best = 1e300;
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        double start = now_ns();
        for (uint64_t call = 0; call < calls; call++) {
            memcpy(target, source, size);
            __asm__ volatile("" : : "r"(target) : "memory");
        }
        double taken = (now_ns() - start) / (double)calls;
        best = taken < best ? taken : best;
    }
    return best;
}
