/* Scanning: which blocks are in bytes that may be anything. Needs neither the GIL nor memory. */
#pragma once

#include "logs/layout.h"

enum found_state {
    IS_BLOCK = 1,    /* its header is right; otherwise these are bytes between blocks that are none */
    IS_VERIFIED = 2, /* all of its body was looked at; what stands before the payload is in any case */
    BAD_BODY = 4,    /* the CRC of its body, or what stands in there: nothing can be said of its records */
    BAD_SLICES = 8,  /* of some slices: the records in others are what was written */
};

struct found {
    uint64_t offset, end;
    uint32_t state;
    uint32_t bad_slices;
    struct block_header header; /* in this machine's byte order; zeros where it is no block */
};

/* The block that begins at `offset`; 0: there is none. Reads within `end`. */
int echo_block_at(const uint8_t *bytes, uint64_t offset, uint64_t end, uint64_t salt, struct block_header *header);

/* The same of a header that a copy was kept of, whatever is in its place. */
int echo_block_by(const uint8_t *copy, uint64_t offset, uint64_t end, uint64_t salt, struct block_header *header);

/* Looks at a block's body; at its payload, too, where it is to look at all. `header` is that of the block, which is
 * wholly within what can be read. */
uint32_t echo_verify(const uint8_t *block, const struct block_header *header, int all, uint32_t *bad_slices);

/* Up to `most` of what there is from *offset on, which is moved. Bytes at the end that are no block, with none behind
 * them, are left. */
uint64_t echo_scan(const uint8_t *bytes, uint64_t *offset, uint64_t end, uint64_t salt, int verify, struct found *found,
                   uint64_t most);
