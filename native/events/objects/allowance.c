/* The type Allowance: how many objects one event may become.
 *
 * Expected workload: every event of variable size is asked about, and nearly all are small enough to be allowed by
 * one comparison.
 */
#include "events/objects/allowance.h"
#include "events/module.h"

enum outcome echo_allowance_demand(const struct allowance *allowance, const uint8_t *record, Py_ssize_t size)
{
    int64_t count = echo_value_count(allowance->value, record, size, allowance->most);
    PyObject *result;

    if (count <= allowance->most)
        return GOOD;
    result = PyObject_CallFunction(allowance->refuse, "L", (long long)count);
    if (result != NULL)
        PyErr_Format(PyExc_SystemError, "%R has not refused", allowance->refuse);
    Py_XDECREF(result);
    return RAISED;
}

static Py_ssize_t free_bytes_of(const struct value *value, int64_t most)
{
    if (most < value->objects)
        return -1;
    return value->density == 0 ? PY_SSIZE_T_MAX : value->size + (Py_ssize_t)((most - value->objects) / value->density);
}

static PyObject *allowance_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"value", "most", "refuse", NULL};
    PyObject *value, *refuse;
    long long most;
    struct allowance *allowance;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!LO:Allowance", names, sibling(type, VALUE), &value, &most,
                                     &refuse))
        return NULL;
    if (((struct value *)value)->form != FORM_RECORD || most < 0 || !PyCallable_Check(refuse))
        return PyErr_Format(PyExc_ValueError, "Expected the Value of a record, a count and a callable, got %R", args);
    allowance = (struct allowance *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (allowance == NULL)
        return NULL;
    allowance->value = (struct value *)Py_NewRef(value);
    allowance->refuse = Py_NewRef(refuse);
    allowance->most = most < MAX_OBJECTS ? most : MAX_OBJECTS;
    allowance->free_bytes = free_bytes_of(allowance->value, allowance->most);
    return (PyObject *)allowance;
}

static const Py_ssize_t owned[] = {offsetof(struct allowance, value), offsetof(struct allowance, refuse), 0};

static int allowance_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, owned, visit, arg);
}

static void allowance_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_owned(self, owned);
    free_instance(self);
}

static PyMemberDef allowance_members[] = {{"free_bytes", T_PYSSIZET, offsetof(struct allowance, free_bytes), READONLY,
                                           PyDoc_STR("Records up to this size need not be counted.")},
                                          {NULL, 0, 0, 0, NULL}};

static PyType_Slot allowance_slots[] = {
    {Py_tp_doc, PyDoc_STR("Allowance(value, most, refuse)\n--\n\nHow many objects one event may become.")},
    {Py_tp_new, allowance_new},
    {Py_tp_dealloc, allowance_dealloc},
    {Py_tp_traverse, allowance_traverse},
    {Py_tp_members, allowance_members},
    {0, NULL}};

PyType_Spec echo_object_allowance_spec = {
    .name = "echo_core._c.events.Allowance",
    .basicsize = sizeof(struct allowance),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = allowance_slots,
};
