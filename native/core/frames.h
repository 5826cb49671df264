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

/* The control frames that C code knows; transports/protocol/messages.py has them all. */
enum kind {
    KIND_LOAN = 1, /* {uint32 stream, uint32 block, uint64 size}: records in the sender's pool */
    KIND_GAP = 2,  /* {uint32 stream, uint32 0, uint64 events}: so many events of the stream were dropped here */
};
#define LOAN_PAYLOAD_BYTES 16
#define GAP_PAYLOAD_BYTES 16

struct frame {
    uint32_t size; /* of the payload */
    uint32_t stream;
    const uint8_t *payload; /* borrowed from the bytes that were scanned */
};

/* The first frame of `available` bytes. > 0: its bytes in all, padding included. 0: more bytes are needed, at
 * least *need in all. -1: no frame begins so (payload above `limit`, stream 0). */
int64_t echo_frame_next(const uint8_t *bytes, size_t available, uint32_t limit, struct frame *frame, size_t *need);

/* Writes the whole frame to `room`, which has frame_bytes(frame->size). */
void echo_frame_store(uint8_t *room, const struct frame *frame);

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
