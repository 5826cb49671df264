/* The wire of rings in shared memory: ring.c. */
#pragma once

#include "core/wires/memory.h"
#include "core/wires/wire.h"

#include <stdatomic.h>

#define MIN_RING_BYTES 4096
#define MAX_RING_BYTES (UINT64_C(1) << 30)

/* --- the memory, which ring.c draws --- */

#define RING_MAGIC UINT64_C(0x676e69726f686365) /* "echoring" */
#define RING_VERSION 2

#define ON_OWN_LINE _Alignas(SHARED_LINE_BYTES)

/* One direction, as both sides see it. Each field has a line of its own, since they change at each transfer. */
struct direction {
    ON_OWN_LINE _Atomic uint64_t written;      /* bytes since the beginning; the writer's */
    ON_OWN_LINE _Atomic uint64_t taken;        /* the reader's */
    ON_OWN_LINE _Atomic uint32_t bytes_signal; /* who waits for bytes sleeps on it */
    ON_OWN_LINE _Atomic uint32_t room_signal;  /* who waits for room sleeps on it */
};

/* The start of the memory. */
struct shared_rings {
    uint64_t magic;
    uint32_t version;
    uint32_t reserved;
    uint64_t ring_bytes;
    ON_OWN_LINE _Atomic uint32_t is_shut[2]; /* by which side; rarely written, read at each transfer */
    _Atomic uint32_t only_processor[2];      /* that the side may run on, plus 1; 0: there are several */
    struct direction directions[2];          /* by the side that writes it */
};
_Static_assert(sizeof(struct shared_rings) <= SHARED_PAGE_BYTES, "the rings begin behind it");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "a lock would be in one process only");

/* --- wires over it --- */

/* A descriptor of memory with two empty rings of `ring_bytes` each, a power of two. -errno; -EINVAL: no such
 * size. */
int echo_ring_create(uint64_t ring_bytes);

/* One side (0 or 1) of the rings; the descriptor stays the caller's, who may close it. `bell`: a socket to the other
 * side, which the wire takes over; -1: there is none, and neither side rests. NULL: *refusal says why the memory is not
 * what it should be; where that is NULL too, errno. The bell is the caller's then. */
struct wire *echo_ring_open(int fd, int side, int64_t spin_ns, int bell, const char **refusal);
