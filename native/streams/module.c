/* echo_core._c.links: events from process to process.
 *
 *   sender                                                              receiver
 *   Outlet -(encode once)-> OutgoingStream -> Link -> Wire ~~~ Wire -> Link -> IncomingStream -> Delivery -> handler
 *      \-> Delivery (in process)                outbox                  frames                      \-> Queue -> thread
 *
 * Three rooms, each of which includes only those below it:
 *
 *   streams/  a source's way to its sinks: where events leave (outlets.c, outlet_records.c,
 *             submissions.c), each way out (outgoing.c) and in
 *             (incoming.c), the sinks' deliveries (deliveries.c) and queues (queues.c). Types are in *_type.c
 *   links/    what two processes share: wires as objects (wires.c), the link (link.c; reading.c, chunks.c, leading.c),
 *             memory that is lent (pools.c, blocks.c) and borrowed (mappings.c)
 *   core/     no Python: sockets and rings, frames, the outbox with its backlogs and its thread, memory, time
 *
 * Two locks: the GIL guards every Python object's state; an outbox has a mutex of its own, which is held for copies of
 * a few kilobytes and never while Python code runs, a system call waits, or the GIL is taken. In comments, "GIL": the
 * caller holds it. "No GIL": the caller has released it, or never had it.
 *
 * Python's stable ABI of 3.11 only. Forks: core/forks.h has the rules.
 */
#include "streams/deliveries.h"
#include "streams/outgoing.h"
#include "streams/outlets.h"
#include "streams/queues.h"

#include "links/state.h"
#include "links/wires.h"
#include "types.h"

#include "core/clock.h"
#include "core/forks.h"
#include "core/outbox/policy.h"
#include "core/outbox/staging.h"

#include <stddef.h>

static PyObject *is_dispatching(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(echo_is_dispatching());
}

/* --- the types --- */

/* A type, and where the module's state keeps it. */
struct type_entry {
    PyType_Spec *spec;
    size_t place;
};

#define ENTRY(name) {&echo_link_##name##_spec, offsetof(struct module_state, name##_type)}

static const struct type_entry entries[] = {ENTRY(chunk),    ENTRY(link),  ENTRY(outgoing), ENTRY(incoming),
                                            ENTRY(delivery), ENTRY(span),  ENTRY(queue),    ENTRY(outlet),
                                            ENTRY(pool),     ENTRY(block), ENTRY(mapping),  ENTRY(loan)};

/* These have Wire as their base. */
static const struct type_entry wire_entries[] = {ENTRY(socket_wire), ENTRY(ring_wire)};

#undef ENTRY

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static int add_types(PyObject *module, const struct type_entry *entries, size_t count, PyTypeObject *base)
{
    uint8_t *state = PyModule_GetState(module);
    PyTypeObject **place;

    for (size_t i = 0; i < count; i++) {
        place = (PyTypeObject **)(void *)(state + entries[i].place);
        *place = (PyTypeObject *)PyType_FromModuleAndSpec(module, entries[i].spec, (PyObject *)base);
        if (*place == NULL || PyModule_AddType(module, *place) != 0)
            return -1;
    }
    return 0;
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

    echo_forks_watch();
    echo_clock_start();
    state->dtype_word = PyUnicode_InternFromString("dtype");
    if (state->dtype_word == NULL)
        return -1;
    if (add_policies(module) != 0 || add_type(module, &echo_link_wire_spec, &state->wire_type) != 0 ||
        add_types(module, wire_entries, COUNT_OF(wire_entries), state->wire_type) != 0 ||
        add_types(module, entries, COUNT_OF(entries), NULL) != 0)
        return -1;
    return 0;
}

/* All members of the state are objects. */
static PyObject **objects_of(PyObject *module, size_t *count)
{
    *count = sizeof(struct module_state) / sizeof(PyObject *);
    return PyModule_GetState(module);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    size_t count;
    PyObject **objects = objects_of(module, &count);

    for (size_t i = 0; i < count; i++)
        Py_VISIT(objects[i]);
    return 0;
}

static int module_clear(PyObject *module)
{
    size_t count;
    PyObject **objects = objects_of(module, &count);

    for (size_t i = 0; i < count; i++)
        Py_CLEAR(objects[i]);
    return 0;
}

static void module_free(void *module)
{
    module_clear((PyObject *)module);
}

static PyMethodDef module_methods[] = {
    {"is_dispatching", is_dispatching, METH_NOARGS,
     PyDoc_STR("is_dispatching($module, /)\n--\n\n"
               "Whether this thread is handing over what it has read from a link.")},
    {"ring_memory", echo_ring_memory, METH_O,
     PyDoc_STR("ring_memory($module, ring_bytes, /)\n--\n\nA descriptor of new memory for a RingWire.")},
    {"scan", echo_scan, METH_VARARGS,
     PyDoc_STR("scan($module, buffer, limit, /)\n--\n\n"
               "The frames (stream, payload) that are complete, and how many bytes they take.")},
    {NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.links",
    .m_doc = PyDoc_STR("Events from process to process."),
    .m_size = sizeof(struct module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit_links(void)
{
    return PyModuleDef_Init(&module_definition);
}
