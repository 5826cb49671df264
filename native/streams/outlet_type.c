/* The type Outlet as Python sees it; outlets.c has its ways. */
#include "streams/outlets.h"

#include "streams/branches.h"
#include "streams/deliveries.h"
#include "streams/outgoing.h"

#include "core/outbox/outbox.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <structmember.h>

/* Of one frame with several records, where the caller names no other limit. */
#define MAX_PAYLOAD (1024 * 1024)

/* --- making and ending one --- */

/* Whether somebody takes an event's record, or the encoder alone can say whether it is one. */
static int takes_records(const struct outlet *outlet)
{
    return outlet->history != NULL || outlet->event_class == NULL || echo_history_is_followed(outlet->meanwhile) ||
           outlet->outgoing_count + outlet->converting_count > 0;
}

/* What submissions look at first, so that an outlet without history and branches pays for neither. */
static void settle(struct outlet *outlet)
{
    outlet->takes_records = takes_records(outlet);
    outlet->takes_long_way = outlet->is_closed || outlet->branch_count > 0;
    outlet->keeps_or_branches = outlet->history != NULL || outlet->branch_count > 0;
}

/* Its events are judged whoever is there, and have numbers from there on: those before are of what is judged anew. */
static int keep_meanwhile(struct outlet *outlet, unsigned long long first)
{
    if (outlet->history != NULL || first > MAX_NUMBER) {
        PyErr_SetString(PyExc_ValueError, "Expected an outlet without a history of its own, and a number below 2**63");
        return -1;
    }
    outlet->sequence = outlet->first_number = first;
    outlet->meanwhile = echo_history_of_followers();
    return outlet->meanwhile != NULL ? 0 : -1;
}

static int take_arguments(struct outlet *outlet, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"event_class", "encode",     "record_size", "dtype",     "max_payload",  "adopt",
                            "keep_events", "keep_bytes", "key",         "has_times", "first_number", NULL};
    unsigned long long first = 0;
    PyObject *event_class, *encode, *dtype = Py_None, *adopt = Py_None;
    struct keeping keeping = {0};

    outlet->max_payload = MAX_PAYLOAD;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$nOnOnnOpK:Outlet", names, &event_class, &encode,
                                     &outlet->record_size, &dtype, &outlet->max_payload, &adopt, &keeping.events,
                                     &keeping.bytes, &keeping.key, &outlet->has_times, &first))
        return -1;
    if (event_class != Py_None && !PyType_Check(event_class)) {
        PyErr_Format(PyExc_TypeError, "Expected a class or None, got %R", event_class);
        return -1;
    }
    if (echo_history_new(&keeping, &outlet->history) != 0 || (first > 0 && keep_meanwhile(outlet, first) != 0))
        return -1;
    if (outlet->record_size < 0 || outlet->max_payload < 1) {
        PyErr_SetString(PyExc_ValueError, "Expected a size of at least 0 and a payload of at least 1 byte");
        return -1;
    }
    outlet->event_class = event_class != Py_None ? (PyTypeObject *)Py_NewRef(event_class) : NULL;
    settle(outlet);
    outlet->encode = Py_NewRef(encode);
    outlet->adopt = adopt != Py_None ? Py_NewRef(adopt) : NULL;
    outlet->dtype = dtype != Py_None ? Py_NewRef(dtype) : NULL;
    return echo_raw_call_of(encode, &outlet->raw);
}

uint64_t echo_takers_changes;

/* Nobody takes anything any more. May run any code. -1 with MemoryError. */
static int let_go(struct outlet *outlet)
{
    PyObject *nobody = PyTuple_New(0);
    PyObject *streams = outlet->outgoing, *direct = outlet->direct, *converting = outlet->converting;
    PyObject *branches = outlet->branches;

    if (nobody == NULL)
        return -1;
    echo_outlet_free_room(outlet);
    outlet->forgotten += echo_history_forgotten(outlet->history);
    echo_history_free(outlet->history);
    outlet->history = NULL;
    echo_history_free(outlet->meanwhile);
    outlet->meanwhile = NULL;
    outlet->takes_records = outlet->measures = outlet->keeps_or_branches = 0;
    outlet->takes_long_way = outlet->is_closed;
    outlet->outgoing_count = outlet->direct_count = outlet->converting_count = outlet->branch_count = 0;
    outlet->first_branch = NULL;
    echo_takers_changes++;
    outlet->outgoing = Py_NewRef(nobody);
    outlet->branches = Py_NewRef(nobody);
    outlet->direct = Py_NewRef(nobody);
    outlet->converting = nobody;
    Py_XDECREF(streams);
    Py_XDECREF(direct);
    Py_XDECREF(converting);
    Py_XDECREF(branches);
    Py_CLEAR(outlet->pool);
    return 0;
}

static PyObject *outlet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct outlet *outlet = (struct outlet *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (outlet == NULL)
        return NULL;
    outlet->tally = echo_tally_new();
    if (outlet->tally == NULL)
        PyErr_NoMemory();
    if (outlet->tally == NULL || let_go(outlet) != 0 || take_arguments(outlet, args, kwargs) != 0)
        Py_CLEAR(outlet);
    return (PyObject *)outlet;
}

static PyObject *outlet_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct outlet *outlet = (struct outlet *)self;

    outlet->is_closed = 1;
    if (let_go(outlet) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static const Py_ssize_t outlet_owned[] = {offsetof(struct outlet, event_class), offsetof(struct outlet, encode),
                                          offsetof(struct outlet, adopt),       offsetof(struct outlet, dtype),
                                          offsetof(struct outlet, outgoing),    offsetof(struct outlet, direct),
                                          offsetof(struct outlet, converting),  offsetof(struct outlet, branches),
                                          offsetof(struct outlet, pool),        0};

static int outlet_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, outlet_owned, visit, arg);
}

/* The class and the encoder stay: their cycles lead through the class. */
static int outlet_clear(PyObject *self)
{
    if (let_go((struct outlet *)self) != 0)
        PyErr_Clear();
    return 0;
}

static void outlet_dealloc(PyObject *self)
{
    struct outlet *outlet = (struct outlet *)self;

    PyObject_GC_UnTrack(self);
    clear_owned(self, outlet_owned);
    echo_outlet_free_room(outlet);
    echo_history_free(outlet->history);
    echo_history_free(outlet->meanwhile);
    echo_tally_release(outlet->tally);
    free_instance(self);
}

/* --- attributes --- */

/* A tuple that is replaced as a whole: where it stands in an outlet, and in the module's state the type of its items. */
struct tuple_place {
    Py_ssize_t tuple, type;
};

#define TUPLE(name, item) {offsetof(struct outlet, name), offsetof(struct module_state, item##_type)}
static struct tuple_place outgoing = TUPLE(outgoing, outgoing), direct = TUPLE(direct, delivery),
                          converting = TUPLE(converting, delivery), branches = TUPLE(branches, follower);
#undef TUPLE

static PyObject *outlet_get_tuple(PyObject *self, void *place)
{
    return Py_NewRef(*slot_at(self, ((const struct tuple_place *)place)->tuple));
}

static int has_queue(PyObject *deliveries)
{
    Py_ssize_t i, count = PyTuple_Size(deliveries);

    for (i = 0; i < count && !((struct delivery *)PyTuple_GetItem(deliveries, i))->is_queue; i++)
        continue;
    return i < count;
}

static void count_tuples(struct outlet *outlet)
{
    outlet->outgoing_count = PyTuple_Size(outlet->outgoing);
    outlet->direct_count = PyTuple_Size(outlet->direct);
    outlet->converting_count = PyTuple_Size(outlet->converting);
    outlet->branch_count = PyTuple_Size(outlet->branches);
    outlet->first_branch =
        outlet->branch_count > 0 ? (struct follower *)(void *)PyTuple_GetItem(outlet->branches, 0) : NULL;
    echo_takers_changes++;
    settle(outlet);
    outlet->measures = outlet->record_size == 0 && has_queue(outlet->direct);
}

/* Letting go of the tuple that was there may run any code: so that comes last. */
static int outlet_set_tuple(PyObject *self, PyObject *tuple, void *place)
{
    const struct tuple_place *at = place;
    PyTypeObject *type = (PyTypeObject *)*slot_at(PyType_GetModuleState(Py_TYPE(self)), at->type);
    PyObject *before = Py_NewRef(*slot_at(self, at->tuple));
    struct outlet *outlet = (struct outlet *)self;
    int status = is_outlet_open(outlet) ? echo_replace_tuple(slot_at(self, at->tuple), tuple, type) : -1;

    count_tuples(outlet);
    Py_DECREF(before);
    return status;
}

/* Between the comparison and the first event that goes to the item nobody can submit another. */
static PyObject *add_at(PyObject *self, PyObject *item, PyObject *sequence, struct tuple_place *place)
{
    const struct outlet *outlet = (struct outlet *)self;
    PyObject *items;
    uint64_t number;
    int status;

    number = sequence != Py_None ? PyLong_AsUnsignedLongLong(sequence) : 0;
    if (PyErr_Occurred() != NULL)
        return NULL;
    items = echo_tuple_and(slot_at(self, place->tuple), item);
    if (items == NULL)
        return NULL;
    if (outlet->is_closed || (sequence != Py_None && number != outlet->sequence)) {
        Py_DECREF(items);
        Py_RETURN_NONE;
    }
    number = outlet->sequence;
    status = outlet_set_tuple(self, items, place);
    Py_DECREF(items);
    return status == 0 ? PyLong_FromUnsignedLongLong(number) : NULL;
}

static void pump(const struct outgoing_stream *stream)
{
    outbox_lock(&stream->link->outbox);
    echo_outbox_pump(&stream->link->outbox, 1);
    echo_outbox_unlock(&stream->link->outbox);
}

/* Those that have the number or a higher one: the rest of all, which are in this order. */
static size_t before(const struct kept *all, size_t count, uint64_t number)
{
    size_t i = 0;

    while (i < count && all[i].number < number)
        i++;
    return i;
}

/* What was judged anew, and the number behind the last of it. NULL: nothing was. */
struct replayed {
    PyObject *earlier; /* borrowed list */
    unsigned long long next;
};

/* Nobody submits between what the stream begins with and the first event that goes there: what runs code comes before and
 * behind. */
static PyObject *begin_at(struct outlet *outlet, PyObject *stream, PyObject *streams, uint64_t first,
                          const struct replayed *replayed)
{
    const struct history *history = outlet->meanwhile != NULL ? outlet->meanwhile : outlet->history;
    uint64_t sequence = outlet->sequence;
    size_t i, count, skipped;
    struct kept *all = replayed->earlier != NULL && outlet->meanwhile != NULL
                           ? echo_outlet_kept_later(outlet, replayed->earlier, replayed->next, &count)
                           : echo_history_all(history, &count);
    Py_ssize_t kept = -1;
    int status = -1;

    if (all == NULL)
        return NULL;
    skipped = before(all, count, first);
    kept = echo_outgoing_stream_begin(stream, history, all + skipped, count - skipped, sequence);
    if (kept >= 0)
        status = outlet_set_tuple((PyObject *)outlet, streams, &outgoing);
    for (i = 0; i < count; i++)
        Py_DECREF(all[i].record);
    free(all);
    if (status != 0)
        return NULL;
    pump(stream_of(stream));
    return Py_BuildValue("Kn", (unsigned long long)sequence, kept);
}

/* begin(stream, first, earlier=[], following=0) */
static PyObject *outlet_begin(PyObject *self, PyObject *args)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct outlet *outlet = (struct outlet *)self;
    PyObject *stream, *streams, *begun = NULL;
    unsigned long long first;
    struct replayed replayed = {NULL, 0};

    if (!PyArg_ParseTuple(args, "O!K|O!K:begin", state->outgoing_type, &stream, &first, &PyList_Type, &replayed.earlier,
                          &replayed.next) ||
        echo_link_check(stream_of(stream)->link) != 0)
        return NULL;
    streams = echo_tuple_and(&outlet->outgoing, stream);
    if (streams != NULL && is_outlet_open(outlet))
        begun = begin_at(outlet, stream, streams, first, &replayed);
    Py_XDECREF(streams);
    return begun;
}

static PyObject *outlet_add_delivery(PyObject *self, PyObject *args)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *sequence;
    PyObject *delivery;
    int is_direct;

    if (!PyArg_ParseTuple(args, "O!Op:add_delivery", state->delivery_type, &delivery, &sequence, &is_direct))
        return NULL;
    return add_at(self, delivery, sequence, is_direct ? &direct : &converting);
}

/* kept_since(number, is_following=False) */
static PyObject *outlet_kept_since(PyObject *self, PyObject *args)
{
    const struct outlet *outlet = (struct outlet *)self;
    unsigned long long number;
    int is_following = 0;

    if (!PyArg_ParseTuple(args, "K|p:kept_since", &number, &is_following))
        return NULL;
    return echo_history_since(outlet->meanwhile != NULL ? outlet->meanwhile : outlet->history, number, outlet->sequence,
                              is_following);
}

/* kept_at(root): nothing is submitted between the two. */
static PyObject *outlet_kept_at(PyObject *self, PyObject *root)
{
    const struct outlet *outlet = (struct outlet *)self;

    if (!Py_IS_TYPE(root, Py_TYPE(self)))
        return PyErr_Format(PyExc_TypeError, "Expected an Outlet, got %R", (PyObject *)Py_TYPE(root));
    return echo_history_since(((struct outlet *)root)->history, 0, outlet->sequence, 0);
}

static PyObject *outlet_forget_kept(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct outlet *outlet = (struct outlet *)self;

    if (outlet->history != NULL)
        echo_history_forget(outlet->history);
    Py_RETURN_NONE;
}

static PyObject *outlet_get_kept_bytes(PyObject *self, void *Py_UNUSED(unused))
{
    const struct outlet *outlet = (struct outlet *)self;

    return PyLong_FromSize_t(outlet->history != NULL ? echo_history_bytes(outlet->history) : 0);
}

/* follow(more) */
static PyObject *outlet_follow(PyObject *self, PyObject *more)
{
    struct outlet *outlet = (struct outlet *)self;

    echo_history_follow(outlet->meanwhile != NULL ? outlet->meanwhile : outlet->history, more == Py_True);
    settle(outlet);
    Py_RETURN_NONE;
}

/* hold(change) */
static PyObject *outlet_hold(PyObject *self, PyObject *argument)
{
    struct outlet *outlet = (struct outlet *)self;
    int change;

    if (echo_parse_hold(argument, &change) != 0)
        return NULL;
    if (change >= 0 || outlet->holders > 0)
        outlet->holders += (unsigned)change;
    if (change >= 0)
        outlet->holder = PyThread_get_thread_ident();
    atomic_store(&outlet->is_held, outlet->holders > 0);
    if (outlet->holders == 0)
        futex_wake_all(&outlet->is_held);
    Py_RETURN_NONE;
}

static PyObject *outlet_get_forgotten(PyObject *self, void *Py_UNUSED(unused))
{
    const struct outlet *outlet = (struct outlet *)self;

    return PyLong_FromUnsignedLongLong(outlet->forgotten + echo_history_forgotten(outlet->history));
}

static PyObject *outlet_get_dropped(PyObject *self, void *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(atomic_load(&((struct outlet *)self)->tally->dropped));
}

static PyObject *outlet_get_confirmed(PyObject *self, void *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(atomic_load(&((struct outlet *)self)->tally->confirmed));
}

static PyObject *outlet_get_unconfirmed(PyObject *self, void *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(atomic_load(&((struct outlet *)self)->tally->unconfirmed));
}

/* Whoever has a stream may drop something yet; so may a backlog that a stream has left behind. */
static PyObject *outlet_get_may_drop(PyObject *self, void *Py_UNUSED(unused))
{
    return PyBool_FromLong(atomic_load(&((struct outlet *)self)->tally->users) > 1);
}

static PyObject *outlet_get_pool(PyObject *self, void *Py_UNUSED(unused))
{
    PyObject *pool = ((struct outlet *)self)->pool;

    return Py_NewRef(pool != NULL ? pool : Py_None);
}

static int outlet_set_pool(PyObject *self, PyObject *pool, void *Py_UNUSED(unused))
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct outlet *outlet = (struct outlet *)self;
    PyObject *old = outlet->pool;

    if (pool == NULL || (pool != Py_None && !Py_IS_TYPE(pool, state->pool_type))) {
        PyErr_Format(PyExc_TypeError, "Expected a Pool or None, got %R", pool != NULL ? pool : Py_None);
        return -1;
    }
    if (!is_outlet_open(outlet))
        return -1;
    outlet->pool = pool != Py_None ? Py_NewRef(pool) : NULL;
    Py_XDECREF(old);
    return 0;
}

/* --- the type --- */

static PyMethodDef outlet_methods[] = {
    {"submit", echo_outlet_submit, METH_O,
     PyDoc_STR("submit($self, event, /)\n--\n\nTo all streams and sinks; encoded at most once.")},
    {"submit_records", echo_outlet_submit_records, METH_O,
     PyDoc_STR("submit_records($self, records, /)\n--\n\n"
               "Records of fixed size side by side, in the source's layout.")},
    {"submit_array", echo_outlet_submit_array, METH_O,
     PyDoc_STR("submit_array($self, array, /)\n--\n\n"
               "The records of a numpy structured array, one event each, without a Python object for any.")},
    {"begin", outlet_begin, METH_VARARGS,
     PyDoc_STR(
         "begin($self, stream, first, earlier=[], following=0, /)\n--\n\n"
         "Events leave by this stream too, behind STARTED and what is kept from number `first` on: where that was "
         "judged anew, `earlier`, whose numbers end before `following`. The number of the next event, and how many "
         "were "
         "kept.")},
    {"add_delivery", outlet_add_delivery, METH_VARARGS,
     PyDoc_STR("add_delivery($self, delivery, sequence, is_direct, /)\n--\n\n"
               "From now on events go to this sink here too, by reference or as records, if the next one is number "
               "`sequence`, or whichever it is where that is None. Its number; None: it is another.")},
    {"kept_since", outlet_kept_since, METH_VARARGS,
     PyDoc_STR("kept_since($self, number, is_following=False, /)\n--\n\n"
               "What it keeps from that number on, as (number, record), and the number of the next event.")},
    {"kept_at", outlet_kept_at, METH_O,
     PyDoc_STR("kept_at($self, root, /)\n--\n\n"
               "What another outlet keeps, which this one is derived from, and the number of its own next event.")},
    {"forget_kept", outlet_forget_kept, METH_NOARGS,
     PyDoc_STR("forget_kept($self, /)\n--\n\nSinks that come later get nothing of what was submitted by now.")},
    {"follow", outlet_follow, METH_O,
     PyDoc_STR("follow($self, more, /)\n--\n\nOne sink more, or less, is handed what is kept: more than that is.")},
    {"hold", outlet_hold, METH_O,
     PyDoc_STR("hold($self, change, /)\n--\n\nOne sink more (1) or less (-1) comes up with it, or still does (0): "
               "other threads that submit wait, for 0.1 s at most.")},
    {"close", outlet_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nNothing more is taken; it lets go of streams and sinks.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef outlet_members[] = {
    {"sequence", T_ULONGLONG, offsetof(struct outlet, sequence), READONLY, PyDoc_STR("Number of the next event.")},
    {"bytes", T_ULONGLONG, offsetof(struct outlet, bytes), READONLY,
     PyDoc_STR("Bytes of their records, where somebody took any.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef outlet_properties[] = {
    {"outgoing", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("To other processes; replaced as a whole."), &outgoing},
    {"direct", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("Sinks here that take the event itself."), &direct},
    {"converting", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("Sinks here that take its record."), &converting},
    {"branches", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("To outlets that are derived; replaced as a whole."),
     &branches},
    {"dropped", outlet_get_dropped, NULL, PyDoc_STR("Events that streams which were made for it have dropped."), NULL},
    {"confirmed", outlet_get_confirmed, NULL, PyDoc_STR("Events that receivers have finished with, once for each."),
     NULL},
    {"unconfirmed", outlet_get_unconfirmed, NULL,
     PyDoc_STR("Events that were sent, and not known to have arrived when their streams ended."), NULL},
    {"forgotten_keys", outlet_get_forgotten, NULL, PyDoc_STR("Values of the key that nothing is kept of any more."),
     NULL},
    {"kept_bytes", outlet_get_kept_bytes, NULL, PyDoc_STR("Of what it keeps."), NULL},
    {"may_drop", outlet_get_may_drop, NULL, PyDoc_STR("Whether such a stream, or what it has queued, is left."), NULL},
    {"pool", outlet_get_pool, outlet_set_pool, PyDoc_STR("Memory for large records and batches, or None."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot outlet_slots[] = {
    {Py_tp_doc, PyDoc_STR("Outlet(event_class, encode, *, record_size=0, dtype=None, max_payload=1048576, adopt=None, "
                          "keep_events=0, keep_bytes=0, key=None, has_times=False, first_number=0)"
                          "\n--\n\n"
                          "Where the events of one source leave.")},
    {Py_tp_new, outlet_new},
    {Py_tp_dealloc, outlet_dealloc},
    {Py_tp_traverse, outlet_traverse},
    {Py_tp_clear, outlet_clear},
    {Py_tp_methods, outlet_methods},
    {Py_tp_members, outlet_members},
    {Py_tp_getset, outlet_properties},
    {0, NULL}};

PyType_Spec echo_link_outlet_spec = {
    .name = "echo_core._c.links.Outlet",
    .basicsize = sizeof(struct outlet),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = outlet_slots,
};
