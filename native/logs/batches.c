/* A batch is composed once, for one place in one segment; it can be written there again where the disk was full. */
#define _GNU_SOURCE 1 /* pwritev */
#include "logs/batches.h"
#include "logs/composing.h"
#include "logs/module.h"
#include "logs/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <sys/uio.h>

/* The Python object. Used by one thread at a time. */
struct batch {
    PyObject ob_base;
    struct staging *staging; /* owned */
    struct chunk *first;     /* owned; NULL: all is written, or dropped */
    uint8_t *heads;          /* owned: what stands before each payload */
    struct iovec *pieces;    /* owned: heads, payloads and zeros, in the order of the file */
    int piece_count;
    uint64_t salt, offset; /* where it goes */
    int is_composed;
    unsigned int count;      /* chunks */
    unsigned long long size; /* in the file */
    unsigned long long last; /* serial of the last chunk */
    unsigned long long events;
};

/* --- composing --- */

static uint64_t head_bytes(const struct batch *batch)
{
    const struct chunk *chunk;
    uint64_t size = 0;

    for (chunk = batch->first; chunk != NULL; chunk = chunk->next)
        size += echo_parts_of_chunk(chunk).payload;
    return size;
}

static void add_piece(struct batch *batch, const void *at, uint64_t size)
{
    if (size > 0)
        batch->pieces[batch->piece_count++] = (struct iovec){(void *)(uintptr_t)at, size};
}

/* Needs no GIL, and is left to the write, which needs none either: who waits for the GIL in between may wait for
 * 5 ms each time. */
static void compose(struct batch *batch)
{
    uint64_t offset = batch->offset;
    uint8_t *head = batch->heads;
    struct chunk *chunk;

    if (batch->is_composed)
        return;
    for (chunk = batch->first; chunk != NULL; chunk = chunk->next) {
        struct parts parts = echo_parts_of_chunk(chunk);

        echo_measure(chunk);
        echo_compose(chunk, batch->salt, offset, head);
        add_piece(batch, head, parts.payload);
        add_piece(batch, chunk->payload.at, chunk->payload.size);
        add_piece(batch, echo_log_zeros, parts.end - parts.payload - chunk->payload.size);
        head += parts.payload;
        offset += parts.end;
    }
    batch->is_composed = 1;
}

/* Moves chunks from the staging's queue; they keep their order. */
static void take_chunks(struct batch *batch, uint64_t room, int is_forced)
{
    struct staging *staging = batch->staging;
    struct chunk **to = &batch->first, *chunk;

    while ((chunk = staging->first) != NULL && batch->count < MAX_BATCH_BLOCKS) {
        uint64_t size = echo_parts_of_chunk(chunk).end;

        if (batch->size + size > room && !(is_forced && batch->count == 0))
            break;
        if (batch->count > 0 && batch->size + size > MAX_BATCH_BYTES)
            break;
        staging->first = chunk->next;
        if (staging->first == NULL)
            staging->last = NULL;
        chunk->next = NULL;
        *to = chunk;
        to = &chunk->next;
        batch->count++;
        batch->size += size;
        batch->last = chunk->serial;
        batch->events += chunk->header.kind == RECORDS ? chunk->header.count : 0;
    }
}

/* Back to where they came from. */
static void give_back(struct batch *batch)
{
    struct staging *staging = batch->staging;
    struct chunk *last = batch->first;

    if (last == NULL)
        return;
    while (last->next != NULL)
        last = last->next;
    last->next = staging->first;
    if (staging->last == NULL)
        staging->last = last;
    staging->first = batch->first;
    batch->first = NULL;
}

PyObject *echo_take_batch(struct staging *staging, uint64_t salt, uint64_t offset, uint64_t end, int is_forced)
{
    PyTypeObject *type = sibling(Py_TYPE((PyObject *)staging), BATCH);
    struct batch *batch = (struct batch *)PyType_GenericAlloc(type, 0);

    if (batch == NULL)
        return NULL;
    batch->staging = (struct staging *)Py_NewRef((PyObject *)staging);
    take_chunks(batch, end > offset ? end - offset : 0, is_forced);
    if (batch->count == 0) {
        Py_DECREF((PyObject *)batch);
        Py_RETURN_NONE;
    }
    batch->heads = malloc(head_bytes(batch));
    batch->pieces = malloc(3 * batch->count * sizeof *batch->pieces);
    if (batch->heads == NULL || batch->pieces == NULL) {
        give_back(batch);
        Py_DECREF((PyObject *)batch);
        return PyErr_NoMemory();
    }
    batch->salt = salt;
    batch->offset = offset;
    return (PyObject *)batch;
}

/* --- writing --- */

/* Takes what is written off the pieces that are left. */
static struct iovec *advance(struct iovec *piece, size_t written)
{
    while (written > 0 && written >= piece->iov_len) {
        written -= piece->iov_len;
        piece++;
    }
    if (written > 0) {
        piece->iov_base = (uint8_t *)piece->iov_base + written;
        piece->iov_len -= written;
    }
    return piece;
}

/* Everything, or fewer bytes and *error. */
static uint64_t write_all(int fd, struct iovec *piece, const struct iovec *end, uint64_t offset, int *error)
{
    uint64_t from = offset;
    ssize_t written;

    *error = 0;
    while (piece < end && *error == 0) {
        int count = end - piece < 1024 ? (int)(end - piece) : 1024;

        written = pwritev(fd, piece, count, (off_t)offset);
        if (written > 0) {
            offset += (uint64_t)written;
            piece = advance(piece, (size_t)written);
        } else if (written == 0) {
            *error = ENOSPC; /* no file system says that otherwise */
        } else if (errno != EINTR) {
            *error = errno;
        }
    }
    return offset - from;
}

static PyObject *batch_write(PyObject *self, PyObject *args)
{
    struct batch *batch = (struct batch *)self;
    unsigned long long offset, written;
    struct iovec *pieces;
    int fd, error;

    if (!PyArg_ParseTuple(args, "iK:write", &fd, &offset))
        return NULL;
    if (offset != batch->offset || batch->first == NULL)
        return PyErr_Format(PyExc_ValueError, "Expected offset %llu of a batch that is not written, got %llu",
                            (unsigned long long)batch->offset, offset);
    pieces = malloc(3 * batch->count * sizeof *pieces);
    if (pieces == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    compose(batch);
    memcpy(pieces, batch->pieces, (size_t)batch->piece_count * sizeof *pieces);
    written = write_all(fd, pieces, pieces + batch->piece_count, offset, &error);
    Py_END_ALLOW_THREADS
    free(pieces);
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromUnsignedLongLong(written);
}

/* All of it as it is in the file. */
static PyObject *batch_bytes(PyObject *self, PyObject *unused)
{
    struct batch *batch = (struct batch *)self;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)batch->size);
    char *to;
    int i;

    (void)unused;
    if (bytes == NULL)
        return NULL;
    compose(batch);
    to = PyBytes_AsString(bytes);
    for (i = 0; i < batch->piece_count; i++) {
        memcpy(to, batch->pieces[i].iov_base, batch->pieces[i].iov_len);
        to += batch->pieces[i].iov_len;
    }
    return bytes;
}

static PyObject *batch_headers(PyObject *self, PyObject *unused)
{
    struct batch *batch = (struct batch *)self;
    Py_ssize_t size = (Py_ssize_t)(batch->count * sizeof(struct block_header));
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, batch->first != NULL ? size : 0);
    const struct chunk *chunk;
    char *to;

    (void)unused;
    if (bytes == NULL)
        return NULL;
    compose(batch);
    to = PyBytes_AsString(bytes);
    for (chunk = batch->first; chunk != NULL; chunk = chunk->next, to += sizeof(struct block_header)) {
        struct block_header header = header_swapped(chunk->header);
        memcpy(to, &header, sizeof header);
    }
    return bytes;
}

static uint64_t range_bytes(const struct chunk *chunk)
{
    return chunk->is_measured ? chunk->ranged->count * sizeof(struct range) : 0;
}

/* Of all blocks that have any, one behind another, as an index has them. */
static PyObject *batch_ranges(PyObject *self, PyObject *unused)
{
    struct batch *batch = (struct batch *)self;
    const struct chunk *chunk;
    PyObject *bytes;
    uint64_t size = 0;
    uint32_t i;
    char *to;

    (void)unused;
    compose(batch);
    for (chunk = batch->first; chunk != NULL; chunk = chunk->next)
        size += range_bytes(chunk);
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL)
        return NULL;
    to = PyBytes_AsString(bytes);
    for (chunk = batch->first; chunk != NULL; chunk = chunk->next) {
        for (i = 0; i < range_bytes(chunk) / sizeof(struct range); i++, to += sizeof(struct range)) {
            struct range range = {little64(chunk->ranges[i].least), little64(chunk->ranges[i].greatest)};
            memcpy(to, &range, sizeof range);
        }
    }
    return bytes;
}

/* --- the end of it --- */

static void drop(struct batch *batch)
{
    struct chunk *chunk;

    while ((chunk = batch->first) != NULL) {
        batch->first = chunk->next;
        echo_staging_drop(batch->staging, chunk);
    }
}

static PyObject *batch_done(PyObject *self, PyObject *unused)
{
    struct batch *batch = (struct batch *)self;

    (void)unused;
    drop(batch);
    echo_staging_tell(batch->staging);
    Py_RETURN_NONE;
}

static PyObject *batch_give_back(PyObject *self, PyObject *unused)
{
    (void)unused;
    give_back((struct batch *)self);
    Py_RETURN_NONE;
}

static void batch_dealloc(PyObject *self)
{
    struct batch *batch = (struct batch *)self;

    if (batch->staging != NULL)
        drop(batch);
    free(batch->heads);
    free(batch->pieces);
    Py_XDECREF((PyObject *)batch->staging);
    free_instance(self);
}

static PyMethodDef batch_methods[] = {{"write", batch_write, METH_VARARGS, NULL},
                                      {"tobytes", batch_bytes, METH_NOARGS, NULL},
                                      {"headers", batch_headers, METH_NOARGS, NULL},
                                      {"ranges", batch_ranges, METH_NOARGS, NULL},
                                      {"done", batch_done, METH_NOARGS, NULL},
                                      {"give_back", batch_give_back, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

static PyMemberDef batch_members[] = {{"size", T_ULONGLONG, offsetof(struct batch, size), READONLY, NULL},
                                      {"count", T_UINT, offsetof(struct batch, count), READONLY, NULL},
                                      {"last", T_ULONGLONG, offsetof(struct batch, last), READONLY, NULL},
                                      {"events", T_ULONGLONG, offsetof(struct batch, events), READONLY, NULL},
                                      {NULL, 0, 0, 0, NULL}};

static PyType_Slot batch_slots[] = {{Py_tp_doc, PyDoc_STR("Closed chunks on their way into one file.")},
                                    {Py_tp_dealloc, batch_dealloc},
                                    {Py_tp_methods, batch_methods},
                                    {Py_tp_members, batch_members},
                                    {0, NULL}};

PyType_Spec echo_batch_spec = {
    .name = "echo_core._c.logs.Batch",
    .basicsize = sizeof(struct batch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = batch_slots,
};
