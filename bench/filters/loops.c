/* Times of native/raw_judge.h's functions in loops of C, where a call from Python would hide 2 ns. Called with the GIL. */
#include <stdint.h>
#include <time.h>

typedef int judge(void *self, const uint8_t *record, intptr_t size, int64_t now_ns);

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* The best time for each of `count` records; *passed: how many pass. */
double best_judged_ns(judge *record, void *self, const uint8_t *rows, uint64_t count, uint64_t size, uint64_t repeats,
                      uint64_t *passed)
{
    double best = 1e300;

    for (; repeats > 0; repeats--) {
        double start = now_ns(), taken;
        uint64_t i;

        *passed = 0;
        for (i = 0; i < count; i++)
            *passed += (uint64_t)record(self, rows + i * size, (intptr_t)size, 0);
        taken = (now_ns() - start) / (double)count;
        best = taken < best ? taken : best;
    }
    return best;
}

typedef int64_t compiled(const uint8_t *record, uint64_t size, const uint8_t *parameters, const void *states,
                         int64_t *results);

/* The same of compiled code by itself, of one function after another; *found: all of their answers added up. */
double best_compiled_ns(compiled *const *functions, const uint8_t *const *parameters, uint64_t functions_count,
                        const uint8_t *rows, uint64_t count, uint64_t size, uint64_t repeats, uint64_t *found)
{
    double best = 1e300;
    int64_t results[128];

    for (; repeats > 0; repeats--) {
        double start = now_ns(), taken;
        uint64_t i, j;

        *found = 0;
        for (i = 0; i < count; i++) {
            for (j = 0; j < functions_count; j++)
                *found += (uint64_t)__builtin_popcountll(
                    (unsigned long long)functions[j](rows + i * size, size, parameters[j], 0, results));
        }
        taken = (now_ns() - start) / (double)count;
        best = taken < best ? taken : best;
    }
    return best;
}

