/* The type Shape: where the record, its state and its source lie in the instances of one event class.
 *
 * All offsets are checked here: against the record when a Shape is made, and against the class when it is bound.
 * So code that uses a bound Shape needs no bounds checks. The checks of received records are stored here and run
 * by checks.h.
 */
#include "events/module.h"
#include "events/records/records.h"

/* --- noting the checks --- */

static int is_sound(const struct shape *shape, const struct check *check, Py_ssize_t left)
{
    if ((Py_ssize_t)check->at + check->size > shape->size || check->count > left || check->size < 1)
        return 0;
    if (check->what == 'e')
        return check->known_count > 0 && check->size <= 8 && (check->size & (check->size - 1)) == 0;
    return check->what == '?' || check->what == 's' || check->what == '|';
}

/* An item's tuple is parsed as arguments are, which takes nothing else. */
static int is_tuple(PyObject *item)
{
    if (!PyTuple_Check(item))
        PyErr_Format(PyExc_TypeError, "Expected a tuple, got %R", item);
    return PyTuple_Check(item);
}

/* One (what, at, size, count, numbers), these as bytes of int64_t. left: how many checks follow. */
static int add_check(struct shape *shape, struct check *check, PyObject *item, Py_ssize_t left)
{
    PyObject *numbers;
    int what;

    if (!is_tuple(item) ||
        !PyArg_ParseTuple(item, "CIIIS:check", &what, &check->at, &check->size, &check->count, &numbers))
        return -1;
    check->what = (char)what;
    check->known = (const int64_t *)(const void *)PyBytes_AsString(numbers); /* 8-aligned, in any build of Python */
    check->known_count = (uint32_t)(PyBytes_Size(numbers) / 8);
    if (is_sound(shape, check, left))
        return 0;
    PyErr_Format(PyExc_ValueError, "Expected a check within the record, got %R", item);
    return -1;
}

static int add_checks(struct shape *shape, PyObject *checks)
{
    Py_ssize_t i, count = PyTuple_Size(checks);

    shape->checks = PyMem_Calloc((size_t)count + 1, sizeof *shape->checks);
    if (shape->checks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (add_check(shape, &shape->checks[i], PyTuple_GetItem(checks, i), count - i - 1) != 0)
            return -1;
    }
    shape->check_count = count;
    return 0;
}

/* --- noting the kept fields --- */

int echo_record_set_nested(const struct shape *of, PyObject *nested, Py_ssize_t size, struct shape **out)
{
    struct shape *found = (struct shape *)nested;

    if (nested == Py_None)
        return 0;
    if (!Py_IS_TYPE(nested, Py_TYPE((PyObject *)of)) || found->size != size || found->source != 0) {
        PyErr_Format(PyExc_TypeError, "Expected the Shape of records of %zd bytes, got %R", size, nested);
        return -1;
    }
    *out = found;
    return 0;
}

/* One (slot, at, size, nested). */
static int add_kept(struct shape *shape, PyObject *item)
{
    struct kept *kept = &shape->kept[shape->kept_count];
    Py_ssize_t size;
    PyObject *nested;

    if (!is_tuple(item) || !PyArg_ParseTuple(item, "nnnO:kept", &kept->slot, &kept->at, &size, &nested))
        return -1;
    if (!is_offset(kept->slot, sizeof(PyObject *)) || !is_offset(kept->at, size) || kept->at + size > shape->size) {
        PyErr_Format(PyExc_ValueError, "Expected a kept field within the record, got %R", item);
        return -1;
    }
    if (echo_record_set_nested(shape, nested, size, &kept->nested) != 0)
        return -1;
    shape->kept_count++;
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
        if (add_kept(shape, PyTuple_GetItem(all, i)) != 0)
            return -1;
    }
    return 0;
}

/* --- making one --- */

static int shape_init(struct shape *shape, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record", "size", "source", "state", "checks", "kept", "is_exposed", NULL};
    PyObject *checks, *kept;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nnnnO!O!p:Shape", names, &shape->record, &shape->size,
                                     &shape->source, &shape->state, &PyTuple_Type, &checks, &PyTuple_Type, &kept,
                                     &shape->is_exposed))
        return -1;
    shape->checks_details = Py_NewRef(checks);
    shape->kept_details = Py_NewRef(kept);
    if (!is_offset(shape->record, shape->size) || shape->size < 1 || shape->record < (Py_ssize_t)sizeof(PyObject) ||
        !is_offset(shape->source, 8) || !is_offset(shape->state, 1) || !shape->source != !shape->state) {
        PyErr_SetString(PyExc_ValueError, "Expected offsets behind the object's head");
        return -1;
    }
    return add_checks(shape, checks) != 0 ? -1 : add_all_kept(shape, kept);
}

static PyObject *shape_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct shape *shape = (struct shape *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (shape == NULL)
        return NULL;
    shape->window_type = (PyTypeObject *)Py_NewRef((PyObject *)sibling(type, WINDOW));
    if (shape_init(shape, args, kwargs) != 0)
        Py_CLEAR(shape);
    return (PyObject *)shape;
}

/* --- binding it to its class --- */

int echo_record_demand_bound(PyObject *shape)
{
    if (((struct shape *)shape)->owner != NULL)
        return 0;
    PyErr_SetString(PyExc_ValueError, "Expected a Shape that is bound to its class");
    return -1;
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
static int are_own(const struct shape *shape, PyTypeObject *field_type, PyObject *fields, Py_ssize_t basicsize)
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
    PyObject *owner, *fields;
    Py_ssize_t basicsize, dict, weak;

    if (!PyArg_ParseTuple(args, "O!O!:bind", &PyType_Type, &owner, &PyDict_Type, &fields))
        return NULL;
    basicsize = size_attribute(owner, "__basicsize__");
    dict = size_attribute(owner, "__dictoffset__");
    weak = size_attribute(owner, "__weakrefoffset__");
    if (PyErr_Occurred() != NULL)
        return NULL;
    if (shape->owner != NULL || !fits(shape, basicsize) ||
        !are_own(shape, sibling(Py_TYPE(self), FIELD), fields, basicsize))
        return PyErr_Format(PyExc_ValueError, "Expected a class with room for the record, got %R", owner);
    shape->object_size = basicsize;
    shape->is_plain = dict == 0 && weak == 0 && shape->kept_count == 0 && shape->source == 0 &&
                      shape->record == (Py_ssize_t)sizeof(PyObject) && basicsize - shape->record - shape->size < 8 &&
                      !PyType_HasFeature((PyTypeObject *)owner, Py_TPFLAGS_HAVE_GC);
    shape->is_collected = echo_is_collected((PyTypeObject *)owner);
    shape->is_large = shape->is_collected
                          ? basicsize >= LARGE_BYTES
                          : shape->is_plain && PyType_GetSlot((PyTypeObject *)owner, Py_tp_alloc) == echo_large_alloc;
    shape->is_plain = shape->is_plain && !shape->is_large;
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

/* --- the type --- */

static const Py_ssize_t owned[] = {offsetof(struct shape, owner),
                                   offsetof(struct shape, window_type),
                                   offsetof(struct shape, fields),
                                   offsetof(struct shape, checks_details),
                                   offsetof(struct shape, kept_details),
                                   offsetof(struct shape, making_details),
                                   0};

static int shape_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, owned, visit, arg);
}

/* What the kept fields refer to stays until the end: copy_record reads it. It cannot be part of a cycle that
 * owner and fields do not break. Neither can `init`: whoever makes an event needs the owner. */
static int shape_tp_clear(PyObject *self)
{
    struct shape *shape = (struct shape *)self;

    Py_CLEAR(shape->owner);
    Py_CLEAR(shape->fields);
    return 0;
}

static void shape_dealloc(PyObject *self)
{
    struct shape *shape = (struct shape *)self;

    PyObject_GC_UnTrack(self);
    PyMem_Free(shape->kept);
    PyMem_Free(shape->checks);
    PyMem_Free(shape->arguments);
    PyMem_Free(shape->order);
    clear_owned(self, owned);
    free_instance(self);
}

static PyMethodDef shape_methods[] = {
    {"bind", shape_bind, METH_VARARGS,
     PyDoc_STR("bind($self, cls, fields, /)\n--\n\nNames the class whose instances have this shape. Once.")},
    {"make_by", echo_record_make_by, METH_VARARGS,
     PyDoc_STR("make_by($self, init, arguments, positional, order, after, /)\n--\n\n"
               "From now on a call of the class makes an event without running its own `init`.")},
    {"mark_extended", shape_mark_extended, METH_NOARGS,
     PyDoc_STR("mark_extended($self, /)\n--\n\nSome subclass has a shape of its own.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef shape_members[] = {
    {"record", T_PYSSIZET, offsetof(struct shape, record), READONLY, PyDoc_STR("Where the record begins.")},
    {"size", T_PYSSIZET, offsetof(struct shape, size), READONLY, PyDoc_STR("Bytes of the record.")},
    {"is_collected", T_INT, offsetof(struct shape, is_collected), READONLY,
     PyDoc_STR("Whether it is a class of plain_type with slots, once bound.")},
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

PyType_Spec echo_record_shape_spec = {
    .name = "echo_core._c.events.Shape",
    .basicsize = sizeof(struct shape),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = shape_slots,
};
