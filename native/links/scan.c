/* Frames in bytes, for Python code: handshakes and tests. Links scan for themselves. */
#include "links/errors.h"
#include "links/state.h"

#include "core/frames.h"

/* Frames one after the other, as frame_first finds them. -1 with WireError, or another exception. */
static Py_ssize_t scan_into(PyObject *frames, const Py_buffer *view, uint32_t limit)
{
    const uint8_t *bytes = view->buf;
    Py_ssize_t at = 0;
    struct frame frame;
    PyObject *found;
    int64_t size;
    size_t need;
    int status;

    while ((size = frame_first(bytes + at, (size_t)(view->len - at), limit, &frame, &need)) > 0) {
        found = Py_BuildValue("(IN)", (unsigned int)frame.stream,
                              PyBytes_FromStringAndSize((const char *)frame.payload, (Py_ssize_t)frame.size));
        status = found != NULL ? PyList_Append(frames, found) : -1;
        Py_XDECREF(found);
        if (status != 0)
            return -1;
        at += (Py_ssize_t)size;
    }
    if (size == 0)
        return at;
    return echo_raise("WireError", "Expected a payload of at most %lu bytes, and a stream, got %lu and %lu",
                      (unsigned long)limit, (unsigned long)frame.size, (unsigned long)frame.stream);
}

PyObject *echo_scan(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *frames = NULL, *result = NULL;
    Py_ssize_t consumed = -1;
    unsigned int limit;
    Py_buffer view;

    if (!PyArg_ParseTuple(args, "y*I:scan", &view, &limit))
        return NULL;
    frames = PyList_New(0);
    if (frames != NULL)
        consumed = scan_into(frames, &view, limit);
    if (consumed >= 0)
        result = Py_BuildValue("(On)", frames, consumed);
    Py_XDECREF(frames);
    PyBuffer_Release(&view);
    return result;
}
