/* How records get from a Delivery to a log without Python between: what a module offers that can keep records, and how
 * another finds it.
 *
 * An object that takes records has the attribute RECORD_TAKER, a capsule of that name with a table of functions, as
 * raw_codec.h does it. So whoever has records needs to know no module or type by name.
 */
#pragma once

#include "stable_abi.h"

#include <stdint.h>

/* The attribute, and the capsule's name. A new layout of the table takes a new number. */
#define RECORD_TAKER "__echo_record_taker_1__"

/* All of it is called with the GIL, which is kept, and runs no Python code. */
struct record_taker {
    /* Copies `events` records that lie one behind another, `size` bytes in all; one at a time where records vary.
     * `number`: of the first. How many of them find no room, 0 mostly; these are counted as a gap by the taker. -1 with
     * an exception: closed, or of another size. A time of 0 is for the taker to read from a clock. */
    int64_t (*take)(PyObject *self, const uint8_t *bytes, Py_ssize_t size, uint64_t events, uint64_t number,
                    int64_t submitted_ns);

    /* Events of these numbers will not come. The cause is UTF-8 that ends with a zero. 0, or -1 with an exception. */
    int (*miss)(PyObject *self, uint64_t first, uint64_t last, const char *cause);

    /* Whether so many bytes would be taken now: for those who wait in place of losing any. */
    int (*has_room)(PyObject *self, uint64_t bytes);
};

/* The table of an object, borrowed: it lives as long as its module. NULL with an exception. */
static inline const struct record_taker *record_taker_of(PyObject *object)
{
    PyObject *capsule = PyObject_GetAttrString(object, RECORD_TAKER);
    const struct record_taker *table = capsule != NULL ? PyCapsule_GetPointer(capsule, RECORD_TAKER) : NULL;

    Py_XDECREF(capsule);
    return table;
}
