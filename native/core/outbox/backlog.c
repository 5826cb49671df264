/* Frames that wait for room on the wire: a list of pieces, so that dropping the oldest costs as little as
 * adding one, and a large frame goes to the wire from where it waited. */
#define _GNU_SOURCE
#include "core/outbox/backlog.h"

#include <stdlib.h>

/* The first piece of a backlog, and what the following ones grow to. */
#define FIRST_PIECE_BYTES 4096
#define PIECE_BYTES 65536

static struct piece *piece_new(size_t capacity)
{
    struct piece *piece = malloc(sizeof *piece + capacity);

    if (piece != NULL)
        *piece = (struct piece){.capacity = capacity};
    return piece;
}

static int add_piece(struct backlog *backlog, size_t size)
{
    size_t capacity = backlog->last == NULL ? FIRST_PIECE_BYTES : PIECE_BYTES;
    struct piece *piece = piece_new(size > capacity ? size : capacity);

    if (piece == NULL)
        return -1;
    if (backlog->last != NULL)
        backlog->last->next = piece;
    else
        backlog->first = piece;
    backlog->last = piece;
    return 0;
}

int echo_backlog_add(struct backlog *backlog, uint64_t ticket, uint64_t events, const struct frame *frame)
{
    size_t size = frame_bytes(frame->size), total = sizeof(struct entry) + size;
    struct piece *last = backlog->last;
    struct entry *entry;

    if ((last == NULL || last->capacity - last->end < total) && add_piece(backlog, total) != 0)
        return -1;
    last = backlog->last;
    entry = (struct entry *)(void *)(last->bytes + last->end);
    *entry = (struct entry){.ticket = ticket, .events = events, .size = size};
    frame_store(entry->frame, frame);
    last->end += total;
    backlog->events += events;
    backlog->bytes += size;
    return 0;
}

static struct piece *unlink_first(struct backlog *backlog)
{
    struct piece *first = backlog->first;

    backlog->first = first->next;
    if (first->next == NULL)
        backlog->last = NULL;
    return first;
}

static void forget(struct backlog *backlog, const struct entry *entry)
{
    backlog->events -= entry->events;
    backlog->bytes -= entry->size;
}

void echo_backlog_drop(struct backlog *backlog)
{
    struct entry *entry = backlog_head(backlog);

    forget(backlog, entry);
    backlog->first->begin += sizeof *entry + entry->size;
    if (backlog->first->begin == backlog->first->end)
        free(unlink_first(backlog));
}

struct piece *echo_backlog_take(struct backlog *backlog)
{
    struct piece *piece;

    forget(backlog, backlog_head(backlog));
    piece = unlink_first(backlog);
    piece->begin += sizeof(struct entry);
    return piece;
}

struct piece *echo_piece_of(const struct iovec *parts, int count)
{
    struct piece *piece = piece_new(bytes_of_parts(parts, count));

    for (int i = 0; piece != NULL && i < count; i++) {
        memcpy(piece->bytes + piece->end, parts[i].iov_base, parts[i].iov_len);
        piece->end += parts[i].iov_len;
    }
    return piece;
}
