/* The C core's face towards Python: declarations only, no preprocessor lines.
 *
 * Two readers: cffi's ffi.cdef(), which knows no preprocessor, and the C compiler. Whoever includes
 * this file includes <stdint.h> before it.
 */

/* How the compiler that built this module lays out memory. */
struct echo_abi {
    uint8_t big_endian;    /* 1: the most significant byte of a number comes first; 0: it comes last */
    uint8_t pointer_size;  /* bytes in a void * */
    uint8_t long_size;     /* bytes in a long: 4 or 8 on the ABIs we know */
    uint8_t max_alignment; /* alignment of int64_t and of double inside a struct: 4 on i386, 2 on m68k */
};

/* Fills *out, which the caller owns. Cannot fail, does not block, takes no lock. */
void echo_native_abi(struct echo_abi *out);

/* Where the parts of memory that two processes share lie, in bytes from its beginning or that of the part. */
struct echo_ring_layout {
    uint32_t shut;                                      /* one flag for each side */
    uint32_t directions;                                /* by the side that writes */
    uint32_t direction_bytes;                           /* of each */
    uint32_t written, taken, bytes_signal, room_signal; /* in a direction */
    uint32_t rings;                                     /* the bytes of both */
};
struct echo_pool_layout {
    uint32_t holders;      /* of the first block; the next ones' follow */
    uint32_t holder_bytes; /* of each */
    uint64_t data;         /* the blocks, where there are as many as were asked for */
};

/* Limits that are fixed when this is compiled. */
struct echo_limits {
    uint32_t first_stream, max_streams, frame_header_bytes, frame_alignment;
    uint64_t min_ring_bytes, max_ring_bytes;
    uint64_t min_block_bytes, max_pool_bytes;
    uint32_t max_blocks, max_holders;
};

/* The clock of outboxes: whether it is the processor's counter, and how fast it runs. */
struct echo_clock {
    uint8_t is_counter;
    int64_t ticks_per_second;
};

/* As echo_native_abi. The clock: the first call may take a millisecond. */
void echo_native_ring_layout(struct echo_ring_layout *out);
void echo_native_pool_layout(uint32_t blocks, struct echo_pool_layout *out);
void echo_native_limits(struct echo_limits *out);
void echo_native_clock(struct echo_clock *out);
