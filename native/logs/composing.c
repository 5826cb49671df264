#include "logs/composing.h"
#include "logs/crc32c.h"
#include "logs/module.h"

#include <stdlib.h>
#include <string.h>

const uint8_t echo_log_zeros[ALIGNMENT];

struct parts echo_parts_of_chunk(const struct chunk *chunk)
{
    return parts_of(chunk->header.marks, (uint32_t)chunk->payload.size, (uint32_t)(chunk->ends.size / 4));
}

uint32_t echo_header_crc(const void *header, uint64_t salt, uint64_t offset)
{
    uint64_t seed[2] = {little64(salt), little64(offset)};

    return echo_crc32c(echo_crc32c(0, seed, sizeof seed), header, offsetof(struct block_header, header_crc));
}

/* The last slice has the zeros behind the payload. */
static uint32_t slice_crc(const struct bytes *payload, uint64_t from)
{
    uint64_t size = payload->size - from < SLICE_BYTES ? payload->size - from : SLICE_BYTES;
    uint64_t zeros = size < SLICE_BYTES ? aligned(payload->size, ALIGNMENT) - payload->size : 0;

    return echo_crc32c(echo_crc32c(0, payload->at + from, size), echo_log_zeros, zeros);
}

static void put_slices(const struct bytes *payload, uint8_t *to)
{
    uint64_t from;
    uint32_t crc;

    for (from = 0; from < payload->size; from += SLICE_BYTES, to += sizeof crc) {
        crc = little32(slice_crc(payload, from));
        memcpy(to, &crc, sizeof crc);
    }
}

static void copy(uint8_t *to, const struct bytes *from)
{
    if (from->size > 0)
        memcpy(to, from->at, from->size);
}

void echo_compose(struct chunk *chunk, uint64_t salt, uint64_t offset, uint8_t *head)
{
    struct block_header *header = &chunk->header, in_file;
    struct parts parts = echo_parts_of_chunk(chunk);

    memset(head + parts.ends, 0, parts.payload - parts.ends);
    copy(head + parts.marks, &chunk->marks);
    put_slices(&chunk->payload, head + parts.slices);
    copy(head + parts.ends, &chunk->ends);
    header->stored = (uint32_t)chunk->payload.size;
    if (header->codec == 0)
        header->raw = header->stored;
    header->body_crc = echo_crc32c(0, head + parts.marks, parts.payload - parts.marks);
    in_file = header_swapped(*header);
    header->header_crc = echo_header_crc(&in_file, salt, offset);
    in_file = header_swapped(*header);
    memcpy(head, &in_file, sizeof in_file);
}

/* --- as functions --- */

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
        copy(at + parts.payload, &chunk.payload);
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
