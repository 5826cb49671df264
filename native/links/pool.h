/* Pools: what the memory looks like, to its owner and to readers (mappings.c), and what the owner has of
 * it (pools.c, blocks.c).
 *
 *   0                        SHARED_LINE_BYTES                 data_offset
 *   | struct pool_header     | struct block_holders x blocks   | block_bytes x blocks |
 *     readers map it writable ------------------------------     read-only ----------
 *
 * A block is one loan's, or the next of a loan that takes several; the holders of the first count for all. A
 * block that somebody holds is not written. Who writes into what it has lent changes the bytes under its
 * readers: processes of the same user are trusted with content. They are not with memory safety, so the owner
 * reads nothing back from here but holders, and a reader checks what it reads.
 */
#ifndef ECHO_LINK_POOL_H
#define ECHO_LINK_POOL_H

#include "core/memory.h"
#include "links/links.h"

#include <stdatomic.h>

#pragma GCC visibility push(hidden)

#define POOL_MAGIC UINT64_C(0x6c6f6f706f686365) /* "echopool" */
#define POOL_VERSION 1
#define MIN_BLOCK_BYTES 4096 /* and a multiple of it, so that every block begins at a page */
#define MAX_BLOCKS 65536
#define MAX_POOL_BYTES (UINT64_C(1) << 40)
#define MAX_HOLDERS 63

struct pool_header {
    uint64_t magic;
    uint32_t version;
    uint32_t blocks;
    uint64_t block_bytes;
    _Atomic uint64_t gone; /* holders that will never look at a block again; set by them */
};
_Static_assert(sizeof(struct pool_header) <= SHARED_LINE_BYTES, "holders begin behind it");

struct block_holders {
    _Alignas(64) _Atomic uint64_t bits; /* set by the owner when it lends, cleared by who gives back */
};

static inline uint64_t pool_data_offset(uint32_t blocks)
{
    uint64_t end = SHARED_LINE_BYTES + blocks * sizeof(struct block_holders);

    return (end + SHARED_PAGE_BYTES - 1) / SHARED_PAGE_BYTES * SHARED_PAGE_BYTES;
}

static inline struct block_holders *holders_in(struct pool_header *header)
{
    return (struct block_holders *)(void *)((uint8_t *)header + SHARED_LINE_BYTES);
}

static inline int is_pool_shape(uint64_t block_bytes, uint64_t blocks)
{
    return block_bytes >= MIN_BLOCK_BYTES && block_bytes % MIN_BLOCK_BYTES == 0 && blocks >= 1 &&
           blocks <= MAX_BLOCKS && block_bytes <= MAX_POOL_BYTES / blocks;
}

/* --- the owner's side; the GIL guards all but the holders' bits --- */

/* A link that is attached or retired. */
struct holder {
    int process_fd; /* owned, of pidfd_open; -1: unknown */
    uint64_t lent;  /* blocks, at least as many as it holds */
};

/* The Python object. */
struct pool {
    PyObject ob_base;           /* spelled out: PyObject_HEAD hides it */
    struct pool_header *header; /* owned mapping of the whole memory; NULL: none */
    uint8_t *data;              /* in it */
    uint64_t block_bytes;
    uint32_t blocks;
    int fd;                     /* owned; -1: closed */
    unsigned forks;             /* echo_forks when it was made; a forked child takes, lends and frees no block */
    uint32_t *extents;          /* owned; by a loan's first block: how many it takes. 0: free, or a next one */
    struct block **loans;       /* owned; by a loan's first block: borrowed. NULL: it has no Block */
    uint32_t next;              /* block behind the last loan */
    uint64_t attached, retired; /* holders */
    struct holder holders[MAX_HOLDERS];
};

/* The Python object. */
struct block {
    PyObject ob_base;   /* spelled out: PyObject_HEAD hides it */
    struct pool *pool;  /* owned reference */
    uint32_t first;     /* block of the pool */
    Py_ssize_t size;    /* bytes that were asked for */
};

static inline _Atomic uint64_t *holder_bits(struct pool *pool, uint32_t block)
{
    return &holders_in(pool->header)[block].bits;
}

/* Nobody writes or reads the blocks of the loan that begins, or began, here. */
static inline int is_free(struct pool *pool, uint32_t first)
{
    uint64_t bits = atomic_load_explicit(holder_bits(pool, first), memory_order_acquire);

    return pool->loans[first] == NULL && (bits & (pool->attached | pool->retired)) == 0;
}

/* How many blocks a holder has; pools.c. */
uint64_t echo_pool_count_held(struct pool *pool, unsigned holder);

/* Lets go of retired holders that are done; pools.c. */
void echo_pool_sweep(struct pool *pool);

/* A new reference; NULL without an exception: there are no such blocks; blocks.c. */
struct block *echo_block_new(struct pool *pool, Py_ssize_t size);

#pragma GCC visibility pop

#endif
