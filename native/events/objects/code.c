/* The type Code: what was compiled for one class, and the objects that it refers to.
 *
 * It is made at run time: it reads an instance's slots and writes its record, or makes an instance from a
 * record. What it cannot do by itself it leaves to a Value (see echo_write_field and echo_read_field).
 */
#include "events/objects/objects.h"

/* What a context begins with, in the order of codegen/emit/instances.py. */
#define FUNCTIONS 4

static int take_context(struct code *code, PyObject *objects)
{
    uintptr_t functions[FUNCTIONS] = {(uintptr_t)echo_write_text, (uintptr_t)echo_read_text,
                                      (uintptr_t)echo_write_field, (uintptr_t)echo_read_field};
    Py_ssize_t i, count = PyTuple_Size(objects);

    code->objects = Py_NewRef(objects);
    code->context = PyMem_Calloc((size_t)count + FUNCTIONS, sizeof *code->context);
    if (code->context == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(code->context, functions, sizeof functions);
    for (i = 0; i < count; i++)
        code->context[FUNCTIONS + i] = PyTuple_GetItem(objects, i);
    return 0;
}

/* Code(owner, size, encode, encode_many, decode, objects, keep_alive, runs_python): three are addresses. */
static PyObject *code_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"owner",   "size",       "encode",      "encode_many", "decode",
                            "objects", "keep_alive", "runs_python", NULL};
    unsigned long long encode, encode_many, decode;
    PyObject *owner, *objects, *keep_alive;
    struct code *code;
    Py_ssize_t size;
    int runs_python;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nKKKO!Op:Code", names, &PyType_Type, &owner, &size, &encode,
                                     &encode_many, &decode, &PyTuple_Type, &objects, &keep_alive, &runs_python))
        return NULL;
    if (encode == 0 || encode_many == 0 || decode == 0)
        return PyErr_Format(PyExc_ValueError, "Expected three addresses, got %R", args);
    code = (struct code *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (code == NULL)
        return NULL;
    code->owner = (PyTypeObject *)Py_NewRef(owner);
    code->size = size;
    code->encode = (encode_function *)(uintptr_t)encode;
    code->encode_many = (encode_many_function *)(uintptr_t)encode_many;
    code->decode = (decode_function *)(uintptr_t)decode;
    code->runs_python = runs_python;
    code->keep_alive = Py_NewRef(keep_alive);
    if (take_context(code, objects) != 0)
        Py_CLEAR(code);
    return (PyObject *)code;
}

static const Py_ssize_t owned[] = {offsetof(struct code, owner), offsetof(struct code, objects),
                                   offsetof(struct code, keep_alive), 0};

static int code_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, owned, visit, arg);
}

static void code_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    PyMem_Free(((struct code *)self)->context);
    clear_owned(self, owned);
    free_instance(self);
}

static PyType_Slot code_slots[] = {
    {Py_tp_doc, PyDoc_STR("Code(owner, size, encode, encode_many, decode, objects, keep_alive, runs_python)\n--\n\n"
                          "What was compiled for one class, and the objects that it refers to.")},
    {Py_tp_new, code_new},
    {Py_tp_dealloc, code_dealloc},
    {Py_tp_traverse, code_traverse},
    {0, NULL}};

PyType_Spec echo_object_code_spec = {
    .name = "echo_core._c.events.Code",
    .basicsize = sizeof(struct code),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = code_slots,
};
