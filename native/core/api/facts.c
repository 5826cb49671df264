/* What core is compiled with, for Python code that would otherwise repeat it by hand: diagnostics and tests. */
#define _GNU_SOURCE
#include "core/clock.h"
#include "core/frames.h"
#include "core/wires/pool.h"
#include "core/wires/ring.h"

#include "core/api/api.h"

void echo_native_ring_layout(struct echo_ring_layout *out)
{
    *out = (struct echo_ring_layout){.shut = offsetof(struct shared_rings, is_shut),
                                     .directions = offsetof(struct shared_rings, directions),
                                     .direction_bytes = sizeof(struct direction),
                                     .written = offsetof(struct direction, written),
                                     .taken = offsetof(struct direction, taken),
                                     .bytes_signal = offsetof(struct direction, bytes_signal),
                                     .room_signal = offsetof(struct direction, room_signal),
                                     .rings = SHARED_PAGE_BYTES};
}

void echo_native_pool_layout(uint32_t blocks, struct echo_pool_layout *out)
{
    *out = (struct echo_pool_layout){
        .holders = SHARED_LINE_BYTES, .holder_bytes = sizeof(struct block_holders), .data = pool_data_offset(blocks)};
}

void echo_native_limits(struct echo_limits *out)
{
    *out = (struct echo_limits){.first_stream = FIRST_STREAM,
                                .max_streams = MAX_STREAMS,
                                .frame_header_bytes = FRAME_HEADER_BYTES,
                                .frame_alignment = FRAME_ALIGNMENT,
                                .min_ring_bytes = MIN_RING_BYTES,
                                .max_ring_bytes = MAX_RING_BYTES,
                                .min_block_bytes = MIN_BLOCK_BYTES,
                                .max_pool_bytes = MAX_POOL_BYTES,
                                .max_blocks = MAX_BLOCKS,
                                .max_holders = MAX_HOLDERS};
}

void echo_native_clock(struct echo_clock *out)
{
    echo_clock_start();
    out->is_counter = (uint8_t)(echo_counter_is_steady != 0);
    out->ticks_per_second = echo_ticks_of(INT64_C(1000000000));
}
