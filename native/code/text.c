/* Text as it is verified: where it ends, and whether it is UTF-8.
 *
 * UTF-8 is what CPython's strict decoder takes: no surrogates, nothing longer than it need be, nothing above
 * U+10FFFF. Expected workload: names of ten or twenty bytes of ASCII, by the ten million a second; hence the
 * end and the first byte beyond ASCII are looked for together, eight bytes at a time.
 */
#include "code/text.h"

#include <stddef.h>
#include <string.h>

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define SHORT_BYTES 64 /* from there on memchr, which has wider registers, makes up for another pass */
#define BLOCK_BYTES 64 /* looked at together where a text is long */

static inline uint64_t load_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

/* --- beyond ASCII --- */

/* How many bytes follow the first one of a character, and between what the second one is. 0: none does. */
static inline uint64_t tail_of(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;  /* it could be said in fewer bytes */
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf; /* surrogates; above U+10FFFF */
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
}

/* How many bytes the character beyond ASCII has that begins here; 0: it is none. */
static inline uint64_t character_size(const uint8_t *text, uint64_t left)
{
    uint8_t low, high;
    uint64_t i, tail = tail_of(text[0], &low, &high);

    if (tail == 0 || tail >= left || text[1] < low || text[1] > high)
        return 0;
    for (i = 2; i <= tail; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return tail + 1;
}

/* Whether one of so many bytes is beyond ASCII; compilers use the widest registers that any CPU has. */
static inline int is_beyond_ascii(const uint8_t *block)
{
    uint64_t i, together = 0;

    for (i = 0; i < BLOCK_BYTES; i += 8)
        together |= load_word(block + i);
    return (together & EACH(0x80)) != 0;
}

/* Where ASCII stops. */
static inline uint64_t pass_ascii(const uint8_t *text, uint64_t at, uint64_t size)
{
    for (; size - at >= BLOCK_BYTES && !is_beyond_ascii(text + at); at += BLOCK_BYTES)
        ;
    for (; size - at >= 8 && !(load_word(text + at) & EACH(0x80)); at += 8)
        ;
    for (; at < size && text[at] < 0x80; at++)
        ;
    return at;
}

/* Without a NUL among them. */
static int are_characters(const uint8_t *text, uint64_t size)
{
    uint64_t at = 0;

    while ((at = pass_ascii(text, at, size)) < size) {
        do {
            uint64_t length = character_size(text + at, size - at);

            if (length == 0)
                return 0;
            at += length;
        } while (at < size && text[at] >= 0x80);
    }
    return 1;
}

/* --- for compiled code --- */

int32_t echo_is_utf8(const uint8_t *text, uint64_t size)
{
    const uint8_t *end = memchr(text, 0, size);

    return are_characters(text, end != NULL ? (uint64_t)(end - text) : size);
}

/* Of a text whose first `at` bytes are known to be ASCII. Not inlined: short texts would save registers for it. */
static __attribute__((noinline)) int64_t any_text_size(const uint8_t *text, uint64_t at, uint64_t left)
{
    const uint8_t *rest = text + at, *end = memchr(rest, 0, left - at);

    return end != NULL && are_characters(rest, (uint64_t)(end - rest)) ? end - text : -1;
}

/* The bits of the first byte that is a NUL or beyond ASCII, and others above it; 0: none is. A byte that is
 * neither keeps its highest bit clear, also when 1 is taken from it, unless that is borrowed from below. */
static inline uint64_t stops_in(uint64_t word)
{
    return ((word - EACH(1)) | word) & EACH(0x80);
}

static inline uint64_t first_byte(uint64_t stops)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (uint64_t)__builtin_ctzll(stops) / 8;
#else
    (void)stops; /* a borrow goes the other way: the bytes are looked at one by one */
    return 0;
#endif
}

int64_t echo_text_size(const uint8_t *text, uint64_t left)
{
    uint64_t at = 0, most = left < SHORT_BYTES ? left : SHORT_BYTES;

    for (; most - at >= 8; at += 8) {
        uint64_t stops = stops_in(load_word(text + at));

        if (stops != 0) {
            at += first_byte(stops);
            break;
        }
    }
    for (; at < most && text[at] < 0x80; at++) {
        if (text[at] == 0)
            return (int64_t)at;
    }
    return any_text_size(text, at, left);
}
