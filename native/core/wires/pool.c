/* The memory of pools, as its owner makes it and as a reader maps and checks it; pool.h draws it. */
#define _GNU_SOURCE
#include "core/wires/pool.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t memory_bytes(const struct pool_memory *memory)
{
    return pool_data_offset(memory->blocks) + pool_bytes(memory, memory->blocks);
}

int echo_pool_is_shape(uint64_t block_bytes, uint64_t blocks)
{
    return block_bytes >= MIN_BLOCK_BYTES && block_bytes % MIN_BLOCK_BYTES == 0 && blocks >= 1 &&
           blocks <= MAX_BLOCKS && block_bytes <= MAX_POOL_BYTES / blocks;
}

/* --- the owner's side --- */

int echo_pool_create(struct pool_memory *memory, uint64_t block_bytes, uint32_t blocks)
{
    struct pool_memory made = {.block_bytes = block_bytes, .blocks = blocks};
    int fd = echo_memory_create("echo_core pool", memory_bytes(&made)), error;

    if (fd < 0)
        return fd;
    made.header = echo_memory_map(fd, 0, memory_bytes(&made), PROT_READ | PROT_WRITE);
    if (made.header == NULL) {
        error = errno;
        close(fd);
        return -error;
    }
    made.header->magic = POOL_MAGIC;
    made.header->version = POOL_VERSION;
    made.header->blocks = blocks;
    made.header->block_bytes = block_bytes;
    made.data = (uint8_t *)made.header + pool_data_offset(blocks);
    *memory = made;
    return fd;
}

void echo_pool_unmap(struct pool_memory *memory)
{
    if (memory->header != NULL)
        munmap(memory->header, memory_bytes(memory));
}

void echo_loan_store(uint8_t *payload, uint32_t stream, uint32_t first, uint64_t size)
{
    store_little32(payload, stream);
    store_little32(payload + 4, first);
    store_little64(payload + 8, size);
}

void echo_loan_take_back(const struct pool_memory *memory, unsigned holder, const uint8_t *payload)
{
    uint32_t first = load_little32(payload + 4);

    if (first < memory->blocks && holder < MAX_HOLDERS)
        atomic_fetch_and(holder_bits(memory, first), ~(UINT64_C(1) << holder));
}

/* --- a reader's side --- */

/* The shape, as the header tells it, for *memory. Why it is none; NULL: it is one, or *failed is -1, and errno. */
static const char *read_shape(struct pool_memory *memory, int fd, uint64_t size, uint64_t max_bytes, int *failed)
{
    const volatile struct pool_header *header;
    const char *refusal = NULL;

    if (size < SHARED_PAGE_BYTES)
        return "it is too small";
    header = echo_memory_map(fd, 0, SHARED_PAGE_BYTES, PROT_READ);
    if (header == NULL) {
        *failed = -1;
        return NULL;
    }
    memory->blocks = header->blocks; /* once: the peer may change them at any time */
    memory->block_bytes = header->block_bytes;
    if (header->magic != POOL_MAGIC)
        refusal = "it does not begin as pools do";
    else if (header->version != POOL_VERSION)
        refusal = "its version is another";
    else if (!echo_pool_is_shape(memory->block_bytes, memory->blocks) || memory_bytes(memory) != size)
        refusal = "its size is not that of the blocks it tells of";
    else if (pool_bytes(memory, memory->blocks) > max_bytes)
        refusal = "it is larger than is taken";
    munmap((void *)(uintptr_t)header, SHARED_PAGE_BYTES);
    return refusal;
}

static int map_blocks(struct pool_memory *memory, int fd)
{
    uint64_t offset = pool_data_offset(memory->blocks);

    memory->header = echo_memory_map(fd, 0, offset, PROT_READ | PROT_WRITE);
    if (memory->header != NULL)
        memory->data = echo_memory_map(fd, offset, pool_bytes(memory, memory->blocks), PROT_READ);
    return memory->data != NULL ? 0 : -1;
}

int echo_pool_open(struct pool_memory *memory, int fd, uint64_t max_bytes, const char **refusal)
{
    uint64_t size;
    int failed = 0;

    *refusal = echo_memory_refusal(fd, &size);
    if (*refusal == NULL)
        *refusal = read_shape(memory, fd, size, max_bytes, &failed);
    return *refusal != NULL || failed != 0 ? -1 : map_blocks(memory, fd);
}

void echo_pool_close(struct pool_memory *memory)
{
    if (memory->data != NULL)
        munmap(memory->data, pool_bytes(memory, memory->blocks));
    if (memory->header != NULL)
        munmap(memory->header, pool_data_offset(memory->blocks));
}

const char *echo_loan_refusal(const struct pool_memory *memory, unsigned holder, const uint8_t *payload, size_t size,
                              struct loan_frame *loan)
{
    if (size != LOAN_PAYLOAD_BYTES)
        return "a frame of it has 16 bytes";
    *loan = (struct loan_frame){load_little32(payload), load_little32(payload + 4), load_little64(payload + 8)};
    if (loan->first >= memory->blocks)
        return "there is no such block";
    if (loan->size == 0 || loan->size > pool_bytes(memory, memory->blocks - loan->first))
        return "its size is not that of blocks of the pool";
    if ((atomic_load(holder_bits(memory, loan->first)) >> holder & 1) == 0)
        return "the block was not lent to this link";
    return NULL;
}
