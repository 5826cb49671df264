/* Chunks: what becomes one block, in memory that grows as records come. */
#pragma once

#include "logs/layout.h"

#include <stdbool.h>

/* Owned memory. */
struct bytes {
    uint8_t *at;
    uint64_t size, room;
};

/* Of a field's values: bits of i64, u64 or double. */
struct range {
    uint64_t least, greatest;
};

struct ranged_fields;

/* Belongs to one list at a time. */
struct chunk {
    struct chunk *next;
    struct block_header header; /* of this machine's byte order; sizes and CRCs are filled in when it is composed */
    struct bytes marks;         /* of struct mark */
    struct bytes ends;          /* of u32 */
    struct bytes payload;
    int64_t last_time;               /* of the last mark */
    uint64_t serial;                 /* which of its staging's chunks it is, by the order in which they were closed */
    int is_tried;                    /* to compress it */
    uint64_t oldest_tick;            /* ns of the monotonic clock: when its first record came */
    struct ranged_fields *ranged;    /* owned share; NULL: no field has a range */
    struct range ranges[MAX_RANGED]; /* of these, where is_measured */
    int is_measured;
};

/* A zeroed one; NULL: no memory. */
struct chunk *echo_new_chunk(enum kind kind);

void echo_free_chunk(struct chunk *chunk);

/* What it holds of memory. */
uint64_t echo_chunk_room(const struct chunk *chunk);

/* Gives room for `more` bytes, at least doubled; false: no memory. */
bool echo_make_room(struct bytes *bytes, uint64_t more);

/* How much echo_make_room would take in addition. */
uint64_t echo_room_wanted(const struct bytes *bytes, uint64_t more);

/* There is room. */
void echo_put(struct bytes *bytes, const void *from, uint64_t size);
