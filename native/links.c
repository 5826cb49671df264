/* echo_core._links: events from process to process.
 *
 *   Wire       bytes in order (link_wires.c); RingWire: over shared memory (link_ring.c)
 *   Pool       blocks of memory that other processes read in place (link_pools.c)
 *   Mapping    a peer's Pool, as this process reads it (link_mappings.c)
 *
 * Python's stable ABI of 3.11 only.
 */
#include "links.h"

#include <pthread.h>
#include <stdarg.h>

unsigned echo_forks;

static void count_fork(void)
{
    echo_forks++;
}

void echo_raise(const char *error, const char *format, ...)
{
    PyObject *errors = PyImport_ImportModule("echo_core.errors");
    PyObject *type = errors != NULL ? PyObject_GetAttrString(errors, error) : NULL;
    va_list values;

    va_start(values, format);
    if (type != NULL)
        PyErr_FormatV(type, format, values);
    va_end(values);
    Py_XDECREF(type);
    Py_XDECREF(errors);
}

static int add_subtype(PyObject *module, PyType_Spec *spec, PyTypeObject *base, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, (PyObject *)base);
    return *out != NULL ? PyModule_AddType(module, *out) : -1;
}

static int module_exec(PyObject *module)
{
    static int counts_forks; /* the GIL guards it; a handler cannot be taken back */
    struct module_state *state = PyModule_GetState(module);

    if (!counts_forks && pthread_atfork(NULL, NULL, count_fork) != 0)
        return -1;
    counts_forks = 1;
    if (add_type(module, &echo_link_wire_spec, &state->wire_type) != 0 ||
        add_subtype(module, &echo_link_ring_wire_spec, state->wire_type, &state->ring_wire_type) != 0 ||
        add_type(module, &echo_link_pool_spec, &state->pool_type) != 0 ||
        add_type(module, &echo_link_block_spec, &state->block_type) != 0 ||
        add_type(module, &echo_link_mapping_spec, &state->mapping_type) != 0 ||
        add_type(module, &echo_link_loan_spec, &state->loan_type) != 0)
        return -1;
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);

    Py_VISIT(state->wire_type);
    Py_VISIT(state->ring_wire_type);
    Py_VISIT(state->pool_type);
    Py_VISIT(state->block_type);
    Py_VISIT(state->mapping_type);
    Py_VISIT(state->loan_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    Py_CLEAR(state->wire_type);
    Py_CLEAR(state->ring_wire_type);
    Py_CLEAR(state->pool_type);
    Py_CLEAR(state->block_type);
    Py_CLEAR(state->mapping_type);
    Py_CLEAR(state->loan_type);
    return 0;
}

static void module_free(void *module)
{
    module_clear((PyObject *)module);
}

static PyMethodDef module_functions[] = {
    {"ring_memory", echo_ring_memory, METH_O,
     PyDoc_STR("ring_memory(ring_bytes, /)\n--\n\nA descriptor of new memory for a RingWire.")},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._links",
    .m_doc = PyDoc_STR("Events from process to process."),
    .m_size = sizeof(struct module_state),
    .m_methods = module_functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__links(void)
{
    return PyModuleDef_Init(&module_definition);
}
