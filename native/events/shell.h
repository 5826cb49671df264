/* The shell of every built-in function here: it answers in C what C code knows how to, and leaves the rest to a slow
 * Python callable (the fallback), whose result or exception is the call's. Both kinds of answer are counted.
 *
 * What a type adds is its steps: C functions that are GOOD, or UNUSUAL and have changed nothing. A step is compiled
 * into what calls the functions below with it (WITH_STEP), as a call of it would show in every event.
 */
#pragma once

#include "events/views.h"
#include "raw_codec.h"

#include <structmember.h>

#define WITH_STEP __attribute__((flatten))

/* The first part of the Python object. */
struct shell {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    unsigned long long compiled;    /* answered in C; calls, or events where a call is for many */
    unsigned long long interpreted; /* left to a fallback */
    PyObject *fallbacks[2];         /* owned callables; the second is NULL where the type has no use for it. Both are
                                     * NULL after tp_clear */
    const Py_ssize_t *owned;        /* where in the object what the type owns besides stands, and a 0. These references
                                     * stay until tp_dealloc, unless the type's own tp_clear takes them */
    struct raw_call raw;            /* of the first fallback; zeroes where that has no raw form, and after tp_clear */
};

/* A new, otherwise zeroed object; takes its own references. second: NULL for none. NULL with an exception. */
struct shell *echo_shell_new(PyTypeObject *type, const Py_ssize_t *owned, PyObject *first, PyObject *second);

/* tp_traverse, tp_clear and tp_dealloc, or the last step of a type's own. */
int echo_shell_traverse(PyObject *self, visitproc visit, void *arg);
int echo_shell_clear(PyObject *self);
void echo_shell_dealloc(PyObject *self); /* calls the type's own tp_clear; the GC no longer tracks the object */

/* tp_members: the two counts. */
extern PyMemberDef echo_shell_members[];

/* What the fallbacks are asked when a record is no bytes object: they get one. May run any code. */
PyObject *echo_shell_decode_slowly(struct shell *shell, PyObject *fallback, const uint8_t *record, Py_ssize_t size);

/* May run any code. After tp_clear, which only another object's finalizer can notice, this is a SystemError. */
static inline PyObject *fall_back(struct shell *shell, PyObject *fallback, PyObject *argument)
{
    shell->interpreted++;
    return PyObject_CallFunctionObjArgs(fallback, argument, NULL);
}

/* The end of a call: its result, which is NULL unless the outcome is GOOD, or that of the fallback. */
static inline PyObject *finish(struct shell *shell, enum outcome outcome, PyObject *result, PyObject *fallback,
                               PyObject *argument)
{
    if (outcome == GOOD)
        shell->compiled++;
    else if (outcome == UNUSUAL)
        return fall_back(shell, fallback, argument);
    return result;
}

/* --- events to records; the fallback is the first --- */

/* GOOD: as raw_encode has it. Otherwise *record stays NULL. */
typedef enum outcome encode_step(struct shell *shell, PyObject *event, uint8_t *room, Py_ssize_t size,
                                 PyObject **record, Py_ssize_t *written);

/* raw_encode. */
static inline int encode_raw(struct shell *shell, encode_step *step, PyObject *event, uint8_t *room, Py_ssize_t size,
                             PyObject **record, Py_ssize_t *written)
{
    enum outcome outcome = step(shell, event, room, size, record, written);

    if (outcome == GOOD) {
        shell->compiled++;
        return 0;
    }
    if (outcome == RAISED)
        return -1;
    if (shell->raw.encode != NULL) {
        shell->interpreted++;
        return shell->raw.encode(shell->raw.self, event, room, size, record, written);
    }
    *record = fall_back(shell, shell->fallbacks[0], event);
    return *record != NULL ? 0 : -1;
}

/* raw_measure, where the step does not know. */
static inline Py_ssize_t measure_slowly(struct shell *shell, PyObject *event)
{
    if (shell->raw.measure != NULL)
        return shell->raw.measure(shell->raw.self, event);
    return size_of_record(fall_back(shell, shell->fallbacks[0], event));
}

/* --- records to events --- */

/* held: the bytes object that the record is, or NULL. On GOOD *event is the caller's. */
typedef enum outcome decode_step(struct shell *shell, const uint8_t *record, Py_ssize_t size, PyObject *held,
                                 PyObject **event);

/* From any contiguous buffer, which is held meanwhile; its bytes may change under the step unless they are `held`. */
static inline PyObject *decode(struct shell *shell, decode_step *step, PyObject *fallback, PyObject *data)
{
    struct view view;
    PyObject *event = NULL;
    enum outcome outcome = open_view(&view, data);

    if (outcome == GOOD) {
        outcome = step(shell, view.bytes, view.size, view.is_exported ? NULL : data, &event);
        close_view(&view);
    }
    return finish(shell, outcome, event, fallback, data);
}

/* raw_decode. */
static inline PyObject *decode_raw(struct shell *shell, decode_step *step, PyObject *fallback, const uint8_t *record,
                                   Py_ssize_t size)
{
    PyObject *event = NULL;
    enum outcome outcome = step(shell, record, size, NULL, &event);

    if (outcome == GOOD)
        shell->compiled++;
    else if (outcome == UNUSUAL)
        return echo_shell_decode_slowly(shell, fallback, record, size);
    return event;
}
