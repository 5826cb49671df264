/* The type Fan as Python sees it; fans.c has its rules. */
#include "streams/fans.h"

#include <structmember.h>

/* --- making and ending one --- */

/* The functions that an object offers by a capsule of this name; NULL with an exception. Their table is static. */
static const void *offered(PyObject *object, const char *name)
{
    PyObject *capsule = PyObject_GetAttrString(object, name);
    const void *functions = capsule != NULL ? PyCapsule_GetPointer(capsule, name) : NULL;

    Py_XDECREF(capsule);
    return functions;
}

static int take_arguments(struct fan *fan, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"judge", "table", "takes_objects", NULL};
    PyObject *judge, *table;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$p:Fan", names, &judge, &table, &fan->takes_objects))
        return -1;
    fan->judge = Py_NewRef(judge);
    fan->table = Py_NewRef(table);
    fan->raw = offered(judge, RAW_JUDGE);
    fan->asked = fan->raw != NULL ? offered(table, RAW_TABLE) : NULL;
    return fan->asked != NULL ? 0 : -1;
}

static PyObject *fan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct fan *fan = (struct fan *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (fan != NULL) {
        fan->follower.is_wanted = echo_fan_is_wanted;
        fan->follower.follow = echo_fan_follow;
        fan->looked_at = echo_takers_changes - 1;
    }
    if (fan != NULL && take_arguments(fan, args, kwargs) != 0)
        Py_CLEAR(fan);
    return (PyObject *)fan;
}

static const Py_ssize_t fan_owned[] = {offsetof(struct fan, judge), offsetof(struct fan, table), 0};

static int fan_traverse(PyObject *self, visitproc visit, void *arg)
{
    const struct fan *fan = (const struct fan *)self;

    for (uint32_t row = 0; row < fan->room; row++)
        Py_VISIT((PyObject *)fan->rows[row]);
    return visit_owned(self, fan_owned, visit, arg);
}

/* A cycle leads through an Outlet, which has a tp_clear. */
static void fan_dealloc(PyObject *self)
{
    struct fan *fan = (struct fan *)self;

    PyObject_GC_UnTrack(self);
    for (uint32_t row = 0; row < fan->room; row++)
        if (fan->rows[row] != NULL)
            echo_fan_remove(fan, fan->rows[row]);
    PyMem_Free(fan->rows);
    PyMem_Free(fan->found);
    clear_owned(self, fan_owned);
    free_instance(self);
}

/* --- who takes part --- */

static int is_fit(const struct branch *branch)
{
    return branch->judge != NULL && !branch->has_clock && branch->fan == NULL;
}

static PyObject *fan_put(PyObject *self, PyObject *argument)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct branch *branch = (struct branch *)argument;

    if (!Py_IS_TYPE(argument, state->branch_type) || !is_fit(branch))
        return PyErr_Format(PyExc_TypeError, "Expected a Branch with a judge, without a clock and in no Fan, got %R",
                            argument);
    if (echo_fan_put((struct fan *)self, branch) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *fan_remove(PyObject *self, PyObject *argument)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));

    if (Py_IS_TYPE(argument, state->branch_type))
        echo_fan_remove((struct fan *)self, (struct branch *)argument);
    Py_RETURN_NONE;
}

/* --- the type --- */

static PyMethodDef fan_methods[] = {
    {"put", fan_put, METH_O,
     PyDoc_STR("put($self, branch, /)\n--\n\nA branch takes part, by the parameters that its judge has.")},
    {"remove", fan_remove, METH_O, PyDoc_STR("remove($self, branch, /)\n--\n\nIt takes part no longer, if it did.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef fan_members[] = {
    {"branches", T_UINT, offsetof(struct fan, count), READONLY, PyDoc_STR("How many take part.")},
    {"judged", T_ULONGLONG, offsetof(struct fan, judged), READONLY, PyDoc_STR("Events, for all of them at once.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot fan_slots[] = {
    {Py_tp_doc, PyDoc_STR("Fan(judge, table, *, takes_objects=False)\n--\n\n"
                          "Many branches of one outlet, whose judges differ from this one in their parameters alone. "
                          "Those are the rows of the table.")},
    {Py_tp_new, fan_new},
    {Py_tp_dealloc, fan_dealloc},
    {Py_tp_traverse, fan_traverse},
    {Py_tp_methods, fan_methods},
    {Py_tp_members, fan_members},
    {0, NULL}};

PyType_Spec echo_link_fan_spec = {
    .name = "echo_core._c.links.Fan",
    .basicsize = sizeof(struct fan),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = fan_slots,
};
