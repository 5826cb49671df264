/* echo_core._records: events that hold their record inline.
 *
 * An event class is a Python class over a base type made here (base_type), which reserves room for the bytes
 * of a record behind the object's head. What follows knows where things lie in such an object:
 *
 *     head | ... | record bytes (8-aligned) | state byte, if there are parts | ... | slots | ...
 *
 * The slots are ordinary __slots__ of the Python class, so that Python itself visits, clears and frees them:
 * one for each field whose value is kept as an object, and one (the source) for the bytes that hold a whole
 * received record with its variable parts. Which fields there are and where, Python says (record_types.py);
 * what is read and written here stays inside the object, whatever was said.
 *
 *   Shape    where the record, the state and the source of one class lie
 *   Field    the descriptor of one field: a value is made when it is read, checked when it is assigned
 *   Encoder  call(event) and call_many(events) to bytes
 *   Decoder  call(data) and call_many(data) to events
 *   Window   the memory of one array field as a buffer that keeps its record alive
 *
 * Whatever is unusual goes to a slow Python callable, whose result or exception counts. Expected workload:
 * records of about 100 bytes, millions of calls per second.
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state and is never released here: the work per call
 * is less than the hand-over would be, and what is written belongs to objects that Python code may see.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include <stdint.h>
#include <string.h>

/* What is compiled. It may not call Python, block, or keep a pointer; it takes its source and target at any
 * alignment, and never reads back what it wrote to the target. 0 means success. */
typedef int32_t convert_fixed(const uint8_t *source, uint8_t *target, uint64_t count);

/* How far a call, or a step of it, has come. */
enum outcome {
    GOOD,    /* as it should be */
    UNUSUAL, /* no exception is set; the fallback decides */
    RAISED,  /* an exception is set; it is the call's */
};

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
    const int64_t *known; /* 'e': the known numbers, ascending; borrowed from the shape's numbers */
    uint32_t known_count; /* 'e': how many, at least 1 */
};

/* A field of fixed size whose value is kept as an object: when it is, the record's bytes are outdated. */
struct kept {
    Py_ssize_t slot;      /* offset in the object */
    Py_ssize_t at;        /* offset in the record */
    struct shape *nested; /* owned; the class that values are of, whose record is inlined. NULL: unknown */
};

/* Per module. Borrowed by everything else; freed with the module. */
struct module_state {
    PyTypeObject *shape_type;  /* owned */
    PyTypeObject *field_type;  /* owned */
    PyTypeObject *window_type; /* owned */
};

/* The Python object. All but owner, fields and is_extended is fixed at creation. */
struct shape {
    PyObject ob_base;           /* spelled out: PyObject_HEAD hides it */
    PyTypeObject *owner;        /* owned; the event class. NULL before bind and after tp_clear */
    PyTypeObject *window_type;  /* owned */
    PyObject *fields;           /* owned dict: Field by name. NULL only before bind and after tp_clear */
    Py_ssize_t record;          /* offset of the record in the object */
    Py_ssize_t size;            /* bytes of the record, at least 1 */
    Py_ssize_t object_size;     /* bytes of an instance; known after bind */
    Py_ssize_t source;          /* offset of the slot of the source; 0: no variable parts, then no state */
    Py_ssize_t state;           /* offset of the state byte, see enum state; 0: none */
    int is_exposed;             /* 1: others may write to the record: it is checked again when encoded */
    int is_plain;               /* 1: no GC, no dict, nothing behind the record: needs no zeroing */
    int is_extended;            /* 1: some subclass keeps its fields elsewhere */
    struct check *checks;       /* owned, PyMem; may be NULL when there are none */
    Py_ssize_t check_count;     /* how many */
    int64_t *numbers;           /* owned, PyMem; what checks refer to */
    struct kept *kept;          /* owned, PyMem; may be NULL when there are none */
    Py_ssize_t kept_count;      /* how many */
};

/* How a Field's value lies in the object. */
enum form {
    INLINE_BOOL = '?',
    INLINE_INT8 = 'b',
    INLINE_INT16 = 'h',
    INLINE_INT32 = 'i',
    INLINE_INT64 = 'q',
    INLINE_UINT8 = 'B',
    INLINE_UINT16 = 'H',
    INLINE_UINT32 = 'I',
    INLINE_UINT64 = 'Q',
    INLINE_FLOAT = 'f',
    INLINE_DOUBLE = 'd',
    INLINE_CHARS = 's',  /* UTF-8, ended by the first NUL or by the size */
    INLINE_VALUE = 'v',  /* read(bytes) makes it, write(value) gives the bytes */
    INLINE_WINDOW = 'w', /* read(Window) makes a view of it, write(value) gives the bytes */
    KEPT_INLINE = 'n',   /* in a slot once read or set; before, read(bytes of the record) makes it */
    KEPT_TEXT = 't',     /* in a slot once read or set; before, the source has it */
    KEPT_BLOB = 'y',     /* likewise */
    KEPT_PART = 'o',     /* likewise, and read(source) makes it */
};

/* The Python object: a data descriptor. Fixed at creation. */
struct field {
    PyObject ob_base;     /* spelled out: PyObject_HEAD hides it */
    struct shape *shape;  /* owned; NULL only after tp_clear */
    PyObject *name;       /* owned str */
    PyObject *read;       /* owned; a callable, or None where the form needs none */
    PyObject *write;      /* owned; a callable: bytes for inline forms, for kept ones its result is ignored */
    struct shape *nested; /* owned; KEPT_INLINE: exactly instances of its owner need no check. May be NULL */
    char form;            /* enum form */
    int is_shared;        /* 1: who has read the value can change it */
    Py_ssize_t at;        /* offset in the object of the record's bytes for this field */
    Py_ssize_t size;      /* how many they are */
    Py_ssize_t slot;      /* offset in the object of the kept value; 0 for inline forms */
};

/* The Python object. */
struct window {
    PyObject ob_base; /* spelled out: PyObject_HEAD hides it */
    PyObject *record; /* owned; keeps bytes where they are */
    uint8_t *bytes;   /* borrowed from the record */
    Py_ssize_t size;  /* how many there are */
    int is_readonly;  /* 1: nobody may write through the window */
};

/* An installed conversion. Never changed once published, only replaced. */
struct program {
    uint64_t users;         /* the Decoder that publishes it and the calls that run it; 0 frees it */
    PyObject *keep_alive;   /* owned; whatever owns the machine code. Never NULL */
    convert_fixed *convert; /* NULL: the sender's record is ours, and is copied */
    uint64_t source_size;   /* bytes of one source record, at least 1 */
};

/* The Python object. */
struct decoder {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    struct shape *shape;            /* owned; bound. NULL only after tp_clear */
    struct program *program;        /* counted in program->users; NULL: nothing is installed */
    PyObject *after;                /* owned; called with each event that was made, unless None */
    PyObject *fallback;             /* owned; NULL only after tp_clear */
    PyObject *fallback_many;        /* owned; likewise */
    PyObject *call;                 /* owned; holds this object too, so the cycle is left to the GC */
    PyObject *call_many;            /* owned; likewise */
    unsigned long long compiled;    /* calls that were answered here */
    unsigned long long interpreted; /* calls that went to a fallback */
};

/* The Python object. */
struct encoder {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    struct shape *shape;            /* owned; bound. NULL only after tp_clear */
    PyObject *fallback;             /* owned; NULL only after tp_clear */
    PyObject *fallback_many;        /* owned; likewise */
    PyObject *call;                 /* owned; holds this object too, so the cycle is left to the GC */
    PyObject *call_many;            /* owned; likewise */
    unsigned long long compiled;    /* calls that were answered here */
    unsigned long long interpreted; /* calls that went to a fallback */
};

/* --- places in an object --- */

static uint8_t *record_of(const struct shape *shape, PyObject *object)
{
    return (uint8_t *)object + shape->record;
}

/* A slot of Python's; holds NULL or an owned reference. */
static PyObject **slot_at(PyObject *object, Py_ssize_t offset)
{
    return (PyObject **)(void *)((uint8_t *)object + offset);
}

/* memcpy, inlined: for records of this size its call takes longer than its work. */
static inline void copy(uint8_t *target, const uint8_t *source, Py_ssize_t size)
{
    for (; size >= 32; target += 32, source += 32, size -= 32)
        memcpy(target, source, 32);
    for (; size >= 8; target += 8, source += 8, size -= 8)
        memcpy(target, source, 8);
    for (; size > 0; size--)
        *target++ = *source++;
}

/* The source stays for the fields that have not been read, but no longer is what the record encodes to. */
static void mark_stale(const struct shape *shape, PyObject *object)
{
    uint8_t *state;

    if (shape->state == 0)
        return;
    state = (uint8_t *)object + shape->state;
    if (*state == PRISTINE)
        *state = STALE;
}

/* Steals value. What was kept before goes last: its end may run any code. */
static void keep(PyObject *object, Py_ssize_t slot, PyObject *value)
{
    PyObject *before = *slot_at(object, slot);

    *slot_at(object, slot) = value;
    Py_XDECREF(before);
}

/* --- fields: which one is it? --- */

/* The descriptor of the same name in the class's own shape, where it is another than ours. Borrowed from the
 * class. NULL with an exception. */
static struct field *field_of_subclass(struct field *field, PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    PyObject *found = PyObject_GetAttrString(type, "__echo_shape__");
    struct shape *nearest = (struct shape *)found;
    PyObject *own = NULL;

    if (found == NULL)
        return NULL;
    if (Py_IS_TYPE(found, Py_TYPE((PyObject *)field->shape)) && nearest->owner != NULL &&
        nearest->fields != NULL && PyType_IsSubtype(Py_TYPE(object), nearest->owner))
        own = nearest == field->shape ? (PyObject *)field
                                      : PyDict_GetItemWithError(nearest->fields, field->name);
    Py_DECREF(found);
    if (own == NULL && PyErr_Occurred() == NULL)
        PyErr_Format(PyExc_AttributeError, "%R has no field %R", type, field->name);
    return (struct field *)own;
}

/* The field as it lies in this object: this one, unless a subclass has placed it elsewhere. */
static struct field *field_in(struct field *field, PyObject *object)
{
    const struct shape *shape = field->shape;

    if (shape != NULL && shape->owner != NULL) {
        if (Py_IS_TYPE(object, shape->owner))
            return field;
        if (PyType_IsSubtype(Py_TYPE(object), shape->owner))
            return shape->is_extended ? field_of_subclass(field, object) : field;
    }
    PyErr_Format(PyExc_TypeError, "Expected an event that has the field %R, got %R", field->name,
                 (PyObject *)Py_TYPE(object));
    return NULL;
}

/* --- fields: reading --- */

static PyObject *call_with(PyObject *callable, PyObject *argument)
{
    if (argument == NULL)
        return NULL;
    return PyObject_CallFunctionObjArgs(callable, argument, NULL);
}

/* Steals argument, which may be NULL with an exception. */
static PyObject *call_and_release(PyObject *callable, PyObject *argument)
{
    PyObject *result = call_with(callable, argument);

    Py_XDECREF(argument);
    return result;
}

static Py_ssize_t text_length(const uint8_t *bytes, Py_ssize_t size)
{
    const uint8_t *end = memchr(bytes, 0, (size_t)size);

    return end != NULL ? end - bytes : size;
}

static PyObject *window_new(const struct field *field, PyObject *object)
{
    struct window *window = (struct window *)PyType_GenericAlloc(field->shape->window_type, 0);

    if (window == NULL)
        return NULL;
    window->record = Py_NewRef(object);
    window->bytes = (uint8_t *)object + field->at;
    window->size = field->size;
    window->is_readonly = !field->is_shared;
    return (PyObject *)window;
}

static PyObject *read_window(const struct field *field, PyObject *object)
{
    if (field->is_shared)
        mark_stale(field->shape, object);
    return call_and_release(field->read, window_new(field, object));
}

static PyObject *read_by_python(const struct field *field, const uint8_t *bytes)
{
    return call_and_release(field->read, PyBytes_FromStringAndSize((const char *)bytes, field->size));
}

/* The bytes behind the source slot; 0 when it is empty, which means that the field was never set. */
static int open_source(const struct field *field, PyObject *object, char **bytes, Py_ssize_t *size)
{
    PyObject *source = *slot_at(object, field->shape->source);

    if (source == NULL || PyBytes_AsStringAndSize(source, bytes, size) != 0) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetObject(PyExc_AttributeError, field->name);
        return 0;
    }
    return 1;
}

/* Text and bytes straight from the source. Whoever gave it has verified it, and yet it is checked here that
 * nothing outside it is read: then no mistake elsewhere can become more than a wrong value. */
static PyObject *text_from_source(const struct field *field, PyObject *object)
{
    char *bytes;
    Py_ssize_t size, length;
    uint64_t start;
    PyObject *source, *text;

    if (!open_source(field, object, &bytes, &size))
        return NULL;
    memcpy(&start, bytes + (field->at - field->shape->record), sizeof start);
    if (start >= (uint64_t)size)
        start = 0, length = 0;
    else
        length = text_length((uint8_t *)bytes + start, size - (Py_ssize_t)start);
    text = PyUnicode_DecodeUTF8(bytes + start, length, NULL);
    if (text != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return text;
    PyErr_Clear();
    source = Py_NewRef(*slot_at(object, field->shape->source));
    return call_and_release(field->read, source); /* says what is wrong, and where */
}

static PyObject *blob_from_source(const struct field *field, PyObject *object)
{
    char *bytes;
    Py_ssize_t size;
    uint64_t word[2]; /* offset and length, as in the record */

    if (!open_source(field, object, &bytes, &size))
        return NULL;
    memcpy(word, bytes + (field->at - field->shape->record), sizeof word);
    if (word[0] > (uint64_t)size || word[1] > (uint64_t)size - word[0])
        word[0] = word[1] = 0;
    return PyBytes_FromStringAndSize(bytes + word[0], (Py_ssize_t)word[1]);
}

static PyObject *part_from_source(const struct field *field, PyObject *object)
{
    char *bytes;
    Py_ssize_t size;

    if (!open_source(field, object, &bytes, &size))
        return NULL;
    return call_and_release(field->read, Py_NewRef(*slot_at(object, field->shape->source)));
}

static PyObject *make_kept(const struct field *field, PyObject *object)
{
    switch (field->form) {
    case KEPT_TEXT:
        return text_from_source(field, object);
    case KEPT_BLOB:
        return blob_from_source(field, object);
    case KEPT_PART:
        return part_from_source(field, object);
    default:
        return read_by_python(field, (uint8_t *)object + field->at);
    }
}

/* Made when first read, and then kept. Making it may run any code, which may have set it meanwhile. */
static PyObject *read_kept(const struct field *field, PyObject *object)
{
    PyObject *value = *slot_at(object, field->slot);

    if (value == NULL) {
        value = make_kept(field, object);
        if (value == NULL)
            return NULL;
        if (*slot_at(object, field->slot) == NULL)
            *slot_at(object, field->slot) = value;
        else
            Py_DECREF(value);
        value = *slot_at(object, field->slot);
    }
    if (field->is_shared)
        mark_stale(field->shape, object);
    return Py_NewRef(value);
}

#define DEFINE_LOAD(type)                                                                                  \
    static type load_##type(const uint8_t *bytes)                                                          \
    {                                                                                                      \
        type value; /* memcpy, since a record may be packed */                                             \
                                                                                                           \
        memcpy(&value, bytes, sizeof value);                                                               \
        return value;                                                                                      \
    }
DEFINE_LOAD(int16_t)
DEFINE_LOAD(int32_t)
DEFINE_LOAD(int64_t)
DEFINE_LOAD(uint16_t)
DEFINE_LOAD(uint32_t)
DEFINE_LOAD(uint64_t)
DEFINE_LOAD(float)
DEFINE_LOAD(double)

static PyObject *read_value(const struct field *field, PyObject *object)
{
    const uint8_t *bytes = (uint8_t *)object + field->at;

    switch ((enum form)field->form) {
    case INLINE_DOUBLE:
        return PyFloat_FromDouble(load_double(bytes));
    case INLINE_FLOAT:
        return PyFloat_FromDouble((double)load_float(bytes));
    case INLINE_INT64:
        return PyLong_FromLongLong(load_int64_t(bytes));
    case INLINE_INT32:
        return PyLong_FromLong(load_int32_t(bytes));
    case INLINE_INT16:
        return PyLong_FromLong(load_int16_t(bytes));
    case INLINE_INT8:
        return PyLong_FromLong((int8_t)*bytes);
    case INLINE_UINT64:
        return PyLong_FromUnsignedLongLong(load_uint64_t(bytes));
    case INLINE_UINT32:
        return PyLong_FromLongLong(load_uint32_t(bytes));
    case INLINE_UINT16:
        return PyLong_FromLong(load_uint16_t(bytes));
    case INLINE_UINT8:
        return PyLong_FromLong(*bytes);
    case INLINE_BOOL:
        return PyBool_FromLong(*bytes != 0);
    case INLINE_CHARS:
        return PyUnicode_DecodeUTF8((const char *)bytes, text_length(bytes, field->size), NULL);
    case INLINE_VALUE:
        return read_by_python(field, bytes);
    case INLINE_WINDOW:
        return read_window(field, object);
    case KEPT_INLINE:
    case KEPT_TEXT:
    case KEPT_BLOB:
    case KEPT_PART:
        return read_kept(field, object);
    }
    Py_UNREACHABLE();
}

/* On a class there is no value, as in a dataclass without slots: so no dataclass that inherits from an event
 * takes the descriptor for a default. */
static PyObject *field_get(PyObject *self, PyObject *object, PyObject *type)
{
    struct field *field = (struct field *)self;

    if (object == NULL)
        return PyErr_Format(PyExc_AttributeError, "%R has the field %R in its instances only",
                            type != NULL ? type : Py_None, field->name);
    if (field->shape == NULL || field->shape->owner != Py_TYPE(object)) {
        field = field_in(field, object);
        if (field == NULL)
            return NULL;
    }
    return read_value(field, object);
}

/* --- fields: writing --- */

/* The fast ways below take exactly the common types, and set no exception when they do not take a value. */

static enum outcome take_int(PyObject *value, int64_t low, int64_t high, int64_t *out)
{
    int overflow;

    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow); /* raises only for what is no int */
    return overflow == 0 && low <= *out && *out <= high ? GOOD : UNUSUAL;
}

static enum outcome write_int(PyObject *value, uint8_t *bytes, int size, int64_t low, int64_t high)
{
    int64_t number;

    if (take_int(value, low, high, &number) != GOOD)
        return UNUSUAL;
    switch (size) {
    case 1:
        *bytes = (uint8_t)number;
        break;
    case 2:
        memcpy(bytes, &(uint16_t){(uint16_t)number}, 2);
        break;
    case 4:
        memcpy(bytes, &(uint32_t){(uint32_t)number}, 4);
        break;
    default:
        memcpy(bytes, &number, 8);
    }
    return GOOD;
}

static enum outcome take_double(PyObject *value, double *out)
{
    if (PyFloat_CheckExact(value)) {
        *out = PyFloat_AsDouble(value);
        return GOOD;
    }
    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    *out = PyLong_AsDouble(value);
    if (*out != -1.0 || PyErr_Occurred() == NULL)
        return GOOD;
    PyErr_Clear();
    return UNUSUAL;
}

static enum outcome write_double(PyObject *value, uint8_t *bytes)
{
    double number;

    if (take_double(value, &number) != GOOD)
        return UNUSUAL;
    memcpy(bytes, &number, sizeof number);
    return GOOD;
}

/* A finite number that becomes infinite does not fit. */
static enum outcome write_float(PyObject *value, uint8_t *bytes)
{
    double number;
    float rounded;

    if (take_double(value, &number) != GOOD)
        return UNUSUAL;
    rounded = (float)number;
    if (__builtin_isinf(rounded) && !__builtin_isinf(number))
        return UNUSUAL;
    memcpy(bytes, &rounded, sizeof rounded);
    return GOOD;
}

static enum outcome write_bool(PyObject *value, uint8_t *bytes)
{
    if (value != Py_True && value != Py_False)
        return UNUSUAL;
    *bytes = value == Py_True;
    return GOOD;
}

/* The UTF-8 of exact text without NULs; it stays with the text. NULL for any other, without an exception. */
static const char *utf8_of(PyObject *value, Py_ssize_t *size)
{
    const char *text;

    if (!PyUnicode_CheckExact(value))
        return NULL;
    text = PyUnicode_AsUTF8AndSize(value, size);
    if (text == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return memchr(text, 0, (size_t)*size) == NULL ? text : NULL;
}

static enum outcome write_chars(PyObject *value, uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t length;
    const char *text = utf8_of(value, &length);

    if (text == NULL || length > size)
        return UNUSUAL;
    memcpy(bytes, text, (size_t)length);
    memset(bytes + length, 0, (size_t)(size - length));
    return GOOD;
}

static enum outcome write_inline(const struct field *field, PyObject *value, uint8_t *bytes)
{
    switch ((enum form)field->form) {
    case INLINE_DOUBLE:
        return write_double(value, bytes);
    case INLINE_FLOAT:
        return write_float(value, bytes);
    case INLINE_INT64:
        return write_int(value, bytes, 8, INT64_MIN, INT64_MAX);
    case INLINE_INT32:
        return write_int(value, bytes, 4, INT32_MIN, INT32_MAX);
    case INLINE_INT16:
        return write_int(value, bytes, 2, INT16_MIN, INT16_MAX);
    case INLINE_INT8:
        return write_int(value, bytes, 1, INT8_MIN, INT8_MAX);
    case INLINE_UINT64: /* the upper half goes the slow way */
        return write_int(value, bytes, 8, 0, INT64_MAX);
    case INLINE_UINT32:
        return write_int(value, bytes, 4, 0, UINT32_MAX);
    case INLINE_UINT16:
        return write_int(value, bytes, 2, 0, UINT16_MAX);
    case INLINE_UINT8:
        return write_int(value, bytes, 1, 0, UINT8_MAX);
    case INLINE_BOOL:
        return write_bool(value, bytes);
    case INLINE_CHARS:
        return write_chars(value, bytes, field->size);
    default:
        return UNUSUAL;
    }
}

/* write(value) gives the bytes or raises. */
static int write_by_python(const struct field *field, PyObject *value, uint8_t *bytes)
{
    PyObject *data = call_with(field->write, value);
    char *from;
    Py_ssize_t size;

    if (data == NULL)
        return -1;
    if (PyBytes_AsStringAndSize(data, &from, &size) != 0) {
        Py_DECREF(data);
        return -1;
    }
    if (size == field->size)
        memcpy(bytes, from, (size_t)size);
    else
        PyErr_Format(PyExc_SystemError, "Expected %zd bytes for %R, got %zd", field->size, field->name, size);
    Py_DECREF(data);
    return size == field->size ? 0 : -1;
}

/* Whether a value may be kept without asking Python. */
static int is_surely_good(const struct field *field, PyObject *value)
{
    Py_ssize_t size;

    switch (field->form) {
    case KEPT_TEXT:
        return utf8_of(value, &size) != NULL;
    case KEPT_BLOB:
        return PyBytes_CheckExact(value);
    default:
        return field->nested != NULL && field->nested->owner == Py_TYPE(value);
    }
}

/* write(value) raises, or its result is ignored: what is kept is the value as given. */
static int write_kept(const struct field *field, PyObject *object, PyObject *value)
{
    PyObject *checked;

    if (!is_surely_good(field, value)) {
        checked = call_with(field->write, value);
        if (checked == NULL)
            return -1;
        Py_DECREF(checked);
    }
    mark_stale(field->shape, object);
    keep(object, field->slot, Py_NewRef(value));
    return 0;
}

static int field_set(PyObject *self, PyObject *object, PyObject *value)
{
    struct field *field = field_in((struct field *)self, object);
    uint8_t *bytes;

    if (field == NULL)
        return -1;
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "Expected a value for %R: a field cannot be deleted", field->name);
        return -1;
    }
    if (field->slot != 0)
        return write_kept(field, object, value);
    bytes = (uint8_t *)object + field->at;
    if (write_inline(field, value, bytes) != GOOD && write_by_python(field, value, bytes) != 0)
        return -1;
    mark_stale(field->shape, object);
    return 0;
}

/* --- the checks of a received record --- */

/* What follows a NUL is looked at too, which at worst asks the decoder below. Eight bytes at a time, and no
 * more: a wider load would span two of the stores that have just put them there, and wait for both. */
static int is_ascii(const uint8_t *bytes, uint32_t size)
{
    uint64_t word;

    for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            return 0;
    }
    for (; size > 0; bytes++, size--) {
        if (*bytes >= 0x80)
            return 0;
    }
    return 1;
}

/* An exception is never left set: what is no UTF-8 is for the fallback to name. */
static int is_utf8(const uint8_t *bytes, uint32_t size)
{
    PyObject *text;

    if (is_ascii(bytes, size))
        return 1;
    text = PyUnicode_DecodeUTF8((const char *)bytes, text_length(bytes, size), NULL);
    if (text == NULL)
        PyErr_Clear();
    Py_XDECREF(text);
    return text != NULL;
}

static int64_t load_number(const uint8_t *bytes, uint32_t size)
{
    switch (size) {
    case 1:
        return (int8_t)*bytes;
    case 2:
        return load_int16_t(bytes);
    case 4:
        return load_int32_t(bytes);
    default:
        return load_int64_t(bytes);
    }
}

static int is_known(const struct check *check, int64_t number)
{
    uint32_t low = 0, high = check->known_count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (check->known[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return check->known[low] == number;
}

/* A true of the sender's may be any number but 0; ours is 1. Returns whether something was changed. */
static inline int normalise(uint8_t *bytes, uint32_t count)
{
    int changed = 0;

    for (; count > 0; bytes++, count--) {
        if (__builtin_expect(*bytes > 1, 0)) {
            *bytes = 1;
            changed = 1;
        }
    }
    return changed;
}

/* Whether every field of the record can be read. *changed: whether bytes were brought into our form. */
static inline int is_readable(const struct shape *shape, uint8_t *record, int *changed)
{
    Py_ssize_t i;

    for (i = 0; i < shape->check_count; i++) {
        const struct check *check = &shape->checks[i];
        uint8_t *bytes = record + check->at;

        if (check->what == '?' || check->what == '|') {
            *changed |= normalise(bytes, check->size);
            if (check->what == '|' && *bytes == 0)
                i += check->count;
        } else if (check->what == 's') {
            if (!is_utf8(bytes, check->size))
                return 0;
        } else if (!is_known(check, load_number(bytes, check->size))) {
            return 0;
        }
    }
    return 1;
}

/* --- decoding --- */

/* A new object whose record is not filled in. The slots are NULL, the state is ABSENT. */
static inline PyObject *event_new(const struct shape *shape)
{
    PyObject *object;

    if (!shape->is_plain)
        return PyType_GenericAlloc(shape->owner, 0); /* zeroed */
    object = PyObject_Malloc((size_t)shape->object_size);
    if (object == NULL)
        return PyErr_NoMemory();
    return PyObject_Init(object, shape->owner);
}

/* Fills in the record of a new object. Runs no Python code. */
static inline enum outcome fill(const struct shape *shape, const struct program *program, PyObject *object,
                         const uint8_t *source)
{
    uint8_t *record = record_of(shape, object);
    int changed = 0;

    if (program->convert == NULL)
        copy(record, source, shape->size);
    else if (program->convert(source, record, 1) != 0)
        return UNUSUAL;
    if (!is_readable(shape, record, &changed))
        return UNUSUAL;
    if (changed && shape->state != 0)
        ((uint8_t *)object)[shape->state] = STALE;
    return GOOD;
}

/* Runs what the class wants to be run on a new event. */
static enum outcome call_after(const struct decoder *decoder, PyObject *object)
{
    PyObject *result;

    if (decoder->after == Py_None)
        return GOOD;
    result = call_with(decoder->after, object);
    Py_XDECREF(result);
    return result != NULL ? GOOD : RAISED;
}

/* One event from as many bytes as the sender's record has. On GOOD *result is the caller's. */
static inline enum outcome decode_one(const struct decoder *decoder, const struct program *program,
                               const uint8_t *source, PyObject *whole, PyObject **result)
{
    const struct shape *shape = decoder->shape;
    PyObject *object = event_new(shape);
    enum outcome outcome;

    if (object == NULL)
        return RAISED;
    if (whole != NULL) {
        ((uint8_t *)object)[shape->state] = PRISTINE;
        *slot_at(object, shape->source) = Py_NewRef(whole);
    }
    outcome = fill(shape, program, object, source);
    if (outcome == GOOD)
        outcome = call_after(decoder, object);
    if (outcome == GOOD)
        *result = object;
    else
        Py_DECREF(object);
    return outcome;
}

/* The bytes of an argument. */
struct view {
    uint8_t *bytes;   /* borrowed from the argument */
    Py_ssize_t size;  /* how many there are */
    int is_exported;  /* 1: buffer is filled in and is ours to release; 0: buffer is not touched */
    Py_buffer buffer; /* keeps the bytes where they are */
};

/* Exact bytes need no export: the caller's reference keeps them, and they neither move nor change. */
static enum outcome open_view(struct view *view, PyObject *data)
{
    char *bytes;

    view->is_exported = 0;
    if (PyBytes_CheckExact(data)) {
        PyBytes_AsStringAndSize(data, &bytes, &view->size); /* cannot fail on bytes */
        view->bytes = (uint8_t *)bytes;
        return GOOD;
    }
    if (PyObject_GetBuffer(data, &view->buffer, PyBUF_SIMPLE) != 0) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
            return RAISED;
        PyErr_Clear();
        return UNUSUAL;
    }
    view->is_exported = 1;
    view->bytes = view->buffer.buf;
    view->size = view->buffer.len;
    return GOOD;
}

/* May run any code, where an exporter is written in Python. */
static void close_view(struct view *view)
{
    if (view->is_exported)
        PyBuffer_Release(&view->buffer);
}

/* A whole record with its parts: the event holds bytes that hold nothing else. */
static enum outcome decode_whole(const struct decoder *decoder, const struct program *program,
                                 const struct view *view, PyObject *data, PyObject **result)
{
    PyObject *whole;
    enum outcome outcome;

    if (view->size < decoder->shape->size)
        return UNUSUAL;
    whole = view->is_exported ? PyBytes_FromStringAndSize((char *)view->bytes, view->size) : Py_NewRef(data);
    if (whole == NULL)
        return RAISED;
    outcome = decode_one(decoder, program, (uint8_t *)PyBytes_AsString(whole), whole, result);
    Py_DECREF(whole);
    return outcome;
}

static enum outcome decode_view(const struct decoder *decoder, const struct program *program,
                                const struct view *view, PyObject *data, PyObject **result)
{
    if (decoder->shape->source != 0)
        return decode_whole(decoder, program, view, data, result);
    if ((uint64_t)view->size != program->source_size)
        return UNUSUAL;
    return decode_one(decoder, program, view->bytes, NULL, result);
}

/* list: new, of `count` NULLs; filled from the start. */
static enum outcome decode_each(const struct decoder *decoder, const struct program *program,
                                const struct view *view, PyObject *list, Py_ssize_t count)
{
    const uint8_t *source = view->bytes;
    PyObject *event = NULL;
    Py_ssize_t i;

    for (i = 0; i < count; i++, source += program->source_size) {
        enum outcome outcome = decode_one(decoder, program, source, NULL, &event);

        if (outcome != GOOD)
            return outcome;
        PyList_SetItem(list, i, event); /* steals; cannot fail */
    }
    return GOOD;
}

/* Records with parts have no size by which many could be told apart. */
static enum outcome decode_all(const struct decoder *decoder, const struct program *program,
                               const struct view *view, PyObject *data, PyObject **result)
{
    uint64_t size = (uint64_t)view->size, count = size / program->source_size;
    enum outcome outcome;
    PyObject *list;

    (void)data;
    if (decoder->shape->source != 0 || count * program->source_size != size)
        return UNUSUAL;
    list = PyList_New((Py_ssize_t)count);
    if (list == NULL)
        return RAISED;
    outcome = decode_each(decoder, program, view, list, (Py_ssize_t)count);
    if (outcome == GOOD)
        *result = list;
    else
        Py_DECREF(list);
    return outcome;
}

typedef enum outcome decode_step(const struct decoder *, const struct program *, const struct view *,
                                 PyObject *data, PyObject **result);

/* Ends one use; the last one frees, and may run any finalizer. NULL is allowed. */
static void program_release(struct program *program)
{
    PyObject *keep_alive;

    if (program == NULL || --program->users > 0)
        return;
    keep_alive = program->keep_alive;
    PyMem_Free(program);
    Py_DECREF(keep_alive);
}

/* Runs what is installed now, also when it is replaced meanwhile. Inlined together with its step. */
static inline enum outcome attempt(struct decoder *decoder, decode_step *step, PyObject *data,
                                   PyObject **result)
{
    struct program *program = decoder->program;
    struct view view; /* not zeroed as a whole: that would be work in every call */
    enum outcome outcome;

    if (program == NULL || decoder->shape == NULL || decoder->shape->owner == NULL)
        return UNUSUAL;
    outcome = open_view(&view, data);
    if (outcome != GOOD)
        return outcome;
    program->users++;
    outcome = step(decoder, program, &view, data, result);
    program_release(program);
    close_view(&view);
    return outcome;
}

static PyObject *decoder_call(PyObject *self, PyObject *data)
{
    struct decoder *decoder = (struct decoder *)self;
    PyObject *result = NULL;
    enum outcome outcome = attempt(decoder, decode_view, data, &result);

    if (outcome == GOOD)
        decoder->compiled++;
    else if (outcome == UNUSUAL) {
        decoder->interpreted++;
        return PyObject_CallFunctionObjArgs(decoder->fallback, data, NULL);
    }
    return result;
}

static PyObject *decoder_call_many(PyObject *self, PyObject *data)
{
    struct decoder *decoder = (struct decoder *)self;
    PyObject *result = NULL;
    enum outcome outcome = attempt(decoder, decode_all, data, &result);

    if (outcome == GOOD)
        decoder->compiled++;
    else if (outcome == UNUSUAL) {
        decoder->interpreted++;
        return PyObject_CallFunctionObjArgs(decoder->fallback_many, data, NULL);
    }
    return result;
}

/* --- encoding --- */

static inline int copy_record(const struct shape *shape, PyObject *object, uint8_t *target);

/* Writes over the copy of a record what is kept as objects; 0 when only Python knows how. */
static int copy_kept(const struct shape *shape, PyObject *object, uint8_t *target)
{
    Py_ssize_t i;

    for (i = 0; i < shape->kept_count; i++) {
        const struct kept *kept = &shape->kept[i];
        PyObject *value = *slot_at(object, kept->slot);

        if (value == NULL)
            continue;
        if (kept->nested == NULL || kept->nested->owner != Py_TYPE(value) ||
            !copy_record(kept->nested, value, target + kept->at))
            return 0;
    }
    return 1;
}

/* What others may have written to is checked, in the copy, where nobody else writes. */
static int is_copy_readable(const struct shape *shape, uint8_t *target)
{
    int changed = 0; /* for the better */

    return is_readable(shape, target, &changed);
}

/* Copies a record; 0 when it is not what may be sent, or only Python knows. Runs no Python code. The nesting
 * is that of formats, at most a few dozen deep. */
static inline int copy_record(const struct shape *shape, PyObject *object, uint8_t *target)
{
    copy(target, record_of(shape, object), shape->size);
    return (shape->kept_count == 0 || copy_kept(shape, object, target)) &&
           (!shape->is_exposed || is_copy_readable(shape, target));
}

/* The source itself: bytes never change. */
static enum outcome encode_whole(const struct shape *shape, PyObject *event, PyObject **result)
{
    PyObject *source = *slot_at(event, shape->source);

    if (((uint8_t *)event)[shape->state] != PRISTINE || source == NULL)
        return UNUSUAL;
    *result = Py_NewRef(source);
    return GOOD;
}

static enum outcome encode_one(const struct shape *shape, PyObject *event, PyObject **result)
{
    PyObject *bytes;

    if (shape == NULL || Py_TYPE(event) != shape->owner)
        return UNUSUAL;
    if (shape->source != 0)
        return encode_whole(shape, event, result);
    bytes = PyBytes_FromStringAndSize(NULL, shape->size);
    if (bytes == NULL)
        return RAISED;
    if (!copy_record(shape, event, (uint8_t *)PyBytes_AsString(bytes))) {
        Py_DECREF(bytes);
        return UNUSUAL;
    }
    *result = bytes;
    return GOOD;
}

/* events: an exact list. No Python code runs here, so it stays as it is. */
static enum outcome encode_each(const struct shape *shape, PyObject *events, Py_ssize_t count,
                                uint8_t *target)
{
    Py_ssize_t i;

    for (i = 0; i < count; i++, target += shape->size) {
        PyObject *event = PyList_GetItem(events, i); /* borrowed; cannot fail */

        if (Py_TYPE(event) != shape->owner || !copy_record(shape, event, target))
            return UNUSUAL;
    }
    return GOOD;
}

static enum outcome encode_list(const struct shape *shape, PyObject *events, PyObject **result)
{
    Py_ssize_t count = PyList_Size(events);
    PyObject *bytes;

    if (shape == NULL || shape->source != 0 || count > PY_SSIZE_T_MAX / shape->size)
        return UNUSUAL;
    bytes = PyBytes_FromStringAndSize(NULL, count * shape->size);
    if (bytes == NULL)
        return RAISED;
    if (encode_each(shape, events, count, (uint8_t *)PyBytes_AsString(bytes)) != GOOD) {
        Py_DECREF(bytes);
        return UNUSUAL;
    }
    *result = bytes;
    return GOOD;
}

static PyObject *encoder_call(PyObject *self, PyObject *event)
{
    struct encoder *encoder = (struct encoder *)self;
    PyObject *result = NULL;
    enum outcome outcome = encode_one(encoder->shape, event, &result);

    if (outcome == GOOD)
        encoder->compiled++;
    else if (outcome == UNUSUAL) {
        encoder->interpreted++;
        return PyObject_CallFunctionObjArgs(encoder->fallback, event, NULL);
    }
    return result;
}

/* events: owned by the caller; exactly a list. */
static PyObject *encode_many(struct encoder *encoder, PyObject *events)
{
    PyObject *result = NULL;
    enum outcome outcome = encode_list(encoder->shape, events, &result);

    if (outcome == GOOD)
        encoder->compiled++;
    else if (outcome == UNUSUAL) {
        encoder->interpreted++;
        return PyObject_CallFunctionObjArgs(encoder->fallback_many, events, NULL);
    }
    return result;
}

/* Any other iterable is made a list first, so that the fallback finds what we have taken out of it. */
static PyObject *encoder_call_many(PyObject *self, PyObject *events)
{
    struct encoder *encoder = (struct encoder *)self;
    PyObject *list, *result;

    if (PyList_CheckExact(events))
        return encode_many(encoder, events);
    list = PySequence_List(events);
    if (list == NULL)
        return NULL;
    result = encode_many(encoder, list);
    Py_DECREF(list);
    return result;
}

/* --- the type Window --- */

static int window_getbuffer(PyObject *self, Py_buffer *buffer, int flags)
{
    const struct window *window = (struct window *)self;

    return PyBuffer_FillInfo(buffer, self, window->bytes, window->size, window->is_readonly, flags);
}

static void window_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *record = ((struct window *)self)->record;

    PyObject_Free(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
    Py_XDECREF(record);
}

static PyType_Slot window_slots[] = {
    {Py_tp_doc, PyDoc_STR("The memory of an array field; keeps its record alive.")},
    {Py_tp_dealloc, window_dealloc},
    {Py_bf_getbuffer, window_getbuffer},
    {0, NULL}};

static PyType_Spec window_spec = {
    .name = "echo_core._records.Window",
    .basicsize = sizeof(struct window),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = window_slots,
};

/* --- the type Shape --- */

/* Everything is at an offset below this: room for sums in 32 and 64 bits. */
#define MAX_OFFSET (INT32_MAX / 2)

static int is_offset(Py_ssize_t offset, Py_ssize_t size)
{
    return offset >= 0 && size >= 0 && offset <= MAX_OFFSET && size <= MAX_OFFSET;
}

/* numbers: a tuple of ints. Ascending. The caller has made room in shape->numbers from *used on. */
static int add_numbers(struct shape *shape, struct check *check, PyObject *numbers, Py_ssize_t *used)
{
    Py_ssize_t i, count = PyTuple_Size(numbers);

    check->known = shape->numbers + *used;
    check->known_count = (uint32_t)count;
    for (i = 0; i < count; i++) {
        long long number = PyLong_AsLongLong(PyTuple_GetItem(numbers, i));

        if (number == -1 && PyErr_Occurred() != NULL)
            return -1;
        shape->numbers[(*used)++] = number;
    }
    return 0;
}

static int is_sound(const struct shape *shape, const struct check *check, Py_ssize_t left)
{
    if ((Py_ssize_t)check->at + check->size > shape->size || check->count > left || check->size < 1)
        return 0;
    if (check->what == 'e')
        return check->known_count > 0 && check->size <= 8 && (check->size & (check->size - 1)) == 0;
    return check->what == '?' || check->what == 's' || check->what == '|';
}

/* One (what, at, size, count, numbers). left: how many checks follow. */
static int add_check(struct shape *shape, struct check *check, PyObject *item, Py_ssize_t *used,
                     Py_ssize_t left)
{
    PyObject *numbers;
    int what;

    if (!PyArg_ParseTuple(item, "CIIIO!:check", &what, &check->at, &check->size, &check->count,
                          &PyTuple_Type, &numbers))
        return -1;
    check->what = (char)what;
    if (add_numbers(shape, check, numbers, used) != 0)
        return -1;
    if (is_sound(shape, check, left))
        return 0;
    PyErr_Format(PyExc_ValueError, "Expected a check within the record, got %R", item);
    return -1;
}

/* How many numbers all checks together refer to; -1 with an exception for what are no tuples. */
static Py_ssize_t count_numbers(PyObject *checks)
{
    Py_ssize_t i, total = 0, count = PyTuple_Size(checks);

    for (i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(checks, i);
        PyObject *last = PyTuple_Check(item) && PyTuple_Size(item) == 5 ? PyTuple_GetItem(item, 4) : NULL;

        if (last == NULL || !PyTuple_Check(last)) {
            PyErr_Format(PyExc_TypeError, "Expected a tuple of 5 that ends in a tuple, got %R", item);
            return -1;
        }
        total += PyTuple_Size(last);
    }
    return total;
}

static int add_checks(struct shape *shape, PyObject *checks)
{
    Py_ssize_t i, used = 0, count = PyTuple_Size(checks), numbers = count_numbers(checks);

    if (numbers < 0)
        return -1;
    shape->checks = PyMem_Calloc((size_t)count + 1, sizeof *shape->checks);
    shape->numbers = PyMem_Calloc((size_t)numbers + 1, sizeof *shape->numbers);
    if (shape->checks == NULL || shape->numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (add_check(shape, &shape->checks[i], PyTuple_GetItem(checks, i), &used, count - i - 1) != 0)
            return -1;
    }
    shape->check_count = count;
    return 0;
}

/* nested: None, or a Shape whose record is then copied into ours. */
static int set_nested(struct shape *const *of, PyObject *nested, Py_ssize_t size, struct shape **out)
{
    struct shape *found = (struct shape *)nested;

    if (nested == Py_None)
        return 0;
    if (!Py_IS_TYPE(nested, Py_TYPE((PyObject *)*of)) || found->size != size || found->source != 0) {
        PyErr_Format(PyExc_TypeError, "Expected the Shape of records of %zd bytes, got %R", size, nested);
        return -1;
    }
    *out = (struct shape *)Py_NewRef(nested);
    return 0;
}

/* One (slot, at, size, nested). */
static int add_kept(struct shape *shape, PyObject *item)
{
    struct kept *kept = &shape->kept[shape->kept_count];
    Py_ssize_t size;
    PyObject *nested;

    if (!PyArg_ParseTuple(item, "nnnO:kept", &kept->slot, &kept->at, &size, &nested))
        return -1;
    if (!is_offset(kept->slot, sizeof(PyObject *)) || !is_offset(kept->at, size) ||
        kept->at + size > shape->size) {
        PyErr_Format(PyExc_ValueError, "Expected a kept field within the record, got %R", item);
        return -1;
    }
    if (set_nested(&shape, nested, size, &kept->nested) != 0)
        return -1;
    shape->kept_count++; /* from here on tp_dealloc sees it */
    return 0;
}

static int add_all_kept(struct shape *shape, PyObject *all)
{
    Py_ssize_t i, count = PyTuple_Size(all);

    shape->kept = PyMem_Calloc((size_t)count + 1, sizeof *shape->kept);
    if (shape->kept == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(all, i);

        if (!PyTuple_Check(item)) {
            PyErr_Format(PyExc_TypeError, "Expected a tuple, got %R", item);
            return -1;
        }
        if (add_kept(shape, item) != 0)
            return -1;
    }
    return 0;
}

static int shape_init(struct shape *shape, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record", "size", "source", "state", "checks", "kept", "is_exposed", NULL};
    PyObject *checks, *kept;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nnnnO!O!p:Shape", names, &shape->record, &shape->size,
                                     &shape->source, &shape->state, &PyTuple_Type, &checks, &PyTuple_Type,
                                     &kept, &shape->is_exposed))
        return -1;
    if (!is_offset(shape->record, shape->size) || shape->size < 1 ||
        shape->record < (Py_ssize_t)sizeof(PyObject) ||
        !is_offset(shape->source, 8) || !is_offset(shape->state, 1) || !shape->source != !shape->state) {
        PyErr_SetString(PyExc_ValueError, "Expected offsets behind the object's head");
        return -1;
    }
    return add_checks(shape, checks) != 0 ? -1 : add_all_kept(shape, kept);
}

static PyObject *shape_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const struct module_state *state = PyType_GetModuleState(type);
    struct shape *shape = (struct shape *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (shape == NULL)
        return NULL;
    shape->window_type = (PyTypeObject *)Py_NewRef((PyObject *)state->window_type);
    if (shape_init(shape, args, kwargs) != 0)
        Py_CLEAR(shape);
    return (PyObject *)shape;
}

static Py_ssize_t size_attribute(PyObject *type, const char *name)
{
    PyObject *value = PyObject_GetAttrString(type, name);
    Py_ssize_t size = value != NULL ? PyLong_AsSsize_t(value) : -1;

    Py_XDECREF(value);
    return size; /* -1 is an answer too: see PyErr_Occurred */
}

/* Whether every place that the shape names lies in instances of the type. */
static int fits(const struct shape *shape, Py_ssize_t basicsize)
{
    Py_ssize_t i, word = sizeof(PyObject *);

    if (shape->record + shape->size > basicsize || shape->state >= basicsize)
        return 0;
    if (shape->source + word > basicsize)
        return 0;
    for (i = 0; i < shape->kept_count; i++) {
        if (shape->kept[i].slot + word > basicsize)
            return 0;
    }
    return 1;
}

/* Whether all are fields of this shape, with their slots inside the object. */
static int are_own(const struct shape *shape, PyTypeObject *field_type, PyObject *fields,
                   Py_ssize_t basicsize)
{
    PyObject *name, *item;
    Py_ssize_t position = 0;

    while (PyDict_Next(fields, &position, &name, &item)) {
        const struct field *field = (struct field *)item;

        if (!Py_IS_TYPE(item, field_type) || field->shape != shape ||
            field->slot + (Py_ssize_t)sizeof(PyObject *) > basicsize)
            return 0;
    }
    return 1;
}

/* bind(cls, fields): the class that has the base type under it, and its Field objects by name. */
static PyObject *shape_bind(PyObject *self, PyObject *args)
{
    struct shape *shape = (struct shape *)self;
    const struct module_state *state;
    PyObject *owner, *fields;
    Py_ssize_t basicsize, dict, weak;

    if (!PyArg_ParseTuple(args, "O!O!:bind", &PyType_Type, &owner, &PyDict_Type, &fields))
        return NULL;
    basicsize = size_attribute(owner, "__basicsize__");
    dict = size_attribute(owner, "__dictoffset__");
    weak = size_attribute(owner, "__weakrefoffset__");
    if (PyErr_Occurred() != NULL)
        return NULL;
    state = PyType_GetModuleState(Py_TYPE(self));
    if (shape->owner != NULL || !fits(shape, basicsize) ||
        !are_own(shape, state->field_type, fields, basicsize))
        return PyErr_Format(PyExc_ValueError, "Expected a class with room for the record, got %R", owner);
    shape->object_size = basicsize;
    shape->is_plain = dict == 0 && weak == 0 && shape->kept_count == 0 && shape->source == 0 &&
                      shape->record == (Py_ssize_t)sizeof(PyObject) &&
                      basicsize - shape->record - shape->size < 8 &&
                      !PyType_HasFeature((PyTypeObject *)owner, Py_TPFLAGS_HAVE_GC);
    shape->fields = PyDict_Copy(fields);
    if (shape->fields == NULL)
        return NULL;
    shape->owner = (PyTypeObject *)Py_NewRef(owner);
    Py_RETURN_NONE;
}

static PyObject *shape_mark_extended(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((struct shape *)self)->is_extended = 1;
    Py_RETURN_NONE;
}

static int shape_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct shape *shape = (struct shape *)self;
    Py_ssize_t i;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(shape->owner);
    Py_VISIT(shape->window_type);
    Py_VISIT(shape->fields);
    for (i = 0; i < shape->kept_count; i++)
        Py_VISIT(shape->kept[i].nested);
    return 0;
}

/* What the kept fields refer to stays until the end: copy_record reads it. It cannot be part of a cycle that
 * owner and fields do not break. */
static int shape_tp_clear(PyObject *self)
{
    struct shape *shape = (struct shape *)self;

    Py_CLEAR(shape->owner);
    Py_CLEAR(shape->fields);
    return 0;
}

static void shape_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct shape *shape = (struct shape *)self;
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Py_ssize_t i;

    PyObject_GC_UnTrack(self);
    shape_tp_clear(self);
    Py_CLEAR(shape->window_type);
    for (i = 0; i < shape->kept_count; i++)
        Py_CLEAR(shape->kept[i].nested);
    PyMem_Free(shape->kept);
    PyMem_Free(shape->checks);
    PyMem_Free(shape->numbers);
    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

static PyMethodDef shape_methods[] = {
    {"bind", shape_bind, METH_VARARGS,
     PyDoc_STR("bind($self, cls, fields, /)\n--\n\nNames the class whose instances have this shape. Once.")},
    {"mark_extended", shape_mark_extended, METH_NOARGS,
     PyDoc_STR("mark_extended($self, /)\n--\n\nSome subclass has a shape of its own.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef shape_members[] = {
    {"record", T_PYSSIZET, offsetof(struct shape, record), READONLY, PyDoc_STR("Where the record begins.")},
    {"size", T_PYSSIZET, offsetof(struct shape, size), READONLY, PyDoc_STR("Bytes of the record.")},
    {"owner", T_OBJECT, offsetof(struct shape, owner), READONLY, PyDoc_STR("The class, once bound.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot shape_slots[] = {
    {Py_tp_doc, PyDoc_STR("Shape(record, size, source, state, checks, kept, is_exposed)\n--\n\n"
                          "Where the record of one event class lies in its instances.")},
    {Py_tp_new, shape_new},
    {Py_tp_dealloc, shape_dealloc},
    {Py_tp_traverse, shape_traverse},
    {Py_tp_clear, shape_tp_clear},
    {Py_tp_methods, shape_methods},
    {Py_tp_members, shape_members},
    {0, NULL}};

static PyType_Spec shape_spec = {
    .name = "echo_core._records.Shape",
    .basicsize = sizeof(struct shape),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = shape_slots,
};

/* --- the type Field --- */

/* How many bytes the form is about; 0: any number. */
static Py_ssize_t size_of_form(int form)
{
    switch (form) {
    case INLINE_BOOL:
    case INLINE_INT8:
    case INLINE_UINT8:
        return 1;
    case INLINE_INT16:
    case INLINE_UINT16:
        return 2;
    case INLINE_INT32:
    case INLINE_UINT32:
    case INLINE_FLOAT:
        return 4;
    case INLINE_INT64:
    case INLINE_UINT64:
    case INLINE_DOUBLE:
    case KEPT_TEXT:
        return 8;
    case KEPT_BLOB:
        return 16;
    default:
        return 0;
    }
}

static int is_form(int form)
{
    return form > 0 && form < 128 && strchr("?bhiqBHIQfdsvwntyo", form) != NULL;
}

/* Whether the field lies in its record and has what its form needs. */
static int is_complete(const struct field *field, Py_ssize_t at)
{
    int is_kept = strchr("ntyo", field->form) != NULL;
    Py_ssize_t size = size_of_form(field->form);

    return is_offset(at, field->size) && at + field->size <= field->shape->size &&
           (size == 0 || size == field->size) && is_offset(field->slot, sizeof(PyObject *)) &&
           (field->slot != 0) == is_kept &&
           (field->form == 'n' || !is_kept || field->shape->source != 0) &&
           (strchr("vwntyo", field->form) == NULL || PyCallable_Check(field->read)) &&
           PyCallable_Check(field->write);
}

static int field_init(struct field *field, PyTypeObject *shape_type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "name", "form", "at", "size", "slot",
                            "is_shared", "read", "write", "nested", NULL};
    PyObject *shape, *name, *read, *write, *nested;
    Py_ssize_t at;
    int form;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!UCnnnpOOO:Field", names, shape_type, &shape, &name,
                                     &form, &at, &field->size, &field->slot, &field->is_shared, &read,
                                     &write, &nested))
        return -1;
    field->shape = (struct shape *)Py_NewRef(shape);
    field->name = Py_NewRef(name);
    field->read = Py_NewRef(read);
    field->write = Py_NewRef(write);
    if (!is_form(form)) {
        PyErr_Format(PyExc_ValueError, "Expected the letter of a form for %R", name);
        return -1;
    }
    field->form = (char)form;
    if (!is_complete(field, at)) {
        PyErr_Format(PyExc_ValueError, "Expected a field within its record, got %R", name);
        return -1;
    }
    field->at = field->shape->record + at;
    return set_nested(&field->shape, nested, field->size, &field->nested);
}

static PyObject *field_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const struct module_state *state = PyType_GetModuleState(type);
    struct field *field = (struct field *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (field == NULL)
        return NULL;
    if (field_init(field, state->shape_type, args, kwargs) != 0)
        Py_CLEAR(field);
    return (PyObject *)field;
}

static int field_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct field *field = (struct field *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(field->shape);
    Py_VISIT(field->read);
    Py_VISIT(field->write);
    Py_VISIT(field->nested);
    return 0;
}

/* Without a shape a field reads and writes nothing, so that is enough to break any cycle: a shape leads to
 * its class, and what read and write lead to is reached from there. */
static int field_tp_clear(PyObject *self)
{
    Py_CLEAR(((struct field *)self)->shape);
    return 0;
}

static void field_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct field *field = (struct field *)self;
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyObject_GC_UnTrack(self);
    field_tp_clear(self);
    Py_CLEAR(field->name);
    Py_CLEAR(field->read);
    Py_CLEAR(field->write);
    Py_CLEAR(field->nested);
    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

static PyMemberDef field_members[] = {
    {"__name__", T_OBJECT, offsetof(struct field, name), READONLY, PyDoc_STR("The field's name.")},
    {"form", T_CHAR, offsetof(struct field, form), READONLY, PyDoc_STR("How its value lies in the object.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot field_slots[] = {
    {Py_tp_doc, PyDoc_STR("Field(shape, name, form, at, size, slot, is_shared, read, write, nested)\n--\n\n"
                          "The descriptor of one field of an event class.")},
    {Py_tp_new, field_new},
    {Py_tp_dealloc, field_dealloc},
    {Py_tp_traverse, field_traverse},
    {Py_tp_clear, field_tp_clear},
    {Py_tp_members, field_members},
    {Py_tp_descr_get, field_get},
    {Py_tp_descr_set, field_set},
    {0, NULL}};

static PyType_Spec field_spec = {
    .name = "echo_core._records.Field",
    .basicsize = sizeof(struct field),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = field_slots,
};

/* --- the type Decoder --- */

/* Returns a program with one user; NULL with MemoryError. Takes its own reference. */
static struct program *program_new(convert_fixed *convert, uint64_t source_size, PyObject *keep_alive)
{
    struct program *program = PyMem_Calloc(1, sizeof *program);

    if (program == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    program->users = 1;
    program->convert = convert;
    program->source_size = source_size;
    program->keep_alive = Py_NewRef(keep_alive);
    return program;
}

/* Takes over the caller's use of `program` (NULL: none). Calls that run the old one keep it. */
static void publish(struct decoder *decoder, struct program *program)
{
    struct program *old = decoder->program;

    decoder->program = program; /* first: the line below may run Python code that looks at it */
    program_release(old);
}

static PyObject *decoder_install_fixed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"convert", "source_size", "keep_alive", NULL};
    struct decoder *decoder = (struct decoder *)self;
    unsigned long long convert, source_size;
    PyObject *keep_alive;
    struct program *program;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKO:install_fixed", names, &convert, &source_size,
                                     &keep_alive))
        return NULL;
    if (convert == 0 || convert > UINTPTR_MAX || source_size == 0 || decoder->shape == NULL ||
        decoder->shape->source != 0) {
        PyErr_SetString(PyExc_ValueError,
                        "Expected a native function, records of a size, and no variable parts");
        return NULL;
    }
    program = program_new((convert_fixed *)(uintptr_t)convert, source_size, keep_alive);
    if (program == NULL)
        return NULL;
    publish(decoder, program);
    Py_RETURN_NONE;
}

static PyObject *decoder_install_copy(PyObject *self, PyObject *unused)
{
    struct decoder *decoder = (struct decoder *)self;
    struct program *program;

    (void)unused;
    if (decoder->shape == NULL)
        Py_RETURN_NONE;
    program = program_new(NULL, (uint64_t)decoder->shape->size, Py_None);
    if (program == NULL)
        return NULL;
    publish(decoder, program);
    Py_RETURN_NONE;
}

static PyObject *decoder_clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    publish((struct decoder *)self, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef decode_method = {
    "decode", decoder_call, METH_O, PyDoc_STR("decode($self, data, /)\n--\n\nThe event of one record.")};

static PyMethodDef decode_many_method = {
    "decode_many", decoder_call_many, METH_O,
    PyDoc_STR("decode_many($self, data, /)\n--\n\nThe events of many records, one after another.")};

/* A bound Shape. 0 with an exception for any other. */
static int is_bound(PyObject *shape)
{
    if (((struct shape *)shape)->owner != NULL)
        return 1;
    PyErr_SetString(PyExc_ValueError, "Expected a Shape that is bound to its class");
    return 0;
}

static int decoder_init(struct decoder *decoder, PyTypeObject *shape_type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "after", "fallback", "fallback_many", NULL};
    PyObject *shape, *after, *fallback, *fallback_many;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO:Decoder", names, shape_type, &shape, &after,
                                     &fallback, &fallback_many) ||
        !is_bound(shape))
        return -1;
    decoder->shape = (struct shape *)Py_NewRef(shape);
    decoder->after = Py_NewRef(after);
    decoder->fallback = Py_NewRef(fallback);
    decoder->fallback_many = Py_NewRef(fallback_many);
    decoder->call = PyCFunction_NewEx(&decode_method, (PyObject *)decoder, NULL);
    decoder->call_many = PyCFunction_NewEx(&decode_many_method, (PyObject *)decoder, NULL);
    return decoder->call != NULL && decoder->call_many != NULL ? 0 : -1;
}

static PyObject *decoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const struct module_state *state = PyType_GetModuleState(type);
    struct decoder *decoder = (struct decoder *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (decoder == NULL)
        return NULL;
    if (decoder_init(decoder, state->shape_type, args, kwargs) != 0)
        Py_CLEAR(decoder);
    return (PyObject *)decoder;
}

/* A program that was replaced is not visited: the calls that still run it are on some stack, alive. */
static int decoder_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct decoder *decoder = (struct decoder *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(decoder->shape);
    Py_VISIT(decoder->after);
    Py_VISIT(decoder->fallback);
    Py_VISIT(decoder->fallback_many);
    Py_VISIT(decoder->call);
    Py_VISIT(decoder->call_many);
    if (decoder->program != NULL)
        Py_VISIT(decoder->program->keep_alive);
    return 0;
}

static int decoder_tp_clear(PyObject *self)
{
    struct decoder *decoder = (struct decoder *)self;

    publish(decoder, NULL); /* first: without a program nothing below is used */
    Py_CLEAR(decoder->shape);
    Py_CLEAR(decoder->after);
    Py_CLEAR(decoder->fallback);
    Py_CLEAR(decoder->fallback_many);
    Py_CLEAR(decoder->call);
    Py_CLEAR(decoder->call_many);
    return 0;
}

static void decoder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyObject_GC_UnTrack(self);
    decoder_tp_clear(self);
    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

static PyObject *decoder_is_compiled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct decoder *)self)->program != NULL);
}

static PyMethodDef decoder_methods[] = {
    {"install_fixed", (PyCFunction)(void (*)(void))decoder_install_fixed, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_fixed($self, /, convert, source_size, keep_alive)\n--\n\n"
               "From now on native code converts the sender's records straight into new events.")},
    {"install_copy", decoder_install_copy, METH_NOARGS,
     PyDoc_STR("install_copy($self, /)\n--\n\n"
               "From now on a sender's records are taken to be of this layout; the caller has verified their "
               "variable parts.")},
    {"clear", decoder_clear, METH_NOARGS,
     PyDoc_STR("clear($self, /)\n--\n\nFrom now on calls go to the fallbacks.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef decoder_members[] = {
    {"call", T_OBJECT_EX, offsetof(struct decoder, call), READONLY,
     PyDoc_STR("The built-in function: call(data). Keep it; do not look it up per call.")},
    {"call_many", T_OBJECT_EX, offsetof(struct decoder, call_many), READONLY,
     PyDoc_STR("The built-in function: call_many(data).")},
    {"compiled", T_ULONGLONG, offsetof(struct decoder, compiled), READONLY,
     PyDoc_STR("How many calls were answered natively.")},
    {"interpreted", T_ULONGLONG, offsetof(struct decoder, interpreted), READONLY,
     PyDoc_STR("How many calls went to a fallback.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef decoder_properties[] = {
    {"is_compiled", decoder_is_compiled, NULL, PyDoc_STR("Whether something is installed."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot decoder_slots[] = {
    {Py_tp_doc, PyDoc_STR("Decoder(shape, after, fallback, fallback_many)\n--\n\n"
                          "Records to events, by the fallbacks until something is installed.")},
    {Py_tp_new, decoder_new},
    {Py_tp_dealloc, decoder_dealloc},
    {Py_tp_traverse, decoder_traverse},
    {Py_tp_clear, decoder_tp_clear},
    {Py_tp_methods, decoder_methods},
    {Py_tp_members, decoder_members},
    {Py_tp_getset, decoder_properties},
    {0, NULL}};

static PyType_Spec decoder_spec = {
    .name = "echo_core._records.Decoder",
    .basicsize = sizeof(struct decoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decoder_slots,
};

/* --- the type Encoder --- */

static PyMethodDef encode_method = {
    "encode", encoder_call, METH_O, PyDoc_STR("encode($self, event, /)\n--\n\nThe record of one event.")};

static PyMethodDef encode_many_method = {
    "encode_many", encoder_call_many, METH_O,
    PyDoc_STR("encode_many($self, events, /)\n--\n\nThe records of many events, one after another.")};

static int encoder_init(struct encoder *encoder, PyTypeObject *shape_type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "fallback", "fallback_many", NULL};
    PyObject *shape, *fallback, *fallback_many;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO:Encoder", names, shape_type, &shape, &fallback,
                                     &fallback_many) ||
        !is_bound(shape))
        return -1;
    encoder->shape = (struct shape *)Py_NewRef(shape);
    encoder->fallback = Py_NewRef(fallback);
    encoder->fallback_many = Py_NewRef(fallback_many);
    encoder->call = PyCFunction_NewEx(&encode_method, (PyObject *)encoder, NULL);
    encoder->call_many = PyCFunction_NewEx(&encode_many_method, (PyObject *)encoder, NULL);
    return encoder->call != NULL && encoder->call_many != NULL ? 0 : -1;
}

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const struct module_state *state = PyType_GetModuleState(type);
    struct encoder *encoder = (struct encoder *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (encoder == NULL)
        return NULL;
    if (encoder_init(encoder, state->shape_type, args, kwargs) != 0)
        Py_CLEAR(encoder);
    return (PyObject *)encoder;
}

static int encoder_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct encoder *encoder = (struct encoder *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(encoder->shape);
    Py_VISIT(encoder->fallback);
    Py_VISIT(encoder->fallback_many);
    Py_VISIT(encoder->call);
    Py_VISIT(encoder->call_many);
    return 0;
}

static int encoder_tp_clear(PyObject *self)
{
    struct encoder *encoder = (struct encoder *)self;

    Py_CLEAR(encoder->shape); /* first: without a shape nothing below is used but the fallbacks */
    Py_CLEAR(encoder->fallback);
    Py_CLEAR(encoder->fallback_many);
    Py_CLEAR(encoder->call);
    Py_CLEAR(encoder->call_many);
    return 0;
}

static void encoder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyObject_GC_UnTrack(self);
    encoder_tp_clear(self);
    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

static PyMemberDef encoder_members[] = {
    {"call", T_OBJECT_EX, offsetof(struct encoder, call), READONLY,
     PyDoc_STR("The built-in function: call(event). Keep it; do not look it up per call.")},
    {"call_many", T_OBJECT_EX, offsetof(struct encoder, call_many), READONLY,
     PyDoc_STR("The built-in function: call_many(events).")},
    {"compiled", T_ULONGLONG, offsetof(struct encoder, compiled), READONLY,
     PyDoc_STR("How many calls were answered natively.")},
    {"interpreted", T_ULONGLONG, offsetof(struct encoder, interpreted), READONLY,
     PyDoc_STR("How many calls went to a fallback.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot encoder_slots[] = {
    {Py_tp_doc, PyDoc_STR("Encoder(shape, fallback, fallback_many)\n--\n\n"
                          "Events to records, by the fallbacks where they are not exactly of the class.")},
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, encoder_dealloc},
    {Py_tp_traverse, encoder_traverse},
    {Py_tp_clear, encoder_tp_clear},
    {Py_tp_members, encoder_members},
    {0, NULL}};

static PyType_Spec encoder_spec = {
    .name = "echo_core._records.Encoder",
    .basicsize = sizeof(struct encoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = encoder_slots,
};

/* --- the module --- */

/* Room and nothing else: all that Python does with instances, it does as for any class of its own. */
static PyObject *base_type(PyObject *module, PyObject *args)
{
    PyType_Slot slots[] = {{Py_tp_doc, PyDoc_STR("Room for the record of an event.")}, {0, NULL}};
    PyType_Spec spec = {
        .name = "echo_core._records.Room",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    PyObject *base;
    Py_ssize_t basicsize;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!n:base_type", &PyType_Type, &base, &basicsize))
        return NULL;
    if (!is_offset(basicsize, 0) || basicsize % 8 != 0 || basicsize < size_attribute(base, "__basicsize__"))
        return PyErr_Format(PyExc_ValueError, "Expected a size with room for %R, got %zd", base, basicsize);
    spec.basicsize = (int)basicsize;
    return PyType_FromSpecWithBases(&spec, base);
}

/* A class of its own that Python could not make: its instances have no GC header, since they refer to
 * nothing but their class. What a class statement would put into it is for the caller to put there. */
static PyObject *plain_type(PyObject *module, PyObject *args)
{
    PyType_Slot slots[] = {{0, NULL}};
    PyType_Spec spec = {.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};
    PyObject *bases;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO!:plain_type", &spec.name, &PyTuple_Type, &bases)) /* copies the name */
        return NULL;
    return PyType_FromSpecWithBases(&spec, bases);
}

/* Whether a slot of Python's is where we take it to be. */
static PyObject *holds_at(PyObject *module, PyObject *args)
{
    PyObject *object, *value;
    Py_ssize_t offset;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnO:holds_at", &object, &offset, &value))
        return NULL;
    if (!is_offset(offset, 0) ||
        offset + (Py_ssize_t)sizeof value > size_attribute((PyObject *)Py_TYPE(object), "__basicsize__"))
        return PyErr_Format(PyExc_ValueError, "Expected an offset within the object, got %zd", offset);
    return PyBool_FromLong(*slot_at(object, offset) == value);
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out == NULL ? -1 : PyModule_AddType(module, *out); /* takes a reference of its own */
}

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    PyTypeObject *type;

    if (add_type(module, &shape_spec, &state->shape_type) != 0 ||
        add_type(module, &field_spec, &state->field_type) != 0 ||
        add_type(module, &window_spec, &state->window_type) != 0 ||
        add_type(module, &decoder_spec, &type) != 0)
        return -1;
    Py_DECREF((PyObject *)type);
    if (add_type(module, &encoder_spec, &type) != 0)
        return -1;
    Py_DECREF((PyObject *)type);
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);

    Py_VISIT(state->shape_type);
    Py_VISIT(state->field_type);
    Py_VISIT(state->window_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    Py_CLEAR(state->shape_type);
    Py_CLEAR(state->field_type);
    Py_CLEAR(state->window_type);
    return 0;
}

static void module_free(void *module)
{
    module_clear((PyObject *)module);
}

static PyMethodDef module_methods[] = {
    {"base_type", base_type, METH_VARARGS,
     PyDoc_STR("base_type(base, basicsize, /)\n--\n\nA type like base whose instances are so large.")},
    {"plain_type", plain_type, METH_VARARGS,
     PyDoc_STR("plain_type(name, bases, /)\n--\n\nAn empty class whose instances the GC does not know.")},
    {"holds_at", holds_at, METH_VARARGS,
     PyDoc_STR("holds_at(object, offset, value, /)\n--\n\nWhether the slot at offset refers to value.")},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._records",
    .m_doc = PyDoc_STR("Events that hold their record inline."),
    .m_size = sizeof(struct module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__records(void)
{
    return PyModuleDef_Init(&module_definition);
}
