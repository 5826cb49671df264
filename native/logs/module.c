/* echo_core._c.logs: what of event logs has to be fast.
 *
 *   Staging   what a log holds in memory until it is written (staging.c)
 *   Stage     the way of one stream's events there (stages.c); a taker of records for other modules (taking.h)
 *   Batch     closed chunks, composed as blocks for one place in a file (batches.c, composing.c)
 *   Watch     waits until the files of a folder change (watches.c)
 *   Lookback  the last seconds of what came, until somebody wants it (lookback.c)
 *   scan      which blocks are in bytes that may be anything (scanning.c)
 *   exchange  two folders change places (exchanging.c)
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state; it is released while bytes are summed or written.
 */
#include "logs/module.h"
#include "core/forks.h"
#include "logs/crc32c.h"
#include "logs/layout.h"
#include "logs/scanning.h"

static PyType_Spec *const specs[TYPE_COUNT] = {
    [STAGING] = &echo_staging_spec, [STAGE] = &echo_stage_spec,       [BATCH] = &echo_batch_spec,
    [WATCH] = &echo_watch_spec,     [LOOKBACK] = &echo_lookback_spec, [LOOKBACK_STREAM] = &echo_lookback_stream_spec,
};

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    int i, status;

    echo_crc32c_prepare();
    echo_forks_watch();
    status = PyModule_AddFunctions(module, echo_scanning_functions);
    if (status == 0)
        status = PyModule_AddFunctions(module, echo_composing_functions);
    if (status == 0)
        status = PyModule_AddFunctions(module, echo_columns_functions);
    if (status == 0)
        status = PyModule_AddFunctions(module, echo_exchanging_functions);
    for (i = 0; status == 0 && i < TYPE_COUNT; i++)
        status = add_type(module, specs[i], &state->types[i]);
    if (status == 0)
        status = PyModule_AddIntMacro(module, BLOCK_BYTES);
    if (status == 0)
        status = PyModule_AddIntMacro(module, MAX_BLOCK_BYTES);
    if (status == 0)
        status = PyModule_AddIntMacro(module, MAX_EVENT_BYTES);
    return status == 0 ? PyModule_AddIntMacro(module, MAX_RANGED) : status;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.logs",
    .m_doc = PyDoc_STR("What of event logs has to be fast."),
    .m_size = sizeof(struct module_state),
    .m_slots = module_slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_logs(void)
{
    return PyModuleDef_Init(&module_definition);
}
