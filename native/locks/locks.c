/* echo_core._c.locks: locks as `with` enters them where Ctrl-C may come at any moment.
 *
 *   Held       a lock within one `with`
 *   Changing   the lock of what others wait to see changed: calling it gives a Held that wakes them at its end
 *
 * In C since Python looks for signals wherever it enters Python code: an __enter__ or an __exit__ that is written in
 * Python can be interrupted while it has the lock, and nobody would release it. From a call of C into the `with` block,
 * and from there into the next such call, no signal is looked for. So an interrupt comes in the block, or while this
 * thread waits for the lock and does not have it, or when it has been released, and who waits is awake.
 *
 * CPython 3.14 does look for signals between an __enter__ of C and the block (python/cpython#148874; 3.15 has it
 * mended). So each `with` enters an object of its own, which nobody else refers to: where an interrupt skips the
 * __exit__, the object goes with the frame's stack, in the same thread, and its end releases the lock. Nothing has been
 * changed by then. A threading.Lock would stay locked for ever.
 */
#include "types.h"

#include <stddef.h>

/* The Python object. The lock guards what is changed; the GIL guards `depth` and `asleep`. */
struct changing {
    PyObject ob_base;    /* spelled out: PyObject_HEAD hides it */
    PyObject *acquire;   /* owned; of a lock that its thread may take several times. Blocks; KeyboardInterrupt */
    PyObject *release;   /* owned; its counterpart, which lets no other thread run */
    PyObject *asleep;    /* owned set of callables: wakes one that waits for a change, and lets no other thread run */
    PyObject *ended;     /* owned; may run any code */
    unsigned long depth; /* of the thread that has the lock; 0: none has */
};

/* The Python object of one `with`, in one thread. In no cycle: what it refers to does not know it. */
struct held {
    PyObject ob_base;
    PyObject *acquire;         /* owned; of any lock. Blocks; KeyboardInterrupt */
    PyObject *release;         /* owned */
    struct changing *changing; /* owned; NULL: nobody waits for a change */
    int is_held;
};

struct module_state {
    PyTypeObject *held_type; /* owned */
};

/* --- Held --- */

static PyObject *held_enter(PyObject *self, PyObject *unused)
{
    struct held *held = (struct held *)self;
    PyObject *acquired;

    (void)unused;
    if (held->is_held) {
        PyErr_SetString(PyExc_RuntimeError, "Expected to be entered once");
        return NULL;
    }
    acquired = PyObject_CallNoArgs(held->acquire);
    if (acquired == NULL)
        return NULL;
    Py_DECREF(acquired);
    held->is_held = 1;
    if (held->changing != NULL)
        held->changing->depth++;
    Py_RETURN_NONE;
}

/* 0, or -1 with an exception: then it is held as before. */
static int let_go(struct held *held)
{
    PyObject *released = PyObject_CallNoArgs(held->release);

    if (released == NULL)
        return -1;
    Py_DECREF(released);
    held->is_held = 0;
    if (held->changing != NULL)
        held->changing->depth--;
    return 0;
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
static PyObject *held_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct held *held = (struct held *)self;

    (void)args;
    (void)nargs;
    if (!held->is_held) {
        PyErr_SetString(PyExc_RuntimeError, "cannot release un-acquired lock"); /* as threading.RLock says it */
        return NULL;
    }
    if (let_go(held) != 0)
        return NULL;
    if (held->changing == NULL || held->changing->depth > 0)
        Py_RETURN_NONE;
    wake_all(held->changing->asleep);
    return PyObject_CallNoArgs(held->changing->ended); /* None, or an interrupt, which harms nobody any more */
}

/* Of a lock, or of a Changing, which then is not NULL and has the same. Takes no reference. */
static PyObject *new_held(PyTypeObject *type, PyObject *acquire, PyObject *release, struct changing *changing)
{
    struct held *held = (struct held *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (held == NULL)
        return NULL;
    held->acquire = Py_NewRef(acquire);
    held->release = Py_NewRef(release);
    held->changing = (struct changing *)Py_XNewRef((PyObject *)changing);
    return (PyObject *)held;
}

/* Gives references to both. -1 with an exception, and none are given. */
static int methods_of(PyObject *lock, PyObject **acquire, PyObject **release)
{
    *acquire = PyObject_GetAttrString(lock, "acquire");
    *release = *acquire != NULL ? PyObject_GetAttrString(lock, "release") : NULL;
    if (*release != NULL)
        return 0;
    Py_CLEAR(*acquire);
    return -1;
}

static PyObject *held_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", NULL};
    PyObject *lock, *acquire, *release, *held;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Held", names, &lock) || methods_of(lock, &acquire, &release) != 0)
        return NULL;
    held = new_held(type, acquire, release, NULL);
    Py_DECREF(acquire);
    Py_DECREF(release);
    return held;
}

static const Py_ssize_t held_owned[] = {offsetof(struct held, acquire), offsetof(struct held, release),
                                        offsetof(struct held, changing), 0};

/* An interrupt is on its way where this is still held: it has skipped the __exit__. */
static void held_dealloc(PyObject *self)
{
    struct held *held = (struct held *)self;
    PyObject *type, *value, *traceback;

    if (held->is_held) {
        PyErr_Fetch(&type, &value, &traceback);
        if (let_go(held) != 0)
            PyErr_WriteUnraisable(held->release);
        PyErr_Restore(type, value, traceback);
    }
    clear_owned(self, held_owned);
    free_instance(self);
}

static PyMethodDef held_methods[] = {
    {"__enter__", held_enter, METH_NOARGS, PyDoc_STR("__enter__($self, /)\n--\n\nTakes the lock.")},
    {"__exit__", (PyCFunction)(void (*)(void))held_exit, METH_FASTCALL,
     PyDoc_STR("__exit__($self, /, *exception)\n--\n\nReleases the lock, then wakes and tells.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot held_slots[] = {
    {Py_tp_doc, PyDoc_STR("Held(lock, /)\n--\n\nHolds a lock within one `with`; an interrupt leaves it free.")},
    {Py_tp_new, held_new},
    {Py_tp_dealloc, held_dealloc},
    {Py_tp_methods, held_methods},
    {0, NULL}};

static PyType_Spec held_spec = {
    .name = "echo_core._c.locks.Held",
    .basicsize = sizeof(struct held),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = held_slots,
};

/* --- Changing --- */

static PyObject *changing_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    struct changing *changing = (struct changing *)self;
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));

    if (state == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, ":Changing", names))
        return NULL;
    return new_held(state->held_type, changing->acquire, changing->release, changing);
}

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
    if (methods_of(lock, &changing->acquire, &changing->release) != 0) {
        Py_DECREF(changing);
        return NULL;
    }
    return (PyObject *)changing;
}

/* There is no tp_clear: as with a tuple, whatever it is in a cycle with can be cleared, and it is always whole. */
static const Py_ssize_t changing_owned[] = {offsetof(struct changing, acquire), offsetof(struct changing, release),
                                            offsetof(struct changing, asleep), offsetof(struct changing, ended), 0};

static int changing_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, changing_owned, visit, arg);
}

static void changing_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_owned(self, changing_owned);
    free_instance(self);
}

static PyType_Slot changing_slots[] = {
    {Py_tp_doc,
     PyDoc_STR("Changing(lock, asleep, ended, /)\n--\n\n"
               "Gives what `with` enters: it wakes who waits for a change; an interrupt leaves nobody out.")},
    {Py_tp_new, changing_new},
    {Py_tp_call, changing_call},
    {Py_tp_dealloc, changing_dealloc},
    {Py_tp_traverse, changing_traverse},
    {0, NULL}};

static PyType_Spec changing_spec = {
    .name = "echo_core._c.locks.Changing",
    .basicsize = sizeof(struct changing),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = changing_slots,
};

/* --- the module --- */

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);

    return add_type(module, &held_spec, &state->held_type) != 0 || add_type(module, &changing_spec, NULL) != 0 ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.locks",
    .m_doc = PyDoc_STR("Locks that no interrupt leaves locked."),
    .m_size = sizeof(struct module_state),
    .m_slots = module_slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_locks(void)
{
    return PyModuleDef_Init(&module_definition);
}
