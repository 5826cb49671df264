/* A CRC of a long text is those of its parts, joined: what stands before a part is shifted by the part's size, a
 * linear map of 32 bits that four tables of 256 words hold. The instruction takes 3 cycles and a new one may begin in
 * each, so three parts are done at once. */
#include "logs/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u
#define LONG_PART 5456u /* three of them and 16 bytes are a slice of a block */
#define SHORT_PART 256u

static uint32_t by_byte[8][256]; /* [k][b]: the byte b, and then k zeros */
static uint32_t long_shift[4][256], short_shift[4][256];

uint32_t echo_crc32c_by_table(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes, *end = at + size;

    crc = ~crc;
    for (; end - at >= 8; at += 8) {
        crc ^= at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = by_byte[7][crc & 255] ^ by_byte[6][crc >> 8 & 255] ^ by_byte[5][crc >> 16 & 255] ^ by_byte[4][crc >> 24] ^
              by_byte[3][at[4]] ^ by_byte[2][at[5]] ^ by_byte[1][at[6]] ^ by_byte[0][at[7]];
    }
    for (; at < end; at++)
        crc = by_byte[0][(crc ^ *at) & 255] ^ crc >> 8;
    return ~crc;
}

/* What a raw register (not inverted) becomes by `zeros` zero bytes. */
static uint32_t shifted(uint32_t crc, size_t zeros)
{
    for (; zeros > 0; zeros--)
        crc = by_byte[0][crc & 255] ^ crc >> 8;
    return crc;
}

static void make_shift(uint32_t table[4][256], size_t zeros)
{
    uint32_t bits[32], value;
    int i, byte, k;

    for (i = 0; i < 32; i++)
        bits[i] = shifted(1u << i, zeros);
    for (byte = 0; byte < 4; byte++) {
        for (k = 0; k < 256; k++) {
            for (value = 0, i = 0; i < 8; i++)
                value ^= k >> i & 1 ? bits[8 * byte + i] : 0;
            table[byte][k] = value;
        }
    }
}

void echo_crc32c_prepare(void)
{
    uint32_t value;
    int i, k;

    for (i = 0; i < 256; i++) {
        for (value = (uint32_t)i, k = 0; k < 8; k++)
            value = value & 1 ? POLYNOMIAL ^ value >> 1 : value >> 1;
        by_byte[0][i] = value;
    }
    for (k = 1; k < 8; k++) {
        for (i = 0; i < 256; i++)
            by_byte[k][i] = by_byte[0][by_byte[k - 1][i] & 255] ^ by_byte[k - 1][i] >> 8;
    }
    make_shift(long_shift, LONG_PART);
    make_shift(short_shift, SHORT_PART);
}

#if defined(__x86_64__)
#include <nmmintrin.h>

static inline uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline uint32_t shift_by(uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

/* Three parts that follow one another, each of `part` bytes, a multiple of 8. */
__attribute__((target("sse4.2"))) static uint32_t three_parts(uint32_t crc, const uint8_t *at, size_t part,
                                                              uint32_t table[4][256])
{
    uint64_t first = crc, second = 0, third = 0;
    const uint8_t *end = at + part;

    for (; at < end; at += 8) {
        first = _mm_crc32_u64(first, word_at(at));
        second = _mm_crc32_u64(second, word_at(at + part));
        third = _mm_crc32_u64(third, word_at(at + 2 * part));
    }
    return shift_by(table, shift_by(table, (uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t wide;

    crc = ~crc;
    for (; size >= 3 * LONG_PART; at += 3 * LONG_PART, size -= 3 * LONG_PART)
        crc = three_parts(crc, at, LONG_PART, long_shift);
    for (; size >= 3 * SHORT_PART; at += 3 * SHORT_PART, size -= 3 * SHORT_PART)
        crc = three_parts(crc, at, SHORT_PART, short_shift);
    for (wide = crc; size >= 8; at += 8, size -= 8)
        wide = _mm_crc32_u64(wide, word_at(at));
    for (crc = (uint32_t)wide; size > 0; at++, size--)
        crc = _mm_crc32_u8(crc, *at);
    return ~crc;
}

uint32_t echo_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    if (__builtin_cpu_supports("sse4.2"))
        return by_instruction(crc, bytes, size);
    return echo_crc32c_by_table(crc, bytes, size);
}
#else
uint32_t echo_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return echo_crc32c_by_table(crc, bytes, size);
}
#endif
