/* What Python asks of any table of rows (raw_table.h): to have parameters put, and rows taken out. */
#pragma once

#include "raw_table.h"

#define MAX_ROWS (1 << 24)

/* Whether a row's number is one that a table takes: 0; -1 with ValueError. */
static inline int echo_row_check(Py_ssize_t row)
{
    if (row >= 0 && row < MAX_ROWS)
        return 0;
    PyErr_Format(PyExc_ValueError, "Expected a row below %d, got %zd", MAX_ROWS, row);
    return -1;
}

/* put(row, parameters) */
static inline PyObject *echo_put_row(const struct raw_table *raw, PyObject *self, PyObject *args)
{
    PyObject *parameters;
    Py_ssize_t row;

    if (!PyArg_ParseTuple(args, "nS:put", &row, &parameters) || echo_row_check(row) != 0 ||
        raw->put(self, (uint32_t)row, parameters) != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* remove(row) */
static inline PyObject *echo_remove_row(const struct raw_table *raw, PyObject *self, PyObject *argument)
{
    Py_ssize_t row = PyLong_AsSsize_t(argument);

    if (row == -1 && PyErr_Occurred() != NULL)
        return NULL;
    if (row >= 0 && row < MAX_ROWS)
        raw->remove(self, (uint32_t)row);
    Py_RETURN_NONE;
}
