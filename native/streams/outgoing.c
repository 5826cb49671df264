/* Records into a stream, and what becomes of them when the link is full. outgoing_type.c has the type. */
#include "streams/outgoing.h"

#include "links/entries.h"
#include "links/errors.h"
#include "links/pool.h"

#include "core/outbox/staging.h"

#include <errno.h>

/* How long a large frame waits for room on the wire before it is copied to the backlog. A reader that is only busy
 * makes room sooner than that, and the copy would cost as much as the write. */
#define LARGE_PATIENCE_NS 10000000

/* As echo_link_check, which is called to say why only. */
static inline int check(const struct outgoing_stream *stream)
{
    return has_forked_since(stream->link->forks) || stream->link->wire == NULL ? echo_link_check(stream->link) : 0;
}

/* --- a full link --- */

/* Something to put, and how far it has come. */
struct put {
    struct outgoing *outgoing;
    const struct frame *frame;
    uint64_t events;
    size_t bytes;     /* of the frame */
    int is_waiting;   /* 1: until_ns is set */
    int64_t until_ns; /* the end of the policy's patience; negative: never */
};

enum done {
    DONE,
    DROPPED,
    AGAIN,      /* something has changed: from the start */
    REFUSED,    /* the backlog is full */
    INTERRUPTED /* a signal came */
};

/* Locked; is_closed changes under the GIL too. */
static int is_open(const struct outgoing *outgoing)
{
    return outgoing->outbox->end == END_NOT && !outgoing->is_closed;
}

static int64_t large_patience(const struct outgoing *outgoing)
{
    if (outgoing->policy != POLICY_BLOCK)
        return 0;
    return outgoing->timeout_ns < 0 || outgoing->timeout_ns > LARGE_PATIENCE_NS ? LARGE_PATIENCE_NS
                                                                                : outgoing->timeout_ns;
}

/* Past the backlogs, where that keeps the order. Locked. REFUSED: it must wait behind others. */
static enum done put_directly(struct put *put)
{
    struct outbox *outbox = put->outgoing->outbox;

    if (has_backlog(outbox) || put->outgoing->tail_gap > 0)
        return REFUSED;
    if (put->bytes <= STAGING_BYTES - outbox->staged) {
        echo_outbox_stage(outbox, put->frame, put->outgoing->delay);
        return DONE;
    }
    if (outbox->is_writing || outbox->is_full)
        return REFUSED;
    if (put->bytes <= STAGING_BYTES || outbox->large != NULL ||
        (outbox->staged > 0 && outbox->front_to > outbox->front_from)) {
        echo_outbox_write(outbox, 1);
        return AGAIN;
    }
    return echo_outbox_write_large(outbox, put->frame, large_patience(put->outgoing)) ? DONE : AGAIN;
}

/* DROPPED: there was no memory for it, and the link has ended. */
static enum done queue(struct put *put)
{
    if (echo_outgoing_queue(put->outgoing, put->events, put->frame) != 0)
        return DROPPED;
    echo_outbox_pump(put->outgoing->outbox, 1);
    return DONE;
}

/* A large frame waits until the outbox is empty, and is then written from the caller's memory without a copy. Smaller
 * ones wait until half of the backlog is free, so that a blocked source is not woken for every event (hysteresis). */
static int has_room(const struct put *put)
{
    const struct outgoing *outgoing = put->outgoing;

    if (put->bytes > STAGING_BYTES)
        return !has_work(outgoing->outbox) && !outgoing->outbox->is_writing;
    return outgoing->backlog.events * 2 <= outgoing->max_events && outgoing->backlog.bytes * 2 <= outgoing->max_bytes &&
           echo_outgoing_fits(outgoing, put->events, put->bytes);
}

/* No GIL, locked. 0: there is room, or the stream was closed, or the link has ended. -ETIMEDOUT. -EINTR: a signal may
 * have come. */
static int work_until_room(const struct put *put)
{
    struct outbox *outbox = put->outgoing->outbox;
    int64_t left_ns = INT64_MAX, look_ns = monotonic_ns() + SLICE_NS;

    while (is_open(put->outgoing) && !has_room(put)) {
        if (put->until_ns >= 0 && (left_ns = put->until_ns - monotonic_ns()) <= 0)
            return echo_outgoing_fits(put->outgoing, put->events, put->bytes) ? 0 : -ETIMEDOUT;
        if (echo_outbox_work(outbox, left_ns < SLICE_NS ? left_ns : SLICE_NS) == -EINTR || monotonic_ns() >= look_ns)
            return -EINTR;
    }
    return 0;
}

/* As work_until_room, but not locked. */
static int await_room(void *subject)
{
    const struct put *put = subject;
    int status;

    outbox_lock(put->outgoing->outbox);
    status = work_until_room(put);
    echo_outbox_unlock(put->outgoing->outbox);
    return status;
}

/* Locked before and after; unlocked and without the GIL meanwhile, in the order that forbids a deadlock. A signal that
 * came before is not noticed by waiting. */
static enum done wait_for_room(struct put *put)
{
    struct outbox *outbox = put->outgoing->outbox;
    int status;

    if (!put->is_waiting) {
        put->is_waiting = 1;
        put->until_ns = put->outgoing->timeout_ns < 0 ? -1 : monotonic_ns() + put->outgoing->timeout_ns;
    }
    echo_outbox_unlock(outbox);
    status = PyErr_CheckSignals() != 0 ? -EINTR : echo_wait(await_room, put);
    outbox_lock(outbox);
    if (status == -EINTR)
        return INTERRUPTED;
    return status == -ETIMEDOUT ? REFUSED : AGAIN;
}

static enum done drop_oldest(struct put *put)
{
    while (!echo_outgoing_fits(put->outgoing, put->events, put->bytes))
        echo_outgoing_drop_oldest(put->outgoing);
    return queue(put);
}

/* One attempt. Locked. */
static enum done try(struct put *put)
{
    enum done done = put_directly(put);

    if (done != REFUSED)
        return done;
    if (echo_outgoing_fits(put->outgoing, put->events, put->bytes))
        return queue(put);
    switch (put->outgoing->policy) {
    case POLICY_BLOCK:
        return wait_for_room(put);
    case POLICY_DROP_OLDEST:
        return drop_oldest(put);
    case POLICY_DROP_NEWEST:
        return DROPPED;
    default:
        return REFUSED;
    }
}

static int raise_backlog(const struct outgoing_stream *stream)
{
    const struct outgoing *outgoing = stream->outgoing;

    if (outgoing->policy == POLICY_BLOCK)
        return echo_raise("BacklogError", "The backlog of %U was full for %lld ms", stream->name,
                          (long long)(outgoing->timeout_ns / 1000000));
    return echo_raise("BacklogError", "The backlog of %U is full: expected at most %llu events, %zu bytes",
                      stream->name, (unsigned long long)outgoing->max_events, outgoing->max_bytes);
}

/* Locked; unlocks. 0, or -1 with an exception. Whoever waits lets others go on: after each attempt the stream may
 * be closed, and then nothing may follow what was said of that. */
static int put_and_unlock(const struct outgoing_stream *stream, const struct frame *frame, uint64_t events)
{
    struct outgoing *outgoing = stream->outgoing;
    struct outbox *outbox = outgoing->outbox;
    struct put put = {.outgoing = outgoing, .frame = frame, .events = events, .bytes = frame_bytes(frame->size)};
    enum done done = AGAIN;

    while (done == AGAIN && is_open(outgoing))
        done = try(&put);
    if (done == DONE)
        outgoing->events += events;
    else
        echo_outgoing_drop_newest(outgoing, events, frame);
    if (done == AGAIN) /* an attempt may have written a part of what others have put */
        echo_outbox_pump(outbox, 1);
    echo_outbox_unlock(outbox);
    if (done == REFUSED)
        return raise_backlog(stream);
    return done == INTERRUPTED ? -1 : 0;
}

/* --- putting --- */

/* What the peer would end the link for is the caller's to know of; for others it is a gap. */
static int refuse_size(const struct outgoing_stream *stream, const struct frame *frame, Py_ssize_t size,
                       uint64_t events)
{
    struct outgoing *outgoing = stream->outgoing;

    outbox_lock(outgoing->outbox);
    echo_outgoing_drop_newest(outgoing, events, frame);
    echo_outbox_unlock(outgoing->outbox);
    return echo_raise("EncodeError",
                      "Expected at most %lu bytes, which is what the peer takes at once, got %zd - in %U",
                      (unsigned long)outgoing->max_payload, size, stream->name);
}

int echo_outgoing_stream_put(PyObject *object, const uint8_t *payload, Py_ssize_t size, uint64_t events)
{
    struct outgoing_stream *stream = stream_of(object);
    struct outgoing *outgoing = stream->outgoing;
    struct outbox *outbox = outgoing->outbox;
    struct frame frame = {.size = (uint32_t)size, .stream = outgoing->stream, .payload = payload};
    size_t bytes = frame_bytes(frame.size);

    if (check(stream) != 0)
        return -1;
    if (events == 0)
        return 0;
    if (size > (Py_ssize_t)outgoing->max_payload)
        return refuse_size(stream, &frame, size, events);
    outbox_lock(outbox);
    if (bytes <= STAGING_BYTES - outbox->staged && !has_backlog(outbox) && outgoing->tail_gap == 0 &&
        is_open(outgoing)) {
        outgoing->events += events;
        echo_outbox_stage(outbox, &frame, outgoing->delay);
        echo_outbox_unlock(outbox);
        return 0;
    }
    return put_and_unlock(stream, &frame, events);
}

int echo_outgoing_stream_lend(PyObject *object, PyObject *block, Py_ssize_t size, uint64_t events)
{
    struct outgoing_stream *stream = stream_of(object);
    uint8_t loan[LOAN_PAYLOAD_BYTES];
    struct frame frame = {.size = sizeof loan, .stream = KIND_LOAN, .payload = loan};

    if (check(stream) != 0)
        return -1;
    if (stream->link->pool == NULL || stream->outgoing->max_payload < sizeof loan ||
        (events == 1 && size > (Py_ssize_t)stream->outgoing->max_payload) ||
        !echo_block_lend(block, stream->link->outbox.holder, stream->outgoing->stream, size, loan))
        return 1;
    outbox_lock(stream->outgoing->outbox);
    return put_and_unlock(stream, &frame, events);
}

void echo_outgoing_stream_skip(PyObject *object, uint64_t events)
{
    struct outgoing_stream *stream = stream_of(object);

    if (has_forked_since(stream->link->forks) || stream->link->wire == NULL || events == 0)
        return;
    outbox_lock(stream->outgoing->outbox);
    echo_outgoing_drop_newest(stream->outgoing, events, NULL);
    echo_outbox_unlock(stream->outgoing->outbox);
}
