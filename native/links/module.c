/* echo_core._c.links: events from process to process.
 *
 *   Wire, SocketWire, RingWire   bytes from process to process (wires.c, core/socket.c; ring_wires.c,
 *                                core/ring.c, core/signals.c)
 *   Link               frames over a wire, both ways: the outbox (core/outbox.c draws it; core/staging.c,
 *                      core/outgoing.c, core/backlog.c, core/writer.c), reading (reading.c, chunks.c),
 *                      and who reads (leading.c); link.c, link_type.c
 *   Outlet             where a source's events leave (streams/outlets.c, streams/outlet_type.c)
 *   OutgoingStream              its way over a link, with a backlog and a policy (streams/outgoing.c, streams/outgoing_type.c)
 *   IncomingStream, Delivery    where a stream arrives, and its ways to sinks (streams/incoming.c, streams/deliveries.c,
 *                      streams/delivery_type.c, raw_codec.c, streams/spans.c)
 *   Queue              events that wait for a thread (streams/queues.c, streams/queue_type.c)
 *   Pool, Block        memory that is lent to other processes (pools.c, blocks.c)
 *   Mapping, Loan      theirs, as it is read here (mappings.c)
 *   scan               frames in bytes (core/frames.c)
 *
 * Python's stable ABI of 3.11 only. links.h says what the parts know of each other, and which locks there
 * are.
 */
#include "links/links.h"

#include "core/clock.h"
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>

unsigned echo_forks;

static void count_fork(void)
{
    echo_forks++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

/* --- errors --- */

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

PyObject *echo_take_exception(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

void echo_give_exception(PyObject *exception)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
}

int echo_keep_interrupt(PyObject **kept)
{
    if (*kept != NULL || PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    *kept = echo_take_exception();
    return 0;
}

int echo_raise_interrupt(PyObject *kept)
{
    PyObject *exception;

    if (PyErr_Occurred() == NULL) {
        echo_give_exception(kept);
        return -1;
    }
    exception = echo_take_exception();
    if (exception == kept) /* raised twice: it is no context of its own */
        Py_DECREF(kept);
    else
        PyException_SetContext(exception, kept);
    echo_give_exception(exception);
    return -1;
}

/* --- scan --- */

/* Frames one after the other, as echo_frame_next finds them. -1 with WireError, or another exception. */
static Py_ssize_t scan_into(PyObject *frames, const Py_buffer *view, uint32_t limit)
{
    const uint8_t *bytes = view->buf;
    Py_ssize_t at = 0;
    struct frame frame;
    PyObject *found;
    int64_t size;
    size_t need;
    int status;

    while ((size = echo_frame_next(bytes + at, (size_t)(view->len - at), limit, &frame, &need)) > 0) {
        found = Py_BuildValue("(IN)", (unsigned int)frame.stream,
                              PyBytes_FromStringAndSize((const char *)frame.payload, (Py_ssize_t)frame.size));
        status = found != NULL ? PyList_Append(frames, found) : -1;
        Py_XDECREF(found);
        if (status != 0)
            return -1;
        at += (Py_ssize_t)size;
    }
    if (size == 0)
        return at;
    echo_raise("WireError", "Expected a payload of at most %lu bytes, and a stream, got %lu and %lu",
               (unsigned long)limit, (unsigned long)frame.size, (unsigned long)frame.stream);
    return -1;
}

static PyObject *scan(PyObject *module, PyObject *args)
{
    PyObject *frames = NULL, *result = NULL;
    Py_ssize_t consumed = -1;
    unsigned int limit;
    Py_buffer view;

    (void)module;
    if (!PyArg_ParseTuple(args, "y*I:scan", &view, &limit))
        return NULL;
    frames = PyList_New(0);
    if (frames != NULL)
        consumed = scan_into(frames, &view, limit);
    if (consumed >= 0)
        result = Py_BuildValue("(On)", frames, consumed);
    Py_XDECREF(frames);
    PyBuffer_Release(&view);
    return result;
}

static PyObject *is_dispatching(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(echo_is_dispatching());
}

/* --- the types --- */

/* A type, and where the module's state keeps it. */
struct type_entry {
    PyType_Spec *spec;
    size_t place;
};

#define ENTRY(name)                                                                                          \
    {                                                                                                        \
        &echo_link_##name##_spec, offsetof(struct module_state, name##_type)                                 \
    }

static const struct type_entry entries[] = {ENTRY(chunk),    ENTRY(link),  ENTRY(outgoing),   ENTRY(incoming),
                                            ENTRY(delivery), ENTRY(span),  ENTRY(queue),   ENTRY(outlet),
                                            ENTRY(pool),     ENTRY(block), ENTRY(mapping), ENTRY(loan)};

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
    static pthread_once_t forks = PTHREAD_ONCE_INIT, clock = PTHREAD_ONCE_INIT;
    struct module_state *state = PyModule_GetState(module);

    pthread_once(&forks, watch_forks);
    pthread_once(&clock, echo_clock_start);
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
    {"scan", scan, METH_VARARGS,
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
