/* From bytes to streams: reads a chunk, and hands out the frames that are complete in it. */
#include "links/link.h"

#include "links/errors.h"
#include "links/pool.h"

#include "core/outbox/staging.h"

#include <errno.h>

/* Consecutive frames of one stream are handed out so many at a time. */
#define MAX_RUN 64

/* For a stream whose sinks make nobody wait. */
static const struct space all_space = {MAX_RUN, PY_SSIZE_T_MAX};

/* Whether the thread that reads is one that waits for events: it has a deadline, and may be the one that whoever makes
 * room waits for. */
static inline int is_led(const struct link *link)
{
    return atomic_load(&link->role) == ROLE_LEADING;
}

/* --- streams --- */

/* The IncomingStream of a stream, borrowed; NULL where it was unbound. -1 with WireError. */
static int incoming_of(const struct link *link, uint32_t stream, struct incoming_stream **incoming)
{
    size_t index = (size_t)stream - FIRST_STREAM;

    if (stream < FIRST_STREAM || index >= link->incoming_count || link->incoming[index] == NULL) {
        echo_raise("WireError", "Expected a stream that was asked for, got %lu", (unsigned long)stream);
        return -1;
    }
    *incoming = link->incoming[index] != Py_None ? (struct incoming_stream *)(void *)link->incoming[index] : NULL;
    return 0;
}

/* For a frame with `size` bytes of the stream's records, and what follows it. */
static struct space space_for(const struct link *link, uint32_t stream, Py_ssize_t size)
{
    size_t index = (size_t)stream - FIRST_STREAM;
    PyObject *incoming = stream >= FIRST_STREAM && index < link->incoming_count ? link->incoming[index] : NULL;
    struct space space = all_space;

    if (incoming != NULL && incoming != Py_None)
        echo_incoming_narrow((struct incoming_stream *)(void *)incoming, size, &space);
    return space;
}

/* --- control frames --- */

/* A count that would begin anew is no source's; that of the losses goes on where a stream starts again. */
static int check_gap(const struct incoming_stream *incoming, uint64_t events)
{
    if (events > UINT64_MAX - incoming->sequence)
        return echo_raise("WireError", "Expected a gap after event %llu, got one of %llu events",
                          (unsigned long long)incoming->sequence, (unsigned long long)events);
    if (events > UINT64_MAX - incoming->lost)
        return echo_raise("WireError", "Expected a gap after %llu lost events, got one of %llu events",
                          (unsigned long long)incoming->lost, (unsigned long long)events);
    return 0;
}

static int take_gap(const struct link *link, const struct frame *frame)
{
    struct incoming_stream *incoming;
    uint64_t events;

    if (frame->size != GAP_PAYLOAD_BYTES)
        return echo_raise("WireError", "Expected a gap of 16 bytes, got %lu", (unsigned long)frame->size);
    if (incoming_of(link, load_little32(frame->payload), &incoming) != 0)
        return -1;
    if (incoming == NULL)
        return 0;
    events = load_little64(frame->payload + 8);
    if (check_gap(incoming, events) != 0)
        return -1;
    incoming->sequence += events;
    incoming->lost += events;
    return 0;
}

/* The limit is for a block with one record. Those of fixed size are one after the other, and as large as was agreed. */
static int hand_loan(const struct link *link, uint32_t stream, const struct record *record, PyObject *owner)
{
    struct incoming_stream *incoming;

    if (incoming_of(link, stream, &incoming) != 0)
        return -1;
    if (incoming == NULL)
        return 0;
    if (incoming->record_size != 0 || record->size <= (Py_ssize_t)link->max_payload)
        return echo_incoming_hand(incoming, record, 1, owner, is_led(link));
    return echo_raise("WireError", "Expected a payload of at most %lu bytes, got %zd - in a loan for stream %lu",
                      (unsigned long)link->max_payload, record->size, (unsigned long)stream);
}

static int take_loan(const struct link *link, const struct frame *frame)
{
    struct record record;
    PyObject *owner;
    uint32_t stream;
    int status;

    if (link->mapping == NULL)
        return echo_raise("WireError", "Received a loan, but no memory is shared on this link");
    if (echo_loan_open(link->mapping, frame->payload, frame->size, &record, &stream, &owner) != 0)
        return -1;
    status = hand_loan(link, stream, &record, owner);
    Py_DECREF(owner);
    return status;
}

static int take_message(struct link *link, const struct frame *frame)
{
    PyObject *control, *kind, *payload, *result = NULL;

    control = Py_XNewRef(link->control);
    kind = PyLong_FromUnsignedLong(frame->stream);
    payload = PyBytes_FromStringAndSize((const char *)frame->payload, (Py_ssize_t)frame->size);
    if (control != NULL && kind != NULL && payload != NULL)
        result = PyObject_CallFunctionObjArgs(control, kind, payload, NULL);
    Py_XDECREF(control);
    Py_XDECREF(kind);
    Py_XDECREF(payload);
    Py_XDECREF(result);
    return result != NULL || PyErr_Occurred() == NULL ? 0 : -1; /* cleared by the garbage collector: no callable */
}

static int take_control(struct link *link, const struct frame *frame)
{
    switch (frame->stream) {
    case KIND_GAP:
        return take_gap(link, frame);
    case KIND_LOAN:
        return take_loan(link, frame);
    default:
        return take_message(link, frame);
    }
}

/* --- handing out --- */

/* The next frame of the intake, as echo_frame_next. */
static int64_t next_frame(struct link *link, struct frame *frame)
{
    struct intake *intake = &link->intake;

    return echo_frame_next(current_chunk(intake)->bytes + intake->begin, intake->end - intake->begin, link->max_payload,
                           frame, &intake->need);
}

static int refuse(const struct link *link, const struct frame *frame)
{
    if (frame->stream == 0)
        return echo_raise("WireError", "Expected a frame, got one of stream 0");
    return echo_raise("WireError", "Expected a payload of at most %lu bytes, got %lu - in a frame of stream %lu",
                      (unsigned long)link->max_payload, (unsigned long)frame->size, (unsigned long)frame->stream);
}

/* The frames that follow each other in the stream of the first, as many as there is room for: at least that one.
 * *frame and *size become what next_frame says of the one behind them. */
static int hand_out_run(struct link *link, struct frame *frame, int64_t *size, struct space space,
                        struct gathering *gathering, PyObject *chunk)
{
    struct record records[MAX_RUN];
    struct incoming_stream *incoming;
    uint32_t stream = frame->stream;
    Py_ssize_t count = 0;

    do {
        records[count++] = (struct record){.bytes = frame->payload, .size = (Py_ssize_t)frame->size};
        space.bytes -= (Py_ssize_t)frame->size;
        link->intake.begin += (size_t)*size;
        *size = next_frame(link, frame);
    } while (*size > 0 && frame->stream == stream && count < space.frames && (Py_ssize_t)frame->size <= space.bytes);
    link->received_frames += (uint64_t)count;
    gathering->is_on = count > 1 || *size > 0;
    if (incoming_of(link, stream, &incoming) != 0)
        return -1;
    return incoming != NULL ? echo_incoming_hand(incoming, records, count, chunk, is_led(link)) : 0;
}

static int hand_out_control(struct link *link, struct frame *frame, int64_t *size, struct gathering *gathering)
{
    struct frame control = *frame;

    link->intake.begin += (size_t)*size;
    *size = next_frame(link, frame);
    link->received_frames++;
    gathering->is_on = *size > 0;
    return take_control(link, &control);
}

/* What a leader leaves to run. Control code is the owner's, and half of it would be done where an interrupt hits it.
 * Records for which a queue has no room would have it wait there, past its own deadline and perhaps for itself; run
 * waits. *space: for what else there is. */
static int is_for_run(const struct link *link, const struct frame *frame, struct space *space)
{
    Py_ssize_t size = (Py_ssize_t)frame->size;
    uint32_t stream = frame->stream;

    if (stream == KIND_GAP || (stream == KIND_LOAN && frame->size != LOAN_PAYLOAD_BYTES))
        return 0;
    if (stream == KIND_LOAN) {
        stream = load_little32(frame->payload);
        size = (Py_ssize_t)load_little64(frame->payload + 8);
    } else if (stream < FIRST_STREAM)
        return 1;
    *space = space_for(link, stream, size);
    return space->frames < 1 || space->bytes < size;
}

/* Whoever caused it has no use for the exception; run raises it. */
static enum step fail(struct link *link)
{
    PyObject *exception = echo_take_exception();

    if (link->failure == NULL)
        link->failure = Py_NewRef(exception);
    Py_DECREF(exception);
    echo_link_end(link, END_SHUT);
    return STEP_ENDED;
}

/* All frames that are complete, up to one that a leader leaves to run. */
static enum step hand_out(struct link *link)
{
    PyObject *chunk = Py_NewRef((PyObject *)current_chunk(&link->intake));
    struct gathering gathering;
    struct space space = all_space;
    enum step step = STEP_NOTHING;
    struct frame frame;
    int64_t size = next_frame(link, &frame);
    int status = 0;

    gathering_begin(&gathering, &link->ob_base);
    while (size != 0 && status == 0 && !link->is_ended && !has_forked_since(link->forks)) {
        if (size < 0)
            status = refuse(link, &frame);
        else if (is_led(link) && is_for_run(link, &frame, &space))
            break;
        else if (frame.stream >= FIRST_STREAM)
            status = hand_out_run(link, &frame, &size, space, &gathering, chunk);
        else
            status = hand_out_control(link, &frame, &size, &gathering);
        step = STEP_READ;
    }
    link->is_unfinished = size != 0;
    echo_gathering_end(&gathering);
    Py_DECREF(chunk);
    if (status == 0)
        return step;
    /* A KeyboardInterrupt is the thread's, and no fault of the link. */
    return PyErr_ExceptionMatches(PyExc_Exception) ? fail(link) : STEP_RAISED;
}

/* --- reading --- */

static enum end end_of(struct link *link)
{
    enum end end;

    outbox_lock(&link->outbox);
    end = link->outbox.end;
    echo_outbox_unlock(&link->outbox);
    return end;
}

/* The wire is at its end, or broken (`error`). */
static enum step end_reading(struct link *link, int error)
{
    size_t have = link->intake.end - link->intake.begin;
    enum end end = end_of(link);

    if (end != END_NOT && end != END_PEER)
        echo_link_raise_end(link);
    else if (error != 0)
        echo_raise("LinkError", "Receiving failed: %s", strerror(error));
    else if (have > 0)
        echo_raise("LinkError", "Received %zu of %s%zu bytes of a frame; peer closed the connection", have,
                   have < FRAME_HEADER_BYTES ? "at least " : "", link->intake.need);
    else {
        echo_link_end(link, END_PEER);
        return STEP_ENDED;
    }
    return fail(link);
}

static enum step read_more(struct link *link, int64_t timeout_ns)
{
    struct intake *intake = &link->intake;
    size_t size = echo_intake_prepare(intake);
    PyThreadState *state;
    uint8_t *room;
    ssize_t count;

    if (size == 0)
        return fail(link);
    room = current_chunk(intake)->bytes + intake->end;
    state = PyEval_SaveThread();
    count = link->wire->operations->read(link->wire, room, size, timeout_ns);
    PyEval_RestoreThread(state);
    if (count > 0) {
        intake->end += (size_t)count;
        link->received_bytes += (uint64_t)count;
        atomic_fetch_add_explicit(&link->reads, 1, memory_order_relaxed);
    }
    if (link->is_ended)
        return STEP_ENDED;
    if (count > 0)
        return STEP_READ;
    if (count == -EINTR)
        return PyErr_CheckSignals() == 0 ? STEP_NOTHING : STEP_RAISED;
    if (count == -EAGAIN || count == -EWOULDBLOCK)
        return STEP_NOTHING;
    return end_reading(link, (int)-count);
}

enum step echo_link_read(struct link *link, int64_t timeout_ns)
{
    enum step step;

    if (link->is_ended || has_forked_since(link->forks))
        return STEP_ENDED;
    step = link->is_unfinished ? STEP_READ : read_more(link, timeout_ns);
    return step == STEP_READ ? hand_out(link) : step;
}
