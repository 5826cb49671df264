/* What a Link does: its methods, and how it ends. link_type.c has the type. */
#include "links/link.h"

#include "links/entries.h"
#include "links/errors.h"
#include "links/state.h"

#include "core/outbox/outgoing.h"
#include "core/outbox/staging.h"

#include <errno.h>
#include <stdlib.h>

/* --- the end --- */

int echo_link_check(const struct link *link)
{
    if (has_forked_since(link->forks))
        return echo_raise("ClosedError", "The link belongs to the parent process: open channels anew after a fork");
    return link->wire != NULL ? 0 : echo_raise("ClosedError", "The link was abandoned");
}

int echo_link_raise_end(struct link *link)
{
    enum end end;
    int error;

    outbox_lock(&link->outbox);
    end = link->outbox.end;
    error = link->outbox.error;
    echo_outbox_unlock(&link->outbox);
    switch (end) {
    case END_NOT:
    case END_SHUT:
        return echo_raise("ClosedError", "The link is closed");
    case END_PEER:
        return echo_raise("LinkError", "The peer has closed the connection");
    case END_ERROR:
        return echo_raise("LinkError", "Sending failed: %s", strerror(error));
    case END_STALLED:
        return echo_raise("LinkError", "The peer has read nothing for %lld ms",
                          (long long)(echo_ns_of(link->outbox.stall) / 1000000));
    case END_FLOODED:
        return echo_raise("LinkError", "The peer does not read: more than %zu bytes of control frames wait for it",
                          link->outbox.max_control_bytes);
    case END_MEMORY:
        return echo_raise("LinkError", "No memory for frames that wait to be sent");
    case END_THREAD:
        return echo_raise("LinkError", "The system gave no thread that sends: %s", strerror(error));
    }
    Py_UNREACHABLE();
}

void echo_link_end_outbox(struct link *link, enum end end)
{
    if (has_forked_since(link->forks))
        return;
    outbox_lock(&link->outbox);
    echo_outbox_end(&link->outbox, end, 0);
    echo_outbox_unlock(&link->outbox);
}

void echo_link_end(struct link *link, enum end end)
{
    if (link->is_ended)
        return;
    link->is_ended = 1;
    if (link->rest == REST_NEVER || link->rest == REST_READ)
        echo_watched_remove(&link->watched);
    echo_link_end_outbox(link, end);
    echo_link_call_reader(link);
    atomic_fetch_add(&link->parking, 1);
    futex_wake_all(&link->parking);
    echo_link_wake_followers(link);
}

/* --- sending --- */

/* 0; -1 with an exception: no frame is so. */
static int check_frame(uint32_t kind, Py_ssize_t size)
{
    if (kind == 0) {
        PyErr_SetString(PyExc_ValueError, "Expected a kind from 1 on, got 0");
        return -1;
    }
    if (size > INT32_MAX)
        return echo_raise("FormatError", "Expected at most %d bytes in one frame, got %zd", INT32_MAX, size);
    return 0;
}

PyObject *echo_link_send(struct link *link, struct outgoing *outgoing, PyObject *args)
{
    struct frame frame;
    unsigned int kind;
    Py_buffer payload;
    int status = -1;

    if (!PyArg_ParseTuple(args, "Iy*:send", &kind, &payload))
        return NULL;
    frame = (struct frame){.size = (uint32_t)payload.len, .stream = kind, .payload = payload.buf};
    if (check_frame(kind, payload.len) == 0) {
        submission_begin();
        outbox_lock(&link->outbox);
        status =
            outgoing != NULL ? echo_outgoing_control(outgoing, &frame) : echo_outbox_control(&link->outbox, &frame);
        echo_outbox_unlock(&link->outbox);
        if (status != 0)
            echo_link_raise_end(link);
    }
    PyBuffer_Release(&payload);
    return status == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *link_send(PyObject *self, PyObject *args)
{
    return echo_link_send(link_of(self), NULL, args);
}
DEFINE_ENTRY_THAT_ACTS(link_send, link_of(self))

struct draining {
    struct outbox *outbox;
    const struct outgoing *outgoing; /* whose backlog waits for credit too; NULL: nobody's does */
    int64_t until_ns;                /* negative: for ever */
};

static int is_drained(const struct draining *draining)
{
    return !has_work(draining->outbox) && !draining->outbox->is_writing &&
           (draining->outgoing == NULL || draining->outgoing->circle == NULL);
}

/* Until all is written or time is up. 1: it is; 0: not; -EINTR: a signal may have come. No GIL. */
static int drain(void *subject)
{
    const struct draining *draining = subject;
    struct outbox *outbox = draining->outbox;
    int64_t left_ns = INT64_MAX, look_ns = monotonic_ns() + SLICE_NS;
    int status = 0, is_done;

    outbox_lock(outbox);
    while (status == 0 && outbox->end == END_NOT && !is_drained(draining)) {
        if (draining->until_ns >= 0 && (left_ns = draining->until_ns - monotonic_ns()) <= 0)
            break;
        status = echo_outbox_work(outbox, left_ns < SLICE_NS ? left_ns : SLICE_NS);
        if (status == 0 && monotonic_ns() >= look_ns)
            status = -EINTR;
    }
    is_done = is_drained(draining);
    echo_outbox_unlock(outbox);
    return status != 0 ? status : is_done;
}

PyObject *echo_link_drain(struct link *link, const struct outgoing *outgoing, PyObject *argument)
{
    struct draining draining = {.outbox = &link->outbox, .outgoing = outgoing};
    int64_t timeout_ns = PyLong_AsLongLong(argument);
    int status;

    if (timeout_ns == -1 && PyErr_Occurred() != NULL)
        return NULL;
    draining.until_ns = timeout_ns < 0 ? -1 : monotonic_ns() + timeout_ns;
    status = echo_wait(drain, &draining);
    return status == -EINTR ? NULL : PyBool_FromLong(status);
}

static PyObject *link_drain(PyObject *self, PyObject *argument)
{
    return echo_link_drain(link_of(self), NULL, argument);
}
DEFINE_ENTRY_THAT_ACTS(link_drain, link_of(self))

/* --- receiving --- */

/* An ended link lets go of its owner, which otherwise kept it, and its descriptors, until the next collection. */
static PyObject *end_run(struct link *link, int status)
{
    if (link->is_ended && link->runner == 0)
        Py_CLEAR(link->control);
    if (link->rest == REST_OVER)
        Py_CLEAR(link->reader);
    return status >= 0 ? PyBool_FromLong(status) : NULL;
}

static PyObject *link_run(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return end_run(link_of(self), echo_link_run(link_of(self)));
}
DEFINE_ENTRY_THAT_ACTS(link_run, link_of(self))

static PyObject *link_is_read_here(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(link_of(self)->runner == PyThread_get_thread_ident());
}

static PyObject *link_take_over(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return end_run(link_of(self), echo_link_take_over(link_of(self)));
}
DEFINE_ENTRY_THAT_ACTS(link_take_over, link_of(self))

/* call_behind(callable, stream=None) */
static PyObject *link_call_behind(PyObject *self, PyObject *args)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *callable, *stream = Py_None;
    Py_ssize_t count;

    if (!PyArg_ParseTuple(args, "O|O:call_behind", &callable, &stream))
        return NULL;
    if (stream != Py_None && !PyObject_TypeCheck(stream, state->incoming_type))
        return PyErr_Format(PyExc_TypeError, "Expected an IncomingStream or None, got %R", stream);
    count = echo_detours_call_behind(&link_of(self)->detours,
                                     stream != Py_None ? (struct incoming_stream *)(void *)stream : NULL, callable);
    return count >= 0 ? PyLong_FromSsize_t(count) : NULL;
}

static int make_room_for(struct link *link, size_t index)
{
    size_t count = link->incoming_count < 16 ? 16 : link->incoming_count;
    PyObject **incoming;

    while (count <= index)
        count *= 2;
    if (count == link->incoming_count)
        return 0;
    incoming = realloc(link->incoming, count * sizeof *incoming);
    if (incoming == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(incoming + link->incoming_count, 0, (count - link->incoming_count) * sizeof *incoming);
    link->incoming = incoming;
    link->incoming_count = count;
    return 0;
}

static int check_stream(unsigned int stream)
{
    if (stream >= FIRST_STREAM && stream - FIRST_STREAM < MAX_STREAMS)
        return 0;
    return echo_raise("WireError", "Expected a stream from %d to %d, got %u", FIRST_STREAM,
                      FIRST_STREAM + MAX_STREAMS - 1, stream);
}

void echo_link_part(const struct link *link, size_t index)
{
    PyObject *bound = link->incoming[index];
    struct incoming_stream *incoming = (struct incoming_stream *)(void *)bound;

    if (bound != NULL && bound != Py_None && incoming->link == link && incoming->stream == FIRST_STREAM + index)
        incoming->link = NULL;
}

static PyObject *link_bind(PyObject *self, PyObject *args)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct link *link = link_of(self);
    PyObject *incoming, *before;
    unsigned int stream;

    if (!PyArg_ParseTuple(args, "IO!:bind", &stream, state->incoming_type, &incoming) || check_stream(stream) != 0 ||
        make_room_for(link, stream - FIRST_STREAM) != 0)
        return NULL;
    before = link->incoming[stream - FIRST_STREAM];
    echo_link_part(link, stream - FIRST_STREAM);
    link->incoming[stream - FIRST_STREAM] = Py_NewRef(incoming);
    ((struct incoming_stream *)(void *)incoming)->link = link;
    ((struct incoming_stream *)(void *)incoming)->stream = stream;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* What is bound gives way to `after`, borrowed: None, or NULL. */
static PyObject *replace_bound(PyObject *self, PyObject *argument, PyObject *after)
{
    struct link *link = link_of(self);
    unsigned long stream = PyLong_AsUnsignedLong(argument);
    PyObject *before;

    if (stream == (unsigned long)-1 && PyErr_Occurred() != NULL)
        return NULL;
    if (stream < FIRST_STREAM || stream - FIRST_STREAM >= link->incoming_count)
        Py_RETURN_NONE;
    before = link->incoming[stream - FIRST_STREAM];
    echo_link_part(link, stream - FIRST_STREAM);
    if (before != NULL)
        link->incoming[stream - FIRST_STREAM] = Py_XNewRef(after);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *link_unbind(PyObject *self, PyObject *argument)
{
    return replace_bound(self, argument, Py_None);
}

static PyObject *link_forbid(PyObject *self, PyObject *argument)
{
    return replace_bound(self, argument, NULL);
}

static int check_queue(PyObject *self, PyObject *queue)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));

    if (PyObject_TypeCheck(queue, state->queue_type))
        return 0;
    PyErr_Format(PyExc_TypeError, "Expected a Queue, got %R", queue);
    return -1;
}

static PyObject *link_follow(PyObject *self, PyObject *queue)
{
    if (check_queue(self, queue) != 0 || echo_link_follow(link_of(self), queue) != 0)
        return NULL;
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_ACTS(link_follow, link_of(self))

static PyObject *link_unfollow(PyObject *self, PyObject *queue)
{
    echo_link_unfollow(link_of(self), queue);
    Py_RETURN_NONE;
}

static PyObject *link_rouse(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    echo_link_rouse(link_of(self));
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_ACTS(link_rouse, link_of(self))

static PyObject *link_rest(PyObject *self, PyObject *reader)
{
    echo_link_begin_rest(link_of(self), reader);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_ACTS(link_rest, link_of(self))

/* Another thread may be handing out a batch, or a handler that is given an event of one calls this. */
static PyObject *link_shut(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    struct link *link = link_of(self);
    PyObject *incoming;

    if (link->is_ended) /* by itself: what came before is still handed over */
        Py_RETURN_NONE;
    for (size_t i = 0; i < link->incoming_count; i++) {
        incoming = link->incoming[i];
        if (incoming != NULL && incoming != Py_None)
            echo_incoming_close((struct incoming_stream *)(void *)incoming);
    }
    echo_link_end(link, END_SHUT);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_ACTS(link_shut, link_of(self))

/* The end of the outbox shuts the wire, which still gives what came before; the reader ends the link behind that. */
static PyObject *link_conclude(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    echo_link_end_outbox(link_of(self), END_PEER);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_ACTS(link_conclude, link_of(self))

static PyObject *link_abandon(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    struct link *link = link_of(self);
    struct wire *wire = link->wire;

    if (!has_forked_since(link->forks)) {
        PyErr_SetString(PyExc_RuntimeError, "Only a forked child abandons a link; this process made it");
        return NULL;
    }
    link->wire = NULL;
    link->is_ended = 1;
    if (wire != NULL)
        wire->operations->abandon(wire);
    Py_RETURN_NONE;
}

/* --- for the type --- */

PyMethodDef echo_link_methods[] = {
    {"run", link_run_entry, METH_NOARGS,
     PyDoc_STR("run($self, /)\n--\n\nReads and delivers. True: until the end of the link. False: another thread has "
               "taken over.")},
    {"take_over", link_take_over_entry, METH_NOARGS,
     PyDoc_STR(
         "take_over($self, /)\n--\n\nAs run, for a link that rests, or in place of a thread whose handler is slow. "
         "False: also if neither is so, and when it rests again.")},
    {"rest", link_rest_entry, METH_O,
     PyDoc_STR(
         "rest($self, read, /)\n--\n\nHas it read by threads that stand by, from here on, each by a call of `read`.")},
    {"is_read_here", link_is_read_here, METH_NOARGS,
     PyDoc_STR("is_read_here($self, /)\n--\n\nWhether the calling thread is the one that reads it now.")},
    {"call_behind", link_call_behind, METH_VARARGS,
     PyDoc_STR(
         "call_behind($self, callable, stream=None, /)\n--\n\nHas it called once by each thread that is at a slow "
         "sink, when that has all that came before: by how many. Those that have nothing of the stream do not.")},
    {"send", link_send_entry, METH_VARARGS,
     PyDoc_STR("send($self, kind, payload, /)\n--\n\n"
               "A control frame, in order with the events that were submitted before.")},
    {"bind", link_bind, METH_VARARGS,
     PyDoc_STR("bind($self, stream, incoming, /)\n--\n\nWhere the records of a stream go.")},
    {"unbind", link_unbind, METH_O,
     PyDoc_STR("unbind($self, stream, /)\n--\n\nWhat still comes of the stream is skipped.")},
    {"forbid", link_forbid, METH_O,
     PyDoc_STR("forbid($self, stream, /)\n--\n\nNothing more may come of the stream: what does ends the link.")},
    {"follow", link_follow_entry, METH_O,
     PyDoc_STR("follow($self, queue, /)\n--\n\nWho waits for this queue may read the link.")},
    {"unfollow", link_unfollow, METH_O, PyDoc_STR("unfollow($self, queue, /)\n--\n\nUndoes follow.")},
    {"drain", link_drain_entry, METH_O,
     PyDoc_STR("drain($self, timeout_ns, /)\n--\n\nWhether all that was sent was given to the system in time.")},
    {"rouse", link_rouse_entry, METH_NOARGS,
     PyDoc_STR("rouse($self, /)\n--\n\nHas all that wait look again; to be called from time to time.")},
    {"shut", link_shut_entry, METH_NOARGS,
     PyDoc_STR("shut($self, /)\n--\n\nEnds it in both directions, at once; `run` returns.")},
    {"conclude", link_conclude_entry, METH_NOARGS,
     PyDoc_STR("conclude($self, /)\n--\n\nThe peer is gone: nothing more is sent, and what it has written is still "
               "delivered.")},
    {"abandon", link_abandon, METH_NOARGS,
     PyDoc_STR("abandon($self, /)\n--\n\nIn a forked child: lets go, and the other side does not notice.")},
    {NULL, NULL, 0, NULL}};
