/* Memory that two processes share, for rings and pools.
 *
 * It is a memfd: it has no name that could be left behind, and goes with its last user however that one ends.
 * It is sealed: nobody can shorten it, so no access within its size can fail with SIGBUS. A process of the
 * same user is trusted with the content, not with this process's memory: what the other side can write is
 * read once and checked before it is used.
 */
#pragma once

#include <stdint.h>

/* Two cache lines, which processors fetch as a pair: what one side writes often does not disturb its
 * neighbour. */
#define SHARED_LINE_BYTES 128

/* A divisor of no system's page that is larger; parts of a memory that are mapped on their own start at one. */
#define SHARED_PAGE_BYTES 65536

/* A descriptor of new, sealed memory, zeroed; `name` is what /proc shows of it. -errno: there is none. */
int echo_memory_create(const char *name, uint64_t size);

/* Why a descriptor is no memory that can be mapped without risk; NULL: it is, of *size bytes. */
const char *echo_memory_refusal(int fd, uint64_t *size);

/* `size` bytes from `offset` on, for `protection` as of mmap; NULL with errno. */
void *echo_memory_map(int fd, uint64_t offset, uint64_t size, int protection);
