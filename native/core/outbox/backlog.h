/* Frames that wait for room on the wire, in order. No lock of its own: the outbox's guards it. */
#pragma once

#include "core/frames.h"
#include "core/wires/wire.h"

/* One frame, complete with header and padding. */
struct entry {
    uint64_t ticket; /* counts all frames that had to wait, over the whole outbox */
    uint64_t events; /* in it; 0: a control frame, which is never dropped */
    size_t size;     /* of the frame */
    uint8_t frame[];
};

/* Entries side by side. What is larger than the usual piece has one to itself. */
struct piece {
    struct piece *next; /* owned */
    size_t begin, end;  /* of what is in it */
    size_t capacity;
    uint8_t bytes[];
};

/* All zeros: empty, and without memory of its own. */
struct backlog {
    struct piece *first, *last; /* first: owned */
    uint64_t events;            /* in all entries */
    size_t bytes;               /* frames only: what a limit in bytes counts */
};

/* 0, or -1: no memory. */
int echo_backlog_add(struct backlog *backlog, uint64_t ticket, uint64_t events, const struct frame *frame);

/* The oldest entry; NULL: there is none. */
static inline struct entry *backlog_head(const struct backlog *backlog)
{
    return backlog->first == NULL ? NULL : (struct entry *)(void *)(backlog->first->bytes + backlog->first->begin);
}

/* Removes the oldest. */
void echo_backlog_drop(struct backlog *backlog);

/* Removes the oldest, which has a piece to itself: that piece, with begin and end around the frame. */
struct piece *echo_backlog_take(struct backlog *backlog);

/* A piece with these bytes in it; NULL: no memory. */
struct piece *echo_piece_of(const struct iovec *parts, int count);
