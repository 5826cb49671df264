/* Buffers of a full block are kept for the next one, since fresh memory costs a page fault for every 4 KiB. */
#include "logs/chunks.h"
#include "logs/ranges.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_ROOM 256u
#define MAX_KEPT 16 /* buffers; guarded by the GIL, as all of this file */

static uint8_t *kept[MAX_KEPT];
static int kept_count;

struct chunk *echo_new_chunk(enum kind kind)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);

    if (chunk != NULL) {
        chunk->header.magic = BLOCK_MAGIC;
        chunk->header.kind = (uint8_t)kind;
    }
    return chunk;
}

static uint8_t *grown(uint8_t *at, uint64_t size, uint64_t room)
{
    uint8_t *to;

    if (room != BLOCK_BYTES || kept_count == 0)
        return realloc(at, room);
    to = kept[--kept_count];
    if (size > 0)
        memcpy(to, at, size);
    free(at);
    return to;
}

static void release(struct bytes *bytes)
{
    if (bytes->room == BLOCK_BYTES && kept_count < MAX_KEPT)
        kept[kept_count++] = bytes->at;
    else
        free(bytes->at);
}

void echo_free_chunk(struct chunk *chunk)
{
    release(&chunk->marks);
    release(&chunk->ends);
    release(&chunk->payload);
    echo_drop_ranged_fields(chunk->ranged);
    free(chunk);
}

uint64_t echo_chunk_room(const struct chunk *chunk)
{
    return sizeof *chunk + chunk->marks.room + chunk->ends.room + chunk->payload.room;
}

static uint64_t room_for(const struct bytes *bytes, uint64_t more)
{
    uint64_t needed = bytes->size + more, room = bytes->room > 0 ? bytes->room : LEAST_ROOM;

    while (room < needed)
        room *= 2;
    return needed > BLOCK_BYTES ? needed : room; /* a large event takes what it is */
}

uint64_t echo_room_wanted(const struct bytes *bytes, uint64_t more)
{
    return bytes->room - bytes->size >= more ? 0 : room_for(bytes, more) - bytes->room;
}

bool echo_make_room(struct bytes *bytes, uint64_t more)
{
    uint64_t room;
    uint8_t *at;

    if (bytes->room - bytes->size >= more)
        return true;
    room = room_for(bytes, more);
    at = grown(bytes->at, bytes->size, room);
    if (at == NULL)
        return false;
    bytes->at = at;
    bytes->room = room;
    return true;
}

void echo_put(struct bytes *bytes, const void *from, uint64_t size)
{
    if (size > 0)
        memcpy(bytes->at + bytes->size, from, size);
    bytes->size += size;
}
