/* Frames: how bytes on a wire are divided. No lock, no system call.
 *
 *   0        4        8                            8 + size
 *   | size   | stream | payload                    | zeros up to a multiple of 8 |
 *
 * Little-endian. `stream` from FIRST_STREAM on: records of one source, in its layout; below: a kind of control
 * frame. A frame begins at a multiple of 8, so a payload does too.
 */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FRAME_HEADER_BYTES 8
#define FRAME_ALIGNMENT 8
#define FIRST_STREAM 64
#define MAX_CONTROL_BYTES (128 * 1024) /* the payload of a control frame; as in transports/limits.py */

/* Of one link, in each direction; memory for them grows with those that there are. */
#define MAX_STREAMS 65536 /* as in transports/limits.py */

/* The control frames that C code knows; transports/protocol/messages.py has them all. */
enum kind {
    KIND_LOAN = 1,      /* {uint32 stream, uint32 block, uint64 size}: records in the sender's pool */
    KIND_GAP = 2,       /* {uint32 stream, uint32 why, uint64 events}: so many events of the stream are not here */
    KIND_STARTED = 12,  /* {uint32 stream, uint32 0, uint64 kept, uint64 sequence}: events follow from that number on */
    KIND_CREDIT = 20,   /* of the receiver, about a stream: outbox/credit.h */
    KIND_ASK = 29,      /* of the sender, about a stream, as the next two: streams/answers.h */
    KIND_ACK = 30,      /* of the receiver, which C code only writes */
    KIND_MISSED = 31,   /* likewise */
    KIND_PROGRESS = 32, /* likewise */
};
/* Why there is a gap. */
#define GAP_OF_DROPPED 0
#define GAP_OF_NOT_KEPT 1 /* others of their keys came later, among what is kept by key */
#define LOAN_PAYLOAD_BYTES 16
#define GAP_PAYLOAD_BYTES 16
#define STARTED_PAYLOAD_BYTES 24
#define ASK_PAYLOAD_BYTES 24

/* No event has a higher number when a stream begins, or behind a gap: so that no count of events that come begins anew. */
#define MAX_NUMBER INT64_MAX

/* Of a source that tells times, in each frame with its events: when they were submitted, a uint64 of ns since 1970 from
 * 1 to INT64_MAX. It stands before the records, and in a loan behind all else. */
#define TIME_BYTES 8

struct frame {
    uint32_t size; /* of the payload */
    uint32_t stream;
    const uint8_t *payload; /* borrowed from the bytes that were scanned */
};

static inline size_t frame_bytes(size_t payload)
{
    return FRAME_HEADER_BYTES + ((payload + FRAME_ALIGNMENT - 1) & ~(size_t)(FRAME_ALIGNMENT - 1));
}

/* --- numbers in frames and payloads, at any alignment --- */

static inline uint32_t load_little32(const uint8_t *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return le32toh(number);
}

static inline uint64_t load_little64(const uint8_t *bytes)
{
    uint64_t number;

    memcpy(&number, bytes, sizeof number);
    return le64toh(number);
}

static inline void store_little32(uint8_t *bytes, uint32_t number)
{
    number = htole32(number);
    memcpy(bytes, &number, sizeof number);
}

static inline void store_little64(uint8_t *bytes, uint64_t number)
{
    number = htole64(number);
    memcpy(bytes, &number, sizeof number);
}

/* --- frames, which events pass by the million: inline --- */

/* The first frame of `available` bytes. > 0: its bytes in all, padding included. 0: more bytes are needed, at
 * least *need in all. -1: no frame begins so (stream 0, payload above `limit` or what its kind may have). */
static inline int64_t frame_first(const uint8_t *bytes, size_t available, uint32_t limit, struct frame *frame,
                                  size_t *need)
{
    size_t size;

    if (available < FRAME_HEADER_BYTES) {
        *need = FRAME_HEADER_BYTES;
        return 0;
    }
    frame->size = load_little32(bytes);
    frame->stream = load_little32(bytes + 4);
    frame->payload = bytes + FRAME_HEADER_BYTES;
    if (frame->size > limit)
        return -1;
    if (frame->stream < FIRST_STREAM && (frame->stream == 0 || frame->size > MAX_CONTROL_BYTES))
        return -1;
    size = frame_bytes(frame->size);
    if (available < size) {
        *need = size;
        return 0;
    }
    return (int64_t)size;
}

/* Writes the whole frame to `room`, which has frame_bytes(frame->size). */
static inline void frame_store(uint8_t *room, const struct frame *frame)
{
    size_t size = frame_bytes(frame->size);
    uint32_t header[2] = {htole32(frame->size), htole32(frame->stream)};

    memset(room + size - FRAME_ALIGNMENT, 0, FRAME_ALIGNMENT); /* the padding, and what is written over next */
    memcpy(room, header, sizeof header);
    if (frame->size > 0)
        memcpy(room + FRAME_HEADER_BYTES, frame->payload, frame->size);
}
