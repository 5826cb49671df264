/* Frames into the staging buffer, and the choice between writing at once and gathering. */
#define _GNU_SOURCE
#include "core/outbox/staging.h"

#include "core/forks.h"

/* --- gathering while a batch is handed out --- */

_Thread_local struct gathering *echo_gathering __attribute__((tls_model("initial-exec")));

int echo_is_dispatching(void)
{
    return echo_gathering != NULL && !has_forked_since(echo_gathering->forks);
}

int echo_is_dispatching_from(const void *link)
{
    const struct gathering *gathering = echo_gathering;

    while (gathering != NULL && (gathering->link != link || has_forked_since(gathering->forks)))
        gathering = gathering->outer;
    return gathering != NULL;
}

void echo_gathering_end(struct gathering *gathering)
{
    struct outbox *outbox;

    echo_gathering = gathering->outer;
    for (int i = 0; i < gathering->count; i++) {
        outbox = gathering->entries[i].outbox;
        if (!has_forked_since(gathering->forks)) {
            outbox_lock(outbox);
            echo_outbox_pump(outbox, 1);
            echo_outbox_unlock(outbox);
        }
        outbox->host->let_go(gathering->entries[i].link);
    }
}

/* 1: the outbox is written at the end of the batch. */
static int gathers(struct outbox *outbox)
{
    struct gathering *gathering = echo_gathering;

    if (gathering == NULL || !gathering->is_on || has_forked_since(gathering->forks))
        return 0;
    for (int i = 0; i < gathering->count; i++)
        if (gathering->entries[i].outbox == outbox)
            return 1;
    if (gathering->count == (int)(sizeof gathering->entries / sizeof *gathering->entries))
        return 0;
    gathering->entries[gathering->count].outbox = outbox;
    gathering->entries[gathering->count++].link = outbox->link;
    outbox->host->keep(outbox->link);
    return 1;
}

/* --- staging --- */

static int is_at_leisure(int64_t idle, int64_t asked_at)
{
    if (echo_pace.judged != echo_pace.submission) {
        echo_pace.judged = echo_pace.submission;
        echo_pace.is_at_leisure = asked_at - echo_pace.before > idle;
    }
    return echo_pace.is_at_leisure;
}

/* The peer has answered since the last write, or nothing was written for a while, here or elsewhere by this
 * thread: then a write delays nobody. */
static int is_idle(const struct outbox *outbox, int64_t now)
{
    int64_t asked_at = echo_pace.asked_at != 0 ? echo_pace.asked_at : now;

    return outbox->reads_seen != atomic_load_explicit(outbox->reads, memory_order_relaxed) ||
           (is_at_leisure(outbox->idle, asked_at) && asked_at - outbox->written_at > outbox->idle);
}

static int is_cheap(struct wire *wire)
{
    return wire->operations->is_cheap != NULL && wire->operations->is_cheap(wire);
}

static int may_write(const struct outbox *outbox)
{
    return !outbox->is_writing && !outbox->is_full && outbox->end == END_NOT;
}

/* A `delay` of its own says that the source has time, so that gathering is worth more than an early write. */
void echo_outbox_stage(struct outbox *outbox, const struct frame *frame, int64_t delay)
{
    size_t before = outbox->staged;
    int64_t now;

    frame_store(outbox->staging + before, frame);
    outbox->staged += frame_bytes(frame->size);
    outbox->sent_frames++;
    if (before > 0 && delay >= outbox->staged_delay)
        return;
    now = ticks_now();
    outbox->staged_delay = delay;
    outbox->due_at = now + (delay > 0 ? delay : outbox->delay);
    if (may_write(outbox) && delay <= 0 && (is_cheap(outbox->wire) || (is_idle(outbox, now) && !gathers(outbox))))
        echo_outbox_pump(outbox, 1);
    else
        echo_writer_call(outbox, outbox->due_at);
}

/* --- control frames --- */

int echo_outbox_is_flooded(struct outbox *outbox, const struct frame *frame)
{
    if (outbox->control_bytes + frame_bytes(frame->size) <= outbox->max_control_bytes)
        return 0;
    echo_outbox_end(outbox, END_FLOODED, 0);
    return 1;
}

static int wait_behind(struct outbox *outbox, const struct frame *frame)
{
    if (echo_outbox_is_flooded(outbox, frame))
        return -1;
    if (echo_backlog_add(&outbox->control, outbox->tickets++, 0, frame) != 0) {
        echo_outbox_end(outbox, END_MEMORY, 0);
        return -1;
    }
    outbox->control_bytes += frame_bytes(frame->size);
    echo_outbox_pump(outbox, 1);
    return outbox->end == END_NOT ? 0 : -1;
}

int echo_outbox_control(struct outbox *outbox, const struct frame *frame)
{
    if (outbox->end != END_NOT)
        return -1;
    if (has_backlog(outbox) || frame_bytes(frame->size) > STAGING_BYTES - outbox->staged)
        return wait_behind(outbox, frame);
    echo_outbox_stage(outbox, frame, 0);
    return outbox->end == END_NOT ? 0 : -1;
}
