/* The wire of rings in shared memory: ring.c. */
#ifndef ECHO_CORE_RING_H
#define ECHO_CORE_RING_H

#include "core/wires/memory.h"
#include "core/wires/wire.h"

#pragma GCC visibility push(hidden)

#define MIN_RING_BYTES 4096
#define MAX_RING_BYTES (UINT64_C(1) << 30)

/* A descriptor of memory with two empty rings of `ring_bytes` each, a power of two. -errno; -EINVAL: no such
 * size. */
int echo_ring_create(uint64_t ring_bytes);

/* One side (0 or 1) of the rings; the descriptor stays the caller's, who may close it. NULL: *refusal says why
 * the memory is not what it should be; where that is NULL too, errno. */
struct wire *echo_ring_open(int fd, int side, int64_t spin_ns, const char **refusal);

#pragma GCC visibility pop

#endif
