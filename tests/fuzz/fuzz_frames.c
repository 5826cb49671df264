/* Fuzzing frames: any bytes are frames, a prefix of a frame, or refused, and nothing outside is read.
 *
 *   make fuzz FUZZ=frames
 *
 * An input is the limit of a payload (four bytes) and what a peer sends. It is scanned at once, and again
 * byte by byte as it comes: both find the same.
 */
#define _GNU_SOURCE
#include "core/frames.h"

#include <stdlib.h>

/* The frames from the start of `available` bytes: how many, and where they end. */
struct scan {
    size_t frames;
    size_t end;
    int is_refused;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

/* A copy of exactly these bytes, so that the sanitizer sees a read beyond them. */
static struct scan scan_copy(const uint8_t *bytes, size_t available, uint32_t limit)
{
    uint8_t *copy = malloc(available > 0 ? available : 1);
    struct scan scan = {0};
    struct frame frame;
    size_t need = 0;
    int64_t size;

    memcpy(copy, bytes, available);
    while ((size = frame_first(copy + scan.end, available - scan.end, limit, &frame, &need)) > 0) {
        require((size_t)size <= available - scan.end && size % FRAME_ALIGNMENT == 0);
        require(frame.payload + frame.size <= copy + scan.end + size && frame.size <= limit &&
                frame.stream > 0);
        scan.end += (size_t)size;
        scan.frames++;
    }
    scan.is_refused = size < 0;
    require(size < 0 || (need > available - scan.end && need <= frame_bytes(limit)) ||
            need == FRAME_HEADER_BYTES);
    free(copy);
    return scan;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scan whole, part = {0};
    uint32_t limit;

    if (size < sizeof limit)
        return 0;
    limit = load_little32(data) & INT32_MAX;
    data += sizeof limit;
    size -= sizeof limit;
    whole = scan_copy(data, size, limit);
    for (size_t available = 0; available <= size && !part.is_refused; available++) {
        struct scan next = scan_copy(data, available, limit);

        require(next.frames >= part.frames && next.end >= part.end);
        part = next;
    }
    require(part.frames == whole.frames && part.end == whole.end && part.is_refused == whole.is_refused);
    return 0;
}
