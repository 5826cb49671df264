/* The type Queue as Python sees it; queues.c has its rules. */
#include "streams/queues.h"

#include "streams/answers.h"
#include "streams/calls.h"

#include "links/errors.h"
#include "links/state.h"

#include <structmember.h>
#include <unistd.h>

/* --- the calls --- */

/* put(event, size=0, events=1) */
static PyObject *queue_put(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"event", "size", "events", NULL};
    PyObject *event;
    Py_ssize_t size = 0, events = 1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|nn:put", names, &event, &size, &events))
        return NULL;
    if (size < 0)
        return PyErr_Format(PyExc_ValueError, "Expected a size of at least 0, got %zd", size);
    if (events < 1)
        return PyErr_Format(PyExc_ValueError, "Expected at least 1 event, got %zd", events);
    return echo_queue_put(self, &(struct item){.event = Py_NewRef(event), .size = size, .events = events}) == 0
               ? Py_NewRef(Py_None)
               : NULL;
}

/* The event alone. Takes over what the item owns. */
static PyObject *event_of(const struct item *item)
{
    item_done(item);
    return item->event;
}

/* Where the event is from; None: nobody knows. */
static PyObject *info_of(const struct item *item)
{
    PyObject *describe = item->from != NULL ? ((struct delivery *)item->from)->describe : item->describe;

    return describe != NULL ? call_to_describe(describe, item->number, item->submitted_ns) : Py_NewRef(Py_None);
}

/* Takes both over; without the one there is no other. */
static PyObject *pair_with(PyObject *event, PyObject *info)
{
    PyObject *pair = info != NULL ? PyTuple_Pack(2, event, info) : NULL;

    Py_DECREF(event);
    Py_XDECREF(info);
    return pair;
}

/* Both. Takes over what the item owns. */
static PyObject *pair_of(const struct item *item)
{
    PyObject *info = info_of(item);

    return pair_with(event_of(item), info);
}

static PyObject *result_of(enum got got, const struct item *item, int with_info)
{
    if (got == GOT)
        return with_info ? pair_of(item) : event_of(item);
    if (got == GOT_NOTHING)
        Py_RETURN_NONE;
    if (got == GOT_END)
        echo_raise("ClosedError", "Expected an open queue, got one that is closed and empty");
    return NULL;
}

/* (timeout_ns=-1) */
static PyObject *get(PyObject *self, PyObject *const *args, Py_ssize_t nargs, int with_info)
{
    struct item item;
    int64_t timeout_ns = -1;
    enum got got;

    if (nargs > 1)
        return PyErr_Format(PyExc_TypeError, "Expected at most 1 argument (timeout_ns), got %zd", nargs);
    if (nargs == 1) {
        timeout_ns = PyLong_AsLongLong(args[0]);
        if (timeout_ns == -1 && PyErr_Occurred() != NULL)
            return NULL;
    }
    got = echo_queue_get((struct queue *)self, timeout_ns, &item);
    return result_of(got, &item, with_info);
}

static PyObject *queue_get(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    return get(self, args, nargs, 0);
}

static PyObject *queue_get_with_info(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    return get(self, args, nargs, 1);
}

static PyObject *get_nowait(PyObject *self, int with_info)
{
    struct item item;
    enum got got = echo_queue_take((struct queue *)self, &item);

    return result_of(got, &item, with_info);
}

static PyObject *queue_get_nowait(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return get_nowait(self, 0);
}

static PyObject *queue_get_nowait_with_info(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return get_nowait(self, 1);
}

/* Both or the event alone, while the queue keeps the rest of the item. */
static PyObject *hold(struct queue *queue, const struct item *item)
{
    PyObject *info = queue->with_info ? info_of(item) : NULL;

    queue_hold(queue, item);
    return queue->with_info ? pair_with(item->event, info) : item->event;
}

/* A NULL without an exception ends an iteration. */
static PyObject *queue_next(PyObject *self)
{
    struct queue *queue = (struct queue *)self;
    struct item item;

    if (queue->looper == 0)
        queue->looper = PyThread_get_thread_ident();
    if (queue->until_next)
        queue_hold(queue, &(struct item){0});
    if (echo_queue_get(queue, -1, &item) != GOT)
        return NULL;
    if (queue->until_next)
        return hold(queue, &item);
    return queue->with_info ? pair_of(&item) : event_of(&item);
}

/* lead(link or None) */
static PyObject *queue_lead(PyObject *self, PyObject *link)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct queue *queue = (struct queue *)self;
    PyObject *old = queue->link;

    if (link != Py_None && !Py_IS_TYPE(link, state->link_type))
        return PyErr_Format(PyExc_TypeError, "Expected a Link or None, got %R", link);
    queue->link = link != Py_None && !queue->is_closed ? Py_NewRef(link) : NULL;
    echo_queue_wake(self); /* whoever sleeps may read now */
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *queue_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    echo_queue_close((struct queue *)self);
    Py_RETURN_NONE;
}

static PyObject *queue_drop_all(PyObject *self, PyObject *Py_UNUSED(unused))
{
    echo_queue_empty((struct queue *)self);
    Py_RETURN_NONE;
}

static PyObject *queue_fileno(PyObject *self, PyObject *Py_UNUSED(unused))
{
    int fd = echo_queue_fd((struct queue *)self);

    return fd >= 0 ? PyLong_FromLong(fd) : NULL;
}

/* --- the type --- */

static int limits_hold(const struct queue *queue, int policy)
{
    if (queue->max_events < 1 || queue->max_bytes < 1) {
        PyErr_SetString(PyExc_ValueError, "Expected room for at least 1 event and 1 byte");
        return 0;
    }
    if (policy < POLICY_PACE || policy > POLICY_ERROR) {
        PyErr_Format(PyExc_ValueError, "Expected PACE, BLOCK, DROP_OLDEST, DROP_NEWEST or ERROR, got %d", policy);
        return 0;
    }
    return 1;
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"max_events", "max_bytes", "policy", "timeout_ns", "with_info", "until_next", NULL};
    struct queue *queue = (struct queue *)PyType_GenericAlloc(type, 0); /* zeroed */
    long long timeout_ns = 0;
    int policy = -1;

    if (queue == NULL)
        return NULL;
    queue->fd = -1;
    queue->vain_at = UINT64_MAX;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$nniLpp:Queue", names, &queue->max_events, &queue->max_bytes,
                                     &policy, &timeout_ns, &queue->with_info, &queue->until_next) ||
        !limits_hold(queue, policy)) {
        Py_DECREF(queue);
        return NULL;
    }
    queue->policy = (enum policy)policy;
    queue->timeout_ns = timeout_ns;
    return (PyObject *)queue;
}

static int queue_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct queue *queue = (struct queue *)self;
    size_t i;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(queue->link);
    Py_VISIT(queue->held.from);
    Py_VISIT(queue->held.describe);
    for (i = 0; i < queue->count; i++) {
        const struct item *item = &queue->items[(queue->head + i) & (queue->capacity - 1)];

        Py_VISIT(item->event);
        Py_VISIT(item->from);
        Py_VISIT(item->describe);
    }
    return 0;
}

static int queue_clear(PyObject *self)
{
    struct queue *queue = (struct queue *)self;

    Py_CLEAR(queue->link);
    queue_hold(queue, &(struct item){0});
    echo_queue_empty(queue);
    return 0;
}

static void queue_dealloc(PyObject *self)
{
    struct queue *queue = (struct queue *)self;

    PyObject_GC_UnTrack(self);
    queue_clear(self);
    PyMem_Free(queue->items);
    if (queue->fd >= 0)
        close(queue->fd);
    free_instance(self);
}

/* fail_held() */
static PyObject *queue_fail_held(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct item *held = &((struct queue *)self)->held;

    if (held->from != NULL)
        echo_delivery_miss((struct delivery *)held->from, held->number, (uint64_t)held->events, MISSED_FAILED);
    Py_RETURN_NONE;
}

static PyMethodDef queue_methods[] = {
    {"fail_held", queue_fail_held, METH_NOARGS,
     PyDoc_STR("fail_held($self, /)\n--\n\nWho iterates has failed to handle the event that it is at.")},
    {"put", (PyCFunction)(void (*)(void))queue_put, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("put($self, /, event, size=0, events=1)\n--\n\nTreated by the policy where there is no room.")},
    {"get", (PyCFunction)(void (*)(void))queue_get, METH_FASTCALL,
     PyDoc_STR("get($self, timeout_ns=-1, /)\n--\n\nThe next event; None: time is up.")},
    {"get_nowait", queue_get_nowait, METH_NOARGS,
     PyDoc_STR("get_nowait($self, /)\n--\n\nThe next event; None: there is none now.")},
    {"get_with_info", (PyCFunction)(void (*)(void))queue_get_with_info, METH_FASTCALL,
     PyDoc_STR("get_with_info($self, timeout_ns=-1, /)\n--\n\nThe next event and where it is from.")},
    {"get_nowait_with_info", queue_get_nowait_with_info, METH_NOARGS,
     PyDoc_STR("get_nowait_with_info($self, /)\n--\n\nLikewise; None: there is none now.")},
    {"lead", queue_lead, METH_O,
     PyDoc_STR("lead($self, link, /)\n--\n\nThe one link that feeds this queue, for whoever waits to read.")},
    {"close", queue_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nNo more is taken; what is there can still be got.")},
    {"clear", queue_drop_all, METH_NOARGS, PyDoc_STR("clear($self, /)\n--\n\nDrops what is there, uncounted.")},
    {"fileno", queue_fileno, METH_NOARGS,
     PyDoc_STR("fileno($self, /)\n--\n\nA descriptor that is readable when there is something to get.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef queue_members[] = {
    {"depth_events", T_PYSSIZET, offsetof(struct queue, events), READONLY, PyDoc_STR("How many wait.")},
    {"depth_bytes", T_PYSSIZET, offsetof(struct queue, bytes), READONLY, PyDoc_STR("Sizes of what waits.")},
    {"dropped", T_ULONGLONG, offsetof(struct queue, dropped), READONLY, PyDoc_STR("Events without room.")},
    {"is_closed", T_BOOL, offsetof(struct queue, is_closed), READONLY, PyDoc_STR("Whether it takes no more.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot queue_slots[] = {
    {Py_tp_doc,
     PyDoc_STR("Queue(*, max_events, max_bytes, policy, timeout_ns, with_info=False, until_next=False)\n--\n\n"
               "Events that wait for a thread, bounded.")},
    {Py_tp_new, queue_new},
    {Py_tp_dealloc, queue_dealloc},
    {Py_tp_traverse, queue_traverse},
    {Py_tp_clear, queue_clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, queue_next},
    {Py_tp_methods, queue_methods},
    {Py_tp_members, queue_members},
    {0, NULL}};

PyType_Spec echo_link_queue_spec = {
    .name = "echo_core._c.links.Queue",
    .basicsize = sizeof(struct queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = queue_slots,
};
