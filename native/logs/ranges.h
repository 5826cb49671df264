/* Ranges: the least and the greatest value that fields have in a block's records, for the index of a segment. */
#pragma once

#include "logs/chunks.h"
#include "stable_abi.h"

/* Which fields of a stream's records: shared by its chunks. The GIL guards the count; the rest never changes. */
struct ranged_fields {
    unsigned refs;
    uint32_t count;
    struct ranged_field {
        uint32_t offset; /* in a record */
        char kind;       /* 'i', 'u', 'f' */
        uint8_t size;    /* bytes: 1, 2, 4, 8; of floats 4, 8 */
        uint8_t is_swapped;
        uint8_t is_bool; /* anything but 0 is 1 */
    } each[MAX_RANGED];
};

/* From an array of struct ranged_field, as logs/ranges.py packs it; NULL with an exception. */
struct ranged_fields *echo_new_ranged_fields(const void *packed, Py_ssize_t size);

struct ranged_fields *echo_share_ranged_fields(struct ranged_fields *fields); /* NULL stays NULL */
void echo_drop_ranged_fields(struct ranged_fields *fields);

/* Fills in the ranges of a chunk of records that are not compressed yet, once. Needs no GIL. */
void echo_measure(struct chunk *chunk);
