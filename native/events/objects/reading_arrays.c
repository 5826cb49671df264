/* Elements that stand side by side in a record to an array of numpy's: by its C interface, or else by a call of its class. */
#include "events/arrays.h"
#include "events/objects/reading.h"

/* By a call of numpy.ndarray. */
static PyObject *call_for_view(const struct in *in, const struct value *value, Py_ssize_t at, PyObject *shape)
{
    PyObject *array, *offset = PyLong_FromSsize_t(at);

    if (offset == NULL)
        return NULL;
    array = PyObject_CallFunctionObjArgs((PyObject *)value->container, shape, value->dtype, in->source, offset, NULL);
    Py_DECREF(offset);
    return array;
}

/* To memory that nobody else knows of. */
static int copy_values(const struct in *in, const struct value *element, uint8_t *target, Py_ssize_t at,
                       Py_ssize_t count)
{
    int is_long = in->turn != NULL && count * element->size > TURN_BYTES, is_good;
    PyThreadState *released = is_long ? PyEval_SaveThread() : NULL;

    is_good = echo_values_copy(element, target, in->bytes + at, count, 0);
    if (released != NULL)
        PyEval_RestoreThread(released);
    return is_good;
}

/* The same; its memory is a bytearray. */
static PyObject *call_for_array(const struct in *in, const struct value *value, Py_ssize_t at, PyObject *shape,
                                Py_ssize_t count)
{
    PyObject *memory, *array;

    if (in->source != NULL)
        return call_for_view(in, value, at, shape);
    memory = PyByteArray_FromStringAndSize(NULL, count * value->element->size);
    if (memory == NULL)
        return NULL;
    if (!copy_values(in, value->element, (uint8_t *)PyByteArray_AsString(memory), at, count)) {
        Py_DECREF(memory);
        return NULL;
    }
    array = PyObject_CallFunctionObjArgs((PyObject *)value->container, shape, value->dtype, memory, NULL);
    Py_DECREF(memory);
    return array;
}

static PyObject *call_for_elements(const struct in *in, const struct value *value, Py_ssize_t at, const int64_t *shape,
                                   Py_ssize_t count)
{
    PyObject *lengths = PyTuple_New(value->count), *array = NULL;
    Py_ssize_t i;

    for (i = 0; lengths != NULL && i < value->count; i++) {
        PyObject *length = PyLong_FromLongLong(shape[i]);

        if (length == NULL)
            Py_CLEAR(lengths);
        else
            PyTuple_SetItem(lengths, i, length);
    }
    if (lengths != NULL)
        array = call_for_array(in, value, at, lengths, count);
    Py_XDECREF(lengths);
    return array;
}

PyObject *echo_read_array(const struct in *in, const struct value *value, Py_ssize_t at, const int64_t *shape,
                          Py_ssize_t count)
{
    Py_ssize_t i, lengths[MAX_DIMENSIONS];
    PyObject *array;

    if (is_bare(value, count))
        return NULL;
    if (!value->is_known_array)
        return call_for_elements(in, value, at, shape, count);
    for (i = 0; i < value->count; i++)
        lengths[i] = (Py_ssize_t)shape[i];
    if (in->source != NULL)
        return echo_new_array_view(value->dtype, (int)value->count, lengths, in->bytes + at, in->source);
    array = new_own_array(value->dtype, (int)value->count, lengths);
    if (array != NULL && !copy_values(in, value->element, array_fields_of(array)->bytes, at, count))
        Py_CLEAR(array);
    return array;
}
