/* The type Window: the memory of one array field as a buffer that keeps its record alive.
 *
 * It is what a view of the array is made of, and is never seen by who reads the field.
 */
#include "events/records/records.h"

/* The Python object. */
struct window {
    PyObject ob_base; /* spelled out: PyObject_HEAD hides it */
    PyObject *record; /* owned; keeps bytes where they are */
    uint8_t *bytes;   /* borrowed from the record */
    Py_ssize_t size;  /* how many there are */
    int is_readonly;  /* 1: nobody may write through the window */
};

PyObject *echo_record_window_new(const struct field *field, PyObject *object)
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

static PyType_Slot window_slots[] = {{Py_tp_doc, PyDoc_STR("The memory of an array field; keeps its record alive.")},
                                     {Py_tp_dealloc, window_dealloc},
                                     {Py_bf_getbuffer, window_getbuffer},
                                     {0, NULL}};

PyType_Spec echo_record_window_spec = {
    .name = "echo_core._c.events.Window",
    .basicsize = sizeof(struct window),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = window_slots,
};
