/* The type Inlet: the receiving end of one stream, which counts what comes and hands it to each sink. */
#include "links/links.h"

#include <structmember.h>

/* How many records there are in all; -1 with WireError. */
static Py_ssize_t count_records(const struct inlet *inlet, const struct record *records, Py_ssize_t count)
{
    Py_ssize_t i, total = 0, size = inlet->record_size;

    if (size == 0)
        return count;
    for (i = 0; i < count; i++) {
        if (records[i].size == size) {
            total++;
        } else if (records[i].size > 0 && records[i].size % size == 0) {
            total += records[i].size / size;
        } else {
            echo_raise("WireError", "Expected records of %zd bytes each, got %zd bytes", size, records[i].size);
            return -1;
        }
    }
    return total;
}

static uint64_t sum_bytes(const struct record *records, Py_ssize_t count)
{
    uint64_t total = 0;
    Py_ssize_t i;

    for (i = 0; i < count; i++)
        total += (uint64_t)records[i].size;
    return total;
}

static int hand_to_all(PyObject *deliveries, const struct record *records, Py_ssize_t count, PyObject *owner,
                       int is_led)
{
    Py_ssize_t i, delivery_count = PyTuple_Size(deliveries);
    unsigned forks = echo_forks;
    PyObject *interrupt = NULL;
    int status = 0;

    for (i = 0; status == 0 && i < delivery_count && forks == echo_forks; i++) {
        if (echo_delivery_hand(PyTuple_GetItem(deliveries, i), records, count, owner, is_led) != 0)
            status = echo_keep_interrupt(&interrupt);
    }
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

int echo_inlet_hand(struct inlet *inlet, const struct record *records, Py_ssize_t count, PyObject *owner, int is_led)
{
    Py_ssize_t events = count_records(inlet, records, count);
    PyObject *deliveries = inlet->deliveries;
    int status;

    if (events < 0)
        return -1;
    inlet->sequence += (uint64_t)events;
    inlet->events += (uint64_t)events;
    inlet->bytes += sum_bytes(records, count);
    if (deliveries == NULL) /* after tp_clear */
        return 0;
    Py_INCREF(deliveries); /* they may be replaced meanwhile */
    status = hand_to_all(deliveries, records, count, owner, is_led);
    Py_DECREF(deliveries);
    return status;
}

void echo_inlet_close(const struct inlet *inlet)
{
    Py_ssize_t i, count = inlet->deliveries != NULL ? PyTuple_Size(inlet->deliveries) : 0;

    for (i = 0; i < count; i++)
        echo_delivery_close(PyTuple_GetItem(inlet->deliveries, i));
}

void echo_inlet_narrow(const struct inlet *inlet, Py_ssize_t size, struct space *space)
{
    Py_ssize_t i, count = inlet->deliveries != NULL ? PyTuple_Size(inlet->deliveries) : 0;

    for (i = 0; i < count; i++)
        echo_delivery_narrow(PyTuple_GetItem(inlet->deliveries, i), size, space);
}

/* --- the type --- */

int echo_replace_tuple(PyObject **place, PyObject *tuple, PyTypeObject *type)
{
    PyObject *old = *place;
    Py_ssize_t i;

    if (tuple == NULL || !PyTuple_CheckExact(tuple)) {
        PyErr_Format(PyExc_TypeError, "Expected a tuple, got %R", tuple != NULL ? tuple : Py_None);
        return -1;
    }
    for (i = 0; i < PyTuple_Size(tuple); i++) {
        if (!Py_IS_TYPE(PyTuple_GetItem(tuple, i), type)) {
            PyErr_Format(PyExc_TypeError, "Expected a tuple of %R, got %R", type, tuple);
            return -1;
        }
    }
    *place = Py_NewRef(tuple);
    Py_XDECREF(old);
    return 0;
}

static PyObject *inlet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record_size", "sequence", NULL};
    struct inlet *inlet = (struct inlet *)PyType_GenericAlloc(type, 0); /* zeroed */
    unsigned long long sequence = 0;

    if (inlet == NULL)
        return NULL;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "|$nK:Inlet", names, &inlet->record_size, &sequence)) {
        inlet->sequence = sequence;
        inlet->deliveries = PyTuple_New(0);
        if (inlet->record_size < 0)
            PyErr_Format(PyExc_ValueError, "Expected the size of a record, got %zd", inlet->record_size);
    }
    if (PyErr_Occurred() != NULL)
        Py_CLEAR(inlet);
    return (PyObject *)inlet;
}

static int inlet_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct inlet *)self)->deliveries);
    return 0;
}

static int inlet_clear(PyObject *self)
{
    Py_CLEAR(((struct inlet *)self)->deliveries);
    return 0;
}

static void inlet_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    inlet_clear(self);
    free_instance(self);
}

static PyObject *inlet_get_deliveries(PyObject *self, void *unused)
{
    const struct inlet *inlet = (struct inlet *)self;

    (void)unused;
    return inlet->deliveries != NULL ? Py_NewRef(inlet->deliveries) : PyTuple_New(0);
}

static int inlet_set_deliveries(PyObject *self, PyObject *deliveries, void *unused)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));

    (void)unused;
    return echo_replace_tuple(&((struct inlet *)self)->deliveries, deliveries, state->delivery_type);
}

static PyMemberDef inlet_members[] = {
    {"sequence", T_ULONGLONG, offsetof(struct inlet, sequence), 0, PyDoc_STR("Events and gaps so far.")},
    {"events", T_ULONGLONG, offsetof(struct inlet, events), READONLY, PyDoc_STR("Events received.")},
    {"bytes", T_ULONGLONG, offsetof(struct inlet, bytes), READONLY, PyDoc_STR("Bytes of these.")},
    {"lost", T_ULONGLONG, offsetof(struct inlet, lost), READONLY, PyDoc_STR("Events in gaps.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef inlet_properties[] = {
    {"deliveries", inlet_get_deliveries, inlet_set_deliveries, PyDoc_STR("The sinks; replaced as a whole."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot inlet_slots[] = {
    {Py_tp_doc, PyDoc_STR("Inlet(*, record_size=0, sequence=0)\n--\n\nThe receiving end of one stream.")},
    {Py_tp_new, inlet_new},
    {Py_tp_dealloc, inlet_dealloc},
    {Py_tp_traverse, inlet_traverse},
    {Py_tp_clear, inlet_clear},
    {Py_tp_members, inlet_members},
    {Py_tp_getset, inlet_properties},
    {0, NULL}};

PyType_Spec echo_link_inlet_spec = {
    .name = "echo_core._c.links.Inlet",
    .basicsize = sizeof(struct inlet),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = inlet_slots,
};
