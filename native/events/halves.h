/* Floats of 16 bits, which few compilers know. No Python. */
#pragma once

#include "events/bytes.h"

#define HALF_INFINITE 0x7c00
#define HALF_BIAS 15
#define DOUBLE_BIAS 1023

/* 2 to a power, of those that a double has with all of its bits. */
static inline double power_of_two(int power)
{
    uint64_t bits = (uint64_t)(power + DOUBLE_BIAS) << 52;
    double number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline double load_half(const uint8_t *bytes)
{
    uint16_t half = load_uint16_t(bytes);
    int power = half >> 10 & 0x1f, fraction = half & 0x3ff;
    double number;

    if (power == 0x1f)
        number = fraction != 0 ? __builtin_nan("") : __builtin_inf();
    else if (power == 0)
        number = fraction * power_of_two(-24);
    else
        number = (fraction | 0x400) * power_of_two(power - HALF_BIAS - 10);
    return half & 0x8000 ? -number : number;
}

/* Rounded to the nearest one, of two as near to the even one. 0: it is NaN, or finite and beyond the largest. */
static inline int store_half(double number, uint8_t *bytes)
{
    double size = __builtin_fabs(number), shift = 0x1p52; /* what is added to it and taken away again is rounded */
    uint16_t sign = __builtin_signbit(number) ? 0x8000 : 0;
    uint64_t bits;
    int power;

    memcpy(&bits, &size, sizeof bits);
    power = (int)(bits >> 52) - DOUBLE_BIAS;
    if (__builtin_isinf(size))
        bits = HALF_INFINITE;
    else if (!(size < 65520.0))
        return 0;
    else if (power < 1 - HALF_BIAS)
        bits = (uint64_t)(size * power_of_two(24) + shift - shift);
    else /* a fraction that is rounded up to the next power of two carries over into the exponent */
        bits = (uint64_t)(size * power_of_two(10 - power) + shift - shift) + ((uint64_t)(power + HALF_BIAS - 1) << 10);
    memcpy(bytes, &(uint16_t){(uint16_t)(bits | sign)}, sizeof(uint16_t));
    return 1;
}
