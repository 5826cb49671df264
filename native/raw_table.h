/* What tables of parameters offer to other C modules: which rows an event passes, without Python code.
 *
 * A table's attribute RAW_TABLE is a capsule of that name, so whoever is given one needs to know no module or type.
 * Rows are numbers from 0 on. All of it is called with the GIL, and runs no Python code.
 */
#pragma once

#include "stable_abi.h"

#include <stdint.h>

struct raw_table {
    /* The parameters of a row, as a judge of the same condition has them (raw_judge.h): from now on they count. 0; -1
     * with an exception, and never where they replace others. */
    int (*put)(PyObject *self, uint32_t row, PyObject *parameters);

    /* Takes a row out, if it is there. */
    void (*remove)(PyObject *self, uint32_t row);

    /* Which rows a record passes, each once, and how many: there is room for all that were put. -1: that cannot be said
     * of them together, so each has to be asked by itself. The record is as in raw_judge.h. */
    Py_ssize_t (*rows)(PyObject *self, const uint8_t *record, Py_ssize_t size, uint32_t *rows);
};

/* The attribute, and the capsule's name. A new layout of struct raw_table takes a new number. */
#define RAW_TABLE "__echo_raw_table_1__"
