/* What the C files of Values and of what walks them know of each other. events/module.c says what the module is.
 *
 * Callers of everything below hold the GIL. "May run any code" means Python code, which may use, change and drop any
 * object that the caller does not hold a reference to; what takes long gives other threads their turn (turns.h), so
 * reading and writing may run any code where there are many objects or bytes.
 */
#pragma once

#include "events/collected.h"
#include "events/leaves.h"
#include "events/shell.h"

/* One dimension of an array or a sequence. */
struct dimension {
    int64_t length; /* as the type fixes it; OWN: behind the slot's offset; TIED: in a field of the record */
    Py_ssize_t tie; /* TIED: which of the record's ties */
};
#define OWN (-1)
#define TIED (-2)

/* A field that counts the elements of another one, once for each dimension that it counts. */
struct tie {
    Py_ssize_t at; /* offset in the record */
    char form;     /* of an integer */
};

/* A field of a record, and where instances of exactly the record's class keep it. */
struct member {
    PyObject *name; /* borrowed from the record's details, as is the next */
    struct value *value;
    Py_ssize_t at;      /* offset in the record */
    Py_ssize_t slot;    /* offset in the object of a reference; 0: none */
    Py_ssize_t inlined; /* offset in the object of its bytes, which count where the slot is empty; 0: none */
};

/* Bytes of a record that belong to no field. */
struct gap {
    Py_ssize_t at;
    Py_ssize_t size;
};

/* The Python object: how the values of one type lie in records of this machine. Fixed at creation. It has no
 * tp_clear: a cycle through it leads through a class, which has one. What is borrowed is so from `details`. */
struct value {
    PyObject ob_base;             /* spelled out: PyObject_HEAD hides it */
    PyObject *details;            /* owned tuple: what Python says of it */
    char form;                    /* enum form */
    char is_free;                 /* 1: any bytes will do */
    char is_fixed;                /* 1: no variable parts */
    char runs_python;             /* 1: reading or writing it may run any code */
    char is_quiet;                /* 1: a leaf, or maybe one, of which writing runs no other code */
    char has_after;               /* 1: there is a record in it that has `after` */
    int depth;                    /* Values inside one another, at most MAX_DEPTH */
    int64_t objects;              /* that it is made of, elements of sequences apart; at most MAX_OBJECTS */
    int64_t density;              /* at most so many more for each byte of its variable parts; 0: there are none */
    Py_ssize_t size;              /* bytes in place */
    Py_ssize_t alignment;         /* of these */
    PyObject *read, *write;       /* borrowed; PYTHON */
    Py_ssize_t number_slot;       /* UUID: offset in an instance of the slot of its int */
    Py_ssize_t safety_slot;       /* UUID: and of the slot that says how safe it is */
    PyObject *safety;             /* borrowed; UUID: what the latter holds of one that was received */
    PyObject **members;           /* owned array of borrowed references; MEMBER */
    int64_t *numbers;             /* owned; MEMBER: theirs, ascending */
    struct value *element;        /* borrowed; OPTION, REFERENCE, ARRAY, SEQUENCE */
    struct dimension *dimensions; /* owned; ARRAY, SEQUENCE */
    PyTypeObject *container;      /* borrowed; ARRAY, SEQUENCE: list, tuple or numpy's ndarray */
    PyObject *dtype;              /* borrowed; of an ndarray of elements; NULL: there are none of them */
    PyObject *dtype_name;         /* owned; "dtype" */
    int is_known_array;           /* ARRAY, SEQUENCE: 1: arrays.h knows where its containers keep what they are */
    PyTypeObject *cls;            /* borrowed; RECORD, UUID */
    allocfunc new_instance;       /* RECORD: makes an empty instance, as object.__new__ does; NULL: that would not */
    int is_collected;             /* RECORD: 1: the class is one of collected.h */
    struct member *fields;        /* owned; RECORD */
    struct member **checked;      /* owned; RECORD: its fields that are not free */
    struct tie *ties;             /* owned; RECORD */
    struct gap *gaps;             /* owned; RECORD */
    struct code *code;            /* owned; RECORD of fixed size: compiled for the class. NULL: not yet */
    Py_ssize_t inlined;           /* RECORD: offset in an instance of its whole record; 0: none */
    PyObject *after;              /* borrowed; RECORD: the name of a method to call on a new one, or NULL */
    Py_ssize_t last_tie;          /* of its dimensions or its element's; -1: it has none */
    Py_ssize_t count;             /* of members, dimensions or fields */
    Py_ssize_t checked_count;     /* of checked */
    Py_ssize_t tie_count;         /* of ties, at most MAX_TIES */
    Py_ssize_t gap_count;         /* of gaps */
};

#define MAX_TIES 16      /* fields that count others, of one record */
#define MAX_DIMENSIONS 8 /* as in formats/limits.py */
#define MAX_DEPTH 64     /* formats/limits.py allows fewer; walking is recursive */

/* The product of the lengths of an array, those of 0 apart: as in codegen/plain/records.py. */
#define MAX_EXTENT (INT64_C(1) << 40)

/* Counts of objects go no further. */
#define MAX_OBJECTS (INT64_C(1) << 40)

/* What compiled code is called as. 0: written. -1: an exception is set, or somebody else has to do it. */
typedef int32_t encode_function(PyObject *event, uint8_t *target, PyObject *const *context);
/* How many events were written before one failed. */
typedef int64_t encode_many_function(PyObject *const *events, int64_t count, uint8_t *target, PyObject *const *context);
/* A new reference, or NULL as above. */
typedef PyObject *decode_function(const uint8_t *record, PyObject *const *context);

/* The Python object: what was compiled for one class. Fixed at creation. It has no tp_clear: a cycle through it
 * leads through the class. */
struct code {
    PyObject ob_base;    /* spelled out: PyObject_HEAD hides it */
    PyTypeObject *owner; /* owned; the class */
    Py_ssize_t size;     /* of its records */
    encode_function *encode;
    encode_many_function *encode_many;
    decode_function *decode;
    PyObject **context;   /* owned array: addresses of functions, then what `objects` holds */
    PyObject *objects;    /* owned tuple */
    PyObject *keep_alive; /* owned; what holds the code */
    int runs_python;      /* 1: it may run any code */
};

/* --- bytes --- */

static inline Py_ssize_t round_up(Py_ssize_t size, Py_ssize_t alignment)
{
    return (size + alignment - 1) & -alignment; /* a power of two */
}

/* Multiplies lengths into *extent, those of 0 apart; 0 where the product goes beyond MAX_EXTENT. Nothing here divides:
 * that takes longer than writing a short list. */
static inline int extend(int64_t *extent, int64_t length)
{
    return !__builtin_mul_overflow(*extent, length != 0 ? length : 1, extent) && *extent <= MAX_EXTENT;
}

/* Whether so many elements have so many bytes at most. */
static inline int fit(int64_t count, Py_ssize_t size, Py_ssize_t most)
{
    int64_t bytes;

    return !__builtin_mul_overflow(count, (int64_t)size, &bytes) && bytes <= most;
}

/* The lengths of an array or a sequence whose slot is at `slot`; the number of its elements, or -1. lengths: those
 * that the record holds that it is a field of. */
static inline int64_t lengths_of(const struct value *value, const uint8_t *slot, const int64_t *lengths, int64_t *shape)
{
    int64_t count = 1, extent = 1;
    Py_ssize_t i;

    for (i = 0; i < value->count; i++) {
        const struct dimension *dimension = &value->dimensions[i];

        if (dimension->length == OWN)
            shape[i] = load_int64_t(slot += 8);
        else
            shape[i] = dimension->length == TIED ? lengths[dimension->tie] : dimension->length;
        if (shape[i] < 0 || !extend(&extent, shape[i]))
            return -1;
        count *= shape[i];
    }
    return count;
}

/* 0 where a count is beyond what any sequence could have. */
static inline int load_ties(const struct value *record, const uint8_t *bytes, int64_t *lengths)
{
    Py_ssize_t i;

    for (i = 0; i < record->tie_count; i++) {
        lengths[i] = load_integer(record->ties[i].form, bytes + record->ties[i].at);
        if (lengths[i] < 0)
            return 0;
    }
    return 1;
}

/* Whether the array is one of records, without any, and of several dimensions. The fallback takes it for
 * lists, which then say nothing of the dimensions inside them. */
static inline int is_bare(const struct value *array, int64_t count)
{
    return count == 0 && array->count > 1 && array->element->form == FORM_RECORD;
}

/* --- objects --- */

/* An element of a list or tuple that still has `count` of them: borrowed, or NULL. */
static inline PyObject *peek_at(PyObject *items, Py_ssize_t i, Py_ssize_t count)
{
    PyObject **all = items_of(items);

    if (count_items(items) != count)
        return NULL;
    if (all != NULL)
        return all[i];
    return PyList_CheckExact(items) ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i);
}

/* The same as a new reference. */
static inline PyObject *item_at(PyObject *items, Py_ssize_t i, Py_ssize_t count)
{
    return Py_XNewRef(peek_at(items, i, count));
}

static inline int is_list(PyObject *it)
{
    return PyList_CheckExact(it) || PyTuple_CheckExact(it);
}

/* How long lists in lists are, by the first ones of each level, and how many elements that makes; -1 where a level has
 * something else than a list, and where it has none although there are more levels. */
static inline Py_ssize_t shape_of_lists(PyObject *items, Py_ssize_t *shape, Py_ssize_t dimensions)
{
    Py_ssize_t i, count = 1;

    for (i = 0; i < dimensions; i++) {
        if (i > 0)
            items = peek_at(items, 0, shape[i - 1]);
        if (!is_list(items))
            return -1;
        shape[i] = count_items(items);
        if ((shape[i] == 0 && dimensions > 1) || !fit(count, shape[i], MAX_EXTENT))
            return -1;
        count *= shape[i];
    }
    return count;
}

/* --- what one file has for the others --- */

/* details.c */

/* Makes a zeroed Value what the arguments of its class say; -1 with an exception. May run any code. */
int echo_value_fill(struct value *value, PyObject *args);

/* counting.c */

/* Sets `objects` and `density` of a Value that is complete otherwise. */
void echo_value_estimate(struct value *value);

/* How many objects the record of `size` bytes would become; or more than `most`, when counting ends. A record that is
 * not as it should be has fewer, since it is not followed to its end. */
int64_t echo_value_count(const struct value *value, const uint8_t *record, Py_ssize_t size, int64_t most);

/* writing.c */

/* The record of an event: *written bytes of `room`, or in *record new bytes where `size` is too small for it.
 * May run any code, if the value does. */
enum outcome echo_value_write(const struct value *value, PyObject *event, uint8_t *room, Py_ssize_t size,
                              PyObject **record, Py_ssize_t *written);

/* The record of an event, as new bytes in *result. May run any code, if the value does. */
enum outcome echo_value_encode(const struct value *value, PyObject *event, PyObject **result);

/* Whether a value can be written. Numbers of an array that lies as the record does are not looked at. May run any code, if
 * the value does. */
enum outcome echo_value_check(const struct value *value, PyObject *it);

/* The elements of an ndarray into the place of an ARRAY of numbers, which it may be a view of; UNUSUAL: nothing was
 * changed. May run any code. */
enum outcome echo_value_take_numbers(const struct value *array, PyObject *it, uint8_t *target);

/* A value of fixed size at its place. May run any code, if the value does. For compiled code: 0 is GOOD, -1
 * anything else. */
int32_t echo_write_field(PyObject *value, PyObject *it, uint8_t *target);

/* measuring.c */

/* How many bytes the record of an event would have. May run any code. */
enum outcome echo_value_measure(const struct value *value, PyObject *event, Py_ssize_t *size);

/* normalising.c */

/* Copies fixed values that lie side by side, and makes the copies what writing the values would have made. 0 where
 * that cannot be; `strict`: also for numbers of no member. Leaves no exception set. */
int echo_values_copy(const struct value *value, uint8_t *target, const uint8_t *source, Py_ssize_t count, int strict);

/* reading.c */

/* The event of a record of `size` bytes, as a new reference in *result. May run any code, if the value
 * does. The value is one of a record. */
enum outcome echo_value_decode(const struct value *value, const uint8_t *record, Py_ssize_t size, PyObject **result);

/* One field of a verified record, whose parts are looked for where its first slot says. A sequence of
 * numbers is a view of the source if `is_view`. */
enum outcome echo_value_decode_field(const struct value *record, const struct member *field, PyObject *source,
                                     int is_view, PyObject **result);

/* A value of fixed size, for compiled code: a new reference, or NULL. May run any code, if the value does. */
PyObject *echo_read_field(PyObject *value, const uint8_t *source);

/* parts.c */

/* The Value of an array of numbers, if that is what a callable, the `write` of a Part, takes; NULL. Borrowed from the
 * callable. Runs no code. */
const struct value *echo_part_numbers(PyTypeObject *part_type, PyObject *write);
