/* The type Sharers: how many streams share what may wait for one handler. */
#include "streams/deliveries.h"

#include <structmember.h>

static PyObject *sharers_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};

    return PyArg_ParseTupleAndKeywords(args, kwargs, ":Sharers", names) ? PyType_GenericAlloc(type, 0) : NULL;
}

static void sharers_dealloc(PyObject *self)
{
    free_instance(self);
}

static PyMemberDef sharers_members[] = {
    {"streams", T_UINT, offsetof(struct sharers, streams), READONLY, PyDoc_STR("Of other processes.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot sharers_slots[] = {
    {Py_tp_doc, PyDoc_STR("Sharers()\n--\n\nThe streams that share what may wait for one handler: as `sink` of its "
                          "deliveries.")},
    {Py_tp_new, sharers_new},
    {Py_tp_dealloc, sharers_dealloc},
    {Py_tp_members, sharers_members},
    {0, NULL}};

PyType_Spec echo_link_sharers_spec = {
    .name = "echo_core._c.links.Sharers",
    .basicsize = sizeof(struct sharers),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = sharers_slots,
};
