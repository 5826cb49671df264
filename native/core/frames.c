/* Frames: where one begins and ends in bytes that a peer has sent, and how one is written. frames.h draws them. */
#define _GNU_SOURCE
#include "core/frames.h"

int64_t echo_frame_next(const uint8_t *bytes, size_t available, uint32_t limit, struct frame *frame, size_t *need)
{
    size_t size;

    if (available < FRAME_HEADER_BYTES) {
        *need = FRAME_HEADER_BYTES;
        return 0;
    }
    frame->size = load_little32(bytes);
    frame->stream = load_little32(bytes + 4);
    frame->payload = bytes + FRAME_HEADER_BYTES;
    if (frame->size > limit || frame->stream == 0)
        return -1;
    size = frame_bytes(frame->size);
    if (available < size) {
        *need = size;
        return 0;
    }
    return (int64_t)size;
}

void echo_frame_store(uint8_t *room, const struct frame *frame)
{
    size_t size = frame_bytes(frame->size);
    uint32_t header[2] = {htole32(frame->size), htole32(frame->stream)};

    memset(room + size - FRAME_ALIGNMENT, 0, FRAME_ALIGNMENT); /* the padding, and what is written over next */
    memcpy(room, header, sizeof header);
    if (frame->size > 0)
        memcpy(room + FRAME_HEADER_BYTES, frame->payload, frame->size);
}
