/* What judges offer to other C modules: whether an event passes, without Python code.
 *
 * A judge's attribute RAW_JUDGE is a capsule of that name, so whoever is given one needs to know no module or type.
 * All of it is called with the GIL. `now_ns` is any clock that does not go back, the same for all calls of one judge.
 */
#pragma once

#include "stable_abi.h"

#include <stdint.h>

struct raw_judge {
    /* Of the layout that the judge was made for, and either encoded here or verified: nothing outside the record is
     * read whatever it holds, but sequences that overlap would take longer. 1: it passes. 0: it does not. */
    int (*record)(PyObject *self, const uint8_t *record, Py_ssize_t size, int64_t now_ns);

    /* Of the class that the judge was made for, or anything that its encoder takes. -1 with an exception: it cannot be
     * encoded. May run any code, where the event has to be encoded. */
    int (*object)(PyObject *self, PyObject *event, int64_t now_ns);

    /* Records of fixed size, one behind another. Writes which of them pass, in their order, and returns how many. */
    Py_ssize_t (*rows)(PyObject *self, const uint8_t *rows, Py_ssize_t count, uint32_t *indices, int64_t now_ns);

    /* Where the fields that are judged lie in a record, whose size is *size: in the event, or in room that the next call
     * overwrites. NULL: the event has to be encoded. Runs no Python code. */
    const uint8_t *(*fields)(PyObject *self, PyObject *event, Py_ssize_t *size);

    /* The snapshot that counts now; borrowed bytes. */
    PyObject *(*parameters)(PyObject *self);

    /* As `object`, where the event need not be encoded for it: runs no Python code. -1: it has to be, and is not judged. */
    int (*glance)(PyObject *self, PyObject *event, int64_t now_ns);
};

/* The attribute, and the capsule's name. A new layout of struct raw_judge takes a new number. */
#define RAW_JUDGE "__echo_raw_judge_3__"
