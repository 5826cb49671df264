/* The checks of a received record, and of one that others may have written to: whether each of its fields
 * can be read. A header, since the compiler puts them into the loops of the decoder and the encoder.
 *
 * None of these runs Python code, and none leaves an exception set.
 */
#pragma once

#include "code/text.h"
#include "events/records/records.h"

/* What follows a NUL is looked at too, which at worst asks echo_is_utf8. Eight bytes at a time, and no
 * more: a wider load would span two of the stores that have just put them there, and wait for both. */
static inline int is_ascii(const uint8_t *bytes, uint32_t size)
{
    uint64_t word;

    for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            return 0;
    }
    for (; size > 0; bytes++, size--) {
        if (*bytes >= 0x80)
            return 0;
    }
    return 1;
}

/* A true of the sender's may be any number but 0; ours is 1. Returns whether something was changed. */
static inline int normalise(uint8_t *bytes, uint32_t count)
{
    int changed = 0;

    for (; count > 0; bytes++, count--) {
        if (__builtin_expect(*bytes > 1, 0)) {
            *bytes = 1;
            changed = 1;
        }
    }
    return changed;
}

/* Whether every field of the record can be read. *changed: whether bytes were brought into our form. */
static inline int is_readable(const struct shape *shape, uint8_t *record, int *changed)
{
    Py_ssize_t i;

    for (i = 0; i < shape->check_count; i++) {
        const struct check *check = &shape->checks[i];
        uint8_t *bytes = record + check->at;

        if (check->what == '?' || check->what == '|') {
            *changed |= normalise(bytes, check->size);
            if (check->what == '|' && *bytes == 0)
                i += check->count;
        } else if (check->what == 's') {
            if (!is_ascii(bytes, check->size) && !echo_is_utf8(bytes, check->size))
                return 0;
        } else if (find_number(check->known, check->known_count, load_number(bytes, check->size)) < 0) {
            return 0;
        }
    }
    return 1;
}
