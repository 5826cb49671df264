/* Numbers and text in bytes of any alignment. No Python. */
#pragma once

#include <stdint.h>
#include <string.h>

#define DEFINE_LOAD(type)                                                                                              \
    static inline type load_##type(const uint8_t *bytes)                                                               \
    {                                                                                                                  \
        type number; /* memcpy, since a record may be packed */                                                        \
                                                                                                                       \
        memcpy(&number, bytes, sizeof number);                                                                         \
        return number;                                                                                                 \
    }
DEFINE_LOAD(int8_t)
DEFINE_LOAD(int16_t)
DEFINE_LOAD(int32_t)
DEFINE_LOAD(int64_t)
DEFINE_LOAD(uint8_t)
DEFINE_LOAD(uint16_t)
DEFINE_LOAD(uint32_t)
DEFINE_LOAD(uint64_t)
DEFINE_LOAD(float)
DEFINE_LOAD(double)
#undef DEFINE_LOAD

/* memcpy, inlined: for places of this size its call takes longer than its work. */
static inline void copy(uint8_t *target, const uint8_t *source, int64_t size)
{
    for (; size >= 32; target += 32, source += 32, size -= 32)
        memcpy(target, source, 32);
    for (; size >= 8; target += 8, source += 8, size -= 8)
        memcpy(target, source, 8);
    for (; size > 0; size--)
        *target++ = *source++;
}

/* A signed number of 1, 2, 4 or 8 bytes. */
static inline int64_t load_number(const uint8_t *bytes, int64_t size)
{
    switch (size) {
    case 1:
        return load_int8_t(bytes);
    case 2:
        return load_int16_t(bytes);
    case 4:
        return load_int32_t(bytes);
    default:
        return load_int64_t(bytes);
    }
}

static inline void store_number(uint8_t *bytes, int64_t size, int64_t number)
{
    switch (size) {
    case 1:
        *bytes = (uint8_t)number;
        break;
    case 2:
        memcpy(bytes, &(uint16_t){(uint16_t)number}, 2);
        break;
    case 4:
        memcpy(bytes, &(uint32_t){(uint32_t)number}, 4);
        break;
    default:
        memcpy(bytes, &number, 8);
    }
}

/* Which of the numbers, ascending and at least one, is this one; -1: none is. */
static inline int64_t find_number(const int64_t *numbers, int64_t count, int64_t number)
{
    int64_t low = 0;

    while (count - low > 1) {
        int64_t middle = low + (count - low) / 2;

        if (numbers[middle] <= number)
            low = middle;
        else
            count = middle;
    }
    return numbers[low] == number ? low : -1;
}

/* How much of a text of fixed size comes before its first NUL. */
static inline int64_t text_length(const uint8_t *bytes, int64_t size)
{
    const uint8_t *end = memchr(bytes, 0, (size_t)size);

    return end != NULL ? end - bytes : size;
}
