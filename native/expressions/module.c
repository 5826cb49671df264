/* echo_core._c.expressions: what expressions over events are, and whether events pass.
 *
 *   Program    steps that compute values of records of one layout (steps.h, programs.c), interpreted by interpreter.c
 *   Judge      whether records, objects and rows pass a program: compiled or interpreted, with what it remembers of
 *              earlier events, and how often any may pass (judges.c, judge_type.c; objects.c reads objects)
 *   Table      one program with many rows of parameters: which of them a record passes (tables.c)
 *   Index      the same of rows that ask for nothing but one integer each (indexes.c)
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state and is kept throughout: an event takes nanoseconds.
 */
#include "events/leaves.h" /* first: it includes Python.h. Values are read as the module of events reads them */

#include "expressions/module.h"
#include "expressions/programs.h"

static PyType_Spec *const specs[TYPE_COUNT] = {
    [PROGRAM] = &echo_program_spec,
    [JUDGE] = &echo_judge_spec,
    [TABLE] = &echo_table_spec,
    [INDEX] = &echo_index_spec,
};

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    PyObject *operations = echo_layouts_find() == 0 ? echo_new_operations() : NULL;
    int i, status = operations != NULL ? PyModule_AddObjectRef(module, "OPERATIONS", operations) : -1;

    Py_XDECREF(operations);
    for (i = 0; status == 0 && i < TYPE_COUNT; i++)
        status = add_type(module, specs[i], &state->types[i]);
    if (status == 0)
        status = PyModule_AddIntMacro(module, MAX_STEPS);
    return status == 0 ? PyModule_AddIntMacro(module, MAX_ROOTS) : status;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.expressions",
    .m_doc = PyDoc_STR("What expressions over events are, and whether events pass."),
    .m_size = sizeof(struct module_state),
    .m_slots = module_slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_expressions(void)
{
    return PyModuleDef_Init(&module_definition);
}
