/* Records into a stream, and what becomes of them when the link is full. outgoing_type.c has the type. */
#include "streams/outgoing.h"

#include "links/entries.h"
#include "links/errors.h"
#include "links/pool.h"

#include "core/outbox/staging.h"

#include <errno.h>
#include <string.h>

/* How long large records wait for room on the wire, or for credit, before they are copied to the backlog. A receiver
 * that is only busy makes room sooner than that, and the copy would cost as much as the write. */
#define LARGE_PATIENCE_NS 10000000

/* A record up to this size, with its time, is put together on the stack. */
#define STACK_BYTES 1024

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
    size_t bytes;            /* of the frame */
    int64_t credit;          /* bytes that it takes of the stream's: those of the records */
    int64_t credit_until_ns; /* large records wait for credit until then; 0: they have not */
    int is_waiting;          /* 1: what follows is set */
    int64_t until_ns;        /* the end of the policy's patience; negative: never */
    int64_t due_ns;          /* when it meant to look again */
    int64_t in_haste_ns;     /* from then on the least room will do */
    uint64_t progress;       /* of the stream when patience began */
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
    if (!does_wait(outgoing->policy))
        return 0;
    return outgoing->timeout_ns < 0 || outgoing->timeout_ns > LARGE_PATIENCE_NS ? LARGE_PATIENCE_NS
                                                                                : outgoing->timeout_ns;
}

/* From the caller's memory, paid for meanwhile: other threads may put into the stream. Locked. */
static enum done write_large(struct put *put)
{
    struct outgoing *outgoing = put->outgoing;

    outgoing_pay(outgoing, (int64_t)put->events, put->credit);
    if (echo_outbox_write_large(outgoing->outbox, put->frame, large_patience(outgoing)))
        return DONE;
    outgoing_pay(outgoing, -(int64_t)put->events, -put->credit);
    echo_outgoing_arrange(outgoing);
    return AGAIN;
}

/* Past the backlogs, where that keeps the order. Locked. REFUSED: it must wait behind others, or for credit. */
static enum done put_directly(struct put *put)
{
    struct outgoing *outgoing = put->outgoing;
    struct outbox *outbox = outgoing->outbox;

    if (has_backlog(outbox) || outgoing->circle != NULL || !has_credit(outgoing))
        return REFUSED;
    if (put->bytes <= STAGING_BYTES - outbox->staged) {
        outgoing_pay(outgoing, (int64_t)put->events, put->credit);
        echo_outbox_stage(outbox, put->frame, outgoing->delay);
        return DONE;
    }
    if (outbox->is_writing || outbox->is_full)
        return REFUSED;
    if (put->bytes <= STAGING_BYTES || outbox->large != NULL ||
        (outbox->staged > 0 && outbox->front_to > outbox->front_from)) {
        echo_outbox_write(outbox, 1);
        return AGAIN;
    }
    return write_large(put);
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
 * ones wait for a while until half of the backlog is free, so that a blocked source is not woken for every event
 * (hysteresis). */
static int has_room(const struct put *put)
{
    const struct outgoing *outgoing = put->outgoing;

    if (!echo_outgoing_fits(outgoing, put->events, put->bytes))
        return 0;
    if (monotonic_ns() >= put->in_haste_ns)
        return 1;
    if (put->bytes > STAGING_BYTES)
        return outgoing->circle == NULL && !has_work(outgoing->outbox) && !outgoing->outbox->is_writing;
    return outgoing->backlog.events * 2 <= outgoing->max_events && outgoing->backlog.bytes * 2 <= outgoing->max_bytes;
}

/* What POLICY_PACE waits for is anything that its sink takes; its patience begins anew with that. Locked. */
static void look_for_progress(struct put *put, int64_t now_ns)
{
    const struct outgoing *outgoing = put->outgoing;
    uint64_t progress = outgoing_progress(outgoing);
    int64_t patience_ns;

    if (!put->is_waiting || (outgoing->policy == POLICY_PACE && put->progress != progress)) {
        put->is_waiting = 1;
        put->progress = progress;
        patience_ns = sink_patience(outgoing->policy, &outgoing->pace, outgoing->timeout_ns);
        put->until_ns = patience_ns < 0 ? -1 : now_ns + patience_ns;
    } else if (put->until_ns >= 0) {
        put->until_ns = pace_deadline(outgoing->policy, put->until_ns, put->due_ns, now_ns);
    }
    put->due_ns = now_ns;
}

/* No GIL, locked. 0: there is room, or the stream was closed, or the link has ended. -ETIMEDOUT. -EINTR: a signal may
 * have come. */
static int work_until_room(struct put *put)
{
    struct outbox *outbox = put->outgoing->outbox;
    int64_t now_ns = monotonic_ns(), left_ns = INT64_MAX, look_ns = now_ns + SLICE_NS;

    for (; is_open(put->outgoing) && !has_room(put); now_ns = monotonic_ns()) {
        look_for_progress(put, now_ns);
        if (put->until_ns >= 0 && (left_ns = put->until_ns - now_ns) <= 0)
            return echo_outgoing_fits(put->outgoing, put->events, put->bytes) ? 0 : -ETIMEDOUT;
        left_ns = pace_sleep_ns(put->outgoing->policy, left_ns < SLICE_NS ? left_ns : SLICE_NS);
        put->due_ns = now_ns + left_ns;
        if (echo_outbox_work(outbox, left_ns) == -EINTR || monotonic_ns() >= look_ns)
            return -EINTR;
    }
    return 0;
}

/* As work_until_room, but not locked. */
static int await_room(void *subject)
{
    struct put *put = subject;
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
    struct outgoing *outgoing = put->outgoing;
    struct outbox *outbox = outgoing->outbox;
    int64_t now_ns = monotonic_ns();
    int status;

    if (!put->is_waiting)
        put->in_haste_ns = now_ns + SLICE_NS;
    look_for_progress(put, now_ns);
    echo_outbox_unlock(outbox);
    status = PyErr_CheckSignals() != 0 ? -EINTR : echo_wait(await_room, put);
    outbox_lock(outbox);
    if (status == -EINTR)
        return INTERRUPTED;
    if (status != -ETIMEDOUT)
        return AGAIN;
    outgoing->vain_at = outgoing_progress(outgoing);
    return outgoing->policy == POLICY_PACE ? AGAIN : REFUSED;
}

/* Large records for which nothing is missing but credit: it may come as soon as they would be copied. Not where the last
 * wait was in vain, and nothing has been taken since. */
static int may_wait_for_credit(const struct put *put)
{
    const struct outgoing *outgoing = put->outgoing;

    return put->credit > STAGING_BYTES && put->credit_until_ns == 0 && outgoing->circle == NULL &&
           !has_credit(outgoing) && large_patience(outgoing) > 0 &&
           outgoing->credit_vain_at != outgoing_progress(outgoing);
}

/* No GIL. 0; -EINTR: a signal may have come. */
static int await_credit(void *subject)
{
    const struct put *put = subject;
    const struct outgoing *outgoing = put->outgoing;
    int64_t left_ns;
    int status = 0;

    outbox_lock(outgoing->outbox);
    while (status == 0 && is_open(outgoing) && !has_credit(outgoing) &&
           (left_ns = put->credit_until_ns - monotonic_ns()) > 0)
        status = echo_outbox_work(outgoing->outbox, left_ns);
    echo_outbox_unlock(outgoing->outbox);
    return status;
}

/* Locked before and after, as wait_for_room. */
static enum done wait_for_credit(struct put *put)
{
    struct outgoing *outgoing = put->outgoing;
    int status;

    put->credit_until_ns = monotonic_ns() + large_patience(outgoing);
    echo_outbox_unlock(outgoing->outbox);
    status = PyErr_CheckSignals() != 0 ? -EINTR : echo_wait(await_credit, put);
    outbox_lock(outgoing->outbox);
    if (!has_credit(outgoing))
        outgoing->credit_vain_at = outgoing_progress(outgoing);
    return status == -EINTR ? INTERRUPTED : AGAIN;
}

static enum done drop_oldest(struct put *put)
{
    while (!echo_outgoing_fits(put->outgoing, put->events, put->bytes))
        echo_outgoing_drop_oldest(put->outgoing);
    return queue(put);
}

/* The sink that nobody got through to has taken nothing since: it costs its source no time any more. */
static enum done pace(struct put *put)
{
    return outgoing_progress(put->outgoing) == put->outgoing->vain_at ? drop_oldest(put) : wait_for_room(put);
}

/* One attempt. Locked. */
static enum done try(struct put *put)
{
    enum done done = put_directly(put);

    if (done != REFUSED)
        return done;
    if (echo_outgoing_fits(put->outgoing, put->events, put->bytes))
        return may_wait_for_credit(put) ? wait_for_credit(put) : queue(put);
    switch (put->outgoing->policy) {
    case POLICY_PACE:
        return pace(put);
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

/* Locked; unlocks. `size`: of the records, and their time. 0, or -1 with an exception. Whoever waits lets others go on:
 * after each attempt the stream may be closed, and then nothing may follow what was said of that. */
static int put_and_unlock(const struct outgoing_stream *stream, const struct frame *frame, uint64_t events,
                          Py_ssize_t size)
{
    struct outgoing *outgoing = stream->outgoing;
    struct outbox *outbox = outgoing->outbox;
    struct put put = {
        .outgoing = outgoing, .frame = frame, .events = events, .bytes = frame_bytes(frame->size), .credit = size};
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
    if (bytes <= STAGING_BYTES - outbox->staged && !has_backlog(outbox) && outgoing->circle == NULL &&
        has_credit(outgoing) && is_open(outgoing)) {
        outgoing->events += events;
        outgoing_pay(outgoing, (int64_t)events, size);
        echo_outbox_stage(outbox, &frame, outgoing->delay);
        echo_outbox_unlock(outbox);
        return 0;
    }
    return put_and_unlock(stream, &frame, events, size);
}

int echo_outgoing_stream_put_timed(PyObject *stream, const struct record *record, uint64_t events)
{
    _Alignas(8) uint8_t stack[STACK_BYTES];
    size_t size = (size_t)record->size + TIME_BYTES;
    uint8_t *payload = size <= sizeof stack ? stack : PyMem_Malloc(size);
    int status;

    if (payload == NULL) {
        echo_outgoing_stream_skip(stream, events);
        PyErr_NoMemory();
        return -1;
    }
    store_little64(payload, (uint64_t)record->submitted_ns);
    memcpy(payload + TIME_BYTES, record->bytes, (size_t)record->size);
    status = echo_outgoing_stream_put(stream, payload, (Py_ssize_t)size, events);
    if (payload != stack)
        PyMem_Free(payload);
    return status;
}

int echo_outgoing_stream_lend(PyObject *object, PyObject *block, const struct record *record, uint64_t events)
{
    struct outgoing_stream *stream = stream_of(object);
    uint8_t loan[LOAN_PAYLOAD_BYTES + TIME_BYTES];
    Py_ssize_t size = record->size, time_bytes = record->submitted_ns != 0 ? TIME_BYTES : 0;
    struct frame frame = {.size = LOAN_PAYLOAD_BYTES + (uint32_t)time_bytes, .stream = KIND_LOAN, .payload = loan};

    if (check(stream) != 0)
        return -1;
    if (stream->link->pool == NULL || stream->outgoing->max_payload < sizeof loan ||
        (events == 1 && size > (Py_ssize_t)stream->outgoing->max_payload) ||
        !echo_block_lend(block, stream->link->outbox.holder, stream->outgoing->stream, size, loan))
        return 1;
    store_little64(loan + LOAN_PAYLOAD_BYTES, (uint64_t)record->submitted_ns);
    outbox_lock(stream->outgoing->outbox);
    return put_and_unlock(stream, &frame, events, size + time_bytes);
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
