/* The type FieldDescriptor: how one is made, and how the right one is found for an instance of a subclass.
 *
 * The constructor checks that the field lies within its record and has the functions that its form needs. Reading
 * (reading.c) and writing (writing.c) rely on that.
 */
#include "events/module.h"
#include "events/objects/objects.h"
#include "events/records/records.h"

/* --- which one is it? --- */

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
    if (Py_IS_TYPE(found, Py_TYPE((PyObject *)field->shape)) && nearest->owner != NULL && nearest->fields != NULL &&
        PyType_IsSubtype(Py_TYPE(object), nearest->owner))
        own = nearest == field->shape ? (PyObject *)field : PyDict_GetItemWithError(nearest->fields, field->name);
    Py_DECREF(found);
    if (own == NULL && PyErr_Occurred() == NULL)
        PyErr_Format(PyExc_AttributeError, "%R has no field %R", type, field->name);
    return (struct field *)own;
}

struct field *echo_record_find_field(struct field *field, PyObject *object)
{
    const struct shape *shape = field->shape;

    if (shape != NULL && shape->owner != NULL && PyType_IsSubtype(Py_TYPE(object), shape->owner))
        return shape->is_extended ? field_of_subclass(field, object) : field;
    PyErr_Format(PyExc_TypeError, "Expected an event that has the field %R, got %R", field->name,
                 (PyObject *)Py_TYPE(object));
    return NULL;
}

/* --- making one --- */

static int is_form(int form)
{
    return form > 0 && form < 128 && strchr("?bhiqBHIQfdgcCTDsvwktyo", form) != NULL;
}

/* Whether the field lies in its record and has what its form needs. */
static int is_complete(const struct field *field, Py_ssize_t at)
{
    int is_kept = strchr("ktyo", field->form) != NULL;
    Py_ssize_t size = size_of_form(field->form);

    return is_offset(at, field->size) && at + field->size <= field->shape->size && (size == 0 || size == field->size) &&
           is_offset(field->slot, sizeof(PyObject *)) && (field->slot != 0) == is_kept &&
           (field->form == FORM_KEPT || !is_kept || field->shape->source != 0) &&
           (strchr("vwktyo", field->form) == NULL || PyCallable_Check(field->read)) && PyCallable_Check(field->write);
}

/* Notes whose methods the two functions are. */
static int set_parts(struct field *field)
{
    int is_inline = field->slot == 0 || field->form == FORM_KEPT;

    field->reader = echo_part_of(Py_TYPE((PyObject *)field), field->read);
    field->writer = echo_part_of(Py_TYPE((PyObject *)field), field->write);
    if ((field->reader == NULL || echo_part_fits(field->reader, field->size, is_inline)) &&
        (field->writer == NULL || echo_part_fits(field->writer, field->size, is_inline)))
        return 0;
    PyErr_Format(PyExc_ValueError, "Expected Parts of %zd bytes for %R", field->size, field->name);
    return -1;
}

static int field_init(struct field *field, PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape",     "name", "form",  "at",     "size", "slot",
                            "is_shared", "read", "write", "nested", NULL};
    PyObject *shape, *name, *read, *write, *nested;
    Py_ssize_t at;
    int form;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!UCnnnpOOO:FieldDescriptor", names, sibling(type, SHAPE), &shape,
                                     &name, &form, &at, &field->size, &field->slot, &field->is_shared, &read, &write,
                                     &nested))
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
    if (set_parts(field) != 0 || echo_raw_call_of(read, &field->raw) != 0)
        return -1;
    field->numbers = field->form == FORM_WINDOW ? echo_part_numbers(sibling(type, PART), write) : NULL;
    if (echo_record_set_nested(field->shape, nested, field->size, &field->nested) != 0)
        return -1;
    Py_XINCREF((PyObject *)field->nested);
    return 0;
}

static PyObject *field_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct field *field = (struct field *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (field == NULL)
        return NULL;
    if (field_init(field, type, args, kwargs) != 0)
        Py_CLEAR(field);
    return (PyObject *)field;
}

/* --- the type --- */

static const Py_ssize_t owned[] = {offsetof(struct field, shape),  offsetof(struct field, name),
                                   offsetof(struct field, read),   offsetof(struct field, write),
                                   offsetof(struct field, nested), 0};

static int field_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, owned, visit, arg);
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
    PyObject_GC_UnTrack(self);
    clear_owned(self, owned);
    free_instance(self);
}

static PyMemberDef field_members[] = {
    {"__name__", T_OBJECT, offsetof(struct field, name), READONLY, PyDoc_STR("The field's name.")},
    {"form", T_CHAR, offsetof(struct field, form), READONLY, PyDoc_STR("How its value lies in the object.")},
    {"at", T_PYSSIZET, offsetof(struct field, at), READONLY, PyDoc_STR("Where in the object its bytes are.")},
    {"slot", T_PYSSIZET, offsetof(struct field, slot), READONLY,
     PyDoc_STR("Where in the object a kept value is; 0: none is kept.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot field_slots[] = {
    {Py_tp_doc, PyDoc_STR("FieldDescriptor(shape, name, form, at, size, slot, is_shared, read, write, nested)\n--\n\n"
                          "The descriptor of one field of an event class.")},
    {Py_tp_new, field_new},
    {Py_tp_dealloc, field_dealloc},
    {Py_tp_traverse, field_traverse},
    {Py_tp_clear, field_tp_clear},
    {Py_tp_members, field_members},
    {Py_tp_descr_get, echo_record_field_get},
    {Py_tp_descr_set, echo_record_field_set},
    {0, NULL}};

PyType_Spec echo_record_field_spec = {
    .name = "echo_core._c.events.FieldDescriptor",
    .basicsize = sizeof(struct field),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = field_slots,
};
