/* Credit: how much of a stream its receiver has finished with, and how much it takes before it has finished with more.
 *
 *   0        4   8              16            24               32              40
 *   | stream | 0 | done: events | done: bytes | limit: events  | limit: bytes  |      the payload of KIND_CREDIT
 *
 * Both count from the beginning of the stream on this link, and never fall: what KIND_CREDIT says holds, whenever it
 * comes. Bytes are those of records, also of lent ones. While both counts of what was sent are below the limit another
 * frame may go, however large it is: so both sides know when the sender has to wait, and no event is too large.
 */
#pragma once

#include "core/frames.h"

#define CREDIT_PAYLOAD_BYTES 40

/* No limit is higher, so that a difference of two counts has a sign. */
#define MAX_CREDIT INT64_MAX

/* Events, and the bytes of their records. */
struct amount {
    uint64_t events, bytes;
};

struct credit {
    uint32_t stream;
    struct amount done;  /* handled, taken, or dropped by the sinks themselves */
    struct amount limit; /* what may be sent in all */
};

static inline struct amount amount_plus(struct amount one, struct amount other)
{
    return (struct amount){one.events + other.events, one.bytes + other.bytes};
}

static inline struct amount amount_minus(struct amount one, struct amount other)
{
    return (struct amount){one.events - other.events, one.bytes - other.bytes};
}

/* Of each count the larger one. */
static inline struct amount amount_max(struct amount one, struct amount other)
{
    return (struct amount){one.events > other.events ? one.events : other.events,
                           one.bytes > other.bytes ? one.bytes : other.bytes};
}

/* Whether both counts of the one are at most, or below, those of the other. */
static inline int is_within(struct amount one, struct amount other)
{
    return one.events <= other.events && one.bytes <= other.bytes;
}

static inline int is_below(struct amount one, struct amount other)
{
    return one.events < other.events && one.bytes < other.bytes;
}

static inline void credit_store(uint8_t payload[CREDIT_PAYLOAD_BYTES], const struct credit *credit)
{
    store_little32(payload, credit->stream);
    store_little32(payload + 4, 0);
    store_little64(payload + 8, credit->done.events);
    store_little64(payload + 16, credit->done.bytes);
    store_little64(payload + 24, credit->limit.events);
    store_little64(payload + 32, credit->limit.bytes);
}

static inline struct credit credit_load(const uint8_t *payload)
{
    return (struct credit){.stream = load_little32(payload),
                           .done = {load_little64(payload + 8), load_little64(payload + 16)},
                           .limit = {load_little64(payload + 24), load_little64(payload + 32)}};
}
