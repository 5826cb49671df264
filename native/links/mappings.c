/* The types Mapping and Loan: a peer's Pool, as this process reads it. core/wires/pool.h draws it.
 *
 * The blocks are mapped read-only, the holders of blocks are not. The header is read once and checked; after
 * that nothing that the peer could change decides where this process reads, and `max_bytes` bounds how much.
 */
#define _GNU_SOURCE
#include "links/pool.h"

#include "links/errors.h"
#include "links/state.h"

#include "core/forks.h"

struct mapping {
    PyObject ob_base;          /* spelled out: PyObject_HEAD hides it */
    struct pool_memory memory; /* owned */
    unsigned holder;           /* of the link, at the peer */
    unsigned forks;            /* echo_forks when it was made; a forked child gives nothing back */
};

struct loan {
    PyObject ob_base;        /* spelled out: PyObject_HEAD hides it */
    struct mapping *mapping; /* owned reference */
    uint32_t first;          /* block that is given back in the end */
    Py_ssize_t size;
};

/* --- what links call --- */

static struct loan *new_loan(struct mapping *mapping, const struct loan_frame *told)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)mapping));
    struct loan *loan = (struct loan *)PyType_GenericAlloc(state->loan_type, 0);

    if (loan == NULL)
        return NULL;
    loan->mapping = (struct mapping *)Py_NewRef((PyObject *)mapping);
    loan->first = told->first;
    loan->size = (Py_ssize_t)told->size;
    return loan;
}

static const uint8_t *bytes_of(const struct loan *loan)
{
    return pool_block(&loan->mapping->memory, loan->first);
}

int echo_loan_open(PyObject *self, const uint8_t *payload, uint32_t size, struct record *record, uint32_t *stream,
                   PyObject **owner)
{
    struct mapping *mapping = (struct mapping *)self;
    struct loan_frame told;
    const char *refusal = echo_loan_refusal(&mapping->memory, mapping->holder, payload, size, &told);
    struct loan *loan;

    if (refusal != NULL) {
        echo_raise("WireError", "Expected a loan from the peer's pool: %s", refusal);
        return -1;
    }
    loan = new_loan(mapping, &told);
    if (loan == NULL)
        return -1;
    *stream = told.stream;
    *record = (struct record){.bytes = bytes_of(loan), .size = loan->size, .is_shared = 1};
    *owner = (PyObject *)loan;
    return 0;
}

/* --- the type Loan --- */

static int loan_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const struct loan *loan = (struct loan *)self;

    return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)bytes_of(loan), loan->size, 1, flags);
}

static void loan_dealloc(PyObject *self)
{
    const struct loan *loan = (struct loan *)self;
    struct mapping *mapping = loan->mapping;

    /* The reads of this thread come before, as do those that the GIL has ordered. */
    if (!has_forked_since(mapping->forks))
        atomic_fetch_and(holder_bits(&mapping->memory, loan->first), ~(UINT64_C(1) << mapping->holder));
    Py_DECREF((PyObject *)mapping);
    free_instance(self);
}

static PyType_Slot loan_slots[] = {
    {Py_tp_doc, PyDoc_STR("Bytes in a peer's pool; given back when the last reference goes.")},
    {Py_tp_dealloc, loan_dealloc},
    {Py_bf_getbuffer, loan_get_buffer},
    {0, NULL}};

PyType_Spec echo_link_loan_spec = {
    .name = "echo_core._c.links.Loan",
    .basicsize = sizeof(struct loan),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = loan_slots,
};

/* --- the type Mapping --- */

/* -1 with WireError or OSError. */
static int open_memory(struct mapping *mapping, int fd, uint64_t max_bytes)
{
    const char *refusal;

    if (echo_pool_open(&mapping->memory, fd, max_bytes, &refusal) == 0)
        return 0;
    if (refusal != NULL)
        echo_raise("WireError", "Expected a peer's pool: %s", refusal);
    else
        PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

static PyObject *mapping_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory_fd", "holder", "max_bytes", NULL};
    struct mapping *mapping;
    long long max_bytes = MAX_POOL_BYTES;
    unsigned holder;
    int fd;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iI|L:Mapping", names, &fd, &holder, &max_bytes))
        return NULL;
    if (holder >= MAX_HOLDERS) {
        echo_raise("WireError", "Expected a holder below %d, got %u", MAX_HOLDERS, holder);
        return NULL;
    }
    if (max_bytes < 0)
        return PyErr_Format(PyExc_ValueError, "Expected max_bytes from 0 on, got %lld", max_bytes);
    mapping = (struct mapping *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (mapping == NULL)
        return NULL;
    mapping->holder = holder;
    mapping->forks = echo_forks;
    if (open_memory(mapping, fd, (uint64_t)max_bytes) != 0) {
        Py_DECREF((PyObject *)mapping);
        return NULL;
    }
    return (PyObject *)mapping;
}

static PyObject *mapping_open(PyObject *self, PyObject *args)
{
    struct record record;
    uint32_t stream, size;
    PyObject *owner;
    Py_buffer payload;
    int status;

    if (!PyArg_ParseTuple(args, "y*:open", &payload))
        return NULL;
    size = payload.len <= LOAN_PAYLOAD_BYTES ? (uint32_t)payload.len : 0;
    status = echo_loan_open(self, payload.buf, size, &record, &stream, &owner);
    PyBuffer_Release(&payload);
    return status == 0 ? Py_BuildValue("IN", stream, owner) : NULL;
}

/* No Loan lives, as it would hold a reference: the peer need not wait for any. */
static void mapping_dealloc(PyObject *self)
{
    struct mapping *mapping = (struct mapping *)self;

    if (mapping->memory.data != NULL && !has_forked_since(mapping->forks))
        atomic_fetch_or(&mapping->memory.header->gone, UINT64_C(1) << mapping->holder);
    echo_pool_close(&mapping->memory);
    free_instance(self);
}

static PyMethodDef mapping_methods[] = {
    {"open", mapping_open, METH_VARARGS,
     PyDoc_STR("open($self, payload, /)\n--\n\nThe stream that a frame is for, and a Loan of the bytes.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot mapping_slots[] = {
    {Py_tp_doc,
     PyDoc_STR("Mapping(memory_fd, holder, max_bytes=1099511627776)\n--\n\nA peer's Pool, as this process reads it.")},
    {Py_tp_new, mapping_new},
    {Py_tp_dealloc, mapping_dealloc},
    {Py_tp_methods, mapping_methods},
    {0, NULL}};

PyType_Spec echo_link_mapping_spec = {
    .name = "echo_core._c.links.Mapping",
    .basicsize = sizeof(struct mapping),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = mapping_slots,
};
