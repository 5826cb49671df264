/* What the two files of the type Delivery know of it: deliveries.c its rules, delivery_type.c its Python
 * face. */
#ifndef ECHO_LINK_DELIVERIES_H
#define ECHO_LINK_DELIVERIES_H

#include "links/links.h"

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
    PyObject ob_base;       /* spelled out: PyObject_HEAD hides it */
    PyObject *target;       /* owned; a Queue, or called with each event */
    PyObject *decode;       /* owned; from a record, or if is_array from a buffer of records */
    PyObject *dtype;        /* owned; what decode takes besides a buffer. NULL: nothing */
    PyObject *on_error;     /* owned; called with each exception; True: also what is no Exception is reported now */
    PyObject *on_refusal;   /* owned; on_error for what decode raises, or the same */
    struct raw_call raw;    /* of decode */
    const struct module_state *state; /* borrowed from the module, which its type holds */
    Py_ssize_t record_size; /* of one record; 0: records vary, and each comes by itself */
    int is_queue;           /* what target is */
    int is_led;             /* 1: there is room for what it hands on now, as a leader has seen */
    int is_array;           /* 1: all records of a batch become one object */
    int is_closed;          /* 1: nothing more is handed on */
    struct batch *batches;  /* on stacks; those that are handed out one record after the other */
    unsigned forks;         /* echo_forks when the first of them began: a child has no stacks but its own thread's */
    PyObject *counting[COUNTS]; /* owned; callables that have counts. NULL: none */
    const unsigned long long *counts[COUNTS]; /* in them, of what all sinks have left to Python code; never NULL */
    unsigned long long decoded; /* events that came as records, also where that failed */
    uint64_t interpreted;   /* of them, what was left to Python code */
    uint64_t handed;        /* events that came by reference */
    uint64_t bytes;         /* of their records, in the sender's layout */
    uint64_t failures;      /* exceptions reported */
    uint64_t skipped;       /* events that were left of batches when it was closed */
    uint64_t dropped;       /* of all, for want of room in the queue, or skipped */
};

#endif
