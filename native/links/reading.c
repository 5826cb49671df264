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

/* A new reference to the IncomingStream of a stream, or to None where it was unbound; NULL with WireError. */
static PyObject *incoming_of(const struct link *link, uint32_t stream)
{
    size_t index = (size_t)stream - FIRST_STREAM;

    if (stream < FIRST_STREAM || index >= link->incoming_count || link->incoming[index] == NULL) {
        echo_raise("WireError", "Expected a stream that was asked for, got %lu", (unsigned long)stream);
        return NULL;
    }
    return Py_NewRef(link->incoming[index]);
}

static int hand(const struct link *link, uint32_t stream, const struct record *records, Py_ssize_t count,
                PyObject *owner)
{
    PyObject *incoming = incoming_of(link, stream);
    int status = -1;

    if (incoming == NULL)
        return -1;
    status = incoming == Py_None
                 ? 0
                 : echo_incoming_hand((struct incoming_stream *)(void *)incoming, records, count, owner, is_led(link));
    Py_DECREF(incoming);
    return status;
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
        echo_raise("WireError", "Expected a gap after event %llu, got one of %llu events",
                   (unsigned long long)incoming->sequence, (unsigned long long)events);
    else if (events > UINT64_MAX - incoming->lost)
        echo_raise("WireError", "Expected a gap after %llu lost events, got one of %llu events",
                   (unsigned long long)incoming->lost, (unsigned long long)events);
    else
        return 0;
    return -1;
}

static int take_gap(const struct link *link, const struct frame *frame)
{
    struct incoming_stream *incoming;
    PyObject *object;
    uint64_t events;

    if (frame->size != GAP_PAYLOAD_BYTES) {
        echo_raise("WireError", "Expected a gap of 16 bytes, got %lu", (unsigned long)frame->size);
        return -1;
    }
    object = incoming_of(link, load_little32(frame->payload));
    if (object == NULL)
        return -1;
    events = load_little64(frame->payload + 8);
    incoming = object != Py_None ? (struct incoming_stream *)(void *)object : NULL;
    if (incoming != NULL && check_gap(incoming, events) != 0) {
        Py_DECREF(object);
        return -1;
    }
    if (incoming != NULL) {
        incoming->sequence += events;
        incoming->lost += events;
    }
    Py_DECREF(object);
    return 0;
}

/* Where a block holds one record. Those of fixed size are one after the other, and as large as was agreed. */
static int is_loan_too_large(const struct link *link, uint32_t stream, Py_ssize_t size)
{
    PyObject *incoming = incoming_of(link, stream);
    int is_it;

    if (incoming == NULL)
        return 1;
    is_it = incoming != Py_None && ((struct incoming_stream *)(void *)incoming)->record_size == 0 &&
            size > (Py_ssize_t)link->max_payload;
    Py_DECREF(incoming);
    if (is_it)
        echo_raise("WireError", "Expected a payload of at most %lu bytes, got %zd - in a loan for stream %lu",
                   (unsigned long)link->max_payload, size, (unsigned long)stream);
    return is_it;
}

static int take_loan(const struct link *link, const struct frame *frame)
{
    struct record record;
    PyObject *owner;
    uint32_t stream;
    int status;

    if (link->mapping == NULL) {
        echo_raise("WireError", "Received a loan, but no memory is shared on this link");
        return -1;
    }
    if (echo_loan_open(link->mapping, frame->payload, frame->size, &record, &stream, &owner) != 0)
        return -1;
    status = is_loan_too_large(link, stream, record.size) ? -1 : hand(link, stream, &record, 1, owner);
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
static int64_t next_frame(const struct link *link, struct frame *frame, size_t *need)
{
    const struct intake *intake = &link->intake;
    const struct chunk *chunk = current_chunk(intake);

    *need = FRAME_HEADER_BYTES;
    if (chunk == NULL)
        return 0;
    return echo_frame_next(chunk->bytes + intake->begin, intake->end - intake->begin, link->max_payload, frame, need);
}

static int refuse(const struct link *link, const struct frame *frame)
{
    if (frame->stream == 0)
        echo_raise("WireError", "Expected a frame, got one of stream 0");
    else
        echo_raise("WireError", "Expected a payload of at most %lu bytes, got %lu - in a frame of stream %lu",
                   (unsigned long)link->max_payload, (unsigned long)frame->size, (unsigned long)frame->stream);
    return -1;
}

/* The frames of `first`'s stream that follow each other, as many as there is room for: at least the first. *size: what
 * next_frame says of the one behind them. */
static Py_ssize_t collect(struct link *link, const struct frame *first, struct space space, struct record *records,
                          int64_t *size)
{
    struct frame frame = *first;
    Py_ssize_t count = 0;
    size_t need;

    do {
        records[count++] = (struct record){.bytes = frame.payload, .size = (Py_ssize_t)frame.size};
        space.bytes -= (Py_ssize_t)frame.size;
        link->intake.begin += (size_t)*size;
        *size = next_frame(link, &frame, &need);
    } while (*size > 0 && frame.stream == first->stream && count < space.frames &&
             (Py_ssize_t)frame.size <= space.bytes);
    return count;
}

static int hand_out_run(struct link *link, const struct frame *first, int64_t size, struct space space,
                        struct gathering *gathering, PyObject *chunk)
{
    struct record records[MAX_RUN];
    Py_ssize_t count = collect(link, first, space, records, &size);

    link->received_frames += (uint64_t)count;
    echo_gathering_set(gathering, count > 1 || size > 0);
    return hand(link, first->stream, records, count, chunk);
}

static int hand_out_control(struct link *link, const struct frame *frame, int64_t size, struct gathering *gathering)
{
    struct frame next;
    size_t need;

    link->intake.begin += (size_t)size;
    link->received_frames++;
    echo_gathering_set(gathering, next_frame(link, &next, &need) > 0);
    return take_control(link, frame);
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

/* All frames that are complete, up to one that a leader leaves to run. How many there were, or -1 with an
 * exception. */
static Py_ssize_t hand_out(struct link *link)
{
    PyObject *chunk = Py_XNewRef((PyObject *)current_chunk(&link->intake));
    struct gathering gathering;
    struct space space = all_space;
    struct frame frame;
    Py_ssize_t count = 0;
    int64_t size;
    size_t need;
    int status = 0;

    echo_gathering_begin(&gathering, &link->ob_base);
    while (status == 0 && !link->is_ended && !has_forked_since(link->forks) &&
           (size = next_frame(link, &frame, &need)) != 0) {
        if (size < 0)
            status = refuse(link, &frame);
        else if (is_led(link) && is_for_run(link, &frame, &space))
            break;
        else if (frame.stream >= FIRST_STREAM)
            status = hand_out_run(link, &frame, size, space, &gathering, chunk);
        else
            status = hand_out_control(link, &frame, size, &gathering);
        count++;
    }
    echo_gathering_end(&gathering);
    Py_XDECREF(chunk);
    return status == 0 ? count : -1;
}

/* --- reading --- */

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

static enum step hand_out_or_fail(struct link *link)
{
    Py_ssize_t count = hand_out(link);
    struct frame frame;
    size_t need;

    link->is_unfinished = next_frame(link, &frame, &need) != 0;
    if (count >= 0)
        return count > 0 ? STEP_READ : STEP_NOTHING;
    /* A KeyboardInterrupt is the thread's, and no fault of the link. */
    return PyErr_ExceptionMatches(PyExc_Exception) ? fail(link) : STEP_RAISED;
}

static enum end end_of(struct link *link)
{
    enum end end;

    outbox_lock(&link->outbox);
    end = link->outbox.end;
    echo_outbox_unlock(&link->outbox);
    return end;
}

/* The wire is at its end, or broken (`error`). */
static enum step end_reading(struct link *link, size_t need, int error)
{
    size_t have = link->intake.end - link->intake.begin;
    enum end end = end_of(link);

    if (link->is_ended)
        return STEP_ENDED;
    if (end != END_NOT && end != END_PEER)
        echo_link_raise_end(link);
    else if (error != 0)
        echo_raise("LinkError", "Receiving failed: %s", strerror(error));
    else if (have > 0)
        echo_raise("LinkError", "Received %zu of %s%zu bytes of a frame; peer closed the connection", have,
                   have < FRAME_HEADER_BYTES ? "at least " : "", need);
    else {
        echo_link_end(link, END_PEER);
        return STEP_ENDED;
    }
    return fail(link);
}

static ssize_t read_more(struct link *link, size_t size, int64_t timeout_ns)
{
    struct intake *intake = &link->intake;
    uint8_t *room = current_chunk(intake)->bytes + intake->end;
    PyThreadState *state = PyEval_SaveThread();
    ssize_t count = link->wire->operations->read(link->wire, room, size, timeout_ns);

    PyEval_RestoreThread(state);
    if (count > 0) {
        intake->end += (size_t)count;
        link->received_bytes += (uint64_t)count;
        atomic_fetch_add_explicit(&link->reads, 1, memory_order_relaxed);
    }
    return count;
}

enum step echo_link_read(struct link *link, int64_t timeout_ns)
{
    struct frame frame;
    size_t need, size;
    ssize_t count;

    if (link->is_ended || has_forked_since(link->forks))
        return STEP_ENDED;
    if (next_frame(link, &frame, &need) != 0)
        return hand_out_or_fail(link);
    size = echo_intake_prepare(&link->intake, need);
    if (size == 0)
        return fail(link);
    count = read_more(link, size, timeout_ns);
    if (link->is_ended)
        return STEP_ENDED;
    if (count == -EINTR)
        return PyErr_CheckSignals() == 0 ? STEP_NOTHING : STEP_RAISED;
    if (count == -EAGAIN || count == -EWOULDBLOCK)
        return STEP_NOTHING;
    if (count <= 0)
        return end_reading(link, need, (int)-count);
    return hand_out_or_fail(link);
}
