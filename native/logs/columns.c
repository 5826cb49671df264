/* Records turned into columns, and back: for each column its bytes of all records, one behind another. */
#include "logs/module.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 1024

struct columns {
    uint32_t sizes[MAX_COLUMNS];
    Py_ssize_t count;
    size_t record; /* bytes of all */
};

/* ValueError unless these are sizes of parts of records that fill the bytes. */
static int read_columns(struct columns *columns, PyObject *sizes, Py_ssize_t bytes)
{
    Py_ssize_t i;

    columns->count = PyTuple_Size(sizes);
    columns->record = 0;
    for (i = 0; i < columns->count && columns->count <= MAX_COLUMNS; i++) {
        unsigned long size = PyLong_AsUnsignedLong(PyTuple_GetItem(sizes, i));

        if (PyErr_Occurred() != NULL)
            return -1;
        if (size == 0 || size > (size_t)bytes)
            break;
        columns->sizes[i] = (uint32_t)size;
        columns->record += size;
    }
    if (i == columns->count && columns->record > 0 && (size_t)bytes % columns->record == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "Expected columns of records in %zd bytes, got others", bytes);
    return -1;
}

/* One column of all records; sizes that the compiler knows are single moves. */
#define MOVE(width)                                                                                                    \
    for (; count > 0; count--, to += to_step, from += from_step)                                                       \
    memcpy(to, from, width)

static void move_column(uint8_t *to, size_t to_step, const uint8_t *from, size_t from_step, size_t width, size_t count)
{
    switch (width) {
    case 1:
        MOVE(1);
        break;
    case 2:
        MOVE(2);
        break;
    case 4:
        MOVE(4);
        break;
    case 8:
        MOVE(8);
        break;
    default:
        MOVE(width);
    }
}

/* The cache holds some records while all columns of them are moved. */
#define RECORDS_AT_ONCE 256

static void move_all(uint8_t *to, const uint8_t *from, size_t records, const struct columns *columns, int is_back)
{
    size_t start, some, column, at, size;
    Py_ssize_t i;

    for (start = 0; start < records; start += some) {
        some = records - start < RECORDS_AT_ONCE ? records - start : RECORDS_AT_ONCE;
        for (i = 0, column = 0, at = 0; i < columns->count; i++, column += size * records, at += size) {
            size = columns->sizes[i];
            if (is_back)
                move_column(to + start * columns->record + at, columns->record, from + column + start * size, size,
                            size, some);
            else
                move_column(to + column + start * size, size, from + start * columns->record + at, columns->record,
                            size, some);
        }
    }
}

static PyObject *turned(PyObject *args, int is_back)
{
    struct columns columns;
    PyObject *sizes, *result = NULL;
    Py_buffer bytes;
    uint8_t *to;

    if (!PyArg_ParseTuple(args, "y*O!:columns", &bytes, &PyTuple_Type, &sizes))
        return NULL;
    if (read_columns(&columns, sizes, bytes.len) == 0)
        result = PyBytes_FromStringAndSize(NULL, bytes.len);
    if (result != NULL) {
        to = (uint8_t *)PyBytes_AsString(result);
        Py_BEGIN_ALLOW_THREADS
        move_all(to, bytes.buf, (size_t)bytes.len / columns.record, &columns, is_back);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bytes);
    return result;
}

static PyObject *to_columns(PyObject *module, PyObject *args)
{
    (void)module;
    return turned(args, 0);
}

static PyObject *from_columns(PyObject *module, PyObject *args)
{
    (void)module;
    return turned(args, 1);
}

PyMethodDef echo_columns_functions[] = {{"to_columns", to_columns, METH_VARARGS, NULL},
                                        {"from_columns", from_columns, METH_VARARGS, NULL},
                                        {NULL, NULL, 0, NULL}};
