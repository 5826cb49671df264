/* The type Part: reads one field of a record whose parts have been verified, for events that keep the record
 * and make a value when it is read.
 */
#include "objects.h"

/* The Python object. */
struct part {
    PyObject ob_base;     /* spelled out: PyObject_HEAD hides it */
    struct value *record; /* owned; the whole record. Has no tp_clear, nor has this */
    Py_ssize_t index;     /* of the field in it */
    int is_view;          /* 1: a sequence of numbers or records is a view of the source */
    PyObject *fallback;   /* owned; called with the source where the field is not as it should be */
};

static PyObject *part_read(PyObject *self, PyObject *source)
{
    struct part *part = (struct part *)self;
    PyObject *result = NULL;
    enum outcome outcome = UNUSUAL;

    if (PyBytes_CheckExact(source))
        outcome = echo_value_decode_field(part->record, &part->record->fields[part->index], source,
                                          part->is_view, &result);
    return outcome == UNUSUAL ? PyObject_CallFunctionObjArgs(part->fallback, source, NULL) : result;
}

static int is_viewable(const struct value *value)
{
    if (value->form == FORM_REFERENCE)
        value = value->element;
    return value->form == FORM_SEQUENCE && value->dtype != NULL;
}

static PyObject *part_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record", "index", "is_view", "fallback", NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    PyObject *record, *fallback;
    struct part *part;
    Py_ssize_t index;
    int is_view;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!npO:Part", names, state->value_type, &record, &index,
                                     &is_view, &fallback))
        return NULL;
    if (((struct value *)record)->form != FORM_RECORD || index < 0 ||
        index >= ((struct value *)record)->count || !PyCallable_Check(fallback) ||
        (is_view && !is_viewable(((struct value *)record)->fields[index].value)))
        return PyErr_Format(PyExc_ValueError, "Expected a record and the index of a field, got %R", args);
    part = (struct part *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (part == NULL)
        return NULL;
    part->record = (struct value *)Py_NewRef(record);
    part->index = index;
    part->is_view = is_view;
    part->fallback = Py_NewRef(fallback);
    return (PyObject *)part;
}

static int part_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct part *part = (struct part *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(part->record);
    Py_VISIT(part->fallback);
    return 0;
}

static void part_dealloc(PyObject *self)
{
    struct part *part = (struct part *)self;

    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)part->record);
    Py_XDECREF(part->fallback);
    free_instance(self);
}

static PyMethodDef part_methods[] = {
    {"read", part_read, METH_O,
     PyDoc_STR("read($self, source, /)\n--\n\nThe field's value in a record that has been verified.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot part_slots[] = {
    {Py_tp_doc, PyDoc_STR("Part(record, index, is_view, fallback)\n--\n\n"
                          "Reads one field of records that have variable parts.")},
    {Py_tp_new, part_new},
    {Py_tp_dealloc, part_dealloc},
    {Py_tp_traverse, part_traverse},
    {Py_tp_methods, part_methods},
    {0, NULL}};

PyType_Spec echo_object_part_spec = {
    .name = "echo_core._objects.Part",
    .basicsize = sizeof(struct part),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = part_slots,
};
