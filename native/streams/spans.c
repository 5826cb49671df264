/* The type Span: bytes that something else owns, as a read-only buffer. Views of it keep the owner alive. */
#include "streams/deliveries.h"

/* The Python object. It takes no part in the GC: an owner is a piece of memory, which refers to nothing. */
struct span {
    PyObject ob_base;     /* spelled out: PyObject_HEAD hides it */
    const uint8_t *bytes; /* the owner's */
    Py_ssize_t size;
    PyObject *owner; /* owned */
};

PyObject *echo_span_new(PyTypeObject *span_type, const uint8_t *bytes, Py_ssize_t size, PyObject *owner)
{
    struct span *span = (struct span *)PyType_GenericAlloc(span_type, 0);

    if (span == NULL)
        return NULL;
    span->bytes = bytes;
    span->size = size;
    span->owner = Py_NewRef(owner);
    return (PyObject *)span;
}

static int span_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    const struct span *span = (struct span *)self;

    return PyBuffer_FillInfo(view, self, (void *)(uintptr_t)span->bytes, span->size, 1, flags);
}

static void span_dealloc(PyObject *self)
{
    Py_XDECREF(((struct span *)self)->owner);
    free_instance(self);
}

static PyType_Slot span_slots[] = {
    {Py_tp_doc, PyDoc_STR("Bytes that something else owns: the buffer protocol, read-only.")},
    {Py_tp_dealloc, span_dealloc},
    {Py_bf_getbuffer, span_getbuffer},
    {0, NULL}};

PyType_Spec echo_link_span_spec = {
    .name = "echo_core._c.links.Span",
    .basicsize = sizeof(struct span),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = span_slots,
};
