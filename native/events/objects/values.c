/* The type Value: how the values of one type lie in records of this machine.
 *
 * Python makes a tree of them (codegen/events/value_trees.py), once for each class.
 */
#include "events/module.h"
#include "events/objects/objects.h"

static PyObject *value_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct value *value = (struct value *)PyType_GenericAlloc(type, 0); /* zeroed */

    (void)kwargs;
    if (value != NULL && echo_value_fill(value, args) != 0)
        Py_CLEAR(value);
    return (PyObject *)value;
}

static const Py_ssize_t owned[] = {offsetof(struct value, details), offsetof(struct value, dtype_name),
                                   offsetof(struct value, code), 0};

static int value_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, owned, visit, arg);
}

static void value_dealloc(PyObject *self)
{
    struct value *value = (struct value *)self;

    PyObject_GC_UnTrack(self);
    PyMem_Free(value->members);
    PyMem_Free(value->numbers);
    PyMem_Free(value->dimensions);
    PyMem_Free(value->fields);
    PyMem_Free(value->checked);
    PyMem_Free(value->ties);
    PyMem_Free(value->gaps);
    clear_owned(self, owned);
    free_instance(self);
}

static int takes_code(const struct value *value)
{
    return value->form == FORM_RECORD && value->is_fixed && !value->has_after && value->inlined == 0 &&
           value->code == NULL;
}

/* use_code(code): once; compiled code then does what it can of the records of this class. */
static PyObject *value_use_code(PyObject *self, PyObject *code)
{
    struct value *value = (struct value *)self;

    if (!Py_IS_TYPE(code, sibling(Py_TYPE(self), CODE)) || !takes_code(value) ||
        ((struct code *)code)->owner != value->cls || ((struct code *)code)->size != value->size)
        return PyErr_Format(PyExc_ValueError, "Expected a record of fixed size and its code, got %R", code);
    value->code = (struct code *)Py_NewRef(code);
    Py_RETURN_NONE;
}

static PyMethodDef value_methods[] = {
    {"use_code", value_use_code, METH_O,
     PyDoc_STR("use_code($self, code, /)\n--\n\nHas compiled code do what it can of these records.")},
    {NULL, NULL, 0, NULL}};

static PyObject *value_takes_code(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(takes_code((struct value *)self));
}

/* The Values that this one is made of. */
static PyObject *value_inner(PyObject *self, void *unused)
{
    const struct value *value = (struct value *)self;
    Py_ssize_t i, count = value->fields != NULL ? value->count : value->element != NULL;
    PyObject *inner = PyTuple_New(count);

    (void)unused;
    for (i = 0; inner != NULL && i < count; i++) {
        struct value *each = value->fields != NULL ? value->fields[i].value : value->element;

        PyTuple_SetItem(inner, i, Py_NewRef((PyObject *)each));
    }
    return inner;
}

static PyMemberDef value_members[] = {
    {"cls", T_OBJECT, offsetof(struct value, cls), READONLY, PyDoc_STR("The class of a record, or None.")},
    {"is_fixed", T_BOOL, offsetof(struct value, is_fixed), READONLY, PyDoc_STR("Whether it has no variable parts.")},
    {"runs_python", T_BOOL, offsetof(struct value, runs_python), READONLY,
     PyDoc_STR("Whether Python code takes part.")},
    {"has_after", T_BOOL, offsetof(struct value, has_after), READONLY,
     PyDoc_STR("Whether a method is called in the end.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef value_properties[] = {
    {"inner", value_inner, NULL, PyDoc_STR("The Values that it is made of."), NULL},
    {"takes_code", value_takes_code, NULL, PyDoc_STR("Whether code for its class would be of use."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot value_slots[] = {
    {Py_tp_doc, PyDoc_STR("Value(form, size, alignment, details)\n--\n\n"
                          "How the values of one type lie in records of this machine.")},
    {Py_tp_new, value_new},
    {Py_tp_dealloc, value_dealloc},
    {Py_tp_traverse, value_traverse},
    {Py_tp_methods, value_methods},
    {Py_tp_members, value_members},
    {Py_tp_getset, value_properties},
    {0, NULL}};

PyType_Spec echo_object_value_spec = {
    .name = "echo_core._c.events.Value",
    .basicsize = sizeof(struct value),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = value_slots,
};
