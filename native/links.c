/* echo_core._links: what carries events from a source to its sinks. links.h shows how its parts meet.
 *
 * Python's stable ABI of 3.11 only.
 */
#include "links.h"

#include <stdarg.h>
#include <stddef.h>

void echo_raise(const char *error, const char *format, ...)
{
    PyObject *errors = PyImport_ImportModule("echo_core.errors");
    PyObject *type = errors != NULL ? PyObject_GetAttrString(errors, error) : NULL;
    va_list arguments;

    va_start(arguments, format);
    if (type != NULL)
        PyErr_FormatV(type, format, arguments);
    va_end(arguments);
    Py_XDECREF(type);
    Py_XDECREF(errors);
}

/* --- the types --- */

/* A type, and where the module's state keeps it. */
struct entry {
    PyType_Spec *spec;
    size_t place;
};

#define ENTRY(name) {&echo_link_##name##_spec, offsetof(struct module_state, name##_type)}

static const struct entry entries[] = {ENTRY(inlet), ENTRY(delivery), ENTRY(span), ENTRY(queue), ENTRY(outlet)};

#undef ENTRY

#define ENTRY_COUNT (sizeof entries / sizeof *entries)

static PyTypeObject **place_of(const struct entry *entry, struct module_state *state)
{
    return (PyTypeObject **)(void *)((uint8_t *)state + entry->place);
}

/* --- the module --- */

static int add_policies(PyObject *module)
{
    return PyModule_AddIntConstant(module, "BLOCK", POLICY_BLOCK) != 0 ||
                   PyModule_AddIntConstant(module, "DROP_OLDEST", POLICY_DROP_OLDEST) != 0 ||
                   PyModule_AddIntConstant(module, "DROP_NEWEST", POLICY_DROP_NEWEST) != 0 ||
                   PyModule_AddIntConstant(module, "ERROR", POLICY_ERROR) != 0
               ? -1
               : 0;
}

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    size_t i;

    for (i = 0; i < ENTRY_COUNT; i++) {
        if (add_type(module, entries[i].spec, place_of(&entries[i], state)) != 0)
            return -1;
    }
    return add_policies(module);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);
    size_t i;

    for (i = 0; i < ENTRY_COUNT; i++)
        Py_VISIT(*place_of(&entries[i], state));
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    size_t i;

    for (i = 0; i < ENTRY_COUNT; i++)
        Py_CLEAR(*place_of(&entries[i], state));
    return 0;
}

static void module_free(void *module)
{
    module_clear((PyObject *)module);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._links",
    .m_doc = PyDoc_STR("What carries events from a source to its sinks."),
    .m_size = sizeof(struct module_state),
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__links(void)
{
    return PyModuleDef_Init(&module_definition);
}
