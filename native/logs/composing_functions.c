/* Composing and sums as functions of the module. */
#include "logs/composing.h"
#include "logs/crc32c.h"
#include "logs/module.h"

#include <string.h>

static PyObject *compose_block(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"salt",  "offset", "kind", "payload", "flags",         "stream", "format_number", "first",
                            "count", "codec",  "raw",  "time",    "greatest_time", "marks",  "ends",          NULL};
    unsigned long long salt, offset, first = 0;
    unsigned int flags = 0, stream = 0, format = 0, count = 0, raw = 0;
    unsigned char kind, codec = 0;
    long long time = 0, greatest = 0;
    Py_buffer payload, marks = {0}, ends = {0};
    struct chunk chunk = {.header.magic = BLOCK_MAGIC};
    struct parts parts;
    PyObject *block = NULL;
    uint8_t *at;

    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKby*|$IIIKIbILLy*y*:compose_block", names, &salt, &offset, &kind,
                                     &payload, &flags, &stream, &format, &first, &count, &codec, &raw, &time, &greatest,
                                     &marks, &ends))
        return NULL;
    chunk.header.kind = kind;
    chunk.header.codec = codec;
    chunk.header.flags = (uint16_t)flags;
    chunk.header.stream = stream;
    chunk.header.format = format;
    chunk.header.first = first;
    chunk.header.count = count;
    chunk.header.raw = raw;
    chunk.header.marks = (uint32_t)((size_t)marks.len / sizeof(struct mark));
    chunk.header.least_time = time;
    chunk.header.greatest_time = greatest;
    chunk.payload = (struct bytes){.at = payload.buf, .size = (uint64_t)payload.len};
    chunk.marks = (struct bytes){.at = marks.buf, .size = (uint64_t)marks.len};
    chunk.ends = (struct bytes){.at = ends.buf, .size = (uint64_t)ends.len};
    if (payload.len > MAX_EVENT_BYTES || marks.len > MAX_EVENT_BYTES || ends.len > MAX_EVENT_BYTES)
        PyErr_Format(PyExc_ValueError, "Expected at most %u bytes, got %zd", MAX_EVENT_BYTES, payload.len);
    else if ((size_t)marks.len % sizeof(struct mark) != 0 || ends.len % 4 != 0)
        PyErr_SetString(PyExc_ValueError, "Expected marks of 16 bytes and ends of 4");
    else
        parts = echo_parts_of_chunk(&chunk), block = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)parts.end);
    if (block != NULL) {
        at = (uint8_t *)PyBytes_AsString(block);
        echo_compose(&chunk, salt, offset, at);
        if (payload.len > 0)
            memcpy(at + parts.payload, payload.buf, (size_t)payload.len);
        memset(at + parts.payload + chunk.payload.size, 0, parts.end - parts.payload - chunk.payload.size);
    }
    PyBuffer_Release(&payload);
    if (marks.obj != NULL)
        PyBuffer_Release(&marks);
    if (ends.obj != NULL)
        PyBuffer_Release(&ends);
    return block;
}

static PyObject *crc_by(uint32_t (*function)(uint32_t, const void *, size_t), PyObject *args)
{
    unsigned int crc = 0;
    Py_buffer bytes;
    PyObject *result;

    if (!PyArg_ParseTuple(args, "y*|I:crc32c", &bytes, &crc))
        return NULL;
    result = PyLong_FromUnsignedLong(function(crc, bytes.buf, (size_t)bytes.len));
    PyBuffer_Release(&bytes);
    return result;
}

static PyObject *crc32c(PyObject *module, PyObject *args)
{
    (void)module;
    return crc_by(echo_crc32c, args);
}

static PyObject *crc32c_by_table(PyObject *module, PyObject *args)
{
    (void)module;
    return crc_by(echo_crc32c_by_table, args);
}

PyMethodDef echo_composing_functions[] = {
    {"compose_block", (PyCFunction)(void (*)(void))compose_block, METH_VARARGS | METH_KEYWORDS, NULL},
    {"crc32c", crc32c, METH_VARARGS, NULL},
    {"crc32c_by_table", crc32c_by_table, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
