/* Numbers and bytes as Python has them, for compiled and for interpreted expressions. */
#define _GNU_SOURCE 1 /* memmem */
#include "code/numbers.h"

#include <math.h>
#include <string.h>

#define TWO_63 9223372036854775808.0
#define TWO_64 18446744073709551616.0

/* --- an integer against a float --- */

/* The float is within the integer's range, its whole part is `whole`: the order is that of these, then of the rest. */
#define ORDER(a, whole, b)                                                                                             \
    ((a) != (whole) ? ((a) < (whole) ? -1 : 1) : ((double)(whole) < (b) ? -1 : (double)(whole) > (b)))

int32_t echo_compare_int(int64_t a, double b)
{
    int64_t whole;

    if (b != b)
        return 2;
    if (b >= TWO_63)
        return -1;
    if (b < -TWO_63)
        return 1;
    whole = (int64_t)b;
    return ORDER(a, whole, b);
}

int32_t echo_compare_uint(uint64_t a, double b)
{
    uint64_t whole;

    if (b != b)
        return 2;
    if (b >= TWO_64)
        return -1;
    if (b < 0.0)
        return 1;
    whole = (uint64_t)b;
    return ORDER(a, whole, b);
}

/* --- division and powers: the steps of Objects/floatobject.c --- */

double echo_remainder(double a, double b)
{
    double rest = fmod(a, b);

    if (rest == 0.0)
        return copysign(0.0, b);
    return (b < 0.0) != (rest < 0.0) ? rest + b : rest;
}

double echo_floor_divide(double a, double b)
{
    double rest = fmod(a, b), quotient = (a - rest) / b, whole;

    if (rest != 0.0 && (b < 0.0) != (rest < 0.0))
        quotient -= 1.0;
    if (quotient == 0.0)
        return copysign(0.0, a / b);
    whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

double echo_power(double a, int64_t exponent)
{
    return pow(a, (double)exponent);
}

double echo_floor(double a)
{
    return floor(a);
}

double echo_ceil(double a)
{
    return ceil(a);
}

/* --- bytes --- */

int32_t echo_compare_bytes(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size)
{
    uint64_t common = a_size < b_size ? a_size : b_size;
    int order = common != 0 ? memcmp(a, b, (size_t)common) : 0;

    if (order != 0)
        return order;
    return a_size < b_size ? -1 : a_size > b_size;
}

int32_t echo_starts(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size)
{
    return b_size <= a_size && (b_size == 0 || memcmp(a, b, (size_t)b_size) == 0);
}

int32_t echo_ends(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size)
{
    return b_size <= a_size && (b_size == 0 || memcmp(a + (a_size - b_size), b, (size_t)b_size) == 0);
}

int32_t echo_contains(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size)
{
    return b_size == 0 || (b_size <= a_size && memmem(a, (size_t)a_size, b, (size_t)b_size) != NULL);
}

uint64_t echo_count_characters(const uint8_t *text, uint64_t size)
{
    uint64_t i, count = 0;

    for (i = 0; i < size; i++)
        count += (text[i] & 0xc0) != 0x80;
    return count;
}

uint64_t echo_chars_size(const uint8_t *text, uint64_t size)
{
    const uint8_t *end = memchr(text, 0, (size_t)size);

    return end != NULL ? (uint64_t)(end - text) : size;
}

int64_t echo_slot_text_size(const uint8_t *record, uint64_t size, uint64_t offset)
{
    const uint8_t *end;

    if (offset == 0)
        return 0;
    end = offset < size ? memchr(record + offset, 0, (size_t)(size - offset)) : NULL;
    return end != NULL ? end - (record + offset) : -1;
}
