/* The type Wire: what Python sees of any wire before a Link takes it over. */
#include "links.h"

#include <structmember.h>

static void let_go(struct wire_object *self)
{
    struct wire *wire = self->wire;

    self->wire = NULL;
    if (wire == NULL)
        return;
    if (self->forks != echo_forks) {
        wire->operations->abandon(wire);
        return;
    }
    wire->operations->shut(wire);
    wire->operations->free(wire);
}

static PyObject *wire_close(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    let_go((struct wire_object *)self);
    Py_RETURN_NONE;
}

static void wire_dealloc(PyObject *self)
{
    let_go((struct wire_object *)self);
    free_instance(self);
}

static PyMethodDef wire_methods[] = {
    {"close", wire_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nEnds it, unless a Link has taken it over.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef wire_members[] = {
    {"name", T_STRING, offsetof(struct wire_object, name), READONLY, PyDoc_STR("What kind of wire it is.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot wire_slots[] = {
    {Py_tp_doc, PyDoc_STR("Bytes from process to process. A Link takes it over.")},
    {Py_tp_dealloc, wire_dealloc},
    {Py_tp_methods, wire_methods},
    {Py_tp_members, wire_members},
    {0, NULL}};

PyType_Spec echo_link_wire_spec = {
    .name = "echo_core._links.Wire",
    .basicsize = sizeof(struct wire_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = wire_slots,
};
