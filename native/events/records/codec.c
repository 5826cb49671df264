/* What an Encoder and a Decoder have in common, as Python sees it: how it is made, visited, freed. */
#include "events/records/codec.h"

int echo_record_codec_init(struct codec *codec, PyObject *shape, PyMethodDef *one, PyObject *fallback,
                           PyMethodDef *many, PyObject *fallback_many)
{
    if (((struct shape *)shape)->owner == NULL) {
        PyErr_SetString(PyExc_ValueError, "Expected a Shape that is bound to its class");
        return -1;
    }
    codec->shape = (struct shape *)Py_NewRef(shape);
    codec->fallback = Py_NewRef(fallback);
    codec->fallback_many = Py_NewRef(fallback_many);
    codec->call = PyCFunction_NewEx(one, (PyObject *)codec, NULL);
    codec->call_many = PyCFunction_NewEx(many, (PyObject *)codec, NULL);
    return codec->call != NULL && codec->call_many != NULL ? 0 : -1;
}

int echo_record_codec_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct codec *codec = (struct codec *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(codec->shape);
    Py_VISIT(codec->fallback);
    Py_VISIT(codec->fallback_many);
    Py_VISIT(codec->call);
    Py_VISIT(codec->call_many);
    return 0;
}

int echo_record_codec_clear(PyObject *self)
{
    struct codec *codec = (struct codec *)self;

    Py_CLEAR(codec->shape); /* first: without a shape nothing below is used but the fallbacks */
    Py_CLEAR(codec->fallback);
    Py_CLEAR(codec->fallback_many);
    Py_CLEAR(codec->call);
    Py_CLEAR(codec->call_many);
    return 0;
}

void echo_record_codec_dealloc(PyObject *self)
{
    inquiry clear = (inquiry)PyType_GetSlot(Py_TYPE(self), Py_tp_clear);

    PyObject_GC_UnTrack(self);
    clear(self);
    free_instance(self);
}

PyMemberDef echo_record_codec_members[] = {
    {"call", T_OBJECT_EX, offsetof(struct codec, call), READONLY,
     PyDoc_STR("The built-in function for one record. Keep it; do not look it up per call.")},
    {"call_many", T_OBJECT_EX, offsetof(struct codec, call_many), READONLY,
     PyDoc_STR("The built-in function for many records.")},
    {"compiled", T_ULONGLONG, offsetof(struct codec, compiled), READONLY,
     PyDoc_STR("How many calls were answered natively.")},
    {"interpreted", T_ULONGLONG, offsetof(struct codec, interpreted), READONLY,
     PyDoc_STR("How many calls went to a fallback.")},
    {NULL, 0, 0, 0, NULL}};
