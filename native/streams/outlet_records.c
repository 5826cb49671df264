/* Records side by side, and arrays of them, as an outlet takes them: no Python object is made for any. */
#include "streams/branches.h"
#include "streams/submissions.h"

#include "links/errors.h"
#include "links/state.h"

#include "core/forks.h"

/* --- submit_records --- */

static int are_takers(const struct sinks *sinks)
{
    Py_ssize_t i = 0;

    while (i < sinks->converting_count && ((struct delivery *)PyTuple_GetItem(sinks->converting, i))->taker != NULL)
        i++;
    return sinks->direct_count == 0 && i == sinks->converting_count;
}

/* They share one copy: the caller may write to the buffer again. Who takes what lies there needs none. */
static int hand_buffer(const struct sinks *sinks, PyObject *records, struct submission *submission)
{
    struct record *record = &submission->record;

    if (sinks->direct == NULL)
        return 0;
    if (are_takers(sinks))
        return hand_to_all(sinks->converting, sinks->converting_count, NULL, submission);
    submission->owner = PyBytes_CheckExact(records)
                            ? Py_NewRef(records)
                            : PyBytes_FromStringAndSize((const char *)record->bytes, record->size);
    if (submission->owner == NULL)
        return -1;
    record->bytes = (const uint8_t *)PyBytes_AsString(submission->owner);
    return hand_to_all(sinks->direct, sinks->direct_count, NULL, submission) != 0
               ? -1
               : hand_to_all(sinks->converting, sinks->converting_count, NULL, submission);
}

/* Likewise where they are kept, or others are derived from them. */
static __attribute__((noinline)) int submit_view_the_long_way(struct outlet *outlet, PyObject *records,
                                                              struct submission *submission)
{
    struct subject subject = {.what = submission, .record_size = outlet->record_size};
    struct passes passes = {NULL, NULL};
    struct sinks sinks = {.direct = NULL};
    int status = echo_branches_send(outlet, &subject, &sinks, &passes);

    if (status == 0)
        status = hand_buffer(&sinks, records, submission);
    let_sinks_go(&sinks);
    return echo_passes_hand(&passes, submission, status);
}

static int submit_view(struct outlet *outlet, PyObject *records, const Py_buffer *view, struct submission *submission)
{
    struct sinks sinks;
    int status;

    if (view->len == 0)
        return 0;
    submission->record =
        (struct record){.bytes = view->buf, .size = view->len, .submitted_ns = time_of_submission(outlet)};
    submission->events = (uint64_t)(view->len / outlet->record_size);
    if (outlet->keeps_or_branches)
        return submit_view_the_long_way(outlet, records, submission);
    submission->number = outlet->sequence;
    outlet->sequence += submission->events;
    outlet->bytes += (uint64_t)view->len;
    sinks = sinks_of(outlet);
    status = echo_submission_send(outlet, submission);
    if (status == 0)
        status = hand_buffer(&sinks, records, submission);
    let_sinks_go(&sinks);
    return status;
}

/* 0: the view is open. 1: the records do not lie side by side. -1 with an exception. */
static int open_view(PyObject *records, Py_buffer *view)
{
    if (PyObject_GetBuffer(records, view, PyBUF_SIMPLE) == 0)
        return 0;
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    PyErr_Clear(); /* TypeError, BufferError, and numpy's ValueError */
    return 1;
}

static int is_whole(const struct outlet *outlet, const Py_buffer *view)
{
    if (outlet->record_size != 0 && view->len % outlet->record_size == 0)
        return 1;
    if (outlet->record_size == 0)
        echo_raise("FormatError", "Expected events, got records side by side: those of this source vary in size");
    else
        echo_raise("FormatError", "Expected records of %zd bytes each, got %zd bytes", outlet->record_size, view->len);
    return 0;
}

/* Closes the view. Opening it may have run any code. */
static PyObject *submit_and_close(struct outlet *outlet, PyObject *records, Py_buffer *view)
{
    struct submission submission = {.forks = echo_forks};
    int status = atomic_load(&outlet->is_held) ? echo_outlet_await_release(outlet) : 0;

    if (status == 0)
        status = is_outlet_open(outlet) && is_whole(outlet, view) ? enter_submission() : -1;

    if (status == 0) {
        status = submit_view(outlet, records, view, &submission);
        leave_submission();
    }
    PyBuffer_Release(view);
    return conclude(&submission, status);
}

PyObject *echo_outlet_submit_records(PyObject *self, PyObject *records)
{
    struct outlet *outlet = (struct outlet *)self;
    Py_buffer view;
    int status;

    if (!is_outlet_open(outlet))
        return NULL;
    status = open_view(records, &view);
    if (status == 0)
        return submit_and_close(outlet, records, &view);
    if (status > 0)
        echo_raise("FormatError", "Expected a contiguous buffer of records, got %R", Py_TYPE(records));
    return NULL;
}

/* --- relayed --- */

/* Who takes them takes what is derived: the outlet of a source elsewhere has no sinks and streams of its own. */
int echo_outlet_relay(PyObject *self, const struct record *record, PyObject *owner, uint64_t events,
                      struct asides *derived)
{
    struct outlet *outlet = (struct outlet *)self;
    struct submission submission = {
        .record = *record, .events = events, .forks = echo_forks, .owner = Py_XNewRef(owner)};
    struct subject subject = {.what = &submission, .record_size = outlet->record_size};
    struct passes passes = {NULL, NULL};
    struct sinks sinks = {.direct = NULL};
    PyObject *done;
    int status = atomic_load(&outlet->is_held) ? echo_outlet_await_release(outlet) : 0;

    if (status == 0 && !outlet->is_closed && (status = enter_submission()) == 0) {
        status = echo_branches_send(outlet, &subject, &sinks, &passes);
        let_sinks_go(&sinks);
        status = derived != NULL ? echo_passes_leave(&passes, &submission, status, derived)
                                 : echo_passes_hand(&passes, &submission, status);
        leave_submission();
    }
    done = conclude(&submission, status);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* --- submit_array --- */

static void refuse_dtype(const struct outlet *outlet, PyObject *dtype)
{
    PyObject *name;

    if (outlet->dtype == NULL) {
        echo_raise("FormatError", "Expected events, got an array: the records of this source vary in size");
        return;
    }
    name = outlet->event_class != NULL ? PyType_GetName(outlet->event_class) : PyUnicode_FromString("records");
    if (name != NULL)
        echo_raise("FormatError", "Expected an array of %S, got one of %S - at `%S`", outlet->dtype, dtype, name);
    Py_XDECREF(name);
}

static int has_dtype(const struct outlet *outlet, PyObject *array)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)outlet));
    PyObject *dtype = PyObject_GetAttr(array, state->dtype_word);
    int is_it = dtype == outlet->dtype;

    if (dtype == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) { /* a list, say */
            PyErr_Clear();
            echo_raise("FormatError", "Expected a numpy array of records, got %R", Py_TYPE(array));
        }
        return 0;
    }
    if (!is_it && outlet->dtype != NULL)
        is_it = PyObject_RichCompareBool(dtype, outlet->dtype, Py_EQ);
    if (is_it == 0)
        refuse_dtype(outlet, dtype);
    Py_DECREF(dtype);
    return is_it > 0;
}

static PyObject *submit_copy(PyObject *self, PyObject *array)
{
    PyObject *copy = PyObject_CallMethod(array, "copy", NULL), *result;

    if (copy == NULL)
        return NULL;
    result = echo_outlet_submit_records(self, copy);
    Py_DECREF(copy);
    return result;
}

PyObject *echo_outlet_submit_array(PyObject *self, PyObject *array)
{
    struct outlet *outlet = (struct outlet *)self;
    Py_buffer view;
    int status;

    if (!is_outlet_open(outlet) || !has_dtype(outlet, array))
        return NULL;
    status = open_view(array, &view);
    if (status > 0)
        return submit_copy(self, array);
    return status == 0 ? submit_and_close(outlet, array, &view) : NULL;
}
