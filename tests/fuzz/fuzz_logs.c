/* Fuzzing the scanner of logs: whatever a segment says, nothing is read beyond it, and what is found can be used.
 *
 *   make fuzz FUZZ=logs
 *
 * An input is what stands behind a segment's header. As no fuzzer finds checksums, those of all that begins like a
 * block are made right first; the first byte says which of them are left wrong.
 */
#include "logs/composing.h"
#include "logs/crc32c.h"
#include "logs/scanning.h"

#include <stdlib.h>
#include <string.h>

#define SALT 7
#define MOST 64

static uint32_t number_at(const uint8_t *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return little32(number);
}

/* --- right checksums --- */

static void put32(uint8_t *to, uint32_t number)
{
    number = little32(number);
    memcpy(to, &number, sizeof number);
}

/* Those of a block's slices, body and header, where all of it is there. */
static void heal(uint8_t *bytes, uint64_t offset, uint64_t size, uint8_t wrong)
{
    struct block_header header;
    struct parts parts;
    uint64_t at, to;
    uint8_t *slice;

    memcpy(&header, bytes + offset, sizeof header);
    header = header_swapped(header);
    parts = parts_by(&header);
    if (parts.end <= size - offset) {
        slice = bytes + offset + parts.slices;
        for (at = parts.payload; at < parts.end; at = to, slice += 4) {
            to = parts.end - at < SLICE_BYTES ? parts.end : at + SLICE_BYTES;
            if (!(wrong & 1))
                put32(slice, echo_crc32c(0, bytes + offset + at, to - at));
        }
        if (!(wrong & 2))
            put32(bytes + offset + offsetof(struct block_header, body_crc),
                  echo_crc32c(0, bytes + offset + parts.marks, parts.payload - parts.marks));
    }
    put32(bytes + offset + offsetof(struct block_header, header_crc), echo_header_crc(bytes + offset, SALT, offset));
}

/* --- what a reader does with what is found --- */

static uint64_t use(const uint8_t *bytes, const struct found *found)
{
    const uint8_t *block = bytes + found->offset;
    struct parts parts = parts_by(&found->header);
    uint64_t sum = 0, start, end = 0;
    uint32_t i;

    if (!(found->state & IS_BLOCK) || found->state & BAD_BODY)
        return 0;
    for (i = 0; i < found->header.marks; i++)
        sum += block[parts.marks + i * sizeof(struct mark)];
    for (i = 0; found->header.flags & VARIES && i < found->header.count; i++) {
        start = aligned(end, RECORD_ALIGNMENT);
        end = number_at(block + parts.ends + 4 * (uint64_t)i);
        if (start > end || (found->header.codec == 0 && end > found->header.stored))
            __builtin_trap();
        if (found->header.codec == 0 && end > start)
            sum += block[parts.payload + start] + block[parts.payload + end - 1];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    static volatile uint64_t sum; /* so that what is read is read */
    struct found found[MOST];
    uint64_t offset = 0, before = 0, at, i, count;
    uint8_t *bytes;

    if (size < 1)
        return 0;
    echo_crc32c_prepare();
    bytes = malloc(size - 1 > 0 ? size - 1 : 1); /* of its own, so that a read beyond it is seen */
    memcpy(bytes, input + 1, size - 1);
    for (at = 0; at + sizeof(struct block_header) <= size - 1; at += ALIGNMENT) {
        if (number_at(bytes + at) == BLOCK_MAGIC)
            heal(bytes, at, size - 1, input[0]);
    }
    do {
        count = echo_scan(bytes, &offset, size - 1, SALT, input[0] & 4, found, MOST);
        for (i = 0; i < count; i++) {
            if (found[i].offset != before || found[i].end <= before || found[i].end > size - 1)
                __builtin_trap();
            before = found[i].end;
            sum += use(bytes, &found[i]);
        }
    } while (count == MOST);
    free(bytes);
    return 0;
}
