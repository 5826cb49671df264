/* Composing: what stands in a file before a chunk's payload, with its CRCs. Needs no GIL. */
#pragma once

#include "logs/chunks.h"

/* Zeros behind a payload. */
extern const uint8_t echo_log_zeros[ALIGNMENT];

/* Bytes before the payload, and of the block in all. */
struct parts echo_parts_of_chunk(const struct chunk *chunk);

/* Writes what stands before the payload: parts.payload bytes. The chunk's header gets its sizes and CRCs. */
void echo_compose(struct chunk *chunk, uint64_t salt, uint64_t offset, uint8_t *head);

/* Of a header of a file's byte order. */
uint32_t echo_header_crc(const void *header, uint64_t salt, uint64_t offset);
