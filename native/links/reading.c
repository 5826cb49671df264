/* From bytes to streams: reads a chunk, and hands out the frames that are complete in it. */
#include "links/link.h"

#include "links/controls.h"
#include "links/errors.h"
#include "links/pool.h"

#include "core/outbox/staging.h"

#include <errno.h>

/* Whether the thread that reads is one that waits for events, and has a deadline. */
static inline int is_led(const struct link *link)
{
    return atomic_load(&link->role) == ROLE_LEADING;
}

#define TIMED_LOAN_BYTES (LOAN_PAYLOAD_BYTES + TIME_BYTES)

/* --- handing over --- */

/* `owner`: of the records' bytes. A leader's is not watched: it hands over to queues alone. */
static inline int hand(struct link *link, struct incoming_stream *incoming, struct handing *handing,
                       const struct record *records, Py_ssize_t count, PyObject *owner)
{
    int status;

    handing->records = records;
    handing->count = count;
    handing->owner = owner;
    handing->next = 0;
    link->wire->is_lively = 1;
    if (is_led(link))
        return echo_incoming_hand(incoming, &link->detours, handing);
    echo_watched_begin(&link->watched);
    status = echo_incoming_hand(incoming, &link->detours, handing);
    if (handing->detour == NULL)
        echo_watched_end(&link->watched);
    return status;
}

/* The time that a frame of the stream, or a loan, has: 0, or -1 with WireError. */
static int take_time(uint32_t stream, const uint8_t *time, struct record *record)
{
    uint64_t ns = load_little64(time);

    if (ns - 1 >= INT64_MAX)
        return echo_raise("WireError", "Expected a time of submission from 1 to 2**63 - 1 ns, got %llu - in stream %lu",
                          (unsigned long long)ns, (unsigned long)stream);
    record->submitted_ns = (int64_t)ns;
    return 0;
}

/* Those that frames begin with, where their source tells them. */
static int take_times(uint32_t stream, struct record *records, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (records[i].size < TIME_BYTES)
            return echo_raise("WireError", "Expected a time of %d bytes before the records, got %zd - in stream %lu",
                              TIME_BYTES, records[i].size, (unsigned long)stream);
        if (take_time(stream, records[i].bytes, &records[i]) != 0)
            return -1;
        records[i].bytes += TIME_BYTES;
        records[i].size -= TIME_BYTES;
    }
    return 0;
}

static int take_time_of_loan(const struct incoming_stream *incoming, const struct frame *frame, uint32_t stream,
                             struct record *record)
{
    if (incoming->has_times != (frame->size == TIMED_LOAN_BYTES))
        return echo_raise("WireError", "Expected a loan %s time of submission - for stream %lu",
                          incoming->has_times ? "with a" : "without a", (unsigned long)stream);
    return incoming->has_times ? take_time(stream, frame->payload + LOAN_PAYLOAD_BYTES, record) : 0;
}

/* The limit is for a block with one record. Those of fixed size are one after the other, and as large as was agreed. */
static int hand_loan(struct link *link, struct handing *handing, const struct frame *frame, uint32_t stream,
                     struct record *record, PyObject *owner)
{
    struct incoming_stream *incoming;

    if (link_incoming(link, stream, &incoming) != 0)
        return -1;
    if (incoming == NULL)
        return 0;
    if (take_time_of_loan(incoming, frame, stream, record) != 0)
        return -1;
    if (incoming->record_size != 0 || record->size <= (Py_ssize_t)link->max_payload)
        return hand(link, incoming, handing, record, 1, owner);
    return echo_raise("WireError", "Expected a payload of at most %lu bytes, got %zd - in a loan for stream %lu",
                      (unsigned long)link->max_payload, record->size, (unsigned long)stream);
}

static int take_loan(struct link *link, struct handing *handing, const struct frame *frame)
{
    struct record record;
    PyObject *owner;
    uint32_t stream, size;
    int status;

    if (link->mapping == NULL)
        return echo_raise("WireError", "Received a loan, but no memory is shared on this link");
    size = frame->size == TIMED_LOAN_BYTES ? LOAN_PAYLOAD_BYTES : frame->size;
    if (echo_loan_open(link->mapping, frame->payload, size, &record, &stream, &owner) != 0)
        return -1;
    status = hand_loan(link, handing, frame, stream, &record, owner);
    Py_DECREF(owner);
    return status;
}

static int take_control(struct link *link, struct handing *handing, const struct frame *frame)
{
    switch (frame->stream) {
    case KIND_GAP:
        return echo_link_take_gap(link, frame);
    case KIND_LOAN:
        return take_loan(link, handing, frame);
    case KIND_ASK:
        return echo_link_take_question(link, frame);
    case KIND_CREDIT:
        return echo_link_take_grant(link, frame);
    default:
        return echo_link_take_message(link, frame);
    }
}

/* --- handing out --- */

/* The next frame of the intake, as frame_first. */
static int64_t next_frame(struct link *link, struct frame *frame)
{
    struct intake *intake = &link->intake;

    return frame_first(current_chunk(intake)->bytes + intake->begin, intake->end - intake->begin, link->max_payload,
                       frame, &intake->need);
}

static int refuse(const struct link *link, const struct frame *frame)
{
    if (frame->stream == 0)
        return echo_raise("WireError", "Expected a frame, got one of stream 0");
    if (frame->stream < FIRST_STREAM && frame->size > MAX_CONTROL_BYTES)
        return echo_raise("WireError", "Expected a control frame of at most %d bytes, got %lu - of kind %lu",
                          MAX_CONTROL_BYTES, (unsigned long)frame->size, (unsigned long)frame->stream);
    return echo_raise("WireError", "Expected a payload of at most %lu bytes, got %lu - in a frame of stream %lu",
                      (unsigned long)link->max_payload, (unsigned long)frame->size, (unsigned long)frame->stream);
}

/* The frames that follow each other in the stream of the first. *frame and *size become what next_frame says of the
 * one behind them. */
static int hand_out_run(struct link *link, struct handing *handing, struct frame *frame, int64_t *size,
                        struct gathering *gathering, PyObject *chunk)
{
    struct record records[MAX_RUN];
    struct incoming_stream *incoming;
    uint32_t stream = frame->stream;
    Py_ssize_t count = 0;

    do {
        records[count++] = (struct record){.bytes = frame->payload, .size = (Py_ssize_t)frame->size};
        link->intake.begin += (size_t)*size;
        *size = next_frame(link, frame);
    } while (*size > 0 && frame->stream == stream && count < MAX_RUN);
    link_counts(&link->received_frames, (uint64_t)count);
    gathering->is_on = count > 1 || *size > 0;
    if (link_incoming(link, stream, &incoming) != 0)
        return -1;
    if (incoming == NULL)
        return 0;
    if (incoming->has_times && take_times(stream, records, count) != 0)
        return -1;
    return hand(link, incoming, handing, records, count, chunk);
}

static int hand_out_control(struct link *link, struct handing *handing, struct frame *frame, int64_t *size,
                            struct gathering *gathering)
{
    struct frame control = *frame;

    link->intake.begin += (size_t)*size;
    *size = next_frame(link, frame);
    link_counts(&link->received_frames, 1);
    gathering->is_on = *size > 0;
    return take_control(link, handing, &control);
}

/* Whether handlers get what comes of a stream. */
static int has_handlers(const struct link *link, uint32_t stream)
{
    size_t index = (size_t)stream - FIRST_STREAM;
    PyObject *incoming = stream >= FIRST_STREAM && index < link->incoming_count ? link->incoming[index] : NULL;

    return incoming != NULL && incoming != Py_None && ((struct incoming_stream *)(void *)incoming)->has_handlers;
}

/* What a leader leaves to run. Handlers would hold it up. Control code is the owner's, and half of it would be done
 * where an interrupt hits it. */
static int is_for_run(const struct link *link, const struct frame *frame)
{
    if (frame->stream >= FIRST_STREAM)
        return has_handlers(link, frame->stream);
    if (frame->stream == KIND_LOAN)
        return frame->size >= LOAN_PAYLOAD_BYTES && has_handlers(link, load_little32(frame->payload));
    return frame->stream != KIND_GAP && frame->stream != KIND_CREDIT && frame->stream != KIND_ASK;
}

enum step echo_link_fail(struct link *link)
{
    PyObject *exception = echo_take_exception();

    if (link->failure == NULL)
        link->failure = Py_NewRef(exception);
    Py_DECREF(exception);
    echo_link_end(link, END_SHUT);
    return STEP_ENDED;
}

/* The rest of a frame is not waited for where nobody has asked for its stream. */
static int check_unfinished(const struct link *link, const struct frame *frame)
{
    struct incoming_stream *incoming;

    if (link->intake.need <= FRAME_HEADER_BYTES || frame->stream < FIRST_STREAM)
        return 0;
    return link_incoming(link, frame->stream, &incoming);
}

/* A KeyboardInterrupt is the thread's, and no fault of the link. */
static enum step end_step(struct link *link, enum step step, int status)
{
    if (status == 0)
        return step;
    return PyErr_ExceptionMatches(PyExc_Exception) ? echo_link_fail(link) : STEP_RAISED;
}

/* All frames that are complete, up to one that a leader leaves to run. */
static enum step hand_out(struct link *link, struct handing *handing)
{
    PyObject *chunk = Py_NewRef((PyObject *)current_chunk(&link->intake));
    struct gathering gathering;
    enum step step = STEP_NOTHING;
    struct frame frame;
    int64_t size = next_frame(link, &frame);
    int status = 0;

    handing->detour = NULL;
    link->wire->is_lively = is_led(link); /* credit and the like may be the last for long */
    gathering_begin(&gathering, &link->ob_base);
    while (size != 0 && status == 0 && handing->detour == NULL && !link->is_ended && !has_forked_since(link->forks)) {
        if (size < 0)
            status = refuse(link, &frame);
        else if (is_led(link) && is_for_run(link, &frame))
            break;
        else if (frame.stream >= FIRST_STREAM)
            status = hand_out_run(link, handing, &frame, &size, &gathering, chunk);
        else
            status = hand_out_control(link, handing, &frame, &size, &gathering);
        step = STEP_READ;
    }
    if (size == 0 && status == 0 && handing->detour == NULL && !link->is_ended)
        status = check_unfinished(link, &frame);
    if (handing->detour == NULL) /* whoever reads next has taken the link from this thread, which orders this */
        atomic_store_explicit(&link->is_unfinished, size != 0, memory_order_relaxed);
    echo_gathering_end(&gathering);
    Py_DECREF(chunk);
    return handing->detour == NULL ? end_step(link, step, status) : STEP_OVERTAKEN;
}

enum step echo_link_go_on(struct link *link, struct handing *handing)
{
    struct gathering gathering;
    int status;

    gathering_begin(&gathering, &link->ob_base);
    status = echo_handing_take_over(&link->detours, handing);
    if (handing->detour == NULL)
        echo_watched_end(&link->watched);
    echo_gathering_end(&gathering);
    return handing->detour == NULL ? end_step(link, STEP_READ, status) : STEP_OVERTAKEN;
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
    return echo_link_fail(link);
}

/* Takes the credit that what was read begins with. */
static void take_credits(struct link *link)
{
    struct intake *intake = &link->intake;

    while (link_takes_credit(link, current_chunk(intake)->bytes + intake->begin, intake->end - intake->begin))
        intake->begin += CREDIT_FRAME_BYTES;
}

/* What a read ends with whose role was given back, so that the link can rest. No wire says so. */
#define DOZES (-ECANCELED)

/* Nothing came in time. 0: the reader waits on; DOZES, where the link is idle; -EAGAIN: the caller looks up. No GIL. Cold:
 * the way of events has no registers for it. */
static __attribute__((cold, noinline)) ssize_t after_nothing(struct link *link, int64_t timeout_ns)
{
    if (is_led(link))
        return -EAGAIN;
    if (echo_link_is_idle(link))
        return echo_link_doze(link) ? DOZES : 0;
    return timeout_ns != 0 ? 0 : -EAGAIN;
}

/* As the wire's read, with what was read in the intake, and without what is only credit. No GIL: a source that waits for
 * credit gets it also while a thread of its process keeps the GIL. A leader has a deadline, so it looks up. */
static ssize_t read_wire(struct link *link, size_t size, int64_t timeout_ns)
{
    struct intake *intake = &link->intake;
    size_t begin = intake->begin;
    ssize_t count;

    for (;;) {
        count = link->wire->operations->read(link->wire, current_chunk(intake)->bytes + intake->end, size, timeout_ns);
        if (count <= 0) {
            if (count != -EAGAIN || (count = after_nothing(link, timeout_ns)) != 0)
                return count;
            continue;
        }
        intake->end += (size_t)count;
        link_counts(&link->received_bytes, (uint64_t)count);
        link_counts(&link->reads, 1);
        take_credits(link);
        if (intake->begin < intake->end || is_led(link))
            return count;
        intake->begin = intake->end = begin; /* nobody refers to credit */
        link->wire->is_lively = 0;
    }
}

static enum step read_more(struct link *link, int64_t timeout_ns)
{
    size_t size = echo_intake_prepare(&link->intake);
    PyThreadState *state;
    ssize_t count;

    if (size == 0)
        return echo_link_fail(link);
    state = PyEval_SaveThread();
    count = read_wire(link, size, timeout_ns);
    PyEval_RestoreThread(state);
    if (count == DOZES)
        return STEP_IDLE;
    if (link->is_ended)
        return STEP_ENDED;
    if (count > 0)
        return STEP_READ;
    if (count == -EINTR)
        return PyErr_CheckSignals() == 0 ? STEP_NOTHING : STEP_RAISED;
    if (count == -EAGAIN)
        return STEP_NOTHING;
    return end_reading(link, (int)-count);
}

enum step echo_link_read(struct link *link, struct handing *handing, int64_t timeout_ns)
{
    enum step step;

    if (link->is_ended || has_forked_since(link->forks))
        return STEP_ENDED;
    step = link->is_unfinished ? STEP_READ : read_more(link, timeout_ns);
    return step == STEP_READ ? hand_out(link, handing) : step;
}
