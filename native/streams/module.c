/* echo_core._c.links: events from process to process.
 *
 *   sender                                                              receiver
 *   Outlet -(encode once)-> OutgoingStream -> Link -> Wire ~~~ Wire -> Link -> IncomingStream -> Delivery -> handler
 *      \-> Delivery (in process)                outbox                  frames                      \-> Queue -> thread
 *
 * The way of one event, a small record over an idle socket. Each file hands on to the next one, and is not called back
 * by it; what stands on the right returns first. Not named is what returns at once: functions of the same file, locks,
 * room to read into (links/chunks.c), and the end of gathering (core/outbox/staging.c).
 *
 *   to send, 12 functions
 *     streams/outlets.c      echo_outlet_submit, submit_record, encode   events/records/encoder.c: encoder_encode_raw,
 *                                                                        encode_into
 *     streams/submissions.c  echo_submission_send
 *     streams/outgoing.c     echo_outgoing_stream_put
 *     core/outbox/staging.c  echo_outbox_stage                           core/frames.h: frame_store
 *     core/outbox/outbox.c   echo_outbox_pump, echo_outbox_write
 *     core/wires/socket.c    socket_write
 *
 *   to receive, 20 functions
 *     links/leading.c        echo_link_run, read_on
 *     links/reading.c        echo_link_read, read_more,                  core/wires/socket.c: socket_read
 *                            hand_out, hand_out_run, hand                core/frames.h: frame_first
 *     streams/incoming.c     echo_incoming_hand
 *     streams/detours.c      echo_handing_go_on, hand_to
 *     streams/deliveries.c   echo_delivery_hand, hand_one,               events/records/decoder.c: decoder_decode_raw,
 *                            deliver, call_handler                       decode_record, decode_one, fill
 *     then the handler, or a put of streams/queues.c
 *
 * Three rooms, each of which includes only those below it:
 *
 *   streams/  a source's way to its sinks: where events leave (outlets.c, outlet_records.c, submissions.c), each way
 *             out (outgoing.c) and in (incoming.c, crediting.c), the sinks' deliveries (deliveries.c), those that are
 *             slow (detours.c), queues (queues.c), and what is derived (branches.c, fans.c). Types are in *_type.c
 *   links/    what two processes share: wires as objects (wires.c), the link (link.c; reading.c, controls.c, chunks.c,
 *             leading.c), the threads that wait for it (resting.c, standby.c, watched.c), memory that is lent (pools.c,
 *             blocks.c) and borrowed (mappings.c)
 *   core/     no Python: sockets and rings, frames, the outbox with its backlogs and its thread, memory, time
 *
 * Three locks: the GIL guards every Python object's state; an outbox has a lock, which is held while frames are copied,
 * mostly a few kilobytes and at most what a source keeps; the list of links in links/watched.c has a mutex. Neither is
 * held while Python code runs, a system call waits, or the GIL is taken. In comments, "GIL": the caller holds it. "No
 * GIL": the caller has released it, or never had it.
 *
 * Python's stable ABI of 3.11 only. Forks: core/forks.h has the rules.
 */
#include "streams/deliveries.h"
#include "streams/fans.h"
#include "streams/outgoing.h"
#include "streams/outlets.h"
#include "streams/queues.h"

#include "links/standby.h"
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

/* A type, where the module's state keeps it, and where it keeps its base; -1: that is Python's object. */
static const struct {
    PyType_Spec *spec;
    Py_ssize_t place, base;
} types[] = {
#define PLACE(name) offsetof(struct module_state, name##_type)
#define TYPE(name) {&echo_link_##name##_spec, PLACE(name), -1}
#define TYPE_OF(base, name) {&echo_link_##name##_spec, PLACE(name), PLACE(base)}
    TYPE(wire),
    TYPE_OF(wire, socket_wire),
    TYPE_OF(wire, ring_wire),
    TYPE(chunk),
    TYPE(link),
    TYPE(outgoing),
    TYPE(incoming),
    TYPE(delivery),
    TYPE(span),
    TYPE(queue),
    TYPE(outlet),
    TYPE(pool),
    TYPE(block),
    TYPE(mapping),
    TYPE(loan),
    TYPE(sharers),
    TYPE(follower),
    TYPE_OF(follower, branch),
    TYPE_OF(follower, fan),
#undef TYPE_OF
#undef TYPE
#undef PLACE
};

static int add_types(PyObject *module, struct module_state *state)
{
    PyObject **place;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        place = slot_at((void *)state, types[i].place);
        *place = PyType_FromModuleAndSpec(module, types[i].spec,
                                          types[i].base >= 0 ? *slot_at((void *)state, types[i].base) : NULL);
        if (*place == NULL || PyModule_AddType(module, (PyTypeObject *)*place) != 0)
            return -1;
    }
    return 0;
}

/* --- the module --- */

static int add_policies(PyObject *module)
{
    return PyModule_AddIntConstant(module, "PACE", POLICY_PACE) != 0 ||
                   PyModule_AddIntConstant(module, "BLOCK", POLICY_BLOCK) != 0 ||
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
    return state->dtype_word != NULL && add_policies(module) == 0 ? add_types(module, state) : -1;
}

static PyMethodDef module_methods[] = {
    {"is_dispatching", is_dispatching, METH_NOARGS,
     PyDoc_STR("is_dispatching($module, /)\n--\n\n"
               "Whether this thread is handing over what it has read from a link.")},
    {"stand_by", echo_stand_by, METH_NOARGS,
     PyDoc_STR(
         "stand_by($module, /)\n--\n\n"
         "Waits for a link on which something comes while it rests, or whose reader is held up by a handler: what "
         "reads it. None: another thread stands by, or there is no link.")},
    {"wants_standby", echo_wants_standby, METH_NOARGS,
     PyDoc_STR("wants_standby($module, /)\n--\n\nWhether there are links, and too few threads stand by.")},
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
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_links(void)
{
    return PyModuleDef_Init(&module_definition);
}
