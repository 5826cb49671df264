/* What the C files of echo_core._c.objects know of each other. events/objects/module.c says what the module is.
 *
 * Callers of everything below hold the GIL, and nothing below releases it. "May run any code" means Python
 * code, which may use, change and drop any object that the caller does not hold a reference to.
 */
#ifndef ECHO_OBJECTS_H
#define ECHO_OBJECTS_H

#include "events/raw_codec.h"

/* What follows is the module's own: calls within it take no detour through the dynamic linker. */
#pragma GCC visibility push(hidden)

/* What a Value's bytes mean. */
enum form {
    FORM_BOOL = '?',
    FORM_INT8 = 'b',
    FORM_INT16 = 'h',
    FORM_INT32 = 'i',
    FORM_INT64 = 'q',
    FORM_UINT8 = 'B',
    FORM_UINT16 = 'H',
    FORM_UINT32 = 'I',
    FORM_UINT64 = 'Q',
    FORM_FLOAT = 'f',
    FORM_DOUBLE = 'd',
    FORM_CHARS = 's',     /* UTF-8, ended by the first NUL or by the size */
    FORM_BYTES = 'x',     /* exactly so many bytes */
    FORM_MEMBER = 'e',    /* the number of a member of an enumeration */
    FORM_PYTHON = 'v',    /* read(bytes) makes it, write(value) gives the bytes; any bytes will do */
    FORM_TEXT = 't',      /* a slot that refers to UTF-8 text, ended by a NUL */
    FORM_BLOB = 'y',      /* a slot {offset, length} that refers to bytes */
    FORM_OPTION = 'n',    /* an element, then a byte that says whether there is one */
    FORM_REFERENCE = 'N', /* a slot that is 0 where there is nothing */
    FORM_ARRAY = 'a',     /* elements in place, of a number that the type fixes */
    FORM_SEQUENCE = 'l',  /* a slot {offset, own lengths ...} that refers to elements */
    FORM_RECORD = 'r',
};

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
    PyObject *name;      /* owned str */
    struct value *value; /* owned */
    Py_ssize_t at;       /* offset in the record */
    Py_ssize_t slot;     /* offset in the object of a reference; 0: none */
    Py_ssize_t inlined;  /* offset in the object of its bytes, which count where the slot is empty; 0: none */
};

/* Bytes of a record that belong to no field. */
struct gap {
    Py_ssize_t at;
    Py_ssize_t size;
};

/* The Python object: how the values of one type lie in records of this machine. Fixed at creation. It has no
 * tp_clear: a cycle through it leads through a class, which has one. */
struct value {
    PyObject ob_base;              /* spelled out: PyObject_HEAD hides it */
    char form;                     /* enum form */
    int is_free;                   /* 1: any bytes will do */
    int is_fixed;                  /* 1: no variable parts */
    int runs_python;               /* 1: reading or writing it may run any code */
    int has_after;                 /* 1: there is a record in it that has `after` */
    int depth;                     /* Values inside one another, at most MAX_DEPTH */
    Py_ssize_t size;               /* bytes in place */
    Py_ssize_t alignment;          /* of these */
    PyObject *read, *write;        /* owned; PYTHON */
    PyObject **members;            /* owned array of owned references; MEMBER */
    int64_t *numbers;              /* owned; MEMBER: theirs, ascending */
    struct value *element;         /* owned; OPTION, REFERENCE, ARRAY, SEQUENCE */
    struct dimension *dimensions;  /* owned; ARRAY, SEQUENCE */
    PyTypeObject *container;       /* owned; ARRAY, SEQUENCE: list, tuple or numpy's ndarray */
    PyObject *dtype;               /* owned; of an ndarray of elements; NULL: there are none of them */
    PyObject *dtype_name;          /* owned; "dtype" */
    PyTypeObject *cls;             /* owned; RECORD */
    int can_be_made;               /* RECORD: 1: object.__new__ makes instances of the class */
    struct member *fields;         /* owned; RECORD */
    struct member **checked;       /* owned; RECORD: its fields that are not free */
    struct tie *ties;              /* owned; RECORD */
    struct gap *gaps;              /* owned; RECORD */
    struct code *code;             /* owned; RECORD of fixed size: compiled for the class. NULL: not yet */
    Py_ssize_t inlined;            /* RECORD: offset in an instance of its whole record; 0: none */
    PyObject *after;               /* owned; RECORD: the name of a method to call on a new one, or NULL */
    Py_ssize_t last_tie;           /* of its dimensions or its element's; -1: it has none */
    Py_ssize_t count;              /* of members, dimensions or fields */
    Py_ssize_t checked_count;      /* of checked */
    Py_ssize_t tie_count;          /* of ties, at most MAX_TIES */
    Py_ssize_t gap_count;          /* of gaps */
};

#define MAX_TIES 16
#define MAX_DIMENSIONS 8 /* as in formats/limits.py */
#define MAX_DEPTH 64     /* formats/limits.py allows fewer; walking is recursive */

/* The product of the lengths of an array, those of 0 apart: as in codegen/plain/records.py. */
#define MAX_EXTENT (INT64_C(1) << 40)

/* What compiled code is called as. 0: written. -1: an exception is set, or somebody else has to do it. */
typedef int32_t encode_function(PyObject *event, uint8_t *target, PyObject *const *context);
/* How many events were written before one failed. */
typedef int64_t encode_many_function(PyObject *const *events, int64_t count, uint8_t *target,
                                     PyObject *const *context);
/* A new reference, or NULL as above. */
typedef PyObject *decode_function(const uint8_t *record, PyObject *const *context);

/* The Python object: what was compiled for one class. Fixed at creation. It has no tp_clear: a cycle through it
 * leads through the class. */
struct code {
    PyObject ob_base;          /* spelled out: PyObject_HEAD hides it */
    PyTypeObject *owner;       /* owned; the class */
    Py_ssize_t size;           /* of its records */
    encode_function *encode;
    encode_many_function *encode_many;
    decode_function *decode;
    PyObject **context;        /* owned array: addresses of functions, then owned references */
    Py_ssize_t context_size;   /* how many of both */
    PyObject *keep_alive;      /* owned; what holds the code */
    int runs_python;           /* 1: it may run any code */
};

/* Per module; freed with it. */
struct module_state {
    PyTypeObject *code_type;  /* owned */
    PyTypeObject *value_type; /* owned */
};

/* --- bytes --- */

static inline Py_ssize_t round_up(Py_ssize_t size, Py_ssize_t alignment)
{
    return (size + alignment - 1) & -alignment; /* a power of two */
}

/* What a counting field of a record holds. Below 0: what no number of elements could be. */
static inline int64_t tie_length(const struct tie *tie, const uint8_t *record)
{
    const uint8_t *bytes = record + tie->at;

    switch (tie->form) {
    case FORM_UINT8:
        return *bytes;
    case FORM_UINT16:
        return load_uint16_t(bytes);
    case FORM_UINT32:
        return load_uint32_t(bytes);
    case FORM_INT8:
        return load_number(bytes, 1);
    case FORM_INT16:
        return load_number(bytes, 2);
    case FORM_INT32:
        return load_number(bytes, 4);
    default:
        return load_int64_t(bytes);
    }
}

/* Multiplies lengths into *extent, those of 0 apart; 0 where the product goes beyond MAX_EXTENT. */
static inline int extend(int64_t *extent, int64_t length)
{
    if (length > MAX_EXTENT || (length != 0 && *extent > MAX_EXTENT / length))
        return 0;
    *extent *= length != 0 ? length : 1;
    return 1;
}

/* Whether the array is one of records, without any, and of several dimensions. The fallback takes it for
 * lists, which then say nothing of the dimensions inside them. */
static inline int is_bare(const struct value *array, int64_t count)
{
    return count == 0 && array->count > 1 && array->element->form == FORM_RECORD;
}

/* --- objects --- */

/* An element of a list or tuple that still has `count` of them: a new reference, or NULL. */
static inline PyObject *item_at(PyObject *items, Py_ssize_t i, Py_ssize_t count)
{
    if (PyList_CheckExact(items))
        return PyList_Size(items) == count ? Py_NewRef(PyList_GetItem(items, i)) : NULL;
    return Py_NewRef(PyTuple_GetItem(items, i));
}

/* What NULL or UNUSUAL means, with or without an exception: any ordinary one is for the fallback to say
 * better. None is set afterwards, unless it is RAISED. */
static inline enum outcome outcome_of_error(void)
{
    if (PyErr_Occurred() == NULL)
        return UNUSUAL;
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return RAISED;
    PyErr_Clear();
    return UNUSUAL;
}

/* --- what one file has for the others --- */

/* text.c: text of fixed size */

/* Copies ASCII or UTF-8 text into its place and fills the rest with zeros; -1 where it has a NUL or is too
 * long. Runs no Python code. */
int32_t echo_write_text(uint8_t *target, const uint8_t *text, int64_t length, int64_t size);

/* A new str: up to the first NUL. NULL with UnicodeDecodeError. */
PyObject *echo_read_text(const uint8_t *source, int64_t size);

/* details.c */

/* Makes a zeroed Value what the arguments of its class say; -1 with an exception. May run any code. */
int echo_value_fill(struct value *value, PyObject *args);

/* writing.c */

/* The record of an event: *written bytes of `room`, or in *record new bytes where `size` is too small for it.
 * May run any code, if the value does. */
enum outcome echo_value_write(const struct value *value, PyObject *event, uint8_t *room, Py_ssize_t size,
                              PyObject **record, Py_ssize_t *written);

/* The record of an event, as new bytes in *result. May run any code, if the value does. */
enum outcome echo_value_encode(const struct value *value, PyObject *event, PyObject **result);

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
enum outcome echo_value_decode(const struct value *value, const uint8_t *record, Py_ssize_t size,
                               PyObject **result);

/* One field of a verified record, whose parts are looked for where its first slot says. A sequence of
 * numbers is a view of the source if `is_view`. */
enum outcome echo_value_decode_field(const struct value *record, const struct member *field,
                                     PyObject *source, int is_view, PyObject **result);

/* A value of fixed size, for compiled code: a new reference, or NULL. May run any code, if the value does. */
PyObject *echo_read_field(PyObject *value, const uint8_t *source);

/* walker.c and codec.c: the built-in functions, and the same without bytes objects. May run any
 * code. */
PyObject *echo_walker_encode(PyObject *self, PyObject *event);
PyObject *echo_walker_decode(PyObject *self, PyObject *data);
PyObject *echo_codec_encode(PyObject *self, PyObject *event);
PyObject *echo_codec_decode(PyObject *self, PyObject *data);
raw_encode echo_walker_encode_raw, echo_codec_encode_raw;
raw_decode echo_walker_decode_raw, echo_codec_decode_raw;
raw_measure echo_walker_measure, echo_codec_measure;
raw_count echo_walker_count, echo_codec_count; /* of records that were decoded */

/* The Walker whose function of that kind the callable is, borrowed; NULL for any other. Runs no Python code. */
PyObject *echo_walker_of(PyObject *callable, PyCFunction function);

/* Each type's own file. Read once per module, and never changed; not const only because Python's API wants
 * it so. */
extern PyType_Spec echo_object_code_spec;
extern PyType_Spec echo_object_codec_spec;
extern PyType_Spec echo_object_value_spec;
extern PyType_Spec echo_object_walker_spec;
extern PyType_Spec echo_object_part_spec;

#pragma GCC visibility pop

#endif
