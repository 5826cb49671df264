/* The type Block: loans in a Pool, as its owner writes and lends them. core/wires/pool.h draws the memory.
 *
 * A block is free when no Block object of this process lives and no holder has it. Loans go round in the first
 * CYCLE_BYTES as long as these are free. A block that has just been given back is still in its reader's cache,
 * and one that was not used for long is in no cache, or was never touched: in most of the runs that were made,
 * not in all, going round was faster than always taking the lowest or the whole round.
 */
#define _GNU_SOURCE
#include "links/pool.h"

#include "links/state.h"

#include "core/forks.h"

#define MIN_PLACED_BYTES 16384          /* below, a copy through a wire is about as cheap; estimated, not measured */
#define MIN_UNLOCKED_BYTES 65536        /* a copy that takes longer than a hand-over of the GIL */
#define CYCLE_BYTES (UINT64_C(4) << 20) /* a part of a common third-level cache */

/* The first of `count` free blocks side by side, from `block` on, where a loan begins or a free block is; -1:
 * there are none. */
static int64_t find_from(struct pool *pool, uint32_t block, uint32_t count)
{
    uint32_t run = 0;

    while (block < pool->memory.blocks) {
        if (pool->extents[block] != 0 && is_free(pool, block))
            pool->extents[block] = 0; /* those behind it have been 0 all the time */
        if (pool->extents[block] != 0) {
            block += pool->extents[block];
            run = 0;
            continue;
        }
        block++;
        if (++run == count)
            return block - count;
    }
    return -1;
}

/* From behind the last loan on; so no loan of before can reach over the place where the search begins. */
static int64_t find_blocks(struct pool *pool, uint32_t count)
{
    uint32_t begin = pool->next * pool->memory.block_bytes < CYCLE_BYTES ? pool->next : 0;
    int64_t first = find_from(pool, begin, count);

    if (first < 0 && begin > 0)
        first = find_from(pool, 0, count);
    if (first >= 0)
        pool->next = (uint32_t)first + count;
    return first;
}

struct block *echo_block_new(struct pool *pool, Py_ssize_t size)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)pool));
    uint64_t count = ((uint64_t)size + pool->memory.block_bytes - 1) / pool->memory.block_bytes;
    struct block *block;
    int64_t first;

    if (pool->fd < 0 || count > pool->memory.blocks || has_forked_since(pool->forks))
        return NULL;
    first = find_blocks(pool, (uint32_t)count);
    if (first < 0 && pool->retired != 0) {
        echo_pool_sweep(pool);
        first = find_blocks(pool, (uint32_t)count);
    }
    block = first >= 0 ? (struct block *)PyType_GenericAlloc(state->block_type, 0) : NULL;
    if (block == NULL) {
        PyErr_Clear();
        return NULL;
    }
    block->pool = (struct pool *)Py_NewRef((PyObject *)pool);
    block->first = (uint32_t)first;
    block->size = size;
    pool->extents[first] = (uint32_t)count;
    pool->loans[first] = block;
    atomic_store_explicit(holder_bits(&pool->memory, block->first), 0, memory_order_relaxed); /* of no holder's */
    return block;
}

static uint8_t *bytes_of(const struct block *block)
{
    return pool_block(&block->pool->memory, block->first);
}

/* The block that such bytes are the start of; borrowed. */
static struct block *block_at(struct pool *pool, const uint8_t *bytes, Py_ssize_t size)
{
    uint64_t offset = (uint64_t)(uintptr_t)bytes - (uint64_t)(uintptr_t)pool->memory.data;
    struct block *block;

    if (offset >= pool_bytes(&pool->memory, pool->memory.blocks) || offset % pool->memory.block_bytes != 0)
        return NULL;
    block = pool->loans[offset / pool->memory.block_bytes];
    return block != NULL && size <= block->size ? block : NULL;
}

static void fill(struct block *block, const uint8_t *bytes)
{
    if (block->size < MIN_UNLOCKED_BYTES) {
        memcpy(bytes_of(block), bytes, (size_t)block->size);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    memcpy(bytes_of(block), bytes, (size_t)block->size);
    Py_END_ALLOW_THREADS
}

/* A link may hold one loan, however large, or at most half of the pool: a reader that has stopped then leaves blocks
 * for the other links. */
static int has_its_share(struct pool *pool, unsigned holder, uint32_t more)
{
    uint64_t share = pool->memory.blocks > 1 ? pool->memory.blocks / 2 : 1;

    if (pool->holders[holder].lent + more > share)
        pool->holders[holder].lent = echo_pool_count_held(pool, holder);
    return pool->holders[holder].lent > 0 && pool->holders[holder].lent + more > share;
}

/* --- what links call --- */

PyObject *echo_pool_place(PyObject *self, const uint8_t *bytes, Py_ssize_t size)
{
    struct pool *pool = (struct pool *)self;
    struct block *block = block_at(pool, bytes, size);

    if (block != NULL)
        return Py_NewRef((PyObject *)block);
    block = size >= MIN_PLACED_BYTES ? echo_block_new(pool, size) : NULL;
    if (block != NULL)
        fill(block, bytes);
    return (PyObject *)block;
}

PyObject *echo_pool_room(PyObject *self, Py_ssize_t size, uint8_t **bytes)
{
    struct block *block = echo_block_new((struct pool *)self, size);

    *bytes = block != NULL ? bytes_of(block) : NULL;
    return (PyObject *)block;
}

int echo_block_lend(PyObject *self, unsigned holder, uint32_t stream, Py_ssize_t size, uint8_t *payload)
{
    const struct block *block = (struct block *)self;
    struct pool *pool = block->pool;
    _Atomic uint64_t *bits = holder_bits(&pool->memory, block->first);
    uint32_t count = pool->extents[block->first];

    /* There is one bit for a holder: of two loans the first that is given back would free the block. */
    if (has_forked_since(pool->forks) || holder >= MAX_HOLDERS || (pool->attached >> holder & 1) == 0 ||
        atomic_load(bits) >> holder & 1 || has_its_share(pool, holder, count))
        return 0;
    pool->holders[holder].lent += count;
    atomic_fetch_or(bits, UINT64_C(1) << holder);
    echo_loan_store(payload, stream, block->first, (uint64_t)size);
    return 1;
}

/* --- the type Block --- */

static int block_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const struct block *block = (struct block *)self;

    return PyBuffer_FillInfo(view, self, bytes_of(block), block->size, 0, flags);
}

static PyObject *block_lend(PyObject *self, PyObject *args)
{
    uint8_t payload[LOAN_PAYLOAD_BYTES];
    unsigned holder, stream;
    Py_ssize_t size = ((struct block *)self)->size;

    if (!PyArg_ParseTuple(args, "II:lend", &holder, &stream))
        return NULL;
    if (holder >= MAX_HOLDERS)
        return PyErr_Format(PyExc_ValueError, "Expected a holder below %d, got %u", MAX_HOLDERS, holder);
    if (!echo_block_lend(self, holder, stream, size, payload))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)payload, sizeof payload);
}

static void block_dealloc(PyObject *self)
{
    struct block *block = (struct block *)self;

    block->pool->loans[block->first] = NULL;
    Py_DECREF((PyObject *)block->pool);
    free_instance(self);
}

static PyMethodDef block_methods[] = {
    {"lend", block_lend, METH_VARARGS,
     PyDoc_STR("lend($self, holder, stream, /)\n--\n\nWhat a frame says of it; None: it is not lent.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, PyDoc_STR("A writable buffer in a Pool; kept from other use as long as it is referred to.")},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_bf_getbuffer, block_get_buffer},
    {0, NULL}};

PyType_Spec echo_link_block_spec = {
    .name = "echo_core._c.links.Block",
    .basicsize = sizeof(struct block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = block_slots,
};
