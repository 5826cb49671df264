/* What compiled expressions ask of numbers and bytes where a machine has no instruction for Python's answer. Any thread
 * may call these, without the GIL; nothing is read outside. native/expressions interprets by the same functions. */
#pragma once

#include <stdint.h>

/* An integer against a float, exactly: -1, 0 or 1; 2 where the float is no number. */
int32_t echo_compare_int(int64_t a, double b);
int32_t echo_compare_uint(uint64_t a, double b);

/* Python's // and % of floats; b is not 0. */
double echo_floor_divide(double a, double b);
double echo_remainder(double a, double b);

/* Python's ** with an int from 0 on, but for what overflows: that is infinite. */
double echo_power(double a, int64_t exponent);

/* Python's floor and ceil, before they become ints. */
double echo_floor(double a);
double echo_ceil(double a);

/* Bytes in their order: below 0, 0, above 0. So are texts: UTF-8 keeps the order of characters. */
int32_t echo_compare_bytes(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size);

/* 1: b begins a, ends it, or is somewhere in it. */
int32_t echo_starts(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size);
int32_t echo_ends(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size);
int32_t echo_contains(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size);

/* How many characters a text in UTF-8 has. */
uint64_t echo_count_characters(const uint8_t *text, uint64_t size);

/* What bytes are known again by, in this process: others have the same by chance alone. */
uint64_t echo_digest(const uint8_t *bytes, uint64_t size);

/* How much of `size` bytes comes before the first NUL. */
uint64_t echo_chars_size(const uint8_t *text, uint64_t size);

/* The text that a slot of a record refers to: its size, 0 where the slot is 0; -1: no NUL ends it within the record. */
int64_t echo_slot_text_size(const uint8_t *record, uint64_t size, uint64_t offset);
