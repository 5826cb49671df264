/* A block's records are looked at field by field, some records at a time, while these are in the nearest cache. */
#include "logs/ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_AT_ONCE 256

/* --- which fields --- */

static int is_sound(const struct ranged_field *field)
{
    int is_float = field->kind == 'f' && (field->size == 4 || field->size == 8);
    int is_whole = (field->kind == 'i' || field->kind == 'u') &&
                   (field->size == 1 || field->size == 2 || field->size == 4 || field->size == 8);

    return (is_float || is_whole) && (!field->is_bool || field->size == 1) && field->offset < MAX_EVENT_BYTES;
}

struct ranged_fields *echo_new_ranged_fields(const void *packed, Py_ssize_t size)
{
    size_t count = (size_t)size / sizeof(struct ranged_field), i;
    struct ranged_fields *fields;

    if (count > MAX_RANGED || (size_t)size % sizeof(struct ranged_field) != 0) {
        PyErr_Format(PyExc_ValueError, "Expected at most %d fields of 8 bytes, got %zd bytes", MAX_RANGED, size);
        return NULL;
    }
    fields = calloc(1, sizeof *fields);
    if (fields == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    fields->refs = 1;
    fields->count = (uint32_t)count;
    memcpy(fields->each, packed, (size_t)size);
    for (i = 0; i < count; i++) {
        if (!is_sound(&fields->each[i])) {
            free(fields);
            PyErr_Format(PyExc_ValueError, "Expected fields that are numbers, got another as number %zu", i);
            return NULL;
        }
    }
    return fields;
}

struct ranged_fields *echo_share_ranged_fields(struct ranged_fields *fields)
{
    if (fields != NULL)
        fields->refs++;
    return fields;
}

void echo_drop_ranged_fields(struct ranged_fields *fields)
{
    if (fields != NULL && --fields->refs == 0)
        free(fields);
}

/* --- values --- */

#define swap8(bits) (bits)
#define swap16 __builtin_bswap16
#define swap32 __builtin_bswap32
#define swap64 __builtin_bswap64

/* Of integers of so many bits, which become `wide`. */
#define EXTEND_WHOLE(name, bits, narrow, wide)                                                                         \
    static void name(const uint8_t *at, size_t stride, size_t count, const struct ranged_field *field,                 \
                     struct range *range)                                                                              \
    {                                                                                                                  \
        wide least, greatest, value;                                                                                   \
        uint##bits##_t word;                                                                                           \
                                                                                                                       \
        memcpy(&least, &range->least, sizeof least);                                                                   \
        memcpy(&greatest, &range->greatest, sizeof greatest);                                                          \
        for (; count > 0; count--, at += stride) {                                                                     \
            memcpy(&word, at, sizeof word);                                                                            \
            if (field->is_swapped)                                                                                     \
                word = (uint##bits##_t)swap##bits(word);                                                               \
            value = (narrow)word;                                                                                      \
            least = value < least ? value : least;                                                                     \
            greatest = value > greatest ? value : greatest;                                                            \
        }                                                                                                              \
        memcpy(&range->least, &least, sizeof least);                                                                   \
        memcpy(&range->greatest, &greatest, sizeof greatest);                                                          \
    }

/* Of floats. A comparison with what is no number is false whatever it is compared with, so nothing can be said of a
 * block that holds one: both ends are NaN then, and stay so. */
#define EXTEND_FLOAT(name, bits, narrow)                                                                               \
    static void name(const uint8_t *at, size_t stride, size_t count, const struct ranged_field *field,                 \
                     struct range *range)                                                                              \
    {                                                                                                                  \
        double least, greatest, value;                                                                                 \
        int is_nan = 0;                                                                                                \
        uint##bits##_t word;                                                                                           \
        narrow number;                                                                                                 \
                                                                                                                       \
        memcpy(&least, &range->least, sizeof least);                                                                   \
        memcpy(&greatest, &range->greatest, sizeof greatest);                                                          \
        for (; count > 0; count--, at += stride) {                                                                     \
            memcpy(&word, at, sizeof word);                                                                            \
            if (field->is_swapped)                                                                                     \
                word = swap##bits(word);                                                                               \
            memcpy(&number, &word, sizeof number);                                                                     \
            value = (double)number;                                                                                    \
            is_nan |= value != value;                                                                                  \
            least = value < least ? value : least; /* one instruction, which leaves out NaN */                         \
            greatest = value > greatest ? value : greatest;                                                            \
        }                                                                                                              \
        if (is_nan || least != least)                                                                                  \
            least = greatest = (double)NAN;                                                                            \
        memcpy(&range->least, &least, sizeof least);                                                                   \
        memcpy(&range->greatest, &greatest, sizeof greatest);                                                          \
    }

EXTEND_WHOLE(extend_i8, 8, int8_t, int64_t)
EXTEND_WHOLE(extend_i16, 16, int16_t, int64_t)
EXTEND_WHOLE(extend_i32, 32, int32_t, int64_t)
EXTEND_WHOLE(extend_i64, 64, int64_t, int64_t)
EXTEND_WHOLE(extend_u8, 8, uint8_t, uint64_t)
EXTEND_WHOLE(extend_u16, 16, uint16_t, uint64_t)
EXTEND_WHOLE(extend_u32, 32, uint32_t, uint64_t)
EXTEND_WHOLE(extend_u64, 64, uint64_t, uint64_t)
EXTEND_WHOLE(extend_bool, 8, _Bool, uint64_t)
EXTEND_FLOAT(extend_f32, 32, float)
EXTEND_FLOAT(extend_f64, 64, double)

/* Takes a field of some records, the first of which is at `record`, into its range. */
static void extend(const struct ranged_field *field, const uint8_t *record, size_t stride, size_t count,
                   struct range *range)
{
    static void (*const whole[2][9])(const uint8_t *, size_t, size_t, const struct ranged_field *, struct range *) = {
        {[1] = extend_i8, [2] = extend_i16, [4] = extend_i32, [8] = extend_i64},
        {[1] = extend_u8, [2] = extend_u16, [4] = extend_u32, [8] = extend_u64},
    };
    const uint8_t *at = record + field->offset;

    if (field->is_bool)
        extend_bool(at, stride, count, field, range);
    else if (field->kind == 'f' && field->size == 4)
        extend_f32(at, stride, count, field, range);
    else if (field->kind == 'f')
        extend_f64(at, stride, count, field, range);
    else
        whole[field->kind == 'u'][field->size](at, stride, count, field, range);
}

static struct range of_nothing(const struct ranged_field *field)
{
    double infinities[2] = {(double)INFINITY, -(double)INFINITY};
    struct range range = {0, 0};

    if (field->kind == 'f')
        memcpy(&range, infinities, sizeof range);
    else if (field->kind == 'i')
        range = (struct range){INT64_MAX, (uint64_t)INT64_MIN};
    else
        range = (struct range){UINT64_MAX, 0};
    return range;
}

static struct range of_anything(const struct ranged_field *field)
{
    double unknown[2] = {(double)NAN, (double)NAN};
    struct range range = of_nothing(field);

    if (field->kind == 'f')
        memcpy(&range, unknown, sizeof range);
    else
        range = (struct range){range.greatest, range.least};
    return range;
}

/* --- records --- */

static void measure_fixed(struct chunk *chunk)
{
    const struct ranged_fields *fields = chunk->ranged;
    size_t size = chunk->payload.size / chunk->header.count, start, some;
    uint32_t i;

    for (start = 0; start < chunk->header.count; start += some) {
        some = chunk->header.count - start < RECORDS_AT_ONCE ? chunk->header.count - start : RECORDS_AT_ONCE;
        for (i = 0; i < fields->count; i++)
            extend(&fields->each[i], chunk->payload.at + start * size, size, some, &chunk->ranges[i]);
    }
}

/* A record that does not reach up to a field says nothing of it, so neither does the block. */
static void measure_varying(struct chunk *chunk)
{
    const struct ranged_fields *fields = chunk->ranged;
    bool is_short[MAX_RANGED] = {false};
    uint64_t start = 0;
    uint32_t end, i, k;

    for (k = 0; k < chunk->header.count; k++, start = aligned(end, RECORD_ALIGNMENT)) {
        memcpy(&end, chunk->ends.at + 4 * (size_t)k, sizeof end);
        end = little32(end);
        for (i = 0; i < fields->count; i++) {
            const struct ranged_field *field = &fields->each[i];

            if (start + field->offset + field->size > end)
                is_short[i] = true;
            else
                extend(field, chunk->payload.at + start, 0, 1, &chunk->ranges[i]);
        }
    }
    for (i = 0; i < fields->count; i++) {
        if (is_short[i])
            chunk->ranges[i] = of_anything(&fields->each[i]);
    }
}

void echo_measure(struct chunk *chunk)
{
    uint32_t i;

    if (chunk->ranged == NULL || chunk->is_measured || chunk->header.count == 0)
        return;
    for (i = 0; i < chunk->ranged->count; i++)
        chunk->ranges[i] = of_nothing(&chunk->ranged->each[i]);
    if (chunk->header.flags & VARIES)
        measure_varying(chunk);
    else
        measure_fixed(chunk);
    chunk->is_measured = 1;
}
