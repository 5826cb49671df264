/* The sending half of a link: what waits to be written, and who writes it.
 *
 *   put --> staging --(swap)--> front --\
 *    |         ^                         >--> wire          in the order: front, large, staging, backlogs
 *    |         |  refill        large --/
 *    \--> backlog of the stream; control backlog
 *
 * Expected workload: records of 100 bytes, ten million a second, from one thread at a time; frames of 100 KB
 * as fast as the wire takes them. On an idle link the thread that puts writes; on a busy one frames gather in
 * `staging`, and are written when it is full, or by the outbox's own thread at the end of the delay.
 *
 * "Locked": the caller holds the mutex. One thread at a time is in the wire's write or await_room, without
 * the mutex: who has set is_writing. A thread that has the GIL may wait for the mutex, so no holder of the
 * mutex ever waits for the GIL.
 */
#ifndef ECHO_LINK_OUTBOX_H
#define ECHO_LINK_OUTBOX_H

#include "core/backlog.h"
#include "core/clock.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

#define STAGING_BYTES 65536

/* A larger write releases the GIL: below this, handing it over costs more than the write. */
#define GIL_WRITE_BYTES 16384

/* Why a link has ended. */
enum end {
    END_NOT = 0, /* it has not */
    END_SHUT,    /* this side wanted it */
    END_PEER,    /* the peer has closed it */
    END_ERROR,   /* of the system: errno */
    END_STALLED, /* the peer has read nothing for too long */
    END_FLOODED, /* more control frames wait than a peer that reads would let wait */
    END_MEMORY,  /* there was none for what waits */
    END_THREAD,  /* the system gave none: errno */
};

/* One stream's events on their way to one place: what waits of it, and what becomes of the rest. The mutex guards it;
 * what never changes can be read without. The stream's Python object is its twin, and may go before it. */
struct outgoing {
    struct outbox *outbox;      /* borrowed: outlives its streams. Never changes */
    uint32_t stream;            /* never changes */
    enum policy policy;         /* never changes */
    uint64_t max_events;        /* of the backlog; never changes */
    size_t max_bytes;           /* of the backlog; never changes */
    int64_t timeout_ns;         /* of POLICY_BLOCK; negative: for ever. Never changes */
    uint32_t max_payload;       /* of a frame that the peer takes. Never changes */
    int64_t delay;              /* ticks; 0: the outbox's. Never changes */
    struct outgoing *next, *before; /* in the circle of streams that have a backlog; NULL: not in it */
    struct backlog ahead;       /* goes first: control frames and gaps that dropping left at the head */
    struct backlog backlog;     /* what the limits count */
    uint64_t head_gap;          /* events dropped between `ahead` and `backlog` */
    uint64_t tail_gap;          /* events dropped behind the backlog; said when that has gone, or before the next frame */
    uint64_t events, dropped;   /* accepted (some of them dropped later), dropped in all */
    struct tally *tally;        /* a user of it; counts what is dropped too. NULL: there is none. Never changes */
    int is_closed;              /* 1: takes no more events. Set with the GIL too, so either lock suffices to read it */
    int is_orphan;              /* 1: its twin is gone, and it goes when its backlog has been sent */
};

struct outbox {
    pthread_mutex_t mutex; /* guards all below that has no other rule */
    /* Settings; never change. */
    struct wire *wire;          /* borrowed from the link */
    PyObject *link;             /* borrowed: the outbox is part of it */
    PyObject *pool;             /* borrowed from the link; NULL: none */
    unsigned holder;            /* of the link in it */
    size_t max_control_bytes;   /* that may wait */
    int64_t delay, idle, stall; /* ticks: until gathered frames are written; since a write, until the link
                                   counts as idle; without progress, until it has ended */
    _Atomic uint64_t *reads;    /* how often the link has read: after a read it counts as idle at once */
    /* What waits. */
    uint8_t *staging, *front;    /* owned, STAGING_BYTES each: being filled, being written */
    size_t staged;               /* bytes in staging */
    size_t front_from, front_to; /* still to be written */
    struct piece *large;         /* owned; a frame that is too large for staging, being written. NULL: none */
    struct backlog control;      /* frames of the link itself */
    size_t control_bytes;        /* of control frames in all backlogs */
    struct outgoing *turn;       /* the stream in the circle that is next; NULL: none has a backlog */
    unsigned in_circle;          /* streams in it */
    uint64_t tickets;            /* given to frames that had to wait */
    /* Who writes. */
    int is_writing;           /* 1: a thread is in write or await_room */
    int is_full;              /* 1: the wire took less than it was given */
    int64_t stuck_since;      /* ticks; is_full: since when nothing was taken */
    int64_t written_at;       /* ticks at the end of the last write */
    int64_t due_at;           /* ticks; when what is staged must be written */
    int64_t staged_delay;     /* the least delay of what is staged; 0: the outbox's */
    uint64_t reads_seen;      /* *reads at the last write */
    _Atomic uint32_t changes; /* futex of threads that wait for room or for another's write */
    unsigned waiting;         /* threads at it */
    /* The outbox's own thread (writer.c). */
    pthread_t writer;       /* has_writer: it */
    int has_writer;         /* 1: started, and not joined */
    int is_writer_asleep;   /* 1: until it is called */
    int64_t writer_until;   /* ticks; when it looks again, if it is not asleep */
    _Atomic uint32_t calls; /* its futex */
    int is_called;          /* 1: unlock wakes it */
    /* Counters. */
    uint64_t sent_bytes, sent_frames, writes; /* given to the system; past any dropping; calls that did it */
    uint64_t dropped;                         /* events, of all streams */
    enum end end;                             /* why nothing is sent any more; END_NOT: it is */
    int error;                                /* END_ERROR, END_THREAD: errno */
};

/* --- outbox.c --- */

/* Of a zeroed outbox whose settings are there: 0, or -1 for no memory. */
int echo_outbox_open(struct outbox *outbox);

/* Joins its thread, and frees what it has. When no other thread will use it. */
void echo_outbox_close(struct outbox *outbox);

static inline void outbox_lock(struct outbox *outbox)
{
    pthread_mutex_lock(&outbox->mutex);
}

/* Unlocks, and wakes the writer if it was called. */
void echo_outbox_unlock(struct outbox *outbox);

/* Nothing more is sent; what waits is dropped. The first end counts. Locked. */
void echo_outbox_end(struct outbox *outbox, enum end end, int error);

/* 1: some frame waits in a backlog, so others must wait behind it. Locked. */
static inline int has_backlog(const struct outbox *outbox)
{
    return outbox->turn != NULL || outbox->control.first != NULL;
}

static inline int has_work(const struct outbox *outbox)
{
    return outbox->front_to > outbox->front_from || outbox->large != NULL || outbox->staged > 0 ||
           has_backlog(outbox);
}

/* Bytes that were accepted and not yet given to the system. Locked. */
size_t echo_outbox_queued(const struct outbox *outbox);

/* Events in the backlogs. Locked. */
uint64_t echo_outbox_queued_events(const struct outbox *outbox);

/* Writes what the wire takes, once, after filling staging from the backlogs. Locked, and nobody writes;
 * unlocks meanwhile. `holds_gil`: releases it during large writes. */
void echo_outbox_write(struct outbox *outbox, int holds_gil);

/* Writes what is there, at most twice, and leaves the rest to the writer. Locked. */
void echo_outbox_pump(struct outbox *outbox, int holds_gil);

/* One thread's share in the work of a full outbox: writes, or waits for room on the wire, or for another
 * thread that does. At most timeout_ns (negative: no bound). Locked, no GIL; unlocks meanwhile. 0, or -EINTR.
 */
int echo_outbox_work(struct outbox *outbox, int64_t timeout_ns);

/* Who does that looks up so often: waiting for the wire does not see that a stream was closed, nor a signal that
 * came between two waits, where a busy machine keeps a thread for long. */
#define SLICE_NS 20000000

/* A large frame from where it lies, when nobody writes and no backlog is there; waits `patience_ns` for a
 * wire that is full. 1: accepted; what the wire did not take was copied. 0: nothing of it was taken. Locked,
 * GIL; unlocks and releases meanwhile. */
int echo_outbox_write_large(struct outbox *outbox, const struct frame *frame, int64_t patience_ns);

/* --- staging.c --- */

/* A frame to staging, where it fits; writes it, or sees to it that somebody does in time. `delay`: ticks; 0:
 * the outbox's. Locked, GIL. */
void echo_outbox_stage(struct outbox *outbox, const struct frame *frame, int64_t delay);

/* 1: the peer has let more control frames wait than it may; the link has ended. Locked. */
int echo_outbox_is_flooded(struct outbox *outbox, const struct frame *frame);

/* A control frame, behind all that was put before. 0; -1: the link has ended (perhaps by this). Locked, GIL.
 */
int echo_outbox_control(struct outbox *outbox, const struct frame *frame);

/* While a thread hands out what it has received, what it puts only gathers, as long as more is to come: so
 * that answers to a batch are a batch. */
struct gathering {
    struct gathering *outer; /* of a handler that waits for events in turn */
    const PyObject *link;    /* borrowed; what is handed out came over it */
    unsigned forks;          /* echo_forks when it began: in a child that a handler forks, it is over */
    int is_on;               /* 1: more is to come */
    int count;
    struct {
        PyObject *link;        /* owned */
        struct outbox *outbox; /* its */
    } entries[16];
};
void echo_gathering_begin(struct gathering *gathering, const PyObject *link);
void echo_gathering_set(struct gathering *gathering, int is_on);

/* Writes what has gathered. GIL; may run any code. */
void echo_gathering_end(struct gathering *gathering);

/* This thread has written to a link, at that time in ticks. */
void echo_submission_wrote(int64_t now);

/* --- outgoing.c: all locked but echo_outgoing_new --- */

/* A stream of this outbox, with what never changes as in `settings`; NULL: no memory. Becomes a user of the tally. */
struct outgoing *echo_outgoing_new(struct outbox *outbox, const struct outgoing *settings);

/* 1: the backlog takes so much. An empty one takes anything, else a large record could never be sent. */
int echo_outgoing_fits(const struct outgoing *outgoing, uint64_t events, size_t bytes);

/* To the end of the backlog. 0; -1: it is not there, as memory has failed, and with it the link. */
int echo_outgoing_queue(struct outgoing *outgoing, uint64_t events, const struct frame *frame);

/* A control frame behind the stream's events. 0; -1: the link has ended (perhaps by this). GIL. */
int echo_outgoing_control(struct outgoing *outgoing, const struct frame *frame);

/* Events that are not sent, counted where they would have stood. The first: GIL, unlocks meanwhile;
 * `frame`: NULL where there never was one. */
void echo_outgoing_drop_newest(struct outgoing *outgoing, uint64_t events, const struct frame *frame);
void echo_outgoing_drop_oldest(struct outgoing *outgoing);

/* It takes no more events, and who waits to put one gives up. What was dropped so far is said before any frame
 * that is put after this, and nothing of the stream follows. GIL. */
void echo_outgoing_close(struct outgoing *outgoing);

/* All that waits is dropped, and orphans go. */
void echo_outbox_clear(struct outbox *outbox);

/* Frees it, which no backlog holds. */
void echo_outgoing_free(struct outgoing *outgoing);

/* Frees it now, or when its backlog has been sent. */
void echo_outgoing_release(struct outgoing *outgoing);

/* Fills staging from the backlogs, in turn; a large frame becomes `large` if nothing is before it. */
void echo_outbox_refill(struct outbox *outbox);

/* --- writer.c --- */

/* Somebody has left work: it is done by `due` (ticks). Starts the thread if need be. Locked. */
void echo_writer_call(struct outbox *outbox, int64_t due);

/* When the outbox has ended. No lock. */
void echo_writer_join(struct outbox *outbox);

#pragma GCC visibility pop

#endif
