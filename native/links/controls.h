/* What comes on a link beside events: controls.c. And what is needed there and where events are read (reading.c). */
#pragma once

#include "links/errors.h"
#include "links/link.h"

#include "core/outbox/outgoing.h"

/* A gap. 0, or -1 with WireError. GIL for these. */
int echo_link_take_gap(const struct link *link, const struct frame *frame);

/* A question, which is answered at once where it can be. Likewise. */
int echo_link_take_question(const struct link *link, const struct frame *frame);

/* Credit, where it does not lead what was read, or breaks a rule. 0, or -1 with WireError. */
int echo_link_take_grant(struct link *link, const struct frame *frame);

/* What Python code is for. 0, or -1 with an exception. */
int echo_link_take_message(struct link *link, const struct frame *frame);

/* Of one thread at a time; others may look. */
static inline void link_counts(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* The IncomingStream of a stream, borrowed; NULL where it was unbound. -1 with WireError. */
static inline int link_incoming(const struct link *link, uint32_t stream, struct incoming_stream **incoming)
{
    size_t index = (size_t)stream - FIRST_STREAM;

    if (stream < FIRST_STREAM || index >= link->incoming_count || link->incoming[index] == NULL) {
        echo_raise("WireError", "Expected a stream that was asked for and is under way, got %lu",
                   (unsigned long)stream);
        return -1;
    }
    *incoming = link->incoming[index] != Py_None ? (struct incoming_stream *)(void *)link->incoming[index] : NULL;
    return 0;
}

/* Of a stream of this link. What is refused changes nothing, and is said. `in_host`: with the GIL. */
static inline const char *link_grant(struct link *link, const struct credit *credit, int in_host)
{
    const char *refusal;

    outbox_lock(&link->outbox);
    refusal = echo_outbox_credit(&link->outbox, credit, in_host);
    echo_outbox_unlock(&link->outbox);
    return refusal;
}

#define CREDIT_FRAME_BYTES (FRAME_HEADER_BYTES + CREDIT_PAYLOAD_BYTES)

/* Whether so many bytes begin with credit, which is granted. All else needs the GIL, or is to be refused with it. Looks
 * mostly at the header alone, as each read comes by here. */
static inline int link_takes_credit(struct link *link, const uint8_t *frame, size_t size)
{
    struct credit credit;

    if (size < CREDIT_FRAME_BYTES || load_little32(frame) != CREDIT_PAYLOAD_BYTES ||
        load_little32(frame + 4) != KIND_CREDIT || load_little32(frame + FRAME_HEADER_BYTES + 4) != 0)
        return 0;
    credit = credit_load(frame + FRAME_HEADER_BYTES);
    if (link_grant(link, &credit, 0) != NULL)
        return 0;
    link_counts(&link->received_frames, 1);
    return 1;
}
