/* Loops that call a conversion, or memcpy for the floor, and say how long a call took at best. */
#include <stdint.h>
#include <string.h>
#include <time.h>

/* What compiled code is; native/code/routine_programs.h says more. 0 means success, save for measure. */
typedef int32_t convert_function(const uint8_t *source, uint8_t *target, uint64_t count);
typedef int32_t verify_function(const uint8_t *record, uint64_t size);
typedef uint64_t measure_function(const uint8_t *record);
typedef int32_t convert_record_function(const uint8_t *record, uint8_t *target);

/* FFS's decoder: a context of its own, its message, room for the record. 0 means failure. */
typedef int decode_function(void *context, const uint8_t *message, uint8_t *target);

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

/* Records of fixed size behind the check that a Python call makes first: that `size` bytes are so many
 * whole records, and that as many of the target's are a size. Less than 0 where the check refuses. */
double
best_checked_ns(convert_function *convert, const uint8_t *source, uint8_t *target, uint64_t size,
                uint64_t source_size, uint64_t target_size, uint64_t calls, uint64_t repeats)
{
    double best = 1e300;
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        double start = now_ns();
        for (uint64_t call = 0; call < calls; call++) {
            uint64_t converted;
            __asm__ volatile("" : "+r"(size), "+r"(source_size), "+r"(target_size)); /* known anew each call */
            uint64_t count = size / source_size;
            if (count * source_size != size || __builtin_mul_overflow(count, target_size, &converted)
                || converted > INT64_MAX)
                return -1;
            convert(source, target, count);
            __asm__ volatile("" : : "r"(target) : "memory");
        }
        double taken = (now_ns() - start) / (double)calls;
        best = taken < best ? taken : best;
    }
    return best;
}

/* Records with variable parts, one a call: verified unless `verify` is NULL, measured, converted. There are
 * `copies` of the record, a power of two, and as many targets; calls go round. Less than 0 where one of the
 * functions refuses. */
double
best_record_ns(verify_function *verify, measure_function *measure, convert_record_function *convert,
               const uint8_t *records, uint64_t size, uint8_t *targets, uint64_t copies,
               uint64_t record_stride, uint64_t target_stride, uint64_t calls, uint64_t repeats)
{
    double best = 1e300;
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        double start = now_ns();
        for (uint64_t call = 0; call < calls; call++) {
            const uint8_t *record = records + (call & (copies - 1)) * record_stride;
            uint8_t *target = targets + (call & (copies - 1)) * target_stride;
            if ((verify != NULL && verify(record, size) != 0) || measure(record) > INT64_MAX
                || convert(record, target) != 0)
                return -1;
            __asm__ volatile("" : : "r"(target) : "memory");
        }
        double taken = (now_ns() - start) / (double)calls;
        best = taken < best ? taken : best;
    }
    return best;
}

/* One message of FFS. Less than 0 where it refuses. */
double
best_decode_ns(decode_function *decode, void *context, const uint8_t *message, uint8_t *target,
               uint64_t calls, uint64_t repeats)
{
    double best = 1e300;
    for (uint64_t repeat = 0; repeat < repeats; repeat++) {
        double start = now_ns();
        for (uint64_t call = 0; call < calls; call++) {
            if (decode(context, message, target) == 0)
                return -1;
            __asm__ volatile("" : : "r"(target) : "memory");
        }
        double taken = (now_ns() - start) / (double)calls;
        best = taken < best ? taken : best;
    }
    return best;
}
