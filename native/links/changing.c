/* The type Changing: what `with` enters where something is changed under a lock that others wait at.
 *
 * In C since Python looks for signals wherever it enters Python code: an __enter__ or an __exit__ that is written in
 * Python can be interrupted while it has the lock, and nobody would release it. From a call of C into the `with` block,
 * and from there into the next such call, no signal is looked for. So an interrupt comes in the block, or while this
 * thread waits for the lock and does not have it, or when it has been released, and who waits is awake.
 */
#include "links/links.h"

/* The Python object. The lock guards what is changed; the GIL guards `depth` and `asleep`. */
struct changing {
    PyObject ob_base;    /* spelled out: PyObject_HEAD hides it */
    PyObject *acquire;   /* owned; of a lock that its thread may take several times. Blocks; KeyboardInterrupt */
    PyObject *release;   /* owned; its counterpart, which lets no other thread run */
    PyObject *asleep;    /* owned set of callables: wakes one that waits for a change, and lets no other thread run */
    PyObject *ended;     /* owned; may run any code */
    unsigned long depth; /* of the thread that has the lock; 0: none has */
};

static PyObject *changing_enter(PyObject *self, PyObject *unused)
{
    struct changing *changing = (struct changing *)self;
    PyObject *acquired = PyObject_CallNoArgs(changing->acquire);

    (void)unused;
    if (acquired == NULL)
        return NULL;
    Py_DECREF(acquired);
    changing->depth++;
    Py_RETURN_NONE;
}

/* What cannot be woken is no reason to leave the others asleep. */
static void wake_all(PyObject *asleep)
{
    PyObject *wake, *woken;

    while (PySet_Size(asleep) > 0) {
        wake = PySet_Pop(asleep);
        woken = PyObject_CallNoArgs(wake);
        if (woken == NULL)
            PyErr_WriteUnraisable(wake);
        Py_XDECREF(woken);
        Py_DECREF(wake);
    }
}

/* Also where the block has failed: part of the change may have been made. */
static PyObject *changing_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct changing *changing = (struct changing *)self;
    PyObject *released = PyObject_CallNoArgs(changing->release);

    (void)args;
    (void)nargs;
    if (released == NULL)
        return NULL;
    Py_DECREF(released);
    if (--changing->depth > 0)
        Py_RETURN_NONE;
    wake_all(changing->asleep);
    return PyObject_CallNoArgs(changing->ended); /* None, or an interrupt, which harms nobody any more */
}

/* --- the type --- */

static PyObject *changing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "", NULL};
    struct changing *changing;
    PyObject *lock, *asleep, *ended;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:Changing", names, &lock, &asleep, &ended))
        return NULL;
    if (!PySet_Check(asleep))
        return PyErr_Format(PyExc_TypeError, "Expected a set of those that sleep, got %R", asleep);
    changing = (struct changing *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (changing == NULL)
        return NULL;
    changing->asleep = Py_NewRef(asleep);
    changing->ended = Py_NewRef(ended);
    changing->acquire = PyObject_GetAttrString(lock, "acquire");
    changing->release = changing->acquire != NULL ? PyObject_GetAttrString(lock, "release") : NULL;
    if (changing->release == NULL) {
        Py_DECREF(changing);
        return NULL;
    }
    return (PyObject *)changing;
}

/* There is no tp_clear: as with a tuple, whatever it is in a cycle with can be cleared, and it is always whole. */
static int changing_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct changing *changing = (struct changing *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(changing->acquire);
    Py_VISIT(changing->release);
    Py_VISIT(changing->asleep);
    Py_VISIT(changing->ended);
    return 0;
}

static void changing_dealloc(PyObject *self)
{
    struct changing *changing = (struct changing *)self;

    PyObject_GC_UnTrack(self);
    Py_XDECREF(changing->acquire);
    Py_XDECREF(changing->release);
    Py_XDECREF(changing->asleep);
    Py_XDECREF(changing->ended);
    free_instance(self);
}

static PyMethodDef changing_methods[] = {
    {"__enter__", changing_enter, METH_NOARGS, PyDoc_STR("__enter__($self, /)\n--\n\nTakes the lock.")},
    {"__exit__", (PyCFunction)(void (*)(void))changing_exit, METH_FASTCALL,
     PyDoc_STR("__exit__($self, /, *exception)\n--\n\nReleases the lock, then wakes and tells.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot changing_slots[] = {
    {Py_tp_doc, PyDoc_STR("Changing(lock, asleep, ended, /)\n--\n\n"
                          "Holds a lock, and wakes who waits for a change; an interrupt leaves nobody out.")},
    {Py_tp_new, changing_new},
    {Py_tp_dealloc, changing_dealloc},
    {Py_tp_traverse, changing_traverse},
    {Py_tp_methods, changing_methods},
    {0, NULL}};

PyType_Spec echo_link_changing_spec = {
    .name = "echo_core._c.links.Changing",
    .basicsize = sizeof(struct changing),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = changing_slots,
};
