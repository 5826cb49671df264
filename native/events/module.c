/* echo_core._c.events: events to the bytes of records and back, and records to records.
 *
 *   Value      how the values of one type lie in records of this machine (objects/values.c, details.c), as a tree
 *   Walker     encodes and decodes the events of a class by such a tree (objects/walker.c): values to bytes in
 *              writing.c and elements.c, only how many in measuring.c, bytes to values in reading.c and
 *              reading_arrays.c, bytes that others have written in normalising.c
 *   Allowance  how many objects one event may become (objects/allowance.c), which counting.c counts
 *   Part       reads one field of a record that is kept as bytes (objects/parts.c)
 *   Code       what was compiled for one class (objects/code.c), much faster; for its events by themselves, and
 *              as elements of others
 *   ClassCodec encodes and decodes by it where the class and the event allow it (objects/class_codec.c)
 *
 * Events that hold their record inline (records/classes.c draws one):
 *
 *   Shape      where the record, the state and the source of one class lie (records/shapes.c), and how a call of the
 *              class makes an event (records/making.c)
 *   Field      the descriptor of one field (records/fields.c): a value is made when it is read
 *              (reading.c), checked when it is assigned (writing.c)
 *   Encoder    to records (records/encoder.c)
 *   Decoder    from records (records/decoder.c); the checks of records are in checks.h
 *   Window     the memory of one array field as a buffer that keeps its record alive (records/window.c)
 *
 *   Routine    records of one layout to another's by compiled code (routines.c, programs.c)
 *
 * Classes whose instances refer to objects are made by collected.c, numpy's arrays are read and made by arrays.c.
 *
 * Numbers, text and times in bytes are leaves.h, halves.h, chars.c and times.c; where Python's own objects keep what they
 * hold is layouts.h. Whatever is unusual goes to a slow Python callable, whose result or exception counts: shell.h. Expected workload: records of about 100 bytes, millions of calls per second.
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state. programs.c releases it while records are converted, and
 * turns.h for moments of what takes long: making or reading many objects, copying many bytes.
 */
#include "events/module.h"
#include "events/leaves.h"
#include "events/objects/objects.h"
#include "events/programs.h"

static PyType_Spec *const specs[TYPE_COUNT] = {
    [VALUE] = &echo_object_value_spec,         [CODE] = &echo_object_code_spec,
    [ALLOWANCE] = &echo_object_allowance_spec, [WALKER] = &echo_object_walker_spec,
    [PART] = &echo_object_part_spec,           [CLASS_CODEC] = &echo_object_class_codec_spec,
    [SHAPE] = &echo_record_shape_spec,         [FIELD] = &echo_record_field_spec,
    [WINDOW] = &echo_record_window_spec,       [ENCODER] = &echo_record_encoder_spec,
    [DECODER] = &echo_record_decoder_spec,     [ROUTINE] = &echo_routine_spec,
};

static int add_leaf(PyObject *leaves, int letter, const char *kind, int size)
{
    PyObject *key = PyUnicode_FromFormat("%c", letter), *what = Py_BuildValue("(si)", kind, size);
    int status = key != NULL && what != NULL ? PyDict_SetItem(leaves, key, what) : -1;

    Py_XDECREF(key);
    Py_XDECREF(what);
    return status;
}

/* {letter: (kind, size)} of the leaves that are known here; see leaves.h */
static PyObject *new_leaves(void)
{
    PyObject *leaves = PyDict_New();
    int status = leaves != NULL ? 0 : -1;

#define LEAF(name, letter, kind, size, ...)                                                                            \
    if (status == 0)                                                                                                   \
        status = add_leaf(leaves, letter, kind, size);
    NUMBERS(LEAF)
    if (echo_layouts.has_times) {
        TIMES(LEAF)
    }
#undef LEAF
    if (status != 0)
        Py_CLEAR(leaves);
    return leaves;
}

static int add_constants(PyObject *module)
{
    PyObject *leaves = new_leaves();
    int status = leaves != NULL ? PyModule_AddObjectRef(module, "LEAVES", leaves) : -1;

    Py_XDECREF(leaves);
    if (status != 0 || PyModule_AddIntMacro(module, MAX_TIES) != 0)
        return -1;
    if (PyModule_AddIntConstant(module, "HAS_UUIDS", echo_layouts.ints != INTS_UNKNOWN) != 0)
        return -1;
    return PyModule_AddIntMacro(module, GIL_RELEASE_BYTES);
}

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    int i;

    if (echo_layouts_find() != 0)
        return -1;
    for (i = 0; i < TYPE_COUNT; i++) {
        if (add_type(module, specs[i], &state->types[i]) != 0)
            return -1;
    }
    return add_constants(module);
}

static PyMethodDef module_methods[] = {
    {"base_type", echo_record_base_type, METH_VARARGS,
     PyDoc_STR("base_type(base, basicsize, /)\n--\n\nA type like base whose instances are so large.")},
    {"plain_type", echo_record_plain_type, METH_VARARGS,
     PyDoc_STR("plain_type(name, bases, slots, /)\n--\n\n"
               "An empty class whose instances refer to so many objects, and to their class.")},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.events",
    .m_doc = PyDoc_STR("Events to the bytes of records and back, and records to records."),
    .m_size = sizeof(struct module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_events(void)
{
    return PyModuleDef_Init(&module_definition);
}
