/* How many objects one event may become: what a decoder asks before it makes any. */
#pragma once

#include "events/objects/objects.h"

/* The Python object. Fixed at creation. It has no tp_clear: a cycle through it leads through who has it. */
struct allowance {
    PyObject ob_base;      /* spelled out: PyObject_HEAD hides it */
    struct value *value;   /* owned; of a record of this machine */
    PyObject *refuse;      /* owned; called with a count that is too large, and raises */
    int64_t most;          /* objects */
    Py_ssize_t free_bytes; /* no record up to this size becomes more */
};

/* Of a record that is larger than free_bytes: GOOD, or RAISED where it would become too many objects. May run any
 * code. */
enum outcome echo_allowance_demand(const struct allowance *allowance, const uint8_t *record, Py_ssize_t size);

/* The same of any record; without an allowance, GOOD. */
static inline enum outcome allows(const struct allowance *allowance, const uint8_t *record, Py_ssize_t size)
{
    return allowance == NULL || size <= allowance->free_bytes ? GOOD : echo_allowance_demand(allowance, record, size);
}
