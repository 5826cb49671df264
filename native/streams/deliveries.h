/* Deliveries: the way of one stream's records to one sink. deliveries.c has the rules, delivery_type.c the Python
 * face. */
#pragma once

#include "links/incoming.h"
#include "links/state.h"

#include "raw_codec.h"

/* How many of the functions that decode one after another may count: a walker and the conversion before it. */
#define COUNTS 2

/* What a thread is handing out, on its stack. */
struct batch {
    struct batch *next, **place; /* among the delivery's: handlers submit in turn, and threads take turns */
    const struct record *records;
    Py_ssize_t count;
    Py_ssize_t current; /* of the records */
    Py_ssize_t begun;   /* so many bytes of it */
};

/* The Python object. It has no tp_clear: a cycle through it leads through an IncomingStream, an Outlet, a Queue or an
 * instance of a class, which have one. */
struct delivery {
    PyObject ob_base;     /* spelled out: PyObject_HEAD hides it */
    PyObject *target;     /* owned; a Queue, or called with each event */
    PyObject *decode;     /* owned; from a record, or if is_array from a buffer of records */
    PyObject *dtype;      /* owned; what decode takes besides a buffer. NULL: nothing */
    PyObject *on_error;   /* owned; called with each exception; True: also what is no Exception is reported now */
    PyObject *on_refusal; /* owned; on_error for what decode raises, or the same */
    struct raw_call raw;  /* of decode */
    const struct module_state *state; /* borrowed from the module, which its type holds */
    Py_ssize_t record_size;           /* of one record; 0: records vary, and each comes by itself */
    int is_queue;                     /* what target is */
    int is_led;                       /* 1: there is room for what it hands on now, as a leader has seen */
    int is_array;                     /* 1: all records of a batch become one object */
    int is_closed;                    /* 1: nothing more is handed on */
    struct batch *batches;            /* on stacks; those that are handed out one record after the other */
    unsigned forks; /* echo_forks when the first of them began: a child has no stacks but its own thread's */
    PyObject *counting[COUNTS];               /* owned; callables that have counts. NULL: none */
    const unsigned long long *counts[COUNTS]; /* in them, of what all sinks have left to Python code; never NULL */
    unsigned long long decoded;               /* events that came as records, also where that failed */
    uint64_t interpreted;                     /* of them, what was left to Python code */
    uint64_t handed;                          /* events that came by reference */
    uint64_t bytes;                           /* of their records, in the sender's layout */
    uint64_t failures;                        /* exceptions reported */
    uint64_t skipped;                         /* events that were left of batches when it was closed */
    uint64_t dropped;                         /* of all, for want of room in the queue, or skipped */
};

/* --- deliveries.c --- */

/* Hands records of one stream, in their order, to one sink. `owner`: keeps the bytes alive and unchanged for
 * as long as it is referred to; NULL: there is no such thing, copy what is kept. GIL; runs any code. 0, or -1
 * with an exception: WireError for a record that breaks the rules, or what is no Exception (KeyboardInterrupt):
 * the first one after all records were handed over, as nobody else would do so; the second at once. What else a
 * handler raises is reported, counted, and goes no further. A child that a handler has forked gets none of the
 * other records: they are the parent's. Nor does anybody when the delivery is closed. is_led: 1: this thread
 * leads, and has seen that there is room for them. */
int echo_delivery_hand(PyObject *delivery, const struct record *records, Py_ssize_t count, PyObject *owner, int is_led);

/* Hands on nothing more, whatever is under way: what is left of it is counted as dropped. GIL; runs no Python code. */
void echo_delivery_close(PyObject *delivery);

/* As echo_incoming_narrow. */
void echo_delivery_narrow(PyObject *delivery, Py_ssize_t size, struct space *space);

/* An event of the sink's own type, by reference; `size`: of its record, 0 where that is not known, which it has to be
 * for one that is queued. As above. */
int echo_delivery_hand_event(PyObject *delivery, PyObject *event, Py_ssize_t size);

/* --- spans.c --- */

/* The Python object that makes a buffer of foreign bytes, read-only, and holds their owner. GIL. */
PyObject *echo_span_new(PyTypeObject *span_type, const uint8_t *bytes, Py_ssize_t size, PyObject *owner);

/* --- incoming.c --- */

/* An attribute that is a tuple of `type`, and is replaced as a whole. GIL; any code may run
 * once it has been. -1 with TypeError. */
int echo_replace_tuple(PyObject **place, PyObject *tuple, PyTypeObject *type);

extern PyType_Spec echo_link_incoming_spec;
extern PyType_Spec echo_link_delivery_spec;
extern PyType_Spec echo_link_span_spec;
