/* How an event holds its record, and what one C file has for the others. classes.c draws such an event.
 *
 * Callers of everything below hold the GIL, and nothing below releases it but a Part that has much to do. "May run any code" means Python
 * code, which may use, change and drop any object that the caller does not hold a reference to.
 */
#pragma once

#include "events/collected.h"
#include "events/leaves.h"
#include "events/objects/parts.h"
#include "events/shell.h"
#include "events/spare.h"

/* What the source of a record with variable parts is good for. The state byte of a new object is 0. */
enum state {
    ABSENT = 0,   /* there is no source: the record was made here */
    PRISTINE = 1, /* the source is what this record encodes to */
    STALE = 2,    /* fields that were never read are still in the source; others may have changed */
};

/* A check of the record's bytes once they have been received. */
struct check {
    char what;            /* '?' bools become 0 or 1; 's' is UTF-8; 'e' is a known number; '|' see count */
    uint32_t at;          /* offset in the record */
    uint32_t size;        /* bytes of the text or number; how many bools */
    uint32_t count;       /* '|': if the byte at `at` is 0, so many checks that follow are left out */
    const int64_t *known; /* 'e': the known numbers, ascending; borrowed from the shape's details */
    uint32_t known_count; /* 'e': how many, at least 1 */
};

struct value;

/* A field of fixed size whose value is kept as an object: when it is, the record's bytes are outdated. */
struct kept {
    Py_ssize_t slot;      /* offset in the object */
    Py_ssize_t at;        /* offset in the record */
    struct shape *nested; /* borrowed from the shape's details; the class that values are of, whose record is inlined.
                           * NULL: unknown */
};

/* An argument of a class's `__init__`, and the field that it is for. */
struct argument {
    PyObject *name;      /* interned; borrowed from the shape's details, as is the next but one */
    struct field *field; /* borrowed from the shape's fields */
    PyObject *otherwise; /* its default, or what makes one; NULL: it has to be given */
    int is_factory;      /* 1: `otherwise` is called */
};
#define MAX_ARGUMENTS 512

/* The Python object. All but owner, fields, is_extended and how events are made is fixed at creation. */
struct shape {
    PyObject ob_base;          /* spelled out: PyObject_HEAD hides it */
    PyTypeObject *owner;       /* owned; the event class. NULL before bind and after tp_clear */
    PyTypeObject *window_type; /* owned */
    PyObject *fields;          /* owned dict: Field by name. NULL only before bind and after tp_clear */
    Py_ssize_t record;         /* offset of the record in the object */
    Py_ssize_t size;           /* bytes of the record, at least 1 */
    Py_ssize_t object_size;    /* bytes of an instance; known after bind */
    Py_ssize_t source;         /* offset of the slot of the source; 0: no variable parts, then no state */
    Py_ssize_t state;          /* offset of the state byte, see enum state; 0: none */
    int is_exposed;            /* 1: others may write to the record: it is checked again when encoded */
    int is_plain;              /* 1: no GC, no dict, nothing behind the record: needs no zeroing */
    int is_large;              /* 1: plain but for its size, or collected: its record needs no zeroing either */
    int is_collected;          /* 1: collected.h has made the class: the GC learns of an instance when it has to */
    int is_extended;           /* 1: some subclass keeps its fields elsewhere */
    PyObject *checks_details;  /* owned tuple: what Python says of its checks */
    PyObject *kept_details;    /* owned tuple: what Python says of the fields that are kept */
    struct check *checks;      /* owned, PyMem; may be NULL when there are none */
    Py_ssize_t check_count;    /* how many */
    struct kept *kept;         /* owned, PyMem; may be NULL when there are none */
    Py_ssize_t kept_count;     /* how many */

    /* How a call of the class makes an event; all NULL or 0 before make_by. */
    PyObject *making_details;    /* owned tuple: what Python says of it */
    PyObject *init;              /* borrowed from the details; the class's own `__init__` */
    PyObject *after;             /* borrowed likewise; the name of a method to call on a new event, or NULL */
    struct argument *arguments;  /* owned, PyMem; as `__init__` has them */
    Py_ssize_t *order;           /* owned, PyMem; which argument is set first, which next */
    Py_ssize_t argument_count;   /* of both */
    Py_ssize_t positional_count; /* the others are given by name only */
};

/* The Python object: a data descriptor. Fixed at creation. */
struct field {
    PyObject ob_base;            /* spelled out: PyObject_HEAD hides it */
    struct shape *shape;         /* owned; NULL only after tp_clear */
    PyObject *name;              /* owned str */
    PyObject *read;              /* owned; a callable, or None where the form needs none */
    PyObject *write;             /* owned; a callable: bytes for inline forms, for kept ones its result is ignored */
    struct shape *nested;        /* owned; KEPT: exactly instances of its owner need no check. May be NULL */
    const struct part *reader;   /* borrowed from read: whose method it is; NULL where it is any other callable */
    const struct part *writer;   /* likewise, from write */
    struct raw_call raw;         /* of read: a Decoder's, of nested records; zeroes where it is any other callable */
    const struct value *numbers; /* borrowed from write; WINDOW: what it takes, where that can be copied. May be NULL */
    char form;       /* enum form: a leaf, CHARS, PYTHON or WINDOW in place; KEPT, TEXT, BLOB or PART in a slot */
    int is_shared;   /* 1: who has read the value can change it */
    Py_ssize_t at;   /* offset in the object of the record's bytes for this field */
    Py_ssize_t size; /* how many they are */
    Py_ssize_t slot; /* offset in the object of the kept value; 0 for inline forms */
};

/* --- places in an object --- */

static inline uint8_t *record_of(const struct shape *shape, PyObject *object)
{
    return (uint8_t *)object + shape->record;
}

/* The source stays for the fields that have not been read, but no longer is what the record encodes to. */
static inline void mark_stale(const struct shape *shape, PyObject *object)
{
    uint8_t *state;

    if (shape->state == 0)
        return;
    state = (uint8_t *)object + shape->state;
    if (*state == PRISTINE)
        *state = STALE;
}

static inline int is_offset(Py_ssize_t offset, Py_ssize_t size)
{
    return offset >= 0 && size >= 0 && offset <= MAX_OFFSET && size <= MAX_OFFSET;
}

/* large.c: of a class that is neither plain nor collected, or is large. */
PyObject *echo_record_new_elsewhere(const struct shape *shape);

/* A new object whose record is not filled in. The slots are NULL, the state is ABSENT. */
static inline PyObject *echo_record_new(const struct shape *shape)
{
    PyObject *object;

    if (shape->is_collected && !shape->is_large)
        return echo_collected_new(shape->owner, shape->object_size); /* zeroed */
    if (!shape->is_plain)
        return echo_record_new_elsewhere(shape);
    object = PyObject_Malloc((size_t)shape->object_size);
    if (object == NULL)
        return PyErr_NoMemory();
    return PyObject_Init(object, shape->owner);
}

/* --- what one file has for the others --- */

/* shapes.c */

/* -1 with an exception for a Shape that is not bound. */
int echo_record_demand_bound(PyObject *shape);

/* nested: None, or a Shape whose record is `size` bytes and is then copied into that of `of`. Writes it to *out,
 * borrowed, or leaves that as it is for None. -1 with an exception. Runs no Python code. */
int echo_record_set_nested(const struct shape *of, PyObject *nested, Py_ssize_t size, struct shape **out);

/* large.c */

/* tp_alloc and tp_free of plain classes whose instances are so large as spare.h says. */
PyObject *echo_large_alloc(PyTypeObject *type, Py_ssize_t items);
void echo_large_free(void *object);

/* A new object of such a class, of so many bytes: nothing is filled in behind its head. NULL with an exception. */
PyObject *echo_large_new(PyTypeObject *type, Py_ssize_t size);

/* fields.c */

/* field_in for objects that are not exactly of the field's own class. A metaclass may run any code. */
struct field *echo_record_find_field(struct field *field, PyObject *object);

/* The field as it lies in this object: this one, unless a subclass has placed it elsewhere. Borrowed from
 * the object's class. NULL with an exception. */
static inline struct field *field_in(struct field *field, PyObject *object)
{
    if (field->shape != NULL && field->shape->owner == Py_TYPE(object))
        return field;
    return echo_record_find_field(field, object);
}

/* reading.c: tp_descr_get. The value is the caller's. May run any code. */
PyObject *echo_record_field_get(PyObject *self, PyObject *object, PyObject *type);

/* writing.c: tp_descr_set. Borrows the value, and takes a reference where it is kept. May run any
 * code. */
int echo_record_field_set(PyObject *self, PyObject *object, PyObject *value);

/* writing.c: the same where the field is known to be the object's own, and there is a value. */
int echo_record_set_value(const struct field *field, PyObject *object, PyObject *value);

/* making.c: a method of Shape. */
PyObject *echo_record_make_by(PyObject *self, PyObject *args);

/* window.c: a new Window on the field's bytes, which holds the object. Runs no Python code. */
PyObject *echo_record_window_new(const struct field *field, PyObject *object);
