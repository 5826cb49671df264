/* The built-in codecs as other C modules call them: straight from and to plain memory. raw_codec.h has the rules. */
#include "events/raw_codec.h"

/* Borrowed for ever: the rows of a module's capsule. NULL with an exception. */
static const struct raw_codec *rows_of(const char *module_name, const char *capsule_name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *capsule = module != NULL ? PyObject_GetAttrString(module, RAW_CODECS) : NULL;
    const struct raw_codec *rows = capsule != NULL ? PyCapsule_GetPointer(capsule, capsule_name) : NULL;

    Py_XDECREF(capsule);
    Py_XDECREF(module);
    return rows;
}

static int find(const struct raw_codec *rows, PyObject *callable, struct raw_call *raw)
{
    PyCFunction function = PyCFunction_GetFunction(callable);

    if (rows == NULL)
        return -1;
    for (; rows->call != NULL; rows++) {
        if (rows->call == function)
            *raw = (struct raw_call){.encode = rows->encode,
                                     .decode = rows->decode,
                                     .measure = rows->measure,
                                     .count = rows->count,
                                     .self = PyCFunction_GetSelf(callable)};
    }
    return 0;
}

int echo_raw_call_of(PyObject *callable, struct raw_call *raw)
{
    *raw = (struct raw_call){.self = NULL};
    if (!PyCFunction_Check(callable))
        return 0;
    if (find(rows_of("echo_core._c.objects", "echo_core._c.objects." RAW_CODECS), callable, raw) != 0)
        return -1;
    if (find(rows_of("echo_core._c.routines", "echo_core._c.routines." RAW_CODECS), callable, raw) != 0)
        return -1;
    return find(rows_of("echo_core._c.records", "echo_core._c.records." RAW_CODECS), callable, raw);
}
