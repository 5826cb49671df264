/* What comes on a link beside events: gaps, credit, and what Python code is for. Loans are events (reading.c).
 *
 * Credit is mostly taken where it leads what was read, or of a link that rests, without the GIL (link_takes_credit).
 */
#include "links/controls.h"

#include <errno.h>

/* How much credit is peeked at, at a time. */
#define PEEKED_FRAMES 85

/* A count that would begin anew is no source's; that of the losses goes on where a stream starts again. */
static int check_gap(const struct incoming_stream *incoming, uint64_t events)
{
    if (incoming->sequence > MAX_NUMBER || events > MAX_NUMBER - incoming->sequence)
        return echo_raise("WireError", "Expected a gap after event %llu, got one of %llu events",
                          (unsigned long long)incoming->sequence, (unsigned long long)events);
    if (events > UINT64_MAX - incoming->lost)
        return echo_raise("WireError", "Expected a gap after %llu lost events, got one of %llu events",
                          (unsigned long long)incoming->lost, (unsigned long long)events);
    return 0;
}

int echo_link_take_gap(const struct link *link, const struct frame *frame)
{
    struct incoming_stream *incoming;
    uint64_t events;
    int is_loss;

    if (frame->size != GAP_PAYLOAD_BYTES)
        return echo_raise("WireError", "Expected a gap of 16 bytes, got %lu", (unsigned long)frame->size);
    is_loss = load_little32(frame->payload + 4) == GAP_OF_DROPPED;
    if (link_incoming(link, load_little32(frame->payload), &incoming) != 0)
        return -1;
    if (incoming == NULL)
        return 0;
    if (!is_loss && (load_little32(frame->payload + 4) != GAP_OF_NOT_KEPT || !incoming->is_keyed))
        return echo_raise("WireError", "Expected 0 in front of a gap's events, got %lu",
                          (unsigned long)load_little32(frame->payload + 4));
    events = load_little64(frame->payload + 8);
    if (check_gap(incoming, events) != 0)
        return -1;
    echo_incoming_note_gap(incoming, incoming->sequence, events);
    incoming->gaps += events;
    incoming->sequence += events;
    incoming->lost += is_loss ? events : 0;
    return 0;
}

int echo_link_take_question(const struct link *link, const struct frame *frame)
{
    struct incoming_stream *incoming;

    if (frame->size != ASK_PAYLOAD_BYTES)
        return echo_raise("WireError", "Expected a question of %d bytes, got %lu", ASK_PAYLOAD_BYTES,
                          (unsigned long)frame->size);
    if (load_little32(frame->payload + 4) != 0)
        return echo_raise("WireError", "Expected 0 behind the stream of a question, got %lu",
                          (unsigned long)load_little32(frame->payload + 4));
    if (link_incoming(link, load_little32(frame->payload), &incoming) != 0)
        return -1;
    if (incoming != NULL)
        echo_incoming_ask(incoming, load_little64(frame->payload + 8), load_little64(frame->payload + 16));
    return 0;
}

int echo_link_take_grant(struct link *link, const struct frame *frame)
{
    struct credit credit;
    const char *refusal;

    if (frame->size != CREDIT_PAYLOAD_BYTES)
        return echo_raise("WireError", "Expected credit of %d bytes, got %lu", CREDIT_PAYLOAD_BYTES,
                          (unsigned long)frame->size);
    if (load_little32(frame->payload + 4) != 0)
        return echo_raise("WireError", "Expected 0 behind the stream of credit, got %lu",
                          (unsigned long)load_little32(frame->payload + 4));
    credit = credit_load(frame->payload);
    refusal = link_grant(link, &credit, 1);
    return refusal == NULL
               ? 0
               : echo_raise("WireError", "Expected credit for %s, got done %llu, limit %llu events - in stream %lu",
                            refusal, (unsigned long long)credit.done.events, (unsigned long long)credit.limit.events,
                            (unsigned long)credit.stream);
}

int echo_link_take_message(struct link *link, const struct frame *frame)
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

/* --- without the GIL --- */

/* Moves what was peeked at. Where that fails the next read does, too. */
static void skip(struct link *link, uint8_t *bytes, size_t size)
{
    ssize_t count;

    for (size_t left = size; left > 0; left -= (size_t)count) {
        count = link->wire->operations->read(link->wire, bytes, left, 0);
        if (count <= 0)
            return;
    }
    link_counts(&link->received_bytes, size);
    link_counts(&link->reads, 1);
}

int echo_link_take_credit(struct link *link)
{
    uint8_t bytes[PEEKED_FRAMES * CREDIT_FRAME_BYTES];
    ssize_t count = link->wire->operations->peek(link->wire, bytes, sizeof bytes);
    size_t taken = 0;

    if (count <= 0)
        return count == -EAGAIN;
    while (link_takes_credit(link, bytes + taken, (size_t)count - taken))
        taken += CREDIT_FRAME_BYTES;
    if (taken > 0)
        skip(link, bytes, taken);
    return taken == (size_t)count;
}
