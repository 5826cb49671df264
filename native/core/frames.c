/* Frames: where one begins and ends in bytes that a peer has sent. links.h draws them. */
#include "links/links.h"

#include <endian.h>

static uint32_t load_little(const uint8_t *bytes)
{
    return le32toh(load_uint32_t(bytes));
}

int64_t echo_frame_next(const uint8_t *bytes, size_t available, uint32_t limit, struct frame *frame,
                        size_t *need)
{
    size_t size;

    if (available < FRAME_HEADER_BYTES) {
        *need = FRAME_HEADER_BYTES;
        return 0;
    }
    frame->size = load_little(bytes);
    frame->stream = load_little(bytes + 4);
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
