/* What an Encoder and a Decoder have in common: two built-in functions, each with a fallback. */
#ifndef ECHO_RECORD_CODEC_H
#define ECHO_RECORD_CODEC_H

#include "events/raw_codec.h"
#include "events/records/records.h"

#pragma GCC visibility push(hidden)

/* The Python object, or its first part. */
struct codec {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    struct shape *shape;            /* owned; bound. NULL only after tp_clear */
    PyObject *fallback;             /* owned; NULL only after tp_clear */
    PyObject *fallback_many;        /* owned; likewise */
    PyObject *call;                 /* owned; holds this object too, so the cycle is left to the GC */
    PyObject *call_many;            /* owned; likewise */
    unsigned long long compiled;    /* calls that were answered here */
    unsigned long long interpreted; /* calls that went to a fallback */
};

/* Fills in a zeroed object; takes its own references. The definitions are borrowed, and must live as long as
 * the process. -1 with an exception. Runs no Python code. */
int echo_record_codec_init(struct codec *codec, PyObject *shape, PyMethodDef *one, PyObject *fallback,
                           PyMethodDef *many, PyObject *fallback_many);

/* tp_traverse. */
int echo_record_codec_traverse(PyObject *self, visitproc visit, void *arg);

/* tp_clear. May run any code. */
int echo_record_codec_clear(PyObject *self);

/* tp_dealloc, also of a larger object: it calls the type's own tp_clear. */
void echo_record_codec_dealloc(PyObject *self);

/* encoder.c and decoder.c: the built-in functions for one record, and the same without bytes objects.
 * May run any code. */
PyObject *echo_record_encode(PyObject *self, PyObject *event);
PyObject *echo_record_decode(PyObject *self, PyObject *data);
raw_encode echo_record_encode_raw;
raw_decode echo_record_decode_raw;
raw_measure echo_record_measure;
raw_count echo_record_count; /* a Decoder's */

/* tp_members. */
extern PyMemberDef echo_record_codec_members[];

/* The end of a call: its result, which is NULL unless the outcome is GOOD, or that of the fallback. May run
 * any code. After tp_clear, which only another object's finalizer can notice, it is a SystemError. */
static inline PyObject *finish(struct codec *codec, enum outcome outcome, PyObject *result,
                               PyObject *fallback, PyObject *argument)
{
    if (outcome == GOOD)
        codec->compiled++;
    else if (outcome == UNUSUAL) {
        codec->interpreted++;
        return call_one(fallback, argument);
    }
    return result;
}

#pragma GCC visibility pop

#endif
