/* Frames into the staging buffer, and the choice between writing at once and gathering. */
#include "link_outbox.h"

/* --- gathering while a batch is handed out --- */

/* Of this thread; NULL: it hands out nothing. The model is the one that costs no call. */
static _Thread_local struct gathering *current __attribute__((tls_model("initial-exec")));

void echo_gathering_begin(struct gathering *gathering)
{
    gathering->outer = current;
    gathering->forks = echo_forks;
    gathering->is_on = 0;
    gathering->count = 0;
    current = gathering;
}

int echo_is_dispatching(void)
{
    return current != NULL && current->forks == echo_forks;
}

void echo_gathering_set(struct gathering *gathering, int is_on)
{
    gathering->is_on = is_on;
}

void echo_gathering_end(struct gathering *gathering)
{
    struct outbox *outbox;

    current = gathering->outer;
    for (int i = 0; i < gathering->count; i++) {
        outbox = gathering->entries[i].outbox;
        if (gathering->forks == echo_forks) {
            outbox_lock(outbox);
            echo_outbox_pump(outbox, 1);
            echo_outbox_unlock(outbox);
        }
        Py_DECREF(gathering->entries[i].link);
    }
}

/* 1: the outbox is written at the end of the batch. */
static int gathers(struct outbox *outbox)
{
    struct gathering *gathering = current;

    if (gathering == NULL || !gathering->is_on || gathering->forks != echo_forks)
        return 0;
    for (int i = 0; i < gathering->count; i++)
        if (gathering->entries[i].outbox == outbox)
            return 1;
    if (gathering->count == (int)(sizeof gathering->entries / sizeof *gathering->entries))
        return 0;
    gathering->entries[gathering->count].outbox = outbox;
    gathering->entries[gathering->count++].link = Py_NewRef(outbox->link);
    return 1;
}

/* --- staging --- */

/* Nothing was written for a while, or the peer has answered since: then a write delays nobody. */
static int is_idle(const struct outbox *outbox, int64_t now)
{
    return outbox->wire->operations->is_cheap ||
           outbox->reads_seen != atomic_load_explicit(outbox->reads, memory_order_relaxed) ||
           now - outbox->written_at > outbox->idle;
}

static int may_write(const struct outbox *outbox)
{
    return !outbox->is_writing && !outbox->is_full && outbox->end == END_NOT;
}

/* The first frame in an empty staging buffer. `delay` is 0 but where its source has time. */
static void begin_staging(struct outbox *outbox, int64_t delay)
{
    int64_t now = ticks_now();

    outbox->due_at = now + (delay > 0 ? delay : outbox->delay);
    if (may_write(outbox) && delay <= 0 && is_idle(outbox, now) &&
        (outbox->wire->operations->is_cheap || !gathers(outbox)))
        echo_outbox_pump(outbox, 1);
    else
        echo_writer_call(outbox, outbox->due_at);
}

/* What is staged has more time than this frame has. */
static void hasten(struct outbox *outbox, int64_t delay)
{
    int64_t due = ticks_now() + (delay > 0 ? delay : outbox->delay);

    if (outbox->due_at - due <= 0)
        return;
    outbox->due_at = due;
    echo_writer_call(outbox, due);
}

void echo_outbox_stage(struct outbox *outbox, const struct frame *frame, int64_t delay)
{
    size_t before = outbox->staged;

    echo_frame_store(outbox->staging + before, frame);
    outbox->staged += frame_bytes(frame->size);
    outbox->sent_frames++;
    if (before == 0) {
        outbox->staged_delay = delay;
        begin_staging(outbox, delay);
    } else if (delay < outbox->staged_delay) {
        outbox->staged_delay = delay;
        hasten(outbox, delay);
    }
}

/* --- control frames --- */

int echo_outbox_is_flooded(struct outbox *outbox, const struct frame *frame)
{
    if (frame_bytes(frame->size) <= outbox->max_control_bytes - outbox->control_bytes)
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
