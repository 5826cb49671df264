/* Pools as Python objects: what their owner has of them (pools.c, blocks.c), and what a reader has (mappings.c). */
#pragma once

#include "links/incoming.h"
#include "types.h"

#include "core/wires/pool.h"

/* --- the owner's side; the GIL guards all but the holders' bits --- */

/* A link that is attached or retired. */
struct holder {
    int process_fd; /* owned, of pidfd_open; -1: unknown */
    uint64_t lent;  /* blocks, at least as many as it holds */
};

/* The Python object. */
struct pool {
    PyObject ob_base;           /* spelled out: PyObject_HEAD hides it */
    struct pool_memory memory;  /* owned */
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
    PyObject ob_base;  /* spelled out: PyObject_HEAD hides it */
    struct pool *pool; /* owned reference */
    uint32_t first;    /* block of the pool */
    Py_ssize_t size;   /* bytes that were asked for */
};

/* Nobody writes or reads the blocks of the loan that begins, or began, here. */
static inline int is_free(struct pool *pool, uint32_t first)
{
    uint64_t bits = atomic_load_explicit(holder_bits(&pool->memory, first), memory_order_acquire);

    return pool->loans[first] == NULL && (bits & (pool->attached | pool->retired)) == 0;
}

/* How many blocks a holder has; pools.c. */
uint64_t echo_pool_count_held(struct pool *pool, unsigned holder);

/* Lets go of retired holders that are done; pools.c. */
void echo_pool_sweep(struct pool *pool);

/* A new reference; NULL without an exception: there are no such blocks; blocks.c. */
struct block *echo_block_new(struct pool *pool, Py_ssize_t size);

/* --- what streams and links call --- */

/* Where `bytes` lie in a loaned block of the pool: that block. Else a free block that they are copied into.
 * A new reference to an object that keeps the block from reuse; NULL without an exception: none is free, or
 * `size` is too small for it to be worth while. GIL; released during large copies. */
PyObject *echo_pool_place(PyObject *pool, const uint8_t *bytes, Py_ssize_t size);

/* A free block, for a record that will be placed: a new reference, and where its `size` bytes are; NULL without an
 * exception: none is free. GIL. */
PyObject *echo_pool_room(PyObject *pool, Py_ssize_t size, uint8_t **bytes);

/* Marks `holder` (of the link, by Pool.attach) in the block, and writes what a KIND_LOAN frame says: 16 bytes.
 * 0: it is not lent, since the holder has it already or has half of the pool; send a copy. GIL. */
int echo_block_lend(PyObject *block, unsigned holder, uint32_t stream, Py_ssize_t size, uint8_t *payload);

/* What a KIND_LOAN frame refers to, in the memory that the peer shares. Checks everything; an object that owns
 * the bytes and gives them back when the last reference goes, in *owner. -1 with WireError. GIL. */
int echo_loan_open(PyObject *mapping, const uint8_t *payload, uint32_t size, struct record *record, uint32_t *stream,
                   PyObject **owner);
