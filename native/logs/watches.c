/* Watch: waits until the files of a folder change, by inotify: a wait costs nothing while nothing happens, and its end
 * takes some 20 us. */
#define _GNU_SOURCE 1 /* ppoll */
#include "logs/module.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

/* The Python object. */
struct watch {
    PyObject ob_base;
    int fd; /* owned; -1: closed */
};

#define CHANGES (IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)

static PyObject *watch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", NULL};
    struct watch *watch = NULL;
    PyObject *path;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:Watch", names, PyUnicode_FSConverter, &path))
        return NULL;
    watch = (struct watch *)PyType_GenericAlloc(type, 0);
    if (watch != NULL) {
        watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (watch->fd < 0 || inotify_add_watch(watch->fd, PyBytes_AsString(path), CHANGES) < 0) {
            PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
            Py_CLEAR(watch);
        }
    }
    Py_DECREF(path);
    return (PyObject *)watch;
}

/* Takes what has been told; whether that was anything. */
static int take_told(int fd)
{
    char told[4096];
    int is_any = 0;

    while (read(fd, told, sizeof told) > 0)
        is_any = 1;
    return is_any;
}

/* 1: something changed since the last wait; 0: the time was up; -1 with an exception, such as of a signal. */
static int wait_for(struct watch *watch, double seconds)
{
    double most = seconds < 1e6 ? seconds : 1e6;
    struct timespec left = {(time_t)most, (long)((most - (double)(time_t)most) * 1e9)};
    struct pollfd asked = {watch->fd, POLLIN, 0};
    int status, error;

    if (take_told(watch->fd))
        return 1;
    if (most <= 0)
        return 0;
    Py_BEGIN_ALLOW_THREADS
    status = ppoll(&asked, 1, &left, NULL);
    error = errno;
    Py_END_ALLOW_THREADS
    if (status > 0)
        return take_told(watch->fd);
    if (status < 0 && error == EINTR)
        return PyErr_CheckSignals();
    if (status < 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return status;
}

static PyObject *watch_wait(PyObject *self, PyObject *args)
{
    struct watch *watch = (struct watch *)self;
    double seconds;
    int status;

    if (!PyArg_ParseTuple(args, "d:wait", &seconds))
        return NULL;
    if (watch->fd < 0) {
        PyErr_SetString(PyExc_ValueError, "Expected an open watch, got a closed one");
        return NULL;
    }
    status = wait_for(watch, seconds);
    return status < 0 ? NULL : PyBool_FromLong(status);
}

static PyObject *watch_close(PyObject *self, PyObject *unused)
{
    struct watch *watch = (struct watch *)self;

    (void)unused;
    if (watch->fd >= 0)
        close(watch->fd);
    watch->fd = -1;
    Py_RETURN_NONE;
}

static PyObject *watch_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *watch_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return watch_close(self, NULL);
}

static void watch_dealloc(PyObject *self)
{
    struct watch *watch = (struct watch *)self;

    if (watch->fd >= 0)
        close(watch->fd);
    free_instance(self);
}

static PyMethodDef watch_methods[] = {{"wait", watch_wait, METH_VARARGS, NULL},
                                      {"close", watch_close, METH_NOARGS, NULL},
                                      {"__enter__", watch_enter, METH_NOARGS, NULL},
                                      {"__exit__", watch_exit, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

static PyType_Slot watch_slots[] = {{Py_tp_doc, PyDoc_STR("Waits until the files of a folder change.")},
                                    {Py_tp_new, watch_new},
                                    {Py_tp_dealloc, watch_dealloc},
                                    {Py_tp_methods, watch_methods},
                                    {0, NULL}};

PyType_Spec echo_watch_spec = {
    .name = "echo_core._c.logs.Watch",
    .basicsize = sizeof(struct watch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = watch_slots,
};
