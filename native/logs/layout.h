/* The blocks of a segment, as docs/log-format.md describes them, and what can be said of one by its header alone.
 *
 *   header      64 bytes, below
 *   marks       16 bytes each: the index of a record, 0, and the time from that record on
 *   slices      u32 each: the CRC of each 16 KiB of the payload, its zeros included
 *   ends        u32 each, one for each record where records vary: where it ends in the payload before compression
 *   zeros       to a multiple of 64; the body's CRC is that of all from the marks to here
 *   payload     records, or what the kind says
 *   zeros       to a multiple of 64
 *
 * All numbers are little-endian.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define BLOCK_MAGIC 0x4B4C4245u /* "EBLK" */
#define ALIGNMENT 64u
#define RECORD_ALIGNMENT 16u /* of records that vary; those of a fixed size follow one another */
#define SLICE_BYTES 16384u
#define BLOCK_BYTES (1u << 20)      /* a block is closed when its records reach this */
#define MAX_BLOCK_BYTES (16u << 20) /* of several records */
#define MAX_EVENT_BYTES (64u << 20) /* of a single record */
#define MAX_CAUSE_BYTES 1024u       /* of what a gap says of its cause */
#define MAX_RANGED 8                /* fields of a record of which an index has ranges */

enum kind { FORMAT = 1, STREAM, RECORDS, GAP, MEMBER, ACK, INDEX = 8, SEAL, PAD };

enum flags {
    VARIES = 1,    /* there are ends */
    SKIPPABLE = 2, /* who does not know the kind goes on behind it */
    COLUMNS = 4,   /* before compression the records were turned into columns */
};

struct block_header {
    uint32_t magic;
    uint8_t kind;
    uint8_t codec; /* 0: the payload is as it is */
    uint16_t flags;
    uint32_t stored; /* bytes of the payload, as they are here */
    uint32_t raw;    /* and before compression */
    uint32_t stream;
    uint32_t format;
    uint64_t first; /* number of the first record */
    uint32_t count; /* records */
    uint32_t marks;
    int64_t least_time; /* of the marks */
    int64_t greatest_time;
    uint32_t body_crc;
    uint32_t header_crc; /* of the salt, the offset and all before */
};

_Static_assert(sizeof(struct block_header) == 64, "as it is in files");

struct mark {
    uint32_t index;
    uint32_t zero;
    int64_t time;
};

/* From this machine's byte order to that of files, or back. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define little16 __builtin_bswap16
#define little32 __builtin_bswap32
#define little64 __builtin_bswap64
#else
#define little16(number) (number)
#define little32(number) (number)
#define little64(number) (number)
#endif

static inline uint64_t aligned(uint64_t size, uint32_t alignment)
{
    return (size + alignment - 1) & ~(uint64_t)(alignment - 1);
}

static inline uint32_t slice_count(uint32_t stored)
{
    return (uint32_t)((aligned(stored, ALIGNMENT) + SLICE_BYTES - 1) / SLICE_BYTES);
}

/* Where in a block its parts begin. Cannot overflow: each is a u32, or four times one. */
struct parts {
    uint64_t marks, slices, ends, payload, end;
};

static inline struct parts parts_of(uint32_t marks, uint32_t stored, uint32_t ends)
{
    struct parts parts = {.marks = sizeof(struct block_header)};

    parts.slices = parts.marks + (uint64_t)marks * sizeof(struct mark);
    parts.ends = parts.slices + (uint64_t)slice_count(stored) * 4;
    parts.payload = aligned(parts.ends + (uint64_t)ends * 4, ALIGNMENT);
    parts.end = parts.payload + aligned(stored, ALIGNMENT);
    return parts;
}

/* Of a header as it is in memory of this machine. */
static inline struct parts parts_by(const struct block_header *header)
{
    return parts_of(header->marks, header->stored, header->flags & VARIES ? header->count : 0);
}

/* The same of a header. */
static inline struct block_header header_swapped(struct block_header from)
{
    from.magic = little32(from.magic);
    from.flags = little16(from.flags);
    from.stored = little32(from.stored);
    from.raw = little32(from.raw);
    from.stream = little32(from.stream);
    from.format = little32(from.format);
    from.first = little64(from.first);
    from.count = little32(from.count);
    from.marks = little32(from.marks);
    from.least_time = (int64_t)little64((uint64_t)from.least_time);
    from.greatest_time = (int64_t)little64((uint64_t)from.greatest_time);
    from.body_crc = little32(from.body_crc);
    from.header_crc = little32(from.header_crc);
    return from;
}
