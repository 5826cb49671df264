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
 * A stream whose receiver has granted it no more (credit.h) is parked with what waits of it: it holds up nobody, and is
 * no work, until it may go on.
 *
 * "Locked": the caller holds the outbox's lock. One thread at a time is in the wire's write or await_room, without
 * it: who has set is_writing. A thread that has the host's lock (Python's GIL) may wait for the outbox's, so no holder
 * of that ever waits for the host's.
 */
#pragma once

#include "core/clock.h"
#include "core/lock.h"
#include "core/outbox/backlog.h"
#include "core/wires/pool.h"
#include "core/wires/wire.h"

#include <pthread.h>

#define STAGING_BYTES 65536

/* A larger write pauses the host: below this, handing its lock over costs more than the write. */
#define PAUSE_WRITE_BYTES 16384

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

/* What an outbox asks of the program that it works for, its host: whoever runs there has the host's lock (Python: the
 * GIL). A host without one has functions that do nothing. "In the host": the caller has the lock. */
struct host {
    void *(*pause)(void); /* lets go of the lock, for a write that takes long. What `resume` needs; NULL: nothing */
    void (*resume)(void *paused); /* takes the lock again; waits for it */
    void (*keep)(void *link);     /* in the host: the link must not go */
    void (*let_go)(void *link);   /* in the host: it may; runs any code */
};

struct outbox {
    struct lock lock; /* guards all below that has no other rule */
    /* Settings; never change. */
    struct wire *wire;          /* borrowed from the link */
    void *link;                 /* borrowed: whose outbox it is, and to the host what keeps it alive */
    const struct host *host;    /* lives as long as the process */
    struct pool_memory *pool;   /* borrowed from the link; what is lent to the peer. NULL: nothing */
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
    struct outgoing *turn;       /* the stream in the circle that is next; NULL: none has something that may go */
    unsigned in_circle;          /* streams in it */
    struct outgoing *parked;     /* one of the circle of streams that wait for credit; NULL: there is none */
    uint64_t tickets;            /* given to frames that had to wait */
    struct outgoing **streams;   /* owned memory; by stream - FIRST_STREAM: borrowed. NULL: no stream had the number,
                                    &echo_outgoing_gone: it is gone */
    size_t stream_count;         /* room in it */
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
    int is_writer_over;     /* 1: it ends, as nobody has called for long */
    int is_writer_asleep;   /* 1: until it is called */
    int64_t writer_until;   /* ticks; when it looks again, if it is not asleep */
    _Atomic uint32_t calls; /* its futex */
    int is_called;          /* 1: unlock wakes it */
    /* Counters. */
    uint64_t sent_bytes, sent_frames, writes; /* given to the system; past any dropping; calls that did it */
    uint64_t dropped;                         /* events, of all streams, as the next two */
    uint64_t confirmed, unconfirmed;          /* the peer has finished with; not known to, when streams had ended */
    enum end end;                             /* why nothing is sent any more; END_NOT: it is */
    int error;                                /* END_ERROR, END_THREAD: errno */
};

/* --- outbox.c --- */

/* How this thread submits. A burst to several links looks like leisure to each of them, since writing to the
 * others takes time: so one judgement holds for all that a submission writes to. The model is the one that costs no
 * call. */
struct pace {
    int64_t written_at;  /* ticks at the end of its last write to any link */
    uint64_t submission; /* which one it is at */
    int64_t before;      /* written_at when that began: what it has written itself says nothing of its haste */
    uint64_t judged;     /* the last one that was looked at */
    int is_at_leisure;   /* what was found */
    int64_t asked_at;    /* ticks when it began, where what is submitted takes long to make. 0: it does not */
};
extern _Thread_local struct pace echo_pace __attribute__((tls_model("initial-exec")));

/* Of a zeroed outbox whose settings are there: 0, or -1 for no memory. */
int echo_outbox_open(struct outbox *outbox);

/* Joins its thread, and frees what it has. When no other thread will use it. */
void echo_outbox_close(struct outbox *outbox);

static inline void outbox_lock(struct outbox *outbox)
{
    lock_take(&outbox->lock);
}

/* Unlocks, and wakes the writer if it was called. */
void echo_outbox_unlock(struct outbox *outbox);

/* Whoever waits for a change of the outbox looks again. Locked. */
void echo_outbox_tell_waiting(struct outbox *outbox);

/* Nothing more is sent; what waits is dropped. The first end counts. Locked. */
void echo_outbox_end(struct outbox *outbox, enum end end, int error);

/* 1: some frame waits in a backlog, and not for credit, so others must wait behind it. Locked. */
static inline int has_backlog(const struct outbox *outbox)
{
    return outbox->turn != NULL || outbox->control.first != NULL;
}

static inline int has_work(const struct outbox *outbox)
{
    return outbox->front_to > outbox->front_from || outbox->large != NULL || outbox->staged > 0 || has_backlog(outbox);
}

/* Bytes that were accepted and not yet given to the system. Locked. */
size_t echo_outbox_queued(const struct outbox *outbox);

/* Events in the backlogs. Locked. */
uint64_t echo_outbox_queued_events(const struct outbox *outbox);

/* Writes what the wire takes, once, after filling staging from the backlogs. Locked, and nobody writes;
 * unlocks meanwhile. `in_host`: pauses it during large writes. */
void echo_outbox_write(struct outbox *outbox, int in_host);

/* Writes what is there, at most twice, and leaves the rest to the writer. Locked. */
void echo_outbox_pump(struct outbox *outbox, int in_host);

/* One thread's share in the work of a full outbox: writes, or waits for room on the wire, for another thread that
 * does, or where there is nothing to write for a change, as credit. At most timeout_ns (negative: no bound). Locked, not
 * in the host; unlocks meanwhile. 0, or -EINTR. */
int echo_outbox_work(struct outbox *outbox, int64_t timeout_ns);

/* Who does that looks up so often: waiting for the wire does not see that a stream was closed, nor a signal that
 * came between two waits, where a busy machine keeps a thread for long. */
#define SLICE_NS 20000000

/* A large frame from where it lies, when nobody writes and no backlog is there; waits `patience_ns` for a
 * wire that is full. 1: accepted; what the wire did not take was copied. 0: nothing of it was taken. Locked,
 * in the host; unlocks and pauses it meanwhile. */
int echo_outbox_write_large(struct outbox *outbox, const struct frame *frame, int64_t patience_ns);

/* --- writer.c --- */

/* Somebody has left work: it is done by `due` (ticks). Starts the thread if need be. Locked. */
void echo_writer_call(struct outbox *outbox, int64_t due);

/* Gives its memory back, where it has ended as nobody had called for long. Does not block for longer than a lock.
 * Locked. */
void echo_writer_tidy(struct outbox *outbox);

/* When it ends, or the outbox has ended: no lock then. */
void echo_writer_join(struct outbox *outbox);

/* --- outgoing.c --- */

/* All that waits is dropped, and streams that only waited for it go. Locked. */
void echo_outbox_clear(struct outbox *outbox);

/* Fills staging from the backlogs, in turn; a large frame becomes `large` if nothing is before it. Locked. */
void echo_outbox_refill(struct outbox *outbox);
