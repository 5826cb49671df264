/* Outgoing streams: the way of one source's events to one place, as far as its outbox has to know of it: what waits of
 * them, with which limits, what becomes of the rest, and who counts that. */
#pragma once

#include "core/outbox/backlog.h"
#include "core/outbox/policy.h"

#include <stdatomic.h>

struct outbox;

/* --- tallies: what one source has dropped on its ways, also on those that are gone --- */

/* Counts dropped events of a source. It is reference-counted, as it must outlive both the outlet and its streams: when
 * a link is lost, a thread that was about to put an event, or waited for room, may hold the last reference to the
 * stream, and still has to count the drop. malloc'd; atomics, no lock. */
struct tally {
    _Atomic uint64_t dropped;
    _Atomic unsigned users; /* the outlet that made it, and every outgoing that may yet drop something */
};

/* With one user; NULL: no memory. */
struct tally *echo_tally_new(void);

/* One user less; the last one frees it. NULL is none. */
void echo_tally_release(struct tally *tally);

/* --- streams --- */

/* One stream's events on their way to one place: what waits of it, and what becomes of the rest. The mutex guards it;
 * what never changes can be read without. The stream's Python object is its twin, and may go before it. */
struct outgoing {
    struct outbox *outbox;          /* borrowed: outlives its streams. Never changes */
    uint32_t stream;                /* never changes */
    enum policy policy;             /* never changes */
    uint64_t max_events;            /* of the backlog; never changes */
    size_t max_bytes;               /* of the backlog; never changes */
    int64_t timeout_ns;             /* of POLICY_BLOCK; negative: for ever. Never changes */
    uint32_t max_payload;           /* of a frame that the peer takes. Never changes */
    int64_t delay;                  /* ticks; 0: the outbox's. Never changes */
    struct outgoing *next, *before; /* in the circle of streams that have a backlog; NULL: not in it */
    struct backlog ahead;           /* goes first: control frames and gaps that dropping left at the head */
    struct backlog backlog;         /* what the limits count */
    uint64_t head_gap;              /* events dropped between `ahead` and `backlog` */
    uint64_t tail_gap;        /* events dropped behind the backlog; said when that has gone, or before the next frame */
    uint64_t events, dropped; /* accepted (some of them dropped later), dropped in all */
    struct tally *tally;      /* a user of it; counts what is dropped too. NULL: there is none. Never changes */
    int is_closed;            /* 1: takes no more events. Set in the host too, so either lock suffices to read it */
    int is_orphan;            /* 1: its twin is gone, and it goes when its backlog has been sent */
};

/* --- all that follows but echo_outgoing_new: locked, by the mutex of the outbox --- */

/* A stream of this outbox, with what never changes as in `settings`; NULL: no memory. Becomes a user of the tally. */
struct outgoing *echo_outgoing_new(struct outbox *outbox, const struct outgoing *settings);

/* 1: the backlog takes so much. An empty one takes anything, else a large record could never be sent. */
int echo_outgoing_fits(const struct outgoing *outgoing, uint64_t events, size_t bytes);

/* To the end of the backlog. 0; -1: it is not there, as memory has failed, and with it the link. */
int echo_outgoing_queue(struct outgoing *outgoing, uint64_t events, const struct frame *frame);

/* A control frame behind the stream's events. 0; -1: the link has ended (perhaps by this). In the host. */
int echo_outgoing_control(struct outgoing *outgoing, const struct frame *frame);

/* Events that are not sent, counted where they would have stood. The first: in the host, unlocks meanwhile;
 * `frame`: NULL where there never was one. */
void echo_outgoing_drop_newest(struct outgoing *outgoing, uint64_t events, const struct frame *frame);
void echo_outgoing_drop_oldest(struct outgoing *outgoing);

/* It takes no more events, and who waits to put one gives up. What was dropped so far is said before any frame
 * that is put after this, and nothing of the stream follows. In the host. */
void echo_outgoing_close(struct outgoing *outgoing);

/* Frees it, which no backlog holds. */
void echo_outgoing_free(struct outgoing *outgoing);

/* Frees it now, or when its backlog has been sent. */
void echo_outgoing_release(struct outgoing *outgoing);
