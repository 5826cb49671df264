/* echo_core._c.objects: events to the bytes of records and back.
 *
 *   Value    how the values of one type lie in records of this machine (values.c, details.c), as a tree
 *   Walker   encodes and decodes the events of a class by such a tree (walker.c): values to bytes in
 *            writing.c, only how many in measuring.c, bytes to values in reading.c, text of
 *            fixed size in text.c, bytes that others have written in normalising.c, numbers in leaves.h
 *   Part     reads one field of a record that is kept as bytes (parts.c)
 *   Code     what was compiled for one class (code.c), much faster; for its events by themselves, and
 *            as elements of others
 *   Codec    encodes and decodes by it where the class and the event allow it (codec.c)
 *
 * Whatever is unusual goes to a slow Python callable, whose result or exception counts. Expected workload:
 * records of about 100 bytes, millions of calls per second.
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state and is never released here: the work per call
 * is less than the hand-over would be, and what is read and written are objects that Python code may see.
 */
#include "events/objects/objects.h"

static const struct raw_codec raw_codecs[] = {
    {.call = echo_walker_encode, .encode = echo_walker_encode_raw, .measure = echo_walker_measure},
    {.call = echo_walker_decode, .decode = echo_walker_decode_raw, .count = echo_walker_count},
    {.call = echo_codec_encode, .encode = echo_codec_encode_raw, .measure = echo_codec_measure},
    {.call = echo_codec_decode, .decode = echo_codec_decode_raw, .count = echo_codec_count},
    {.call = NULL}};

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    if (add_type(module, &echo_object_code_spec, &state->code_type) != 0 ||
        add_type(module, &echo_object_value_spec, &state->value_type) != 0 ||
        add_type(module, &echo_object_walker_spec, NULL) != 0 ||
        add_type(module, &echo_object_part_spec, NULL) != 0 ||
        add_type(module, &echo_object_codec_spec, NULL) != 0)
        return -1;
    return add_raw_codecs(module, "echo_core._c.objects." RAW_CODECS, raw_codecs);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);

    Py_VISIT(state->code_type);
    Py_VISIT(state->value_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    Py_CLEAR(state->code_type);
    Py_CLEAR(state->value_type);
    return 0;
}

static void module_free(void *module)
{
    module_clear((PyObject *)module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.objects",
    .m_doc = PyDoc_STR("Events to the bytes of records and back."),
    .m_size = sizeof(struct module_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit_objects(void)
{
    return PyModuleDef_Init(&module_definition);
}
