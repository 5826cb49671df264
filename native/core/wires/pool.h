/* The memory of pools: blocks of one process that others read in place.
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
#pragma once

#include "core/frames.h"
#include "core/wires/memory.h"

#include <stdatomic.h>

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

/* Mapped by its owner, or by a reader. All zeros: nothing is mapped. */
struct pool_memory {
    struct pool_header *header; /* owned mapping of all up to the blocks, the owner's with them; NULL: none */
    uint8_t *data;              /* the blocks. The owner's: in the mapping above; a reader's: owned, read-only */
    uint64_t block_bytes;
    uint32_t blocks;
};

static inline uint64_t pool_data_offset(uint32_t blocks)
{
    uint64_t end = SHARED_LINE_BYTES + blocks * sizeof(struct block_holders);

    return (end + SHARED_PAGE_BYTES - 1) / SHARED_PAGE_BYTES * SHARED_PAGE_BYTES;
}

/* What `count` blocks hold. */
static inline uint64_t pool_bytes(const struct pool_memory *memory, uint32_t count)
{
    return memory->block_bytes * count;
}

static inline uint8_t *pool_block(const struct pool_memory *memory, uint32_t block)
{
    return memory->data + pool_bytes(memory, block);
}

static inline _Atomic uint64_t *holder_bits(const struct pool_memory *memory, uint32_t block)
{
    struct block_holders *holders = (struct block_holders *)(void *)((uint8_t *)memory->header + SHARED_LINE_BYTES);

    return &holders[block].bits;
}

int echo_pool_is_shape(uint64_t block_bytes, uint64_t blocks);

/* --- the owner's side --- */

/* Maps new memory of that shape, and returns its descriptor, which is the caller's; -errno. */
int echo_pool_create(struct pool_memory *memory, uint64_t block_bytes, uint32_t blocks);

void echo_pool_unmap(struct pool_memory *memory);

/* What a KIND_LOAN frame says of a loan, and what such a frame, of this process, is taken back by: it is dropped before
 * it is sent. No lock; not after the holder has been given to another. */
void echo_loan_store(uint8_t *payload, uint32_t stream, uint32_t first, uint64_t size);
void echo_loan_take_back(const struct pool_memory *memory, unsigned holder, const uint8_t *payload);

/* --- a reader's side --- */

struct loan_frame {
    uint32_t stream;
    uint32_t first; /* block */
    uint64_t size;
};

/* Maps a peer's memory, read-only but for the holders; the descriptor stays the caller's. 0. -1: *refusal says why it
 * is not trusted, or why it is not what is taken (more than max_bytes of blocks); where that is NULL, errno. */
int echo_pool_open(struct pool_memory *memory, int fd, uint64_t max_bytes, const char **refusal);

void echo_pool_close(struct pool_memory *memory);

/* Why a KIND_LOAN frame tells of nothing that can be read; NULL: of *loan. Checks all that it says. */
const char *echo_loan_refusal(const struct pool_memory *memory, unsigned holder, const uint8_t *payload, size_t size,
                              struct loan_frame *loan);
