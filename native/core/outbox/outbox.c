/* Writing what waits; outbox.h draws the order. */
#define _GNU_SOURCE
#include "core/outbox/outbox.h"
#include "core/outbox/outgoing.h"

#include <errno.h>
#include <stdlib.h>

_Thread_local struct pace echo_pace __attribute__((tls_model("initial-exec")));

/* --- beginning and end --- */

int echo_outbox_open(struct outbox *outbox)
{
    outbox->staging = aligned_alloc(64, STAGING_BYTES);
    outbox->front = aligned_alloc(64, STAGING_BYTES);
    outbox->is_writer_asleep = 1;
    return outbox->staging != NULL && outbox->front != NULL ? 0 : -1;
}

void echo_outbox_close(struct outbox *outbox)
{
    echo_writer_join(outbox);
    free(outbox->large);
    free(outbox->staging);
    free(outbox->front);
    free(outbox->streams);
}

/* Backlogs are cleared here and not in echo_outbox_end, which is called in the middle of work on them. */
void echo_outbox_unlock(struct outbox *outbox)
{
    int is_called = outbox->is_called;

    outbox->is_called = 0;
    if (outbox->end != END_NOT && (has_backlog(outbox) || outbox->parked != NULL))
        echo_outbox_clear(outbox);
    lock_give(&outbox->lock);
    if (is_called)
        futex_wake_all(&outbox->calls);
}

void echo_outbox_tell_waiting(struct outbox *outbox)
{
    atomic_fetch_add(&outbox->changes, 1);
    if (outbox->waiting > 0)
        futex_wake_all(&outbox->changes);
}

void echo_outbox_end(struct outbox *outbox, enum end end, int error)
{
    if (outbox->end != END_NOT)
        return;
    outbox->end = end;
    outbox->error = error;
    outbox->wire->operations->shut(outbox->wire);
    outbox->is_writer_asleep = 0;
    outbox->is_called = 1;
    atomic_fetch_add(&outbox->calls, 1);
    echo_outbox_tell_waiting(outbox);
}

size_t echo_outbox_queued(const struct outbox *outbox)
{
    size_t bytes = outbox->front_to - outbox->front_from + outbox->staged + outbox->control.bytes;

    if (outbox->large != NULL)
        bytes += outbox->large->end - outbox->large->begin;
    return bytes + echo_circle_queued(outbox->turn).bytes + echo_circle_queued(outbox->parked).bytes;
}

uint64_t echo_outbox_queued_events(const struct outbox *outbox)
{
    return echo_circle_queued(outbox->turn).events + echo_circle_queued(outbox->parked).events;
}

/* --- one write --- */

/* Room for appends while `front` is written. */
static void swap(struct outbox *outbox)
{
    uint8_t *empty = outbox->front;

    if (outbox->front_to > outbox->front_from)
        return;
    outbox->front = outbox->staging;
    outbox->front_from = 0;
    outbox->front_to = outbox->staged;
    outbox->staging = empty;
    outbox->staged = 0;
}

/* Locked. `taken`: of `offered` bytes; or -errno. */
static void end_write(struct outbox *outbox, ssize_t taken, size_t offered)
{
    outbox->is_writing = 0;
    outbox->writes++;
    outbox->reads_seen = atomic_load_explicit(outbox->reads, memory_order_relaxed);
    outbox->written_at = ticks_now();
    echo_pace.written_at = outbox->written_at;
    if (taken < 0) {
        echo_outbox_end(outbox, END_ERROR, (int)-taken);
        return;
    }
    outbox->sent_bytes += (uint64_t)taken;
    if (taken > 0 || !outbox->is_full)
        outbox->stuck_since = outbox->written_at;
    outbox->is_full = (size_t)taken < offered;
    echo_outbox_tell_waiting(outbox);
}

static void advance_front(struct outbox *outbox, size_t *taken)
{
    size_t size = outbox->front_to - outbox->front_from, step = *taken < size ? *taken : size;

    outbox->front_from += step;
    *taken -= step;
}

static void advance_large(struct outbox *outbox, size_t taken)
{
    if (outbox->large == NULL)
        return;
    outbox->large->begin += taken;
    if (outbox->large->begin < outbox->large->end)
        return;
    free(outbox->large);
    outbox->large = NULL;
}

/* What goes next: front and large. */
static int next_parts(struct outbox *outbox, struct iovec parts[2], size_t *size)
{
    int count = 0;

    if (outbox->front_to > outbox->front_from)
        parts[count++] = (struct iovec){outbox->front + outbox->front_from, outbox->front_to - outbox->front_from};
    if (outbox->large != NULL)
        parts[count++] =
            (struct iovec){outbox->large->bytes + outbox->large->begin, outbox->large->end - outbox->large->begin};
    *size = bytes_of_parts(parts, count);
    return count;
}

/* What is to be written next becomes `front` and `large`. Never swaps once there is a large frame: what is
 * staged by then comes after it. */
static void choose(struct outbox *outbox)
{
    for (int i = 0; i < 2 && outbox->large == NULL && outbox->front_to == outbox->front_from; i++) {
        swap(outbox);
        if (has_backlog(outbox))
            echo_outbox_refill(outbox);
    }
}

void echo_outbox_write(struct outbox *outbox, int in_host)
{
    struct wire *wire = outbox->wire;
    void *paused = NULL;
    struct iovec parts[2];
    size_t size, taken_bytes;
    ssize_t taken;
    int count;

    choose(outbox);
    count = next_parts(outbox, parts, &size);
    if (count == 0 || outbox->end != END_NOT)
        return;
    outbox->is_writing = 1;
    echo_outbox_unlock(outbox);
    if (in_host && size > PAUSE_WRITE_BYTES)
        paused = outbox->host->pause();
    taken = wire->operations->write(wire, parts, count);
    if (paused != NULL)
        outbox->host->resume(paused);
    outbox_lock(outbox);
    taken_bytes = taken > 0 ? (size_t)taken : 0;
    advance_front(outbox, &taken_bytes);
    advance_large(outbox, taken_bytes);
    end_write(outbox, taken, size);
}

void echo_outbox_pump(struct outbox *outbox, int in_host)
{
    for (int i = 0; i < 2; i++)
        if (has_work(outbox) && !outbox->is_writing && !outbox->is_full && outbox->end == END_NOT)
            echo_outbox_write(outbox, in_host);
    if (has_work(outbox) && outbox->end == END_NOT)
        echo_writer_call(outbox, ticks_now() + outbox->delay);
}

/* --- waiting for room --- */

static void await_change(struct outbox *outbox, int64_t timeout_ns, int *status)
{
    uint32_t seen = atomic_load(&outbox->changes);

    outbox->waiting++;
    echo_outbox_unlock(outbox);
    *status = echo_futex_wait(&outbox->changes, seen, timeout_ns);
    outbox_lock(outbox);
    outbox->waiting--;
}

static int64_t least(int64_t timeout_ns, int64_t bound_ns)
{
    if (bound_ns < 0)
        bound_ns = 0;
    return timeout_ns < 0 || timeout_ns > bound_ns ? bound_ns : timeout_ns;
}

static int await_room(struct outbox *outbox, int64_t timeout_ns)
{
    int64_t stalls_at = outbox->stuck_since + outbox->stall;
    struct wire *wire = outbox->wire;
    int status;

    outbox->is_writing = 1;
    echo_outbox_unlock(outbox);
    status = wire->operations->await_room(wire, least(timeout_ns, echo_ns_of(stalls_at - ticks_now())));
    outbox_lock(outbox);
    outbox->is_writing = 0;
    if (status > 0)
        outbox->is_full = 0;
    else if (status < 0 && status != -EINTR)
        echo_outbox_end(outbox, END_ERROR, -status);
    else if (ticks_now() - stalls_at >= 0)
        echo_outbox_end(outbox, END_STALLED, 0);
    echo_outbox_tell_waiting(outbox);
    return status;
}

int echo_outbox_work(struct outbox *outbox, int64_t timeout_ns)
{
    int status = 0;

    if (outbox->is_writing || !has_work(outbox))
        await_change(outbox, timeout_ns, &status);
    else if (outbox->is_full)
        status = await_room(outbox, timeout_ns);
    if (status != -EINTR && !outbox->is_writing && !outbox->is_full && outbox->end == END_NOT)
        echo_outbox_write(outbox, 0);
    return status == -EINTR ? -EINTR : 0;
}

/* --- large frames --- */

static void advance_parts(struct iovec **parts, int *count, size_t taken)
{
    while (*count > 0 && taken >= (*parts)->iov_len) {
        taken -= (*parts)->iov_len;
        ++*parts;
        --*count;
    }
    if (*count > 0) {
        (*parts)->iov_base = (uint8_t *)(*parts)->iov_base + taken;
        (*parts)->iov_len -= taken;
    }
}

/* Until all is taken or patience ends; no lock, not in the host. What was taken, or -errno if that is nothing. */
static ssize_t write_patiently(struct wire *wire, struct iovec *parts, int count, int64_t patience_ns)
{
    ssize_t total = 0, taken;
    int64_t until = patience_ns > 0 ? monotonic_ns() + patience_ns : 0;

    for (;;) {
        taken = wire->operations->write(wire, parts, count);
        if (taken < 0)
            return total > 0 ? total : taken;
        total += taken;
        advance_parts(&parts, &count, (size_t)taken);
        if (count == 0 || until == 0)
            return total;
        if (wire->operations->await_room(wire, least(-1, until - monotonic_ns())) <= 0)
            return total;
    }
}

int echo_outbox_write_large(struct outbox *outbox, const struct frame *frame, int64_t patience_ns)
{
    static const uint8_t zeros[FRAME_ALIGNMENT];
    uint32_t header[2] = {htole32(frame->size), htole32(frame->stream)};
    size_t size = frame_bytes(frame->size), before, taken_bytes, begun;
    struct iovec parts[4], *rest = parts;
    void *paused;
    int count = 4;
    ssize_t taken;

    swap(outbox);
    before = outbox->front_to - outbox->front_from;
    parts[0] = (struct iovec){outbox->front + outbox->front_from, before};
    parts[1] = (struct iovec){header, sizeof header};
    parts[2] = (struct iovec){(void *)(uintptr_t)frame->payload, frame->size};
    parts[3] = (struct iovec){(void *)(uintptr_t)zeros, size - FRAME_HEADER_BYTES - frame->size};
    outbox->is_writing = 1;
    echo_outbox_unlock(outbox);
    paused = outbox->host->pause();
    taken = write_patiently(outbox->wire, (struct iovec[]){parts[0], parts[1], parts[2], parts[3]}, count, patience_ns);
    if (paused != NULL)
        outbox->host->resume(paused);
    outbox_lock(outbox);
    taken_bytes = taken > 0 ? (size_t)taken : 0;
    begun = taken_bytes > before;
    advance_parts(&rest, &count, taken_bytes);
    advance_front(outbox, &taken_bytes);
    end_write(outbox, taken, before + size);
    if (begun && count > 0) {
        outbox->large = echo_piece_of(rest, count);
        if (outbox->large == NULL)
            echo_outbox_end(outbox, END_MEMORY, 0);
    }
    if (has_work(outbox) && outbox->end == END_NOT) /* it may be the last that is put for long */
        echo_writer_call(outbox, ticks_now() + outbox->delay);
    outbox->sent_frames += begun;
    return (int)begun;
}
