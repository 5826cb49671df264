/* The types Pool and Block: memory that other processes read in place. link_pool.h draws it.
 *
 * A block is free when no Block object of this process lives and no holder has it. The lowest free one is
 * taken: what was written a moment ago is still in the cache, and memory is touched only when it is needed.
 * The GIL guards all but the holders' bits, which are atomic.
 *
 * A holder is one link. When the link has ended its process may still read what it was lent. So the holder is
 * retired: its blocks are free when it has said that it looks at none any more, or has died.
 */
#define _GNU_SOURCE
#include "link_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIN_PLACED_BYTES 16384      /* below, copying in and out of a wire is as fast */
#define MIN_UNLOCKED_BYTES 65536    /* a copy that takes longer than a hand-over of the GIL */

struct holder {
    int process_fd; /* owned, of pidfd_open; -1: unknown */
    uint64_t lent;  /* blocks, at least as many as it holds */
};

struct pool {
    PyObject ob_base;           /* spelled out: PyObject_HEAD hides it */
    struct pool_header *header; /* owned mapping of the whole memory; NULL: none */
    uint8_t *data;              /* in it */
    uint64_t block_bytes;
    uint32_t blocks;
    int fd;                     /* owned; -1: closed */
    unsigned forks;             /* echo_forks when it was made; a forked child takes no block */
    uint32_t *extents;          /* owned; by a loan's first block: how many it takes. 0: free, or a next one */
    struct block **loans;       /* owned; by a loan's first block: borrowed from who has the Block. NULL: nobody */
    uint64_t attached, retired; /* holders */
    struct holder holders[MAX_HOLDERS];
};

struct block {
    PyObject ob_base;   /* spelled out: PyObject_HEAD hides it */
    struct pool *pool;  /* owned reference */
    uint32_t first;     /* block of the pool */
    Py_ssize_t size;    /* bytes that were asked for */
};

static uint64_t memory_bytes(uint64_t block_bytes, uint32_t blocks)
{
    return pool_data_offset(blocks) + block_bytes * blocks;
}

static _Atomic uint64_t *bits_of(struct pool *pool, uint32_t block)
{
    return &holders_in(pool->header)[block].bits;
}

/* --- holders --- */

static int has_died(const struct holder *holder)
{
    struct pollfd process = {.fd = holder->process_fd, .events = POLLIN};

    return holder->process_fd < 0 || poll(&process, 1, 0) > 0;
}

/* How many blocks a holder has. */
static uint64_t count_held(struct pool *pool, unsigned holder)
{
    uint64_t held = 0;

    for (uint32_t block = 0; block < pool->blocks; block++)
        if (atomic_load_explicit(bits_of(pool, block), memory_order_relaxed) >> holder & 1)
            held += pool->extents[block];
    return held;
}

static void clear_holder(struct pool *pool, unsigned holder)
{
    uint64_t bit = UINT64_C(1) << holder;

    for (uint32_t block = 0; block < pool->blocks; block++)
        if (atomic_load_explicit(bits_of(pool, block), memory_order_relaxed) & bit)
            atomic_fetch_and(bits_of(pool, block), ~bit);
    atomic_fetch_and(&pool->header->gone, ~bit);
    pool->holders[holder].lent = 0;
}

static int is_done(struct pool *pool, unsigned holder)
{
    return atomic_load(&pool->header->gone) >> holder & 1 || has_died(&pool->holders[holder]) ||
           count_held(pool, holder) == 0;
}

/* Lets go of retired holders that are done. */
static void sweep(struct pool *pool)
{
    for (unsigned holder = 0; holder < MAX_HOLDERS; holder++) {
        if ((pool->retired >> holder & 1) == 0 || !is_done(pool, holder))
            continue;
        pool->retired &= ~(UINT64_C(1) << holder);
        clear_holder(pool, holder);
        if (pool->holders[holder].process_fd >= 0)
            close(pool->holders[holder].process_fd);
    }
}

/* A link may have one loan, or half of a pool: one whose reader stands still leaves the rest to the others. */
static int has_its_share(struct pool *pool, unsigned holder, uint32_t more)
{
    uint64_t share = pool->blocks > 1 ? pool->blocks / 2 : 1;

    if (pool->holders[holder].lent + more > share)
        pool->holders[holder].lent = count_held(pool, holder);
    return pool->holders[holder].lent > 0 && pool->holders[holder].lent + more > share;
}

/* --- blocks --- */

static int is_free(struct pool *pool, uint32_t first)
{
    uint64_t bits = atomic_load_explicit(bits_of(pool, first), memory_order_acquire);

    return pool->loans[first] == NULL && (bits & (pool->attached | pool->retired)) == 0;
}

/* The first of `count` free blocks side by side; -1: there are none. */
static int64_t find_blocks(struct pool *pool, uint32_t count)
{
    uint32_t run = 0, block = 0;

    while (block < pool->blocks) {
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

/* A new reference; NULL without an exception: there is no such block. */
static struct block *new_block(struct pool *pool, Py_ssize_t size)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)pool));
    uint64_t count = ((uint64_t)size + pool->block_bytes - 1) / pool->block_bytes;
    struct block *block;
    int64_t first;

    if (pool->fd < 0 || count > pool->blocks || echo_forks != pool->forks)
        return NULL;
    first = find_blocks(pool, (uint32_t)count);
    if (first < 0 && pool->retired != 0) {
        sweep(pool);
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
    atomic_store_explicit(bits_of(pool, block->first), 0, memory_order_relaxed); /* of holders that never were */
    return block;
}

static uint8_t *bytes_of(const struct block *block)
{
    return block->pool->data + block->first * block->pool->block_bytes;
}

/* The block that such bytes are the start of; borrowed. */
static struct block *block_at(struct pool *pool, const uint8_t *bytes, Py_ssize_t size)
{
    uint64_t offset = (uint64_t)(uintptr_t)bytes - (uint64_t)(uintptr_t)pool->data;
    struct block *block;

    if (offset >= pool->block_bytes * pool->blocks || offset % pool->block_bytes != 0)
        return NULL;
    block = pool->loans[offset / pool->block_bytes];
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

/* --- what links call --- */

PyObject *echo_pool_place(PyObject *self, const uint8_t *bytes, Py_ssize_t size)
{
    struct pool *pool = (struct pool *)self;
    struct block *block = block_at(pool, bytes, size);

    if (block != NULL)
        return Py_NewRef((PyObject *)block);
    block = size >= MIN_PLACED_BYTES ? new_block(pool, size) : NULL;
    if (block != NULL)
        fill(block, bytes);
    return (PyObject *)block;
}

int echo_block_lend(PyObject *self, unsigned holder, uint32_t stream, Py_ssize_t size, uint8_t *payload)
{
    const struct block *block = (struct block *)self;
    struct pool *pool = block->pool;
    _Atomic uint64_t *bits = bits_of(pool, block->first);
    uint32_t count = pool->extents[block->first];

    /* There is one bit for a holder: of two loans the first that is given back would free the block. */
    if ((pool->attached >> holder & 1) == 0 || atomic_load(bits) >> holder & 1 || has_its_share(pool, holder, count))
        return 0;
    pool->holders[holder].lent += count;
    atomic_fetch_or(bits, UINT64_C(1) << holder);
    memcpy(payload, &stream, 4);
    memcpy(payload + 4, &block->first, 4);
    memcpy(payload + 8, &(uint64_t){(uint64_t)size}, 8);
    return 1;
}

void echo_pool_take_back(PyObject *self, unsigned holder, const uint8_t *payload)
{
    struct pool *pool = (struct pool *)self;
    uint32_t first = load_uint32_t(payload + 4);

    if (first < pool->blocks && holder < MAX_HOLDERS)
        atomic_fetch_and(bits_of(pool, first), ~(UINT64_C(1) << holder));
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
    {Py_tp_doc, PyDoc_STR("A writable buffer in a Pool; it is not used for another as long as it is referred to.")},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_bf_getbuffer, block_get_buffer},
    {0, NULL}};

PyType_Spec echo_link_block_spec = {
    .name = "echo_core._links.Block",
    .basicsize = sizeof(struct block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = block_slots,
};

/* --- the type Pool --- */

static int map_memory(struct pool *pool)
{
    uint64_t size = memory_bytes(pool->block_bytes, pool->blocks);

    pool->fd = echo_memory_create("echo_core pool", size);
    if (pool->fd < 0) {
        errno = -pool->fd;
        return -1;
    }
    pool->header = echo_memory_map(pool->fd, 0, size, PROT_READ | PROT_WRITE);
    if (pool->header == NULL)
        return -1;
    pool->header->magic = POOL_MAGIC;
    pool->header->version = POOL_VERSION;
    pool->header->blocks = pool->blocks;
    pool->header->block_bytes = pool->block_bytes;
    pool->data = (uint8_t *)pool->header + pool_data_offset(pool->blocks);
    return 0;
}

static int fill_pool(struct pool *pool, uint64_t block_bytes, uint32_t blocks)
{
    pool->block_bytes = block_bytes;
    pool->blocks = blocks;
    pool->forks = echo_forks;
    pool->extents = PyMem_Calloc(blocks, sizeof *pool->extents);
    pool->loans = PyMem_Calloc(blocks, sizeof *pool->loans);
    if (pool->extents == NULL || pool->loans == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (map_memory(pool) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"block_bytes", "blocks", NULL};
    long long block_bytes, blocks;
    struct pool *pool;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$LL:Pool", names, &block_bytes, &blocks))
        return NULL;
    if (block_bytes < 0 || blocks < 0 || !is_pool_shape((uint64_t)block_bytes, (uint64_t)blocks))
        return PyErr_Format(PyExc_ValueError, "Expected at most %d blocks of a multiple of %d bytes, got %lld of %lld",
                            MAX_BLOCKS, MIN_BLOCK_BYTES, blocks, block_bytes);
    pool = (struct pool *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (pool == NULL)
        return NULL;
    pool->fd = -1;
    if (fill_pool(pool, (uint64_t)block_bytes, (uint32_t)blocks) != 0) {
        Py_DECREF((PyObject *)pool);
        return NULL;
    }
    return (PyObject *)pool;
}

static PyObject *pool_fileno(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct pool *pool = (struct pool *)self;

    if (pool->fd >= 0)
        return PyLong_FromLong(pool->fd);
    echo_raise("ClosedError", "The pool is closed");
    return NULL;
}

static PyObject *pool_loan(PyObject *self, PyObject *argument)
{
    Py_ssize_t size = PyLong_AsSsize_t(argument);
    struct block *block;

    if (size == -1 && PyErr_Occurred() != NULL)
        return NULL;
    if (size <= 0)
        return PyErr_Format(PyExc_ValueError, "Expected a size above 0, got %zd", size);
    block = new_block((struct pool *)self, size);
    return block != NULL ? (PyObject *)block : Py_NewRef(Py_None);
}

static PyObject *pool_place(PyObject *self, PyObject *data)
{
    PyObject *block;
    Py_buffer view;

    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    block = echo_pool_place(self, view.buf, view.len);
    PyBuffer_Release(&view);
    return block != NULL ? block : Py_NewRef(Py_None);
}

/* A holder by its number, attached; -1 with ValueError. */
static int holder_of(const struct pool *pool, PyObject *argument)
{
    long holder = PyLong_AsLong(argument);

    if (holder == -1 && PyErr_Occurred() != NULL)
        return -1;
    if (holder >= 0 && holder < MAX_HOLDERS && pool->attached >> holder & 1)
        return (int)holder;
    PyErr_Format(PyExc_ValueError, "Expected a holder that is attached, got %ld", holder);
    return -1;
}

static PyObject *pool_attach(PyObject *self, PyObject *args)
{
    struct pool *pool = (struct pool *)self;
    int process_fd = -1, holder = 0;

    if (!PyArg_ParseTuple(args, "|i:attach", &process_fd))
        return NULL;
    sweep(pool);
    while (holder < MAX_HOLDERS && (pool->attached | pool->retired) >> holder & 1)
        holder++;
    if (holder == MAX_HOLDERS)
        return PyLong_FromLong(-1);
    if (process_fd >= 0 && (process_fd = fcntl(process_fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    clear_holder(pool, (unsigned)holder);
    pool->holders[holder].process_fd = process_fd;
    pool->attached |= UINT64_C(1) << holder;
    return PyLong_FromLong(holder);
}

static PyObject *pool_detach(PyObject *self, PyObject *argument)
{
    struct pool *pool = (struct pool *)self;
    int holder = holder_of(pool, argument);

    if (holder < 0)
        return NULL;
    pool->attached &= ~(UINT64_C(1) << holder);
    pool->retired |= UINT64_C(1) << holder;
    sweep(pool);
    Py_RETURN_NONE;
}

static PyObject *pool_take_back(PyObject *self, PyObject *args)
{
    unsigned holder;
    const char *payload;
    Py_ssize_t size;

    if (!PyArg_ParseTuple(args, "Iy#:take_back", &holder, &payload, &size))
        return NULL;
    if (size != LOAN_PAYLOAD_BYTES)
        return PyErr_Format(PyExc_ValueError, "Expected %d bytes, got %zd", LOAN_PAYLOAD_BYTES, size);
    echo_pool_take_back(self, holder, (const uint8_t *)payload);
    Py_RETURN_NONE;
}

static PyObject *pool_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct pool *pool = (struct pool *)self;

    if (pool->fd >= 0)
        close(pool->fd);
    pool->fd = -1;
    Py_RETURN_NONE;
}

static PyObject *pool_blocks(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(((struct pool *)self)->blocks);
}

static PyObject *pool_used(PyObject *self, void *Py_UNUSED(closure))
{
    struct pool *pool = (struct pool *)self;
    unsigned long used = 0;

    sweep(pool);
    for (uint32_t block = 0; block < pool->blocks; block++)
        if (pool->extents[block] != 0 && !is_free(pool, block))
            used += pool->extents[block];
    return PyLong_FromUnsignedLong(used);
}

static void pool_dealloc(PyObject *self)
{
    struct pool *pool = (struct pool *)self;
    uint64_t holders = pool->attached | pool->retired;

    for (int holder = 0; holder < MAX_HOLDERS; holder++)
        if (holders >> holder & 1 && pool->holders[holder].process_fd >= 0)
            close(pool->holders[holder].process_fd);
    if (pool->header != NULL)
        munmap(pool->header, memory_bytes(pool->block_bytes, pool->blocks));
    if (pool->fd >= 0)
        close(pool->fd);
    PyMem_Free(pool->extents);
    PyMem_Free(pool->loans);
    free_instance(self);
}

static PyMethodDef pool_methods[] = {
    {"fileno", pool_fileno, METH_NOARGS, PyDoc_STR("fileno($self, /)\n--\n\nThe memory, for a Mapping.")},
    {"loan", pool_loan, METH_O,
     PyDoc_STR("loan($self, size, /)\n--\n\nA writable buffer in free blocks, or None.")},
    {"place", pool_place, METH_O,
     PyDoc_STR("place($self, data, /)\n--\n\nThe Block that the bytes are in, or one with a copy, or None.")},
    {"attach", pool_attach, METH_VARARGS,
     PyDoc_STR("attach($self, process_fd=-1, /)\n--\n\nA holder for one more link; -1: there are no more.")},
    {"detach", pool_detach, METH_O,
     PyDoc_STR("detach($self, holder, /)\n--\n\nThat link is gone; its blocks are free when nobody reads them.")},
    {"take_back", pool_take_back, METH_VARARGS,
     PyDoc_STR("take_back($self, holder, payload, /)\n--\n\nUndoes Block.lend for a frame that is not sent.")},
    {"close", pool_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nLends no more; the memory goes with the last Block.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef pool_attributes[] = {
    {"blocks", pool_blocks, NULL, PyDoc_STR("How many there are."), NULL},
    {"used", pool_used, NULL, PyDoc_STR("How many of them are not free."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot pool_slots[] = {
    {Py_tp_doc, PyDoc_STR("Pool(*, block_bytes, blocks)\n--\n\nMemory of this process that others read in place.")},
    {Py_tp_new, pool_new},
    {Py_tp_dealloc, pool_dealloc},
    {Py_tp_methods, pool_methods},
    {Py_tp_getset, pool_attributes},
    {0, NULL}};

PyType_Spec echo_link_pool_spec = {
    .name = "echo_core._links.Pool",
    .basicsize = sizeof(struct pool),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pool_slots,
};
