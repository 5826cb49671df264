/* One field by itself: what the descriptors of events that keep their record ask of a Part. */
#pragma once

#include "events/objects/objects.h"

/* Values up to this size are written on the stack first. */
#define ROOM_BYTES 1024

/* The Python object. Fixed at creation. */
struct part {
    struct shell shell;   /* first; the fallbacks are for reading and writing */
    struct value *record; /* owned; the whole record. Has no tp_clear, nor has this */
    Py_ssize_t index;     /* of the field in it */
    int is_view;          /* 1: a sequence of numbers or records is a view of the source */
};

/* The Part that a function is a method of, borrowed from it; NULL for any other callable. sibling_type: a type of the
 * same module. */
const struct part *echo_part_of(PyTypeObject *sibling_type, PyObject *function);

/* Whether the field takes so many bytes in place, and no others if it is inline. */
int echo_part_fits(const struct part *part, Py_ssize_t size, int is_inline);

/* The field's value in a record that has been verified. NULL with an exception. May run any code. */
PyObject *echo_part_read(const struct part *part, PyObject *source);

/* The same of its bytes, which are all that it has. */
PyObject *echo_part_read_inline(const struct part *part, const uint8_t *bytes);

/* Whether the field can hold the value: 0, or -1 with an exception. May run any code. */
int echo_part_check(const struct part *part, PyObject *it);

/* The bytes of a value that has no others. UNUSUAL: whoever calls asks the part's method. May run any code. */
enum outcome echo_part_write(const struct part *part, PyObject *it, uint8_t *target);
