/* The streams of an outbox by their numbers, and what their receivers grant and confirm: credit.h says how it counts. */
#define _GNU_SOURCE
#include "core/outbox/outbox.h"
#include "core/outbox/outgoing.h"

#include <stdlib.h>

/* --- streams by number --- */

struct outgoing echo_outgoing_gone;

static int make_room_for(struct outbox *outbox, size_t index)
{
    size_t count = outbox->stream_count < 16 ? 16 : outbox->stream_count;
    struct outgoing **streams;

    while (count <= index)
        count *= 2;
    if (count == outbox->stream_count)
        return 0;
    streams = realloc(outbox->streams, count * sizeof *streams);
    if (streams == NULL)
        return -1;
    memset(streams + outbox->stream_count, 0, (count - outbox->stream_count) * sizeof *streams);
    outbox->streams = streams;
    outbox->stream_count = count;
    return 0;
}

int echo_outbox_enter(struct outgoing *outgoing)
{
    size_t index = outgoing->stream - FIRST_STREAM;

    if (make_room_for(outgoing->outbox, index) != 0)
        return -1;
    outgoing->outbox->streams[index] = outgoing;
    return 0;
}

/* The number may be another's by now. */
void echo_outbox_forget(struct outgoing *outgoing)
{
    struct outgoing **place = &outgoing->outbox->streams[outgoing->stream - FIRST_STREAM];

    if (*place == outgoing)
        *place = &echo_outgoing_gone;
    echo_outgoing_settle(outgoing);
}

/* NULL: no stream ever had the number. */
static struct outgoing *stream_of(const struct outbox *outbox, uint32_t stream)
{
    size_t index = (size_t)stream - FIRST_STREAM;

    return stream >= FIRST_STREAM && index < outbox->stream_count ? outbox->streams[index] : NULL;
}

/* --- credit --- */

void echo_outgoing_grant(struct outgoing *outgoing, struct amount limit)
{
    limit = amount_max(outgoing->limit, limit);
    outgoing->credit_events += (int64_t)(limit.events - outgoing->limit.events);
    outgoing->credit_bytes += (int64_t)(limit.bytes - outgoing->limit.bytes);
    outgoing->limit = limit;
    echo_outgoing_arrange(outgoing);
}

static void confirm(struct outgoing *outgoing, struct amount done)
{
    uint64_t newly = done.events - outgoing->done.events;

    outgoing->done = done;
    outgoing->outbox->confirmed += newly;
    if (outgoing->tally != NULL)
        atomic_fetch_add_explicit(&outgoing->tally->confirmed, newly, memory_order_relaxed);
}

static const char *refusal_of(const struct outgoing *outgoing, const struct credit *credit)
{
    struct amount most = {MAX_CREDIT, MAX_CREDIT};

    if (!is_within(outgoing->done, credit->done))
        return "as much done as before";
    if (!is_within(credit->done, outgoing_sent(outgoing)))
        return "no more done than was sent";
    if (!is_within(outgoing->limit, credit->limit))
        return "as high a limit as before";
    return is_within(credit->limit, most) ? NULL : "a limit below 2**63";
}

const char *echo_outbox_credit(struct outbox *outbox, const struct credit *credit, int in_host)
{
    struct outgoing *outgoing = stream_of(outbox, credit->stream);
    int64_t now_ns = monotonic_ns();
    const char *refusal;

    if (outgoing == NULL)
        return "a stream that was offered";
    if (outgoing == &echo_outgoing_gone || outgoing->is_settled)
        return NULL;
    refusal = refusal_of(outgoing, credit);
    if (refusal != NULL)
        return refusal;
    sink_pace_note(&outgoing->pace, now_ns); /* first: who sees what is confirmed, or finds the lock free, may wait */
    confirm(outgoing, credit->done);
    echo_outgoing_grant(outgoing, credit->limit);
    echo_outbox_tell_waiting(outbox);
    echo_outbox_pump(outbox, in_host);
    if (stream_of(outbox, credit->stream) == outgoing) /* a write unlocks, so it may be gone by now */
        sink_pace_go_on(&outgoing->pace, now_ns, outgoing->circle != NULL);
    return NULL;
}

void echo_outgoing_settle(struct outgoing *outgoing)
{
    if (outgoing->is_settled)
        return;
    outgoing->is_settled = 1;
    outgoing->unconfirmed = outgoing_sent(outgoing).events - outgoing->done.events;
    outgoing->outbox->unconfirmed += outgoing->unconfirmed;
    if (outgoing->tally != NULL)
        atomic_fetch_add_explicit(&outgoing->tally->unconfirmed, outgoing->unconfirmed, memory_order_relaxed);
}
