/* Entries: what Python code finds where an object may be inherited by a forked child (rule 1 of core/forks.h).
 *
 *   ACTS      does something with the link or its peer: ClosedError in a child
 *   LETS GO   ends something that the parent goes on with: None in a child, and nothing is done
 *   TELLS     a count that a lock guards: 0 in a child
 *
 * Each method or attribute of that kind has its function in one of these, and its table names NAME_entry. What has no
 * entry uses only memory of this process which the GIL guards: a child may go on with that. The C functions that
 * streams and queues call (put, lend, lead) ask by echo_link_check, and destructors by has_forked_since.
 *
 * Signals have one rule as well. A wait that one has ended (-EINTR) runs the handlers with the GIL (PyErr_CheckSignals)
 * and goes on unless a handler has raised: echo_wait. What was raised ends the call. While records are handed out, the
 * first exception that is no Exception waits until all have been (echo_keep_interrupt).
 */
#pragma once

#include "links/link.h"

#include <errno.h>

#define DEFINE_ENTRY_THAT_ACTS(name, link)                                                                             \
    static PyObject *name##_entry(PyObject *self, PyObject *argument)                                                  \
    {                                                                                                                  \
        return echo_link_check(link) == 0 ? name(self, argument) : NULL;                                               \
    }

#define DEFINE_ENTRY_THAT_LETS_GO(name, forks)                                                                         \
    static PyObject *name##_entry(PyObject *self, PyObject *argument)                                                  \
    {                                                                                                                  \
        return has_forked_since(forks) ? Py_NewRef(Py_None) : name(self, argument);                                    \
    }

/* `expression` is read with the lock of the link's outbox. */
#define DEFINE_ENTRY_THAT_TELLS(name, link_of_self, expression)                                                        \
    static PyObject *name##_entry(PyObject *self, void *unused)                                                        \
    {                                                                                                                  \
        struct link *link = link_of_self;                                                                              \
        unsigned long long value = 0;                                                                                  \
                                                                                                                       \
        (void)unused;                                                                                                  \
        if (!has_forked_since(link->forks)) {                                                                          \
            outbox_lock(&link->outbox);                                                                                \
            value = expression;                                                                                        \
            echo_outbox_unlock(&link->outbox);                                                                         \
        }                                                                                                              \
        return PyLong_FromUnsignedLongLong(value);                                                                     \
    }

/* Calls `wait` without the GIL, and again while a signal has ended it (-EINTR) whose handlers have raised nothing. What
 * it returned; -EINTR: an exception is set. */
static inline int echo_wait(int (*wait)(void *subject), void *subject)
{
    PyThreadState *state;
    int status;

    do {
        state = PyEval_SaveThread();
        status = wait(subject);
        PyEval_RestoreThread(state);
    } while (status == -EINTR && PyErr_CheckSignals() == 0);
    return status;
}
