/* Outgoing streams: the way of one source's events to one place, as far as its outbox has to know of it: what waits of
 * them, with which limits, what becomes of the rest, and who counts that. */
#pragma once

#include "core/outbox/backlog.h"
#include "core/outbox/credit.h"
#include "core/outbox/policy.h"

#include <stdatomic.h>

struct outbox;

/* --- tallies: what became of one source's events on its ways, also on those that are gone --- */

/* Counts events of a source. It is reference-counted, as it must outlive both the outlet and its streams: when
 * a link is lost, a thread that was about to put an event, or waited for room, may hold the last reference to the
 * stream, and still has to count the drop. malloc'd; atomics, no lock. */
struct tally {
    _Atomic uint64_t dropped;
    _Atomic uint64_t confirmed;   /* the receivers have finished with them */
    _Atomic uint64_t unconfirmed; /* sent, and not confirmed when their streams ended */
    _Atomic unsigned users;       /* the outlet that made it, and every outgoing that may yet count something */
};

/* With one user; NULL: no memory. */
struct tally *echo_tally_new(void);

/* One user less; the last one frees it. NULL is none. */
void echo_tally_release(struct tally *tally);

/* --- streams --- */

/* One stream's events on their way to one place: what waits of it, and what becomes of the rest. The lock guards it;
 * what never changes can be read without. The stream's Python object is its twin, and may go before it. */
struct outgoing {
    struct outbox *outbox;          /* borrowed: outlives its streams. Never changes */
    uint32_t stream;                /* never changes */
    enum policy policy;             /* never changes */
    uint64_t max_events;            /* of the backlog; never changes */
    size_t max_bytes;               /* of the backlog; never changes */
    int64_t timeout_ns;             /* of a policy that waits; negative: for ever. Never changes */
    uint32_t max_payload;           /* of a frame that the peer takes. Never changes */
    int64_t delay;                  /* ticks; 0: the outbox's. Never changes */
    int64_t credit_events;          /* that may still be sent; below 0 by the last frame, which may be any size */
    int64_t credit_bytes;           /* likewise; another frame may go while both are above 0 */
    struct amount limit;            /* that was granted in all. Less what is left of it: what was sent */
    struct amount done;             /* that the receiver has finished with, as it last said: confirmed */
    struct outgoing **circle;       /* of the outbox: `turn`, or where it waits for credit `parked`; NULL: no backlog */
    struct outgoing *next, *before; /* in that circle */
    struct backlog ahead;           /* goes first: control frames and gaps that dropping left at the head */
    struct backlog backlog;         /* what the limits count */
    uint64_t head_gap;              /* events dropped between `ahead` and `backlog` */
    uint64_t head_not_kept;         /* events there that are not kept by key */
    uint64_t head_gap_ticket;       /* of the first of them, whichever */
    uint64_t tail_gap;        /* events dropped behind the backlog; said when that has gone, or before the next frame */
    uint64_t events, dropped; /* accepted (some of them dropped later), dropped in all */
    uint64_t unconfirmed;     /* events that were sent, and not confirmed when it ended */
    uint64_t vain_at;         /* its progress when a put had last waited in vain; UINT64_MAX: none has */
    uint64_t credit_vain_at;  /* likewise for credit, of one with large records */
    struct sink_pace pace;    /* of its sinks, as their credit shows it */
    struct tally *tally;      /* a user of it; counts what this counts too. NULL: there is none. Never changes */
    int is_closed;            /* 1: takes no more events. Set in the host too, so either lock suffices to read it */
    int is_ending;            /* 1: what would have to wait for credit is dropped */
    int is_settled;           /* 1: nothing more is confirmed */
    int is_orphan;            /* 1: its twin is gone, and it goes when its backlog has been sent */
};

/* What has gone, or is about to. Locked. */
static inline struct amount outgoing_sent(const struct outgoing *outgoing)
{
    return (struct amount){outgoing->limit.events - (uint64_t)outgoing->credit_events,
                           outgoing->limit.bytes - (uint64_t)outgoing->credit_bytes};
}

/* Changes with each event that goes, and each that is confirmed. Locked. */
static inline uint64_t outgoing_progress(const struct outgoing *outgoing)
{
    return outgoing_sent(outgoing).events + outgoing->done.events;
}

/* Whether another frame with events may go. Locked, as the next. */
static inline int has_credit(const struct outgoing *outgoing)
{
    return outgoing->credit_events > 0 && outgoing->credit_bytes > 0;
}

/* For a frame that goes; negative for one that does not after all. */
static inline void outgoing_pay(struct outgoing *outgoing, int64_t events, int64_t bytes)
{
    outgoing->credit_events -= events;
    outgoing->credit_bytes -= bytes;
}

/* --- all that follows: locked, by the lock of the outbox --- */

/* A stream of this outbox, with what never changes as in `settings`, and without credit; NULL: no memory. Becomes a
 * user of the tally. */
struct outgoing *echo_outgoing_new(struct outbox *outbox, const struct outgoing *settings);

/* 1: the backlog takes so much. An empty one takes anything, else a large record could never be sent. */
int echo_outgoing_fits(const struct outgoing *outgoing, uint64_t events, size_t bytes);

/* Bytes and events that wait in the streams of a circle. */
struct amount echo_circle_queued(const struct outgoing *first);

/* The stream is about to begin anew, with STARTED: what waits before that is no sink's. Events are dropped and counted,
 * and no gap is said of them; control frames stay, in their order. */
void echo_outgoing_begin_anew(struct outgoing *outgoing);

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

/* Whatever of it has to wait for credit, now or later, is dropped: it ends, or its receiver takes nothing any more.
 * Where the link has ended nothing more is confirmed. In the host. */
void echo_outgoing_give_up(struct outgoing *outgoing);

/* Frees it, which is in no circle. */
void echo_outgoing_free(struct outgoing *outgoing);

/* Frees it now, or when its backlog has been sent. */
void echo_outgoing_release(struct outgoing *outgoing);

/* Goes to the circle where it belongs, or to none. */
void echo_outgoing_arrange(struct outgoing *outgoing);

/* --- crediting.c --- */

/* Stands for a stream that had the number. */
extern struct outgoing echo_outgoing_gone;

/* By its number. 0, or -1: no memory. */
int echo_outbox_enter(struct outgoing *outgoing);

/* It is gone; what was not confirmed never will be. */
void echo_outbox_forget(struct outgoing *outgoing);

/* The receiver takes so much in all; nothing where it had granted as much before. */
void echo_outgoing_grant(struct outgoing *outgoing, struct amount limit);

/* A CREDIT of the peer's, for which what has waited goes. `in_host`: as for echo_outbox_pump. NULL; or what was expected of
 * it, and nothing has changed. */
const char *echo_outbox_credit(struct outbox *outbox, const struct credit *credit, int in_host);

/* Nothing more is confirmed. */
void echo_outgoing_settle(struct outgoing *outgoing);
