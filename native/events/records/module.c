/* echo_core._c.records: events that hold their record inline.
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
 *   Shape    where the record, the state and the source of one class lie (shapes.c)
 *   Field    the descriptor of one field (fields.c): a value is made when it is read
 *            (reading.c), checked when it is assigned (writing.c)
 *   Encoder  call(event) and call_many(events) to bytes (encoder.c)
 *   Decoder  call(data) and call_many(data) to events (decoder.c); what it has in common with
 *            an Encoder is in codec.c, the checks of records in checks.h
 *   Window   the memory of one array field as a buffer that keeps its record alive (window.c)
 *
 * Whatever is unusual goes to a slow Python callable, whose result or exception counts. Expected workload:
 * records of about 100 bytes, millions of calls per second.
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state and is never released here: the work per call
 * is less than the hand-over would be, and what is written belongs to objects that Python code may see.
 */
#include "events/records/codec.h"

/* --- making classes --- */

/* Room and nothing else: all that Python does with instances, it does as for any class of its own. */
static PyObject *base_type(PyObject *module, PyObject *args)
{
    PyType_Slot slots[] = {{Py_tp_doc, PyDoc_STR("Room for the record of an event.")}, {0, NULL}};
    PyType_Spec spec = {
        .name = "echo_core._c.records.Room",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    PyObject *base;
    Py_ssize_t basicsize;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!n:base_type", &PyType_Type, &base, &basicsize))
        return NULL;
    if (!is_offset(basicsize, 0) || basicsize % 8 != 0 ||
        basicsize < echo_record_size_attribute(base, "__basicsize__"))
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
    PyObject *object, *value, *type;
    Py_ssize_t offset;

    (void)module;
    if (!PyArg_ParseTuple(args, "OnO:holds_at", &object, &offset, &value))
        return NULL;
    type = (PyObject *)Py_TYPE(object);
    if (!is_offset(offset, 0) ||
        offset + (Py_ssize_t)sizeof value > echo_record_size_attribute(type, "__basicsize__"))
        return PyErr_Format(PyExc_ValueError, "Expected an offset within the object, got %zd", offset);
    return PyBool_FromLong(*slot_at(object, offset) == value);
}

/* --- the module --- */

static const struct raw_codec raw_codecs[] = {
    {.call = echo_record_encode, .encode = echo_record_encode_raw, .measure = echo_record_measure},
    {.call = echo_record_decode, .decode = echo_record_decode_raw, .count = echo_record_count},
    {.call = NULL}};

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    if (add_type(module, &echo_record_shape_spec, &state->shape_type) != 0 ||
        add_type(module, &echo_record_field_spec, &state->field_type) != 0 ||
        add_type(module, &echo_record_window_spec, &state->window_type) != 0 ||
        add_type(module, &echo_record_decoder_spec, NULL) != 0 ||
        add_type(module, &echo_record_encoder_spec, NULL) != 0)
        return -1;
    return add_raw_codecs(module, "echo_core._c.records." RAW_CODECS, raw_codecs);
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
    .m_name = "echo_core._c.records",
    .m_doc = PyDoc_STR("Events that hold their record inline."),
    .m_size = sizeof(struct module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit_records(void)
{
    return PyModuleDef_Init(&module_definition);
}
