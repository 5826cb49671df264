#include "logs/composing.h"
#include "logs/crc32c.h"

#include <string.h>

const uint8_t echo_log_zeros[ALIGNMENT];

struct parts echo_parts_of_chunk(const struct chunk *chunk)
{
    return parts_of(chunk->header.marks, (uint32_t)chunk->payload.size, (uint32_t)(chunk->ends.size / 4));
}

uint32_t echo_header_crc(const void *header, uint64_t salt, uint64_t offset)
{
    uint64_t seed[2] = {little64(salt), little64(offset)};

    return echo_crc32c(echo_crc32c(0, seed, sizeof seed), header, offsetof(struct block_header, header_crc));
}

/* The last slice has the zeros behind the payload. */
static uint32_t slice_crc(const struct bytes *payload, uint64_t from)
{
    uint64_t size = payload->size - from < SLICE_BYTES ? payload->size - from : SLICE_BYTES;
    uint64_t zeros = size < SLICE_BYTES ? aligned(payload->size, ALIGNMENT) - payload->size : 0;

    return echo_crc32c(echo_crc32c(0, payload->at + from, size), echo_log_zeros, zeros);
}

static void put_slices(const struct bytes *payload, uint8_t *to)
{
    uint64_t from;
    uint32_t crc;

    for (from = 0; from < payload->size; from += SLICE_BYTES, to += sizeof crc) {
        crc = little32(slice_crc(payload, from));
        memcpy(to, &crc, sizeof crc);
    }
}

static void copy(uint8_t *to, const struct bytes *from)
{
    if (from->size > 0)
        memcpy(to, from->at, from->size);
}

void echo_compose(struct chunk *chunk, uint64_t salt, uint64_t offset, uint8_t *head)
{
    struct block_header *header = &chunk->header, in_file;
    struct parts parts = echo_parts_of_chunk(chunk);

    memset(head + parts.ends, 0, parts.payload - parts.ends);
    copy(head + parts.marks, &chunk->marks);
    put_slices(&chunk->payload, head + parts.slices);
    copy(head + parts.ends, &chunk->ends);
    header->stored = (uint32_t)chunk->payload.size;
    if (header->codec == 0)
        header->raw = header->stored;
    header->body_crc = echo_crc32c(0, head + parts.marks, parts.payload - parts.marks);
    in_file = header_swapped(*header);
    header->header_crc = echo_header_crc(&in_file, salt, offset);
    in_file = header_swapped(*header);
    memcpy(head, &in_file, sizeof in_file);
}
