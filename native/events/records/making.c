/* Making an event by calling its class: what the `__init__` of its dataclass does, without running it.
 *
 * That one stays where it is, for whoever looks at it or calls it by `super()`. The class is told to be called by
 * make_event below (tp_vectorcall, which no function of the stable ABI sets; layouts.c has found where it is). Whatever
 * is not as when the class was made (another `__init__` has been assigned, or `__new__`), and each call whose arguments do
 * not fit, goes the usual way and so has the usual error.
 *
 * Expected workload: a few million calls per second, of classes with up to some dozens of fields.
 */
#include "events/records/records.h"

#define WITHOUT_OFFSET (~((size_t)1 << (8 * sizeof(size_t) - 1))) /* PY_VECTORCALL_ARGUMENTS_OFFSET */

static PyObject *shape_name, *init_name; /* interned; as long as the process */

/* --- the usual way --- */

static PyObject *keywords_of(PyObject *const *values, PyObject *names)
{
    PyObject *keywords = PyDict_New();
    Py_ssize_t i;

    for (i = 0; keywords != NULL && i < PyTuple_Size(names); i++) {
        if (PyDict_SetItem(keywords, PyTuple_GetItem(names, i), values[i]) != 0)
            Py_CLEAR(keywords);
    }
    return keywords;
}

/* type.__call__, which makes an object and runs `__init__`. */
static PyObject *call_as_usual(PyObject *cls, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    ternaryfunc call = (ternaryfunc)PyType_GetSlot(&PyType_Type, Py_tp_call);
    PyObject *keywords = names != NULL ? keywords_of(args + count, names) : NULL;
    PyObject *positional = names == NULL || keywords != NULL ? PyTuple_New(count) : NULL, *event = NULL;
    Py_ssize_t i;

    for (i = 0; positional != NULL && i < count; i++)
        PyTuple_SetItem(positional, i, Py_NewRef(args[i]));
    if (positional != NULL)
        event = call(cls, positional, keywords);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return event;
}

/* --- arguments --- */

/* Which argument has the name; -1: none. Names are interned on both sides, but for those from a dictionary. */
static Py_ssize_t find_argument(const struct shape *shape, PyObject *name, Py_ssize_t expected)
{
    Py_ssize_t i;

    if (expected < shape->argument_count && shape->arguments[expected].name == name)
        return expected;
    for (i = 0; i < shape->argument_count; i++) {
        if (shape->arguments[i].name == name || PyUnicode_Compare(shape->arguments[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* Borrowed values by argument, NULL for those that are not given. 0: they do not fit. */
static int bind(const struct shape *shape, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **values)
{
    Py_ssize_t i, at, given = names != NULL ? PyTuple_Size(names) : 0;

    if (count > shape->positional_count)
        return 0;
    memcpy(values, args, (size_t)count * sizeof *values);
    memset(values + count, 0, (size_t)(shape->argument_count - count) * sizeof *values);
    for (i = 0; i < given; i++) {
        at = find_argument(shape, PyTuple_GetItem(names, i), count + i);
        if (at < 0 || values[at] != NULL)
            return 0;
        values[at] = args[count + i];
    }
    for (i = count; i < shape->argument_count; i++) {
        if (values[i] == NULL && shape->arguments[i].otherwise == NULL)
            return 0;
    }
    return 1;
}

/* --- the event --- */

static int set_argument(const struct argument *argument, PyObject *event, PyObject *value)
{
    PyObject *made;
    int status;

    if (value != NULL)
        return echo_record_set_value(argument->field, event, value);
    if (!argument->is_factory)
        return echo_record_set_value(argument->field, event, argument->otherwise);
    made = PyObject_CallFunctionObjArgs(argument->otherwise, NULL);
    status = made != NULL ? echo_record_set_value(argument->field, event, made) : -1;
    Py_XDECREF(made);
    return status;
}

/* In the order of the fields, as `__init__` does it. */
static int fill(const struct shape *shape, PyObject *event, PyObject *const *values)
{
    PyObject *returned;
    Py_ssize_t i;

    for (i = 0; i < shape->argument_count; i++) {
        Py_ssize_t at = shape->order[i];

        if (set_argument(&shape->arguments[at], event, values[at]) != 0)
            return -1;
    }
    if (shape->after == NULL)
        return 0;
    returned = PyObject_CallMethodObjArgs(event, shape->after, NULL);
    Py_XDECREF(returned);
    return returned != NULL ? 0 : -1;
}

/* The shape of a class that is still what it was when it was told to be called here; NULL for any other. Borrowed. */
static const struct shape *look_up_shape(PyObject *cls)
{
    PyObject *dict = *slot_at(cls, echo_layouts.type_dict_at);
    const struct shape *shape = (struct shape *)PyDict_GetItemWithError(dict, shape_name);

    if (shape == NULL || (PyObject *)shape->owner != cls || shape->init == NULL ||
        PyDict_GetItemWithError(dict, init_name) != shape->init ||
        PyType_GetSlot((PyTypeObject *)cls, Py_tp_new) != PyType_GetSlot(&PyBaseObject_Type, Py_tp_new))
        return NULL;
    return shape;
}

/* What was found of classes lately. A class that is changed gets another version, as does one that takes its place. */
#define RECENT 64
static struct recent {
    const struct shape *shape; /* borrowed from the class */
    uint32_t version;          /* 0: nothing was found */
} recent[RECENT];

static const struct shape *shape_of(PyObject *cls)
{
    struct recent *found = &recent[((uintptr_t)cls >> 6) % RECENT];
    uint32_t version = version_of(cls);

    if (version == 0) {
        Py_XDECREF(PyObject_GetAttr(cls, init_name)); /* gives it one, for the next call */
        return look_up_shape(cls);
    }
    if (version != found->version) {
        found->shape = look_up_shape(cls);
        found->version = found->shape != NULL ? version : 0;
    }
    return found->shape;
}

static PyObject *make_event(PyObject *cls, PyObject *const *args, size_t count_and_flag, PyObject *names)
{
    Py_ssize_t count = (Py_ssize_t)(count_and_flag & WITHOUT_OFFSET);
    const struct shape *shape = shape_of(cls);
    PyObject *values[MAX_ARGUMENTS], *event;

    if (shape == NULL || !bind(shape, args, count, names, values)) {
        PyErr_Clear(); /* of looking for names */
        return call_as_usual(cls, args, count, names);
    }
    event = echo_record_new(shape);
    if (event == NULL)
        return NULL;
    if (shape->is_plain || shape->is_large)
        memset(record_of(shape, event), 0, (size_t)(shape->object_size - shape->record));
    Py_INCREF((PyObject *)shape); /* a factory may take it from the class */
    if (fill(shape, event, values) != 0)
        Py_CLEAR(event);
    Py_DECREF((PyObject *)shape);
    return event;
}

/* --- telling a class --- */

/* One (name, default or factory, which of the two it is or none: "d", "f" or ""). The names are the shape's. */
static int add_argument(struct shape *shape, PyObject *item)
{
    struct argument *argument = &shape->arguments[shape->argument_count];
    const char *what;

    if (!PyArg_ParseTuple(item, "UOs:argument", &argument->name, &argument->otherwise, &what))
        return -1;
    argument->field = (struct field *)PyDict_GetItemWithError(shape->fields, argument->name);
    if (argument->field == NULL) {
        PyErr_Format(PyExc_ValueError, "Expected the name of a field, got %R", argument->name);
        return -1;
    }
    argument->is_factory = *what == 'f';
    if (*what == '\0')
        argument->otherwise = NULL;
    shape->argument_count++;
    return 0;
}

static int add_arguments(struct shape *shape, PyObject *arguments, PyObject *order)
{
    Py_ssize_t i, count = PyTuple_Size(arguments);

    if (count > MAX_ARGUMENTS || PyTuple_Size(order) != count) {
        PyErr_Format(PyExc_ValueError, "Expected at most %d arguments and their order", MAX_ARGUMENTS);
        return -1;
    }
    shape->arguments = PyMem_Calloc((size_t)count + 1, sizeof *shape->arguments);
    shape->order = PyMem_Calloc((size_t)count + 1, sizeof *shape->order);
    if (shape->arguments == NULL || shape->order == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        if (add_argument(shape, PyTuple_GetItem(arguments, i)) != 0)
            return -1;
        shape->order[i] = PyLong_AsSsize_t(PyTuple_GetItem(order, i));
        if (shape->order[i] < 0 || shape->order[i] >= count) {
            PyErr_Format(PyExc_ValueError, "Expected the order of %zd arguments, got %R", count, order);
            return -1;
        }
    }
    return 0;
}

static int find_names(void)
{
    if (shape_name == NULL)
        shape_name = PyUnicode_InternFromString("__echo_shape__");
    if (init_name == NULL)
        init_name = PyUnicode_InternFromString("__init__");
    return shape_name != NULL && init_name != NULL ? 0 : -1;
}

/* make_by(init, arguments, positional, order, after): once, by a Shape that is bound. */
PyObject *echo_record_make_by(PyObject *self, PyObject *args)
{
    struct shape *shape = (struct shape *)self;
    PyObject *init, *arguments, *order, *after;
    vectorcall *make = make_event;
    Py_ssize_t positional;

    if (!PyArg_ParseTuple(args, "OO!nO!O:make_by", &init, &PyTuple_Type, &arguments, &positional, &PyTuple_Type, &order,
                          &after))
        return NULL;
    if (echo_record_demand_bound(self) != 0 || find_names() != 0)
        return NULL;
    if (shape->arguments != NULL || positional < 0 || positional > PyTuple_Size(arguments))
        return PyErr_Format(PyExc_ValueError, "Expected a Shape that has not been told, got %R", self);
    shape->making_details = Py_NewRef(args);
    if (add_arguments(shape, arguments, order) != 0)
        return NULL;
    shape->positional_count = positional;
    shape->after = after != Py_None ? after : NULL;
    shape->init = init;
    if (echo_layouts.vectorcall_at != 0 && Py_IS_TYPE((PyObject *)shape->owner, &PyType_Type))
        memcpy((char *)shape->owner + echo_layouts.vectorcall_at, &make, sizeof make);
    Py_RETURN_NONE;
}
