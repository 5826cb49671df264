/* The type IncomingStream: the receiving end of one stream, which counts what comes and hands it to each sink. */
#include "streams/answers.h"
#include "streams/deliveries.h"
#include "streams/history.h"

#include "links/errors.h"
#include "links/link.h"

#include <structmember.h>

/* How many events a record of the stream, or several of fixed size, are. -1 with WireError. */
static inline Py_ssize_t events_in(const struct incoming_stream *incoming, const struct record *record)
{
    Py_ssize_t size = incoming->record_size;

    if (size == 0 || record->size == size)
        return 1;
    if (record->size > 0 && record->size % size == 0)
        return record->size / size;
    return echo_raise("WireError", "Expected records of %zd bytes each, got %zd bytes", size, record->size);
}

static __attribute__((cold)) int refuse_excess(const struct incoming_stream *incoming)
{
    return echo_raise("WireError",
                      "Expected at most %llu events and %llu bytes, as was granted, got more - in stream %lu",
                      (unsigned long long)incoming->limit.events, (unsigned long long)incoming->limit.bytes,
                      (unsigned long)incoming->stream);
}

/* Counts the records, if all are whole, and the last was granted: that what came before it is below the limit. -1 with
 * WireError. */
static int count_records(struct incoming_stream *incoming, const struct record *records, Py_ssize_t count,
                         struct amount *amount)
{
    struct amount last, all = {0, 0};
    Py_ssize_t i, events = 0, size = 0, time_bytes = incoming->has_times ? TIME_BYTES : 0;

    for (i = 0; i < count; i++) {
        events = events_in(incoming, &records[i]);
        if (events < 0)
            return -1;
        size = records[i].size + time_bytes;
        all = amount_plus(all, (struct amount){(uint64_t)events, (uint64_t)size});
    }
    last = (struct amount){(uint64_t)events, (uint64_t)size};
    if (!is_below(amount_minus(amount_plus(incoming->taken, all), last), incoming->limit))
        return refuse_excess(incoming);
    *amount = all;
    incoming->sequence += all.events;
    incoming->taken = amount_plus(incoming->taken, all);
    return 0;
}

/* For sinks that come later; the first one has that number. What another process may write to is copied, and read again
 * for whoever gets it now. */
static __attribute__((noinline)) int keep(const struct incoming_stream *incoming, const struct handing *handing,
                                          uint64_t number)
{
    Py_ssize_t i, size, records;

    for (i = 0; i < handing->count; i++) {
        size = incoming->record_size != 0 ? incoming->record_size : handing->records[i].size;
        records = size != 0 ? handing->records[i].size / size : 1;
        if (echo_history_add(incoming->history, &handing->records[i], size, number) != 0)
            return -1;
        number += (uint64_t)records;
    }
    return 0;
}

int echo_incoming_hand(struct incoming_stream *incoming, struct detours *detours, struct handing *handing)
{
    uint64_t number = incoming->sequence;
    int status;

    if (count_records(incoming, handing->records, handing->count, &handing->amount) != 0)
        return -1;
    if (incoming->history != NULL && keep(incoming, handing, number) != 0)
        return -1;
    if (incoming->deliveries == NULL) /* after tp_clear */
        return 0;
    handing->number = number;
    handing->incoming = (struct incoming_stream *)(void *)Py_NewRef((PyObject *)incoming); /* it may be unbound */
    handing->deliveries = Py_NewRef(incoming->deliveries);                                 /* and these replaced */
    handing->delivery_count = incoming->delivery_count;
    status = echo_handing_go_on(detours, handing);
    Py_DECREF(handing->deliveries);
    Py_DECREF((PyObject *)incoming);
    return status;
}

void echo_incoming_close(const struct incoming_stream *incoming)
{
    Py_ssize_t i, count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;

    for (i = 0; i < count; i++)
        echo_delivery_close(PyTuple_GetItem(incoming->deliveries, i));
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
        if (!PyObject_TypeCheck(PyTuple_GetItem(tuple, i), type)) {
            PyErr_Format(PyExc_TypeError, "Expected a tuple of %R, got %R", type, tuple);
            return -1;
        }
    }
    *place = Py_NewRef(tuple);
    Py_XDECREF(old);
    return 0;
}

/* The items, which the caller holds, and one more, as a new tuple. May run any code: a new tuple may be what has the
 * garbage collector run. */
static PyObject *and_item(PyObject *items, PyObject *item)
{
    Py_ssize_t i, count = PyTuple_Size(items);
    PyObject *more = PyTuple_New(count + 1);

    if (more == NULL)
        return NULL;
    for (i = 0; i < count; i++)
        PyTuple_SetItem(more, i, Py_NewRef(PyTuple_GetItem(items, i))); /* steals; cannot fail */
    PyTuple_SetItem(more, count, Py_NewRef(item));
    return more;
}

PyObject *echo_tuple_and(PyObject *const *place, PyObject *item)
{
    PyObject *items, *more = NULL;
    int is_outdated;

    do {
        Py_XDECREF(more);
        items = Py_NewRef(*place);
        more = and_item(items, item);
        is_outdated = items != *place;
        Py_DECREF(items); /* the last reference only where it is outdated: nothing runs after the last look */
    } while (more != NULL && is_outdated);
    return more;
}

static PyObject *incoming_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record_size", "sequence", "window_events", "window_bytes", "keep_events",
                            "keep_bytes",  "key",      "has_times",     "is_local",     NULL};
    struct incoming_stream *incoming = (struct incoming_stream *)PyType_GenericAlloc(type, 0); /* zeroed */
    unsigned long long sequence = 0, window_events = NO_WINDOW, window_bytes = NO_WINDOW;
    struct keeping keeping = {0};

    if (incoming == NULL)
        return NULL;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "|$nKKKnnOpp:IncomingStream", names, &incoming->record_size,
                                    &sequence, &window_events, &window_bytes, &keeping.events, &keeping.bytes,
                                    &keeping.key, &incoming->has_times, &incoming->is_local)) {
        incoming->sequence = sequence;
        incoming->window.events = window_events;
        incoming->window.bytes = window_bytes;
        incoming->deliveries = PyTuple_New(0);
        if (incoming->record_size < 0)
            PyErr_Format(PyExc_ValueError, "Expected the size of a record, got %zd", incoming->record_size);
        if (window_events - 1 >= NO_WINDOW || window_bytes - 1 >= NO_WINDOW)
            PyErr_SetString(PyExc_ValueError, "Expected a window of at least 1 event and 1 byte, at most 2**62");
        if (PyErr_Occurred() == NULL)
            echo_history_new(&keeping, &incoming->history);
        incoming->is_keyed = incoming->history != NULL && keeping.key != NULL && keeping.key != Py_None;
        if (window_events == NO_WINDOW)
            echo_incoming_credit(incoming);
    }
    if (PyErr_Occurred() != NULL)
        Py_CLEAR(incoming);
    return (PyObject *)incoming;
}

static int incoming_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct incoming_stream *)self)->deliveries);
    Py_VISIT(((struct incoming_stream *)self)->on_done);
    return 0;
}

static void part_from_all(const struct incoming_stream *incoming)
{
    Py_ssize_t count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;

    for (Py_ssize_t i = 0; i < count; i++)
        echo_incoming_remove(incoming, (struct delivery *)PyTuple_GetItem(incoming->deliveries, i));
    while (incoming->derived != NULL)
        echo_incoming_remove(incoming, incoming->derived);
}

static int incoming_clear(PyObject *self)
{
    part_from_all((struct incoming_stream *)self);
    Py_CLEAR(((struct incoming_stream *)self)->deliveries);
    Py_CLEAR(((struct incoming_stream *)self)->on_done);
    return 0;
}

static void incoming_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    incoming_clear(self);
    echo_history_free(((struct incoming_stream *)self)->history);
    PyMem_Free(((struct incoming_stream *)self)->missed);
    free_instance(self);
}

static PyObject *incoming_get_deliveries(PyObject *self, void *Py_UNUSED(unused))
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;

    return incoming->deliveries != NULL ? Py_NewRef(incoming->deliveries) : PyTuple_New(0);
}

/* What is taken as it lies keeps nobody, unless there has to be room for it. */
static int has_handlers(PyObject *deliveries)
{
    Py_ssize_t i, count = PyTuple_Size(deliveries);
    const struct delivery *delivery;

    for (i = 0; i < count; i++) {
        delivery = (struct delivery *)PyTuple_GetItem(deliveries, i);
        if (!delivery->is_queue && (delivery->taker == NULL || delivery->await_room != NULL))
            return 1;
    }
    return 0;
}

static int is_among(PyObject *deliveries, const PyObject *delivery)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(deliveries); i++)
        if (PyTuple_GetItem(deliveries, i) == delivery)
            return 1;
    return 0;
}

/* Those that stay keep what is pending. */
static void adopt(struct incoming_stream *incoming, PyObject *before)
{
    struct delivery *delivery;
    Py_ssize_t i;

    for (i = 0; before != NULL && i < PyTuple_Size(before); i++)
        if (!is_among(incoming->deliveries, PyTuple_GetItem(before, i)))
            echo_incoming_remove(incoming, (struct delivery *)PyTuple_GetItem(before, i));
    for (i = 0; i < PyTuple_Size(incoming->deliveries); i++) {
        delivery = (struct delivery *)PyTuple_GetItem(incoming->deliveries, i);
        if (delivery->incoming != incoming)
            echo_incoming_add(incoming, delivery);
    }
}

static int incoming_set_deliveries(PyObject *self, PyObject *deliveries, void *Py_UNUSED(unused))
{
    const struct module_state *state = echo_state_of(Py_TYPE(self));
    struct incoming_stream *incoming = (struct incoming_stream *)self;
    PyObject *before = Py_XNewRef(incoming->deliveries);
    int status = echo_replace_tuple(&incoming->deliveries, deliveries, state->delivery_type);

    if (status == 0) {
        adopt(incoming, before);
        incoming->delivery_count = PyTuple_Size(incoming->deliveries);
        incoming->has_handlers = has_handlers(incoming->deliveries);
        if (incoming->is_asked)
            echo_incoming_answer(incoming, incoming->link);
    }
    Py_XDECREF(before);
    return status;
}

/* Between the comparison and the first event that goes to the delivery none can come. */
static PyObject *incoming_add_delivery(PyObject *self, PyObject *args)
{
    struct incoming_stream *incoming = (struct incoming_stream *)self;
    PyObject *delivery, *deliveries, *sequence;
    uint64_t number;
    int status;

    if (!PyArg_ParseTuple(args, "O!O:add_delivery", echo_state_of(Py_TYPE(self))->delivery_type, &delivery, &sequence))
        return NULL;
    number = sequence != Py_None ? PyLong_AsUnsignedLongLong(sequence) : 0;
    deliveries = PyErr_Occurred() == NULL ? echo_tuple_and(&incoming->deliveries, delivery) : NULL;
    if (deliveries == NULL)
        return NULL;
    if (sequence != Py_None && number != incoming->sequence) {
        Py_DECREF(deliveries);
        Py_RETURN_NONE;
    }
    number = incoming->sequence;
    status = incoming_set_deliveries(self, deliveries, NULL);
    Py_DECREF(deliveries);
    return status == 0 ? PyLong_FromUnsignedLongLong(number) : NULL;
}

/* add_derived(delivery) */
static PyObject *incoming_add_derived(PyObject *self, PyObject *args)
{
    PyObject *delivery;

    if (!PyArg_ParseTuple(args, "O!:add_derived", echo_state_of(Py_TYPE(self))->delivery_type, &delivery))
        return NULL;
    echo_incoming_add_derived((struct incoming_stream *)self, (struct delivery *)delivery);
    Py_RETURN_NONE;
}

/* remove_derived(delivery) */
static PyObject *incoming_remove_derived(PyObject *self, PyObject *args)
{
    PyObject *delivery;

    if (!PyArg_ParseTuple(args, "O!:remove_derived", echo_state_of(Py_TYPE(self))->delivery_type, &delivery))
        return NULL;
    echo_incoming_remove((struct incoming_stream *)self, (struct delivery *)delivery);
    Py_RETURN_NONE;
}

/* start(sequence): what was kept before is not what will be. */
static PyObject *incoming_restart(PyObject *self, PyObject *argument)
{
    struct incoming_stream *incoming = (struct incoming_stream *)self;
    unsigned long long sequence = PyLong_AsUnsignedLongLong(argument);

    if (sequence == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return NULL;
    if (sequence > MAX_NUMBER)
        return PyErr_Format(PyExc_ValueError, "Expected a number below 2**63, got %llu", sequence);
    if (incoming->history != NULL)
        echo_history_forget(incoming->history);
    incoming->sequence = sequence;
    for (Py_ssize_t i = 0; incoming->deliveries != NULL && i < PyTuple_Size(incoming->deliveries); i++)
        echo_answers_join(incoming, (struct delivery *)PyTuple_GetItem(incoming->deliveries, i));
    Py_RETURN_NONE;
}

static PyObject *incoming_forget_kept(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;

    if (incoming->history != NULL)
        echo_history_forget(incoming->history);
    Py_RETURN_NONE;
}

static PyObject *incoming_get_kept_bytes(PyObject *self, void *Py_UNUSED(ignored))
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;

    return PyLong_FromSize_t(incoming->history != NULL ? echo_history_bytes(incoming->history) : 0);
}

/* kept_since(number, is_following=False) */
static PyObject *incoming_kept_since(PyObject *self, PyObject *args)
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;
    unsigned long long number;
    int is_following = 0;

    if (!PyArg_ParseTuple(args, "K|p:kept_since", &number, &is_following))
        return NULL;
    return echo_history_since(incoming->history, number, incoming->sequence, is_following);
}

/* follow(more) */
static PyObject *incoming_follow(PyObject *self, PyObject *more)
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;

    echo_history_follow(incoming->history, more == Py_True);
    Py_RETURN_NONE;
}

/* hold(change) */
static PyObject *incoming_hold(PyObject *self, PyObject *argument)
{
    int change;

    if (echo_parse_hold(argument, &change) != 0)
        return NULL;
    echo_incoming_hold((struct incoming_stream *)self, change);
    Py_RETURN_NONE;
}

/* grant() */
static PyObject *incoming_grant(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct credit credit = echo_incoming_credit((struct incoming_stream *)self);

    return Py_BuildValue("KK", (unsigned long long)credit.limit.events, (unsigned long long)credit.limit.bytes);
}

/* confirm(link=None) */
static PyObject *incoming_confirm(PyObject *self, PyObject *args)
{
    struct incoming_stream *incoming = (struct incoming_stream *)self;
    PyObject *link = NULL;

    if (!PyArg_ParseTuple(args, "|O!:confirm", echo_state_of(Py_TYPE(self))->link_type, &link))
        return NULL;
    echo_incoming_confirm(incoming, link != NULL ? link_of(link) : incoming->link);
    return PyBool_FromLong(incoming->told_done.events == incoming->taken.events);
}

/* count_lost(events): a count that began anew would be no source's. */
static PyObject *incoming_count_lost(PyObject *self, PyObject *argument)
{
    struct incoming_stream *incoming = (struct incoming_stream *)self;
    unsigned long long events = PyLong_AsUnsignedLongLong(argument);

    if (events == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return NULL;
    incoming->lost += events <= UINT64_MAX - incoming->lost ? events : UINT64_MAX - incoming->lost;
    Py_RETURN_NONE;
}

static PyObject *incoming_miss_pending(PyObject *self, PyObject *delivery)
{
    if (!PyObject_TypeCheck(delivery, echo_state_of(Py_TYPE(self))->delivery_type))
        return PyErr_Format(PyExc_TypeError, "Expected a Delivery, got %R", delivery);
    if (((struct delivery *)delivery)->incoming == (struct incoming_stream *)self)
        echo_delivery_miss_pending((struct delivery *)delivery);
    Py_RETURN_NONE;
}

static PyMethodDef incoming_methods[] = {
    {"add_delivery", incoming_add_delivery, METH_VARARGS,
     PyDoc_STR(
         "add_delivery($self, delivery, sequence, /)\n--\n\n"
         "What comes from now on goes to this sink too, if the next event is number `sequence`, or whichever it is "
         "where that is None. Its number; None: it is another.")},
    {"add_derived", incoming_add_derived, METH_VARARGS,
     PyDoc_STR("add_derived($self, delivery, /)\n--\n\n"
               "What is derived from its events here goes to that sink, and is pending there as its own.")},
    {"remove_derived", incoming_remove_derived, METH_VARARGS,
     PyDoc_STR("remove_derived($self, delivery, /)\n--\n\nIt does no longer.")},
    {"restart", incoming_restart, METH_O,
     PyDoc_STR("restart($self, sequence, /)\n--\n\nThe next event has that number; nothing is kept.")},
    {"forget_kept", incoming_forget_kept, METH_NOARGS,
     PyDoc_STR("forget_kept($self, /)\n--\n\nKeeps nothing of what has come by now.")},
    {"kept_since", incoming_kept_since, METH_VARARGS,
     PyDoc_STR("kept_since($self, number, is_following=False, /)\n--\n\n"
               "What it keeps from that number on, as (number, record), and the number of the next event.")},
    {"follow", incoming_follow, METH_O,
     PyDoc_STR("follow($self, more, /)\n--\n\nOne sink more, or less, is handed what is kept: more than that is.")},
    {"hold", incoming_hold, METH_O,
     PyDoc_STR("hold($self, change, /)\n--\n\nOne sink more (1) or less (-1) comes up with the source, or still does "
               "(0): for a second it is granted little.")},
    {"grant", incoming_grant, METH_NOARGS,
     PyDoc_STR("grant($self, /)\n--\n\nThe limits of events and bytes that the source is told of now.")},
    {"confirm", incoming_confirm, METH_VARARGS,
     PyDoc_STR(
         "confirm($self, link=None, /)\n--\n\nTells the source what is done with by now, over the link that the stream "
         "is bound to, or that one. True: that is all that has come.")},
    {"miss_pending", incoming_miss_pending, METH_O,
     PyDoc_STR("miss_pending($self, delivery, /)\n--\n\nIts sink is closed before it is done with what is pending.")},
    {"await_done", echo_incoming_await_done, METH_O,
     PyDoc_STR(
         "await_done($self, callable, /)\n--\n\nCalls that with True, once, when sinks are done with all that has "
         "come by now, and with False before, as they go on; or None, nobody. True: they are, and nobody is called.")},
    {"take_missed", echo_incoming_take_missed, METH_NOARGS,
     PyDoc_STR("take_missed($self, /)\n--\n\nWhat sinks do not have since this was last asked: (first, last, why).")},
    {"pending_from", echo_incoming_pending_from, METH_NOARGS,
     PyDoc_STR(
         "pending_from($self, /)\n--\n\nThe number of the oldest event that sinks are not done with; None: there is "
         "none.")},
    {"stored_from", echo_incoming_stored_from, METH_NOARGS,
     PyDoc_STR("stored_from($self, /)\n--\n\nFrom that event on what sinks are done with is on a disk; None: nothing "
               "is.")},
    {"count_lost", incoming_count_lost, METH_O,
     PyDoc_STR("count_lost($self, events, /)\n--\n\nSo many events more never came.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef incoming_members[] = {
    {"sequence", T_ULONGLONG, offsetof(struct incoming_stream, sequence), 0, PyDoc_STR("Events and gaps so far.")},
    {"events", T_ULONGLONG, offsetof(struct incoming_stream, taken.events), READONLY, PyDoc_STR("Events received.")},
    {"bytes", T_ULONGLONG, offsetof(struct incoming_stream, taken.bytes), READONLY, PyDoc_STR("Bytes of these.")},
    {"lost", T_ULONGLONG, offsetof(struct incoming_stream, lost), READONLY, PyDoc_STR("Events that never came.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef incoming_properties[] = {
    {"deliveries", incoming_get_deliveries, incoming_set_deliveries, PyDoc_STR("The sinks; replaced as a whole."),
     NULL},
    {"kept_bytes", incoming_get_kept_bytes, NULL, PyDoc_STR("Of the records that it keeps."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot incoming_slots[] = {
    {Py_tp_doc, PyDoc_STR("IncomingStream(*, record_size=0, sequence=0, window_events=2**62, window_bytes=2**62, "
                          "keep_events=0, keep_bytes=0, key=None, has_times=False)\n--\n\n"
                          "The receiving end of one stream.")},
    {Py_tp_new, incoming_new},
    {Py_tp_dealloc, incoming_dealloc},
    {Py_tp_traverse, incoming_traverse},
    {Py_tp_clear, incoming_clear},
    {Py_tp_methods, incoming_methods},
    {Py_tp_members, incoming_members},
    {Py_tp_getset, incoming_properties},
    {0, NULL}};

PyType_Spec echo_link_incoming_spec = {
    .name = "echo_core._c.links.IncomingStream",
    .basicsize = sizeof(struct incoming_stream),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = incoming_slots,
};
