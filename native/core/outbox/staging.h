/* Frames into the outbox: gathered, or written at once. Whether a thread is in haste is judged here. */
#pragma once

#include "core/forks.h"
#include "core/outbox/outbox.h"

/* A frame to staging, where it fits; writes it, or sees to it that somebody does in time. `delay`: ticks; 0:
 * the outbox's. Locked, in the host. */
void echo_outbox_stage(struct outbox *outbox, const struct frame *frame, int64_t delay);

/* 1: the peer has let more control frames wait than it may; the link has ended. Locked. */
int echo_outbox_is_flooded(struct outbox *outbox, const struct frame *frame);

/* A control frame, behind all that was put before. 0; -1: the link has ended (perhaps by this). Locked, in the host.
 */
int echo_outbox_control(struct outbox *outbox, const struct frame *frame);

/* While a thread hands out what it has received, what it puts only gathers, as long as more is to come: so
 * that answers to a batch are a batch. */
struct gathering {
    struct gathering *outer; /* of a handler that waits for events in turn */
    const void *link;        /* borrowed; what is handed out came over it */
    unsigned forks;          /* echo_forks when it began: in a child that a handler forks, it is over */
    int is_on;               /* 1: more is to come */
    int count;
    struct {
        void *link;            /* kept, by the host */
        struct outbox *outbox; /* its */
    } entries[16];
};

/* Of this thread; NULL: it hands out nothing. */
extern _Thread_local struct gathering *echo_gathering __attribute__((tls_model("initial-exec")));

static inline void gathering_begin(struct gathering *gathering, const void *link)
{
    gathering->outer = echo_gathering;
    gathering->link = link;
    gathering->forks = echo_forks;
    gathering->is_on = gathering->count = 0;
    echo_gathering = gathering;
}

/* Writes what has gathered. In the host; may run any code. */
void echo_gathering_end(struct gathering *gathering);

/* Whether this thread is handing over what it has read from a link. */
int echo_is_dispatching(void);

/* Whether it is from that one, in this handler or in one that this one runs in: nothing else comes by it meanwhile. */
int echo_is_dispatching_from(const void *link);

/* --- submissions --- */

/* What this thread puts from now on is one submission, however many links it leaves by: whether to write at once
 * or to gather is judged once for it. */
static inline void submission_begin(void)
{
    echo_pace.submission++;
    echo_pace.before = echo_pace.written_at;
}

/* Before what is submitted is made, where that takes long: whoever asks for the next thing as soon as this one is
 * written is in haste, however long making it takes. Given back when it has been put. */
static inline void submission_prepare(void)
{
    if (echo_pace.asked_at == 0)
        echo_pace.asked_at = ticks_now();
}

static inline void submission_prepared_is_put(void)
{
    echo_pace.asked_at = 0;
}
