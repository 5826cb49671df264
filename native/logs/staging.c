#define _GNU_SOURCE 1 /* clocks */
#include "logs/staging.h"
#include "core/forks.h"
#include "logs/batches.h"
#include "logs/module.h"
#include "logs/ranges.h"
#include "logs/stages.h"

#include <string.h>
#include <structmember.h>
#include <time.h>

void echo_staging_put(struct staging *staging, struct chunk *chunk)
{
    chunk->next = NULL;
    chunk->serial = ++staging->closed;
    if (staging->last != NULL)
        staging->last->next = chunk;
    else
        staging->first = chunk;
    staging->last = chunk;
    echo_staging_tell(staging);
}

void echo_staging_drop(struct staging *staging, struct chunk *chunk)
{
    staging->staged -= echo_chunk_room(chunk);
    echo_free_chunk(chunk);
}

/* --- waiting --- */

void echo_staging_tell(struct staging *staging)
{
    if (has_forked_since(staging->forks))
        return;
    pthread_mutex_lock(&staging->mutex);
    staging->turns++;
    if (staging->waiting > 0)
        pthread_cond_broadcast(&staging->changed);
    pthread_mutex_unlock(&staging->mutex);
}

/* Until something happened since `turns`, or the time is up. */
static void wait_since(struct staging *staging, uint64_t turns, const struct timespec *until)
{
    int status = 0;

    pthread_mutex_lock(&staging->mutex);
    staging->waiting++;
    while (staging->turns == turns && status == 0)
        status = pthread_cond_timedwait(&staging->changed, &staging->mutex, until);
    staging->waiting--;
    pthread_mutex_unlock(&staging->mutex);
}

static struct timespec deadline(double seconds)
{
    struct timespec until;
    double most = seconds < 1e6 ? seconds : 1e6;
    long long ns = most > 0 ? (long long)(most * 1e9) : 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}

static PyObject *staging_wait(PyObject *self, PyObject *args)
{
    struct staging *staging = (struct staging *)self;
    unsigned long long turns;
    struct timespec until;
    double seconds;

    if (!PyArg_ParseTuple(args, "Kd:wait", &turns, &seconds))
        return NULL;
    if (!has_forked_since(staging->forks)) {
        until = deadline(seconds);
        Py_BEGIN_ALLOW_THREADS
        wait_since(staging, turns, &until);
        Py_END_ALLOW_THREADS
    }
    return PyLong_FromUnsignedLongLong(staging->turns);
}

static PyObject *staging_tell(PyObject *self, PyObject *unused)
{
    (void)unused;
    echo_staging_tell((struct staging *)self);
    Py_RETURN_NONE;
}

/* --- what Python puts and takes --- */

static PyObject *staging_put(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"kind", "payload", "flags", "stream", "format_number", "first", "time", NULL};
    struct staging *staging = (struct staging *)self;
    unsigned int flags = 0, stream = 0, format = 0;
    unsigned long long first = 0;
    long long time = 0;
    unsigned char kind;
    Py_buffer payload;
    struct chunk *chunk;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "by*|$IIIKL:put", names, &kind, &payload, &flags, &stream, &format,
                                     &first, &time))
        return NULL;
    chunk = payload.len <= MAX_BLOCK_BYTES ? echo_new_chunk((enum kind)kind) : NULL;
    if (chunk == NULL || !echo_make_room(&chunk->payload, (uint64_t)payload.len)) {
        if (chunk != NULL)
            echo_free_chunk(chunk);
        PyBuffer_Release(&payload);
        return PyErr_NoMemory();
    }
    echo_put(&chunk->payload, payload.buf, (uint64_t)payload.len);
    PyBuffer_Release(&payload);
    chunk->header.flags = (uint16_t)flags;
    chunk->header.stream = stream;
    chunk->header.format = format;
    chunk->header.first = first;
    chunk->header.least_time = chunk->header.greatest_time = time;
    staging->staged += echo_chunk_room(chunk);
    echo_staging_put(staging, chunk);
    return PyLong_FromUnsignedLongLong(chunk->serial);
}

static PyObject *staging_flush(PyObject *self, PyObject *unused)
{
    (void)unused;
    echo_flush_all((struct staging *)self);
    return PyLong_FromUnsignedLongLong(((struct staging *)self)->closed);
}

static PyObject *staging_take(PyObject *self, PyObject *args)
{
    unsigned long long salt, offset, end;
    int is_forced;

    if (!PyArg_ParseTuple(args, "KKKp:take", &salt, &offset, &end, &is_forced))
        return NULL;
    return echo_take_batch((struct staging *)self, salt, offset, end, is_forced);
}

/* Puts what a function made of a chunk's payload in its place, where that is less. None: it is to stay. */
static int replace(struct chunk *chunk, PyObject *made)
{
    unsigned int flags;
    unsigned char codec;
    Py_buffer bytes;

    if (made == Py_None)
        return 0;
    if (!PyArg_ParseTuple(made, "bIy*:compress", &codec, &flags, &bytes))
        return -1;
    if ((uint64_t)bytes.len < chunk->payload.size) {
        chunk->header.raw = (uint32_t)chunk->payload.size;
        chunk->header.codec = codec;
        chunk->header.flags |= (uint16_t)flags;
        chunk->payload.size = 0;
        echo_put(&chunk->payload, bytes.buf, (uint64_t)bytes.len);
    }
    PyBuffer_Release(&bytes);
    return 0;
}

static int compress_one(struct chunk *chunk, PyObject *function)
{
    PyObject *view, *made;
    int status;

    view = PyMemoryView_FromMemory((char *)chunk->payload.at, (Py_ssize_t)chunk->payload.size, PyBUF_READ);
    made = view != NULL ? PyObject_CallFunction(function, "IO", (unsigned int)chunk->header.stream, view) : NULL;
    if (view != NULL && made != NULL) { /* nobody may keep the memory */
        PyObject *released = PyObject_CallMethod(view, "release", NULL);
        if (released == NULL)
            Py_CLEAR(made);
        Py_XDECREF(released);
    }
    status = made != NULL ? replace(chunk, made) : -1;
    Py_XDECREF(made);
    Py_XDECREF(view);
    return status;
}

/* Calls a function with the stream and the records of each closed chunk, once. Others may close chunks meanwhile; only
 * who calls this takes any. */
static PyObject *staging_compress(PyObject *self, PyObject *function)
{
    struct staging *staging = (struct staging *)self;
    struct chunk *chunk;

    for (chunk = staging->first; chunk != NULL; chunk = chunk->next) {
        if (chunk->is_tried || chunk->header.kind != RECORDS)
            continue;
        chunk->is_tried = 1;
        echo_measure(chunk); /* as long as its records are what they are */
        if (compress_one(chunk, function) != 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *staging_has_room(PyObject *self, PyObject *args)
{
    struct staging *staging = (struct staging *)self;
    unsigned long long bytes;

    if (!PyArg_ParseTuple(args, "K:has_room", &bytes))
        return NULL;
    return PyBool_FromLong(has_room(staging, bytes));
}

static PyObject *staging_fail(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((struct staging *)self)->is_failed = 1;
    echo_staging_tell((struct staging *)self);
    Py_RETURN_NONE;
}

/* When the oldest record came that is in no closed chunk, by the coarse monotonic clock; 0: there is none. */
static PyObject *get_oldest(PyObject *self, void *unused)
{
    const struct stage *stage;
    uint64_t oldest = 0;

    (void)unused;
    for (stage = ((struct staging *)self)->open; stage != NULL; stage = stage->next) {
        if (stage->chunk != NULL && (oldest == 0 || stage->chunk->oldest_tick < oldest))
            oldest = stage->chunk->oldest_tick;
    }
    return PyLong_FromUnsignedLongLong(oldest);
}

static PyObject *get_is_waiting(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct staging *)self)->first != NULL);
}

/* --- the type --- */

static void make_waitable(struct staging *staging)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&staging->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&staging->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static PyObject *staging_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"max_staged", "flush_bytes", NULL};
    unsigned long long max_staged, flush_bytes;
    struct staging *staging;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KK:Staging", names, &max_staged, &flush_bytes))
        return NULL;
    staging = (struct staging *)PyType_GenericAlloc(type, 0);
    if (staging == NULL)
        return NULL;
    make_waitable(staging);
    staging->forks = echo_forks;
    staging->max_staged = max_staged;
    staging->flush_bytes = flush_bytes;
    return (PyObject *)staging;
}

static void staging_dealloc(PyObject *self)
{
    struct staging *staging = (struct staging *)self;
    struct chunk *chunk;

    while ((chunk = staging->first) != NULL) {
        staging->first = chunk->next;
        echo_free_chunk(chunk);
    }
    if (!has_forked_since(staging->forks)) { /* that would wait for threads of the parent */
        pthread_cond_destroy(&staging->changed);
        pthread_mutex_destroy(&staging->mutex);
    }
    free_instance(self);
}

static PyMethodDef staging_methods[] = {
    {"put", (PyCFunction)(void (*)(void))staging_put, METH_VARARGS | METH_KEYWORDS, NULL},
    {"flush", staging_flush, METH_NOARGS, NULL},
    {"take", staging_take, METH_VARARGS, NULL},
    {"compress", staging_compress, METH_O, NULL},
    {"wait", staging_wait, METH_VARARGS, NULL},
    {"tell", staging_tell, METH_NOARGS, NULL},
    {"has_room", staging_has_room, METH_VARARGS, NULL},
    {"fail", staging_fail, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyMemberDef staging_members[] = {
    {"staged", T_ULONGLONG, offsetof(struct staging, staged), READONLY, NULL},
    {"open_bytes", T_ULONGLONG, offsetof(struct staging, open_bytes), READONLY, NULL},
    {"closed", T_ULONGLONG, offsetof(struct staging, closed), READONLY, NULL},
    {"events", T_ULONGLONG, offsetof(struct staging, events), READONLY, NULL},
    {"bytes", T_ULONGLONG, offsetof(struct staging, bytes), READONLY, NULL},
    {"lost", T_ULONGLONG, offsetof(struct staging, lost), READONLY, NULL},
    {"turns", T_ULONGLONG, offsetof(struct staging, turns), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef staging_properties[] = {{"oldest_tick", get_oldest, NULL, NULL, NULL},
                                           {"has_closed", get_is_waiting, NULL, NULL, NULL},
                                           {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot staging_slots[] = {{Py_tp_doc, PyDoc_STR("What a log holds in memory until it is written.")},
                                      {Py_tp_new, staging_new},
                                      {Py_tp_dealloc, staging_dealloc},
                                      {Py_tp_methods, staging_methods},
                                      {Py_tp_members, staging_members},
                                      {Py_tp_getset, staging_properties},
                                      {0, NULL}};

PyType_Spec echo_staging_spec = {
    .name = "echo_core._c.logs.Staging",
    .basicsize = sizeof(struct staging),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = staging_slots,
};

int echo_is_staging(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)(uintptr_t)staging_dealloc;
}
