/* What a header says is believed when its CRC is right, but nothing is read beyond the end for it, and numbers are
 * checked before anybody computes with them: who writes hostile files can compute CRCs. */
#include "logs/scanning.h"
#include "logs/composing.h"
#include "logs/crc32c.h"

#include <string.h>

static int is_sound(const struct block_header *header)
{
    int has_records = header->kind == RECORDS;
    uint32_t most = has_records && header->count == 1 ? MAX_EVENT_BYTES : MAX_BLOCK_BYTES;

    if (header->raw > most || header->stored > MAX_EVENT_BYTES || header->kind == 0)
        return 0;
    if (header->codec == 0 && header->stored != header->raw)
        return 0;
    if (header->marks > header->count)
        return 0;
    return !has_records ||
           (header->count > 0 && header->marks > 0 && header->first + (header->count - 1) >= header->first);
}

int echo_block_at(const uint8_t *bytes, uint64_t offset, uint64_t end, uint64_t salt, struct block_header *header)
{
    return end - offset >= sizeof *header && echo_block_by(bytes + offset, offset, end, salt, header);
}

int echo_block_by(const uint8_t *copy, uint64_t offset, uint64_t end, uint64_t salt, struct block_header *header)
{
    struct block_header in_file;

    memcpy(&in_file, copy, sizeof in_file);
    *header = header_swapped(in_file);
    return header->magic == BLOCK_MAGIC && header->header_crc == echo_header_crc(&in_file, salt, offset) &&
           is_sound(header) && parts_by(header).end <= end - offset;
}

/* --- bodies --- */

static uint32_t number_at(const uint8_t *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return little32(number);
}

/* Their indices ascend from 0. */
static int are_marks_sound(const uint8_t *marks, const struct block_header *header)
{
    struct mark mark;
    uint32_t i, before = 0;

    for (i = 0; i < header->marks; i++, before = little32(mark.index)) {
        memcpy(&mark, marks + i * sizeof mark, sizeof mark);
        if (i == 0 ? little32(mark.index) != 0
                   : little32(mark.index) <= before || little32(mark.index) >= header->count)
            return 0;
    }
    return 1;
}

/* Each record begins at the next multiple of 16 behind the one before, and the last ends the payload. */
static int are_ends_sound(const uint8_t *ends, const struct block_header *header)
{
    uint64_t before = 0, end;
    uint32_t i;

    if (!(header->flags & VARIES))
        return 1;
    for (i = 0; i < header->count; i++, before = end) {
        end = number_at(ends + 4 * (uint64_t)i);
        if (end < aligned(before, RECORD_ALIGNMENT))
            return 0;
    }
    return before == header->raw;
}

static uint32_t count_bad_slices(const uint8_t *block, const struct parts *parts)
{
    const uint8_t *crc = block + parts->slices;
    uint64_t at, size;
    uint32_t bad = 0;

    for (at = parts->payload; at < parts->end; at += size, crc += 4) {
        size = parts->end - at < SLICE_BYTES ? parts->end - at : SLICE_BYTES;
        bad += echo_crc32c(0, block + at, size) != number_at(crc);
    }
    return bad;
}

/* What has to be right before anything of a body is used. */
static int is_head_sound(const uint8_t *block, const struct block_header *header, const struct parts *parts)
{
    return echo_crc32c(0, block + parts->marks, parts->payload - parts->marks) == header->body_crc &&
           are_marks_sound(block + parts->marks, header) && are_ends_sound(block + parts->ends, header);
}

uint32_t echo_verify(const uint8_t *block, const struct block_header *header, int all, uint32_t *bad_slices)
{
    struct parts parts = parts_by(header);

    *bad_slices = 0;
    if (!is_head_sound(block, header, &parts))
        return IS_VERIFIED | BAD_BODY;
    if (!all)
        return 0;
    *bad_slices = count_bad_slices(block, &parts);
    return IS_VERIFIED | (*bad_slices > 0 ? BAD_SLICES : 0);
}

/* --- a segment --- */

/* Where the next block begins whose body is right too; `end`: there is none. No block begins within another, so it goes
 * on behind one that is not right: otherwise headers of blocks that overlap would have the same bytes looked at over
 * and over. */
static uint64_t next_block(const uint8_t *bytes, uint64_t offset, uint64_t end, uint64_t salt)
{
    struct block_header header;
    uint64_t size;
    uint32_t bad;

    for (; offset < end; offset += size) {
        size = ALIGNMENT;
        if (end - offset < sizeof header || number_at(bytes + offset) != BLOCK_MAGIC ||
            !echo_block_at(bytes, offset, end, salt, &header))
            continue;
        if (echo_verify(bytes + offset, &header, 1, &bad) == IS_VERIFIED)
            return offset;
        size = parts_by(&header).end;
    }
    return end;
}

uint64_t echo_scan(const uint8_t *bytes, uint64_t *offset, uint64_t end, uint64_t salt, int verify, struct found *found,
                   uint64_t most)
{
    uint64_t count, behind;

    for (count = 0; count < most && *offset < end; count++, found++) {
        memset(found, 0, sizeof *found);
        found->offset = *offset;
        if (echo_block_at(bytes, *offset, end, salt, &found->header)) {
            found->end = *offset + parts_by(&found->header).end;
            found->state = IS_BLOCK | echo_verify(bytes + *offset, &found->header, verify, &found->bad_slices);
        } else {
            behind = next_block(bytes, *offset + ALIGNMENT, end, salt);
            if (behind >= end)
                break;
            memset(&found->header, 0, sizeof found->header);
            found->end = behind;
        }
        *offset = found->end;
    }
    return count;
}
