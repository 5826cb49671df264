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

#define MAX_INLINED 1024

/* memcpy, inlined: for places of this size its call takes longer than its work. */
static inline void copy(uint8_t *target, const uint8_t *source, int64_t size)
{
    if (__builtin_expect(size > MAX_INLINED, 0)) {
        memcpy(target, source, (size_t)size);
        return;
    }
    for (; size >= 32; target += 32, source += 32, size -= 32)
        memcpy(target, source, 32);
    for (; size >= 8; target += 8, source += 8, size -= 8)
        memcpy(target, source, 8);
    for (; size > 0; size--)
        *target++ = *source++;
}

/* memset to 0, likewise. */
static inline void zero(uint8_t *target, int64_t size)
{
    if (__builtin_expect(size > MAX_INLINED, 0)) {
        memset(target, 0, (size_t)size);
        return;
    }
    for (; size >= 32; target += 32, size -= 32)
        memset(target, 0, 32);
    for (; size >= 8; target += 8, size -= 8)
        memset(target, 0, 8);
    if (size >= 4) {
        memset(target, 0, 4);
        memset(target + size - 4, 0, 4);
        return;
    }
    for (; size > 0; size--)
        *target++ = 0;
}

/* The highest bit of the lowest of eight bytes that is 0, and bits above it; 0: none is. */
static inline uint64_t zeros_in(uint64_t bytes)
{
    return (bytes - UINT64_C(0x0101010101010101)) & ~bytes & UINT64_C(0x8080808080808080);
}

static inline int has_zero(uint64_t bytes)
{
    return zeros_in(bytes) != 0;
}

/* Up to eight bytes as a number, the rest of it 0, without reading beyond them. */
static inline uint64_t load_short(const uint8_t *text, int64_t length)
{
    uint64_t bytes = 0;
    int64_t i;

    if (length >= 4) {
        uint32_t first, last;

        memcpy(&first, text, 4);
        memcpy(&last, text + length - 4, 4);
        return first | (uint64_t)last << 8 * (length - 4);
    }
    for (i = 0; i < length; i++)
        bytes |= (uint64_t)text[i] << 8 * i;
    return bytes;
}

/* Copies text; 0 where there is a NUL in it. Eight bytes at a time: most texts are a few of these, for which memchr and
 * memcpy take longer than their work. */
static inline int copy_text(uint8_t *target, const uint8_t *text, int64_t size)
{
    uint64_t word;

    if (size > 64) {
        if (memchr(text, 0, (size_t)size) != NULL)
            return 0;
        memcpy(target, text, (size_t)size);
        return 1;
    }
    if (size < 8) {
        for (; size > 0; size--) {
            if (*text == 0)
                return 0;
            *target++ = *text++;
        }
        return 1;
    }
    for (; size >= 8; target += 8, text += 8, size -= 8) {
        memcpy(&word, text, 8);
        memcpy(target, &word, 8);
        if (has_zero(word))
            return 0;
    }
    memcpy(&word, text + size - 8, 8); /* the last eight, some of them again */
    memcpy(target + size - 8, &word, 8);
    return !has_zero(word);
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

/* How many bytes come before the first NUL; -1: there is none. Eight bytes at a time, as in copy_text. */
static inline int64_t find_nul(const uint8_t *bytes, int64_t size)
{
    int64_t at = 0, most = size < 64 ? size : 64;
    const uint8_t *end;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; most - at >= 8; at += 8) {
        uint64_t word = load_uint64_t(bytes + at);

        if (has_zero(word))
            return at + __builtin_ctzll(zeros_in(word)) / 8;
    }
#endif
    for (; at < most; at++) {
        if (bytes[at] == 0)
            return at;
    }
    end = at < size ? memchr(bytes + at, 0, (size_t)(size - at)) : NULL;
    return end != NULL ? end - bytes : -1;
}

/* How much of a text of fixed size comes before its first NUL. */
static inline int64_t text_length(const uint8_t *bytes, int64_t size)
{
    int64_t length = find_nul(bytes, size);

    return length >= 0 ? length : size;
}
