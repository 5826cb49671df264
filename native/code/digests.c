/* Digests of bytes: SipHash-2-4, by a key that the kernel has chosen for the process. All modules have the same one, so
 * interpreted and compiled steps agree, and nobody elsewhere can make two texts that have one digest.
 */
#include "code/numbers.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t rotated(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

static inline void mix(struct sip *it)
{
    it->a += it->b;
    it->b = rotated(it->b, 13) ^ it->a;
    it->a = rotated(it->a, 32);
    it->c += it->d;
    it->d = rotated(it->d, 16) ^ it->c;
    it->a += it->d;
    it->d = rotated(it->d, 21) ^ it->a;
    it->c += it->b;
    it->b = rotated(it->b, 17) ^ it->c;
    it->c = rotated(it->c, 32);
}

static inline void add(struct sip *it, uint64_t word)
{
    it->d ^= word;
    mix(it);
    mix(it);
    it->a ^= word;
}

static uint64_t digest_by(const uint64_t key[2], const uint8_t *bytes, uint64_t size)
{
    struct sip it = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t at, word, last = size << 56;

    for (at = 0; size - at >= 8; at += 8) {
        memcpy(&word, bytes + at, 8);
        add(&it, word);
    }
    for (int i = 0; at < size; at++, i++)
        last |= (uint64_t)bytes[at] << (8 * i);
    add(&it, last);
    it.c ^= 0xff;
    for (int i = 0; i < 4; i++)
        mix(&it);
    return it.a ^ it.b ^ it.c ^ it.d;
}

/* 16 bytes, aligned to one. Looked up once, as a text is digested in less time; whoever else does so finds the same. */
static const void *chosen_key(void)
{
    static const uint64_t none[2];
    static const void *_Atomic known;
    const void *key = atomic_load_explicit(&known, memory_order_relaxed);

    if (key != NULL)
        return key;
    key = (const void *)getauxval(AT_RANDOM);
    key = key != NULL ? key : (const void *)none;
    atomic_store_explicit(&known, key, memory_order_relaxed);
    return key;
}

uint64_t echo_digest(const uint8_t *bytes, uint64_t size)
{
    uint64_t key[2];

    memcpy(key, chosen_key(), sizeof key);
    return digest_by(key, bytes, size);
}
