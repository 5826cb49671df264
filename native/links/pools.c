/* The type Pool: memory of this process that others read in place, and who they are. core/wires/pool.h draws it.
 *
 * A holder is one link. When the link has ended its process may still read what it was lent. So the holder is
 * retired: its blocks are free when it has said that it looks at none any more, or has died.
 */
#define _GNU_SOURCE
#include "links/pool.h"

#include "links/entries.h"
#include "links/errors.h"
#include "links/state.h"

#include "core/forks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <structmember.h>
#include <unistd.h>

/* --- holders --- */

static int has_died(const struct holder *holder)
{
    struct pollfd process = {.fd = holder->process_fd, .events = POLLIN};

    return holder->process_fd < 0 || poll(&process, 1, 0) > 0;
}

uint64_t echo_pool_count_held(struct pool *pool, unsigned holder)
{
    uint64_t held = 0;

    for (uint32_t block = 0; block < pool->memory.blocks; block++)
        if (atomic_load_explicit(holder_bits(&pool->memory, block), memory_order_relaxed) >> holder & 1)
            held += pool->extents[block];
    return held;
}

static void clear_holder(struct pool *pool, unsigned holder)
{
    uint64_t bit = UINT64_C(1) << holder;

    for (uint32_t block = 0; block < pool->memory.blocks; block++)
        if (atomic_load_explicit(holder_bits(&pool->memory, block), memory_order_relaxed) & bit)
            atomic_fetch_and(holder_bits(&pool->memory, block), ~bit);
    atomic_fetch_and(&pool->memory.header->gone, ~bit);
    pool->holders[holder].lent = 0;
}

static int is_done(struct pool *pool, unsigned holder)
{
    return atomic_load(&pool->memory.header->gone) >> holder & 1 || has_died(&pool->holders[holder]) ||
           echo_pool_count_held(pool, holder) == 0;
}

void echo_pool_sweep(struct pool *pool)
{
    if (has_forked_since(pool->forks))
        return;
    for (unsigned holder = 0; holder < MAX_HOLDERS; holder++) {
        if ((pool->retired >> holder & 1) == 0 || !is_done(pool, holder))
            continue;
        pool->retired &= ~(UINT64_C(1) << holder);
        clear_holder(pool, holder);
        if (pool->holders[holder].process_fd >= 0)
            close(pool->holders[holder].process_fd);
    }
}

/* --- the type Pool --- */

static int fill_pool(struct pool *pool, uint64_t block_bytes, uint32_t blocks)
{
    pool->forks = echo_forks;
    pool->extents = PyMem_Calloc(blocks, sizeof *pool->extents);
    pool->loans = PyMem_Calloc(blocks, sizeof *pool->loans);
    if (pool->extents == NULL || pool->loans == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    pool->fd = echo_pool_create(&pool->memory, block_bytes, blocks);
    if (pool->fd >= 0)
        return 0;
    errno = -pool->fd;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"block_bytes", "blocks", NULL};
    long long block_bytes, blocks;
    struct pool *pool;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$LL:Pool", names, &block_bytes, &blocks))
        return NULL;
    if (block_bytes < 0 || blocks < 0 || !echo_pool_is_shape((uint64_t)block_bytes, (uint64_t)blocks))
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
    block = echo_block_new((struct pool *)self, size);
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
    if (has_forked_since(pool->forks))
        return PyLong_FromLong(-1);
    echo_pool_sweep(pool);
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
    echo_pool_sweep(pool);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_LETS_GO(pool_detach, ((struct pool *)self)->forks)

static PyObject *pool_take_back(PyObject *self, PyObject *args)
{
    Py_buffer payload;
    Py_ssize_t size;
    unsigned holder;

    if (!PyArg_ParseTuple(args, "Iy*:take_back", &holder, &payload))
        return NULL;
    size = payload.len;
    if (size == LOAN_PAYLOAD_BYTES)
        echo_loan_take_back(&((struct pool *)self)->memory, holder, payload.buf);
    PyBuffer_Release(&payload);
    if (size != LOAN_PAYLOAD_BYTES)
        return PyErr_Format(PyExc_ValueError, "Expected %d bytes, got %zd", LOAN_PAYLOAD_BYTES, size);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_LETS_GO(pool_take_back, ((struct pool *)self)->forks)

static PyObject *pool_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct pool *pool = (struct pool *)self;

    if (pool->fd >= 0)
        close(pool->fd);
    pool->fd = -1;
    Py_RETURN_NONE;
}

static PyObject *pool_used(PyObject *self, void *Py_UNUSED(closure))
{
    struct pool *pool = (struct pool *)self;
    unsigned long used = 0;

    echo_pool_sweep(pool);
    for (uint32_t block = 0; block < pool->memory.blocks; block++)
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
    echo_pool_unmap(&pool->memory);
    if (pool->fd >= 0)
        close(pool->fd);
    PyMem_Free(pool->extents);
    PyMem_Free(pool->loans);
    free_instance(self);
}

static PyMethodDef pool_methods[] = {
    {"fileno", pool_fileno, METH_NOARGS, PyDoc_STR("fileno($self, /)\n--\n\nThe memory, for a Mapping.")},
    {"loan", pool_loan, METH_O, PyDoc_STR("loan($self, size, /)\n--\n\nA writable buffer in free blocks, or None.")},
    {"place", pool_place, METH_O,
     PyDoc_STR("place($self, data, /)\n--\n\nThe Block that the bytes are in, or one with a copy, or None.")},
    {"attach", pool_attach, METH_VARARGS,
     PyDoc_STR("attach($self, process_fd=-1, /)\n--\n\nA holder for one more link; -1: there are no more.")},
    {"detach", pool_detach_entry, METH_O,
     PyDoc_STR("detach($self, holder, /)\n--\n\nThat link has ended; who still reads keeps what it has.")},
    {"take_back", pool_take_back_entry, METH_VARARGS,
     PyDoc_STR("take_back($self, holder, payload, /)\n--\n\nUndoes Block.lend for a frame that is not sent.")},
    {"close", pool_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nLends no more; the memory goes with the last Block.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef pool_members[] = {
    {"blocks", T_UINT, offsetof(struct pool, memory.blocks), READONLY, PyDoc_STR("How many there are.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef pool_attributes[] = {{"used", pool_used, NULL, PyDoc_STR("How many of them are not free."), NULL},
                                        {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot pool_slots[] = {{Py_tp_doc, PyDoc_STR("Pool(*, block_bytes, blocks)\n--\n\n"
                                                         "Memory of this process that others read in place.")},
                                   {Py_tp_new, pool_new},
                                   {Py_tp_dealloc, pool_dealloc},
                                   {Py_tp_methods, pool_methods},
                                   {Py_tp_members, pool_members},
                                   {Py_tp_getset, pool_attributes},
                                   {0, NULL}};

PyType_Spec echo_link_pool_spec = {
    .name = "echo_core._c.links.Pool",
    .basicsize = sizeof(struct pool),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pool_slots,
};
