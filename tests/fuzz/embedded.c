/* libFuzzer around Python: what instrumented modules do with an input is seen, as if it were all C.
 *
 *   ECHO_FUZZED=tests.fuzz.fuzz_intake embedded -max_total_time=600 [corpus folder]
 *
 * ECHO_FUZZED names the module whose `one(data)` takes an input. An exception is a finding. `make fuzz` builds
 * the modules and this so that they fit: modules with coverage alone, whose run-time is in here.
 */
#include <Python.h>

#include <signal.h>
#include <stdlib.h>

static PyObject *one; /* owned, to the end */

static void require(int condition)
{
    if (condition)
        return;
    PyErr_Print();
    abort();
}

/* The Python of a virtual environment finds its packages by the name that it is called by. */
static void start_python(void)
{
    const char *executable = getenv("ECHO_PYTHON");
    PyConfig config;

    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    if (executable != NULL)
        PyConfig_SetBytesString(&config, &config.program_name, executable);
    if (PyStatus_Exception(Py_InitializeFromConfig(&config)))
        abort();
    PyConfig_Clear(&config);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("ECHO_FUZZED");
    PyObject *module;

    (void)argc;
    (void)argv;
    if (name == NULL)
        abort();
    start_python();
    signal(SIGPIPE, SIG_IGN); /* as Python has it, which leaves SIGINT to libFuzzer here */
    module = PyImport_ImportModule(name);
    require(module != NULL);
    one = PyObject_GetAttrString(module, "one");
    require(one != NULL);
    Py_DECREF(module);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    PyObject *result = bytes != NULL ? PyObject_CallOneArg(one, bytes) : NULL;

    require(result != NULL);
    Py_DECREF(result);
    Py_DECREF(bytes);
    return 0;
}
