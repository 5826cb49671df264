/* Scanning as functions of the module. */
#include "logs/module.h"
#include "logs/scanning.h"

#include <stdlib.h>

#define LARGE_BYTES 65536 /* from here on other threads run meanwhile */

/* Whether offset and end lie within a buffer; ValueError. */
static int is_within(unsigned long long offset, unsigned long long end, const Py_buffer *buffer)
{
    if (offset <= end && end <= (unsigned long long)buffer->len)
        return 1;
    PyErr_Format(PyExc_ValueError, "Expected a part of %zd bytes, got %llu to %llu", buffer->len, offset, end);
    return 0;
}

static uint64_t scan_freely(const Py_buffer *buffer, uint64_t *offset, uint64_t end, uint64_t salt, int verify,
                            struct found *found, uint64_t most)
{
    uint64_t count;

    if (end - *offset < LARGE_BYTES)
        return echo_scan(buffer->buf, offset, end, salt, verify, found, most);
    Py_BEGIN_ALLOW_THREADS
    count = echo_scan(buffer->buf, offset, end, salt, verify, found, most);
    Py_END_ALLOW_THREADS
    return count;
}

static PyObject *scan(PyObject *module, PyObject *args)
{
    unsigned long long offset, end, salt, most;
    uint64_t from, count;
    struct found *found;
    PyObject *result = NULL;
    Py_buffer buffer;
    int verify;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*KKKpK:scan", &buffer, &offset, &end, &salt, &verify, &most))
        return NULL;
    if (is_within(offset, end, &buffer)) {
        if (most > (end - offset) / ALIGNMENT + 1)
            most = (end - offset) / ALIGNMENT + 1;
        from = offset;
        found = malloc((most > 0 ? most : 1) * sizeof *found);
        if (found == NULL) {
            PyErr_NoMemory();
        } else {
            count = scan_freely(&buffer, &from, end, salt, verify, found, most);
            result = Py_BuildValue("NK", PyBytes_FromStringAndSize((char *)found, (Py_ssize_t)(count * sizeof *found)),
                                   (unsigned long long)from);
            free(found);
        }
    }
    PyBuffer_Release(&buffer);
    return result;
}

/* The state and the bad slices of the block at an offset, as verified; state 0: there is no block. Its header is in its
 * place, or where a copy is given that one. */
static PyObject *verify(PyObject *module, PyObject *args)
{
    unsigned long long offset, end, salt;
    struct block_header header;
    uint32_t state = 0, bad = 0;
    Py_buffer buffer, copy = {0};
    int is_good;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*KKK|y*:verify", &buffer, &offset, &end, &salt, &copy))
        return NULL;
    is_good = is_within(offset, end, &buffer);
    if (is_good && copy.obj != NULL && copy.len != sizeof header) {
        PyErr_Format(PyExc_ValueError, "Expected a header of %zu bytes, got %zd", sizeof header, copy.len);
        is_good = 0;
    }
    if (is_good && (copy.obj != NULL ? echo_block_by(copy.buf, offset, end, salt, &header)
                                     : echo_block_at(buffer.buf, offset, end, salt, &header))) {
        Py_BEGIN_ALLOW_THREADS
        state = IS_BLOCK | echo_verify((const uint8_t *)buffer.buf + offset, &header, 1, &bad);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&buffer);
    if (copy.obj != NULL)
        PyBuffer_Release(&copy);
    return is_good ? Py_BuildValue("II", state, bad) : NULL;
}

PyMethodDef echo_scanning_functions[] = {
    {"scan", scan, METH_VARARGS, NULL}, {"verify", verify, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
