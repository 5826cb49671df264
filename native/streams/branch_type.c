/* The type Branch as Python sees it; branches.c has its rules. */
#include "streams/fans.h"

#include <structmember.h>

/* --- making one --- */

static PyObject *or_none(PyObject *object)
{
    return object != Py_None ? Py_NewRef(object) : NULL;
}

/* The functions of the judge; -1 with an exception. Their table is static. */
static int find_raw(struct branch *branch)
{
    PyObject *capsule = PyObject_GetAttrString(branch->judge, RAW_JUDGE);

    branch->raw = capsule != NULL ? PyCapsule_GetPointer(capsule, RAW_JUDGE) : NULL;
    Py_XDECREF(capsule);
    return branch->raw != NULL ? 0 : -1;
}

static int take_arguments(struct branch *branch, const struct module_state *state, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"judge",     "outlet",  "takes_objects", "has_clock", "convert",
                            "computing", "offsets", "derived_size",  NULL};
    PyObject *judge, *outlet, *convert = Py_None, *computing = Py_None, *offsets = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!|$ppOOO!n:Branch", names, &judge, state->outlet_type, &outlet,
                                     &branch->takes_objects, &branch->has_clock, &convert, &computing, &PyTuple_Type,
                                     &offsets, &branch->derived_size))
        return -1;
    if (((struct outlet *)outlet)->history != NULL || branch->derived_size < 0 ||
        (computing != Py_None && offsets == NULL)) {
        PyErr_SetString(PyExc_ValueError, "Expected an outlet that keeps nothing, a size from 0 on, and offsets");
        return -1;
    }
    branch->judge = or_none(judge);
    branch->outlet = Py_NewRef(outlet);
    branch->convert = or_none(convert);
    branch->computing = or_none(computing);
    branch->offsets = Py_XNewRef(offsets);
    if (branch->computing != NULL)
        branch->write = PyObject_GetAttrString(branch->computing, "write_roots");
    if (branch->computing != NULL && branch->write == NULL)
        return -1;
    return branch->judge != NULL ? find_raw(branch) : 0;
}

static PyObject *branch_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct branch *branch = (struct branch *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (branch != NULL)
        branch->follower = (struct follower){branch->follower.ob_base, echo_branch_is_wanted, echo_branch_follow};
    if (branch != NULL && take_arguments(branch, echo_state_of(type), args, kwargs) != 0)
        Py_CLEAR(branch);
    return (PyObject *)branch;
}

static const Py_ssize_t branch_owned[] = {offsetof(struct branch, judge),
                                          offsetof(struct branch, outlet),
                                          offsetof(struct branch, convert),
                                          offsetof(struct branch, computing),
                                          offsetof(struct branch, write),
                                          offsetof(struct branch, offsets),
                                          0};

static int branch_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, branch_owned, visit, arg);
}

/* A cycle leads through an Outlet, which has a tp_clear. */
static void branch_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_owned(self, branch_owned);
    free_instance(self);
}

/* --- parameters --- */

static int set_parameters(PyObject *judge, PyObject *parameters)
{
    PyObject *result;

    if (judge == NULL || parameters == Py_None)
        return 0;
    result = PyObject_CallMethod(judge, "set_parameters", "O", parameters);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* set(judged, computed): no Python code runs between the change and the look at the number. What was judged before, and
 * has none yet, comes first. */
static PyObject *branch_set(PyObject *self, PyObject *args)
{
    const struct branch *branch = (struct branch *)self;
    PyObject *judged, *computed;

    if (!PyArg_ParseTuple(args, "OO:set", &judged, &computed) || set_parameters(branch->judge, judged) != 0 ||
        echo_fan_renew(branch) != 0 || set_parameters(branch->computing, computed) != 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(outlet_of(branch)->sequence + branch->waiting + branch->deriving);
}

/* --- the types --- */

static PyType_Slot follower_slots[] = {
    {Py_tp_doc, PyDoc_STR("What follows the events of an outlet: a Branch, or a Fan of many.")}, {0, NULL}};

PyType_Spec echo_link_follower_spec = {
    .name = "echo_core._c.links.Follower",
    .basicsize = sizeof(struct follower),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = follower_slots,
};

static PyMethodDef branch_methods[] = {
    {"set", branch_set, METH_VARARGS,
     PyDoc_STR(
         "set($self, judged, computed, /)\n--\n\n"
         "Other parameters of the judge, and of what is computed. The number from which on they judge what passes, as "
         "far as no other thread has submitted what was judged before.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef branch_members[] = {
    {"outlet", T_OBJECT_EX, offsetof(struct branch, outlet), READONLY, PyDoc_STR("Where what passes goes.")},
    {"failed", T_ULONGLONG, offsetof(struct branch, failed), READONLY,
     PyDoc_STR("Of them, those whose derived record could not be made.")},
    {NULL, 0, 0, 0, NULL}};

static PyObject *branch_get_filtered(PyObject *self, void *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(echo_branch_filtered((const struct branch *)self));
}

static PyObject *branch_get_come_to(PyObject *self, void *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(echo_branch_come_to((const struct branch *)self));
}

static PyGetSetDef branch_properties[] = {
    {"filtered", branch_get_filtered, NULL, PyDoc_STR("Events that did not pass."), NULL},
    {"come_to", branch_get_come_to, NULL,
     PyDoc_STR("The number of the source's event behind the last that was judged."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot branch_slots[] = {
    {Py_tp_doc,
     PyDoc_STR("Branch(judge, outlet, *, takes_objects=False, has_clock=False, convert=None, computing=None, "
               "offsets=(), derived_size=0)\n--\n\n"
               "From the events of the outlet that has it to those of another one.")},
    {Py_tp_new, branch_new},
    {Py_tp_dealloc, branch_dealloc},
    {Py_tp_traverse, branch_traverse},
    {Py_tp_methods, branch_methods},
    {Py_tp_members, branch_members},
    {Py_tp_getset, branch_properties},
    {0, NULL}};

PyType_Spec echo_link_branch_spec = {
    .name = "echo_core._c.links.Branch",
    .basicsize = sizeof(struct branch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = branch_slots,
};
