/* The type Index: rows that each ask whether one integer, or one text, is theirs, found without asking all of them.
 *
 * Rows of one number are a chain, and the chains stand in a table by a hash of the number: a step or two for an event,
 * however many rows there are. A text has the number of its digest, whose key nobody knows, and is compared besides.
 */
#include "expressions/judges.h"
#include "expressions/module.h"
#include "expressions/rows.h"

#include "code/numbers.h"

#include <string.h>
#include <structmember.h>

#define NO_ROW UINT32_MAX

/* One row; unused where it is in no chain. */
struct row {
    int64_t number;
    uint32_t next; /* of the same place in the table */
    int is_used;
    PyObject *asked; /* owned bytes; its parameters, which hold its text. NULL: it asks for a number */
};

/* What a record has. */
struct key {
    int64_t number;
    const uint8_t *text; /* borrowed; NULL: it is a number */
    uint64_t size;
};

/* The Python object. */
struct index {
    PyObject ob_base;        /* spelled out: PyObject_HEAD hides it */
    struct program *program; /* owned; one root, an integer or a text, without parameters and states */
    int is_text;             /* 1: that is what it is */
    PyObject *keep_alive;    /* owned; what owns the compiled code, or NULL */
    judge_record *compiled;  /* NULL: interpreted */
    struct row *rows;        /* owned */
    uint32_t *table;         /* owned; the first row of each chain */
    uint32_t room;           /* for rows, and places in the table: 0 or a power of two */
    Py_ssize_t record_size;
};

static uint32_t place_of(const struct index *index, int64_t number)
{
    return (uint32_t)((uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (index->room - 1);
}

static void enter(struct index *index, uint32_t row)
{
    uint32_t *first = &index->table[place_of(index, index->rows[row].number)];

    index->rows[row].next = *first;
    *first = row;
}

static void leave(struct index *index, uint32_t row)
{
    uint32_t *link = &index->table[place_of(index, index->rows[row].number)];

    while (*link != row)
        link = &index->rows[*link].next;
    *link = index->rows[row].next;
    index->rows[row].is_used = 0;
    Py_CLEAR(index->rows[row].asked);
}

static int make_room(struct index *index, uint32_t room)
{
    struct row *rows = PyMem_Calloc(room, sizeof *rows);
    uint32_t *table = PyMem_Malloc(room * sizeof *table), i, before = index->room;

    if (rows == NULL || table == NULL) {
        PyMem_Free(rows);
        PyMem_Free(table);
        PyErr_NoMemory();
        return -1;
    }
    if (before != 0)
        memcpy(rows, index->rows, before * sizeof *rows);
    memset(table, 0xff, room * sizeof *table);
    PyMem_Free(index->rows);
    PyMem_Free(index->table);
    index->rows = rows;
    index->table = table;
    index->room = room;
    for (i = 0; i < before; i++) {
        if (rows[i].is_used)
            enter(index, i);
    }
    return 0;
}

/* The first of them. */
static const struct parameter *parameter_of(PyObject *parameters)
{
    return (const struct parameter *)(const void *)PyBytes_AsString(parameters);
}

static struct key key_of_text(const uint8_t *text, uint64_t size)
{
    return (struct key){.number = (int64_t)echo_digest(text, size), .text = text, .size = size};
}

/* What a row asks for: the first of its parameters, which are as large as that. */
static struct key key_of_row(const struct index *index, PyObject *parameters)
{
    const struct parameter *first = parameter_of(parameters);

    return index->is_text ? key_of_text((const uint8_t *)first + first->bits, first->size)
                          : (struct key){.number = first->bits};
}

static int has_parameter(const struct index *index, PyObject *parameters)
{
    const struct parameter *first = parameter_of(parameters);
    uint64_t size = (uint64_t)PyBytes_Size(parameters);

    if (size < sizeof *first)
        return 0;
    return !index->is_text || ((uint64_t)first->bits <= size && first->size <= size - (uint64_t)first->bits);
}

static int put(PyObject *self, uint32_t row, PyObject *parameters)
{
    struct index *index = (struct index *)self;

    if (echo_row_check(row) != 0)
        return -1;
    if (!has_parameter(index, parameters)) {
        PyErr_Format(PyExc_ValueError, "Expected one parameter, got %zd bytes", PyBytes_Size(parameters));
        return -1;
    }
    while (row >= index->room) {
        if (make_room(index, index->room != 0 ? 2 * index->room : 64) != 0)
            return -1;
    }
    if (index->rows[row].is_used)
        leave(index, row);
    index->rows[row] = (struct row){.number = key_of_row(index, parameters).number,
                                    .is_used = 1,
                                    .asked = index->is_text ? Py_NewRef(parameters) : NULL};
    enter(index, row);
    return 0;
}

static void take_out(PyObject *self, uint32_t row)
{
    struct index *index = (struct index *)self;

    if (row < index->room && index->rows[row].is_used)
        leave(index, row);
}

/* What rows are asked for: 0, or -1 where compiled code cannot compute it. */
static int compute(const struct index *index, const uint8_t *record, uint64_t size, struct key *key)
{
    int64_t found[2]; /* a number; of a text where it is, and its size */

    if (index->compiled == NULL || size < (uint64_t)index->record_size ||
        index->compiled(record, size, NULL, NULL, found) < 0)
        return -1;
    *key = index->is_text ? key_of_text((const uint8_t *)(uintptr_t)found[0], (uint64_t)found[1])
                          : (struct key){.number = found[0]};
    return 0;
}

/* Likewise; -1 where it cannot be computed, so no row passes. */
static int interpret(const struct index *index, const uint8_t *record, uint64_t size, struct key *key)
{
    const struct program *program = index->program;
    uint16_t root = program->roots[0].step;
    struct value values[MAX_STEPS];
    uint16_t errors[MAX_STEPS];
    const struct input input = {.record = record, .size = size};

    echo_interpret(program->steps, program->step_count, program->pool, &input, values, errors);
    if (errors[root] != 0)
        return -1;
    *key =
        index->is_text ? key_of_text(values[root].bytes, values[root].count) : (struct key){.number = values[root].i};
    return 0;
}

static int asks_for(const struct row *row, const struct key *key)
{
    const struct parameter *asked;

    if (row->number != key->number || row->asked == NULL)
        return row->number == key->number;
    asked = parameter_of(row->asked);
    return asked->size == key->size &&
           (key->size == 0 || memcmp((const uint8_t *)asked + asked->bits, key->text, key->size) == 0);
}

static Py_ssize_t rows_of(const struct index *index, const struct key *key, uint32_t *rows)
{
    Py_ssize_t count = 0;
    uint32_t row;

    for (row = index->table[place_of(index, key->number)]; row != NO_ROW; row = index->rows[row].next) {
        if (asks_for(&index->rows[row], key))
            rows[count++] = row;
    }
    return count;
}

static Py_ssize_t rows_together(PyObject *self, const uint8_t *record, Py_ssize_t size, uint32_t *rows)
{
    const struct index *index = (const struct index *)self;
    struct key key;

    return index->room != 0 && compute(index, record, (uint64_t)size, &key) == 0 ? rows_of(index, &key, rows) : -1;
}

static const struct raw_table raw = {.put = put, .remove = take_out, .rows = rows_together};

static PyObject *index_raw(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    return PyCapsule_New((void *)(uintptr_t)&raw, RAW_TABLE, NULL);
}

/* put(row, parameters) */
static PyObject *index_put(PyObject *self, PyObject *args)
{
    return echo_put_row(&raw, self, args);
}

static PyObject *index_remove(PyObject *self, PyObject *row)
{
    return echo_remove_row(&raw, self, row);
}

/* rows(record, target): which rows the record passes, in no order, as uint32; how many. */
static PyObject *index_rows(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct index *index = (struct index *)self;
    const uint8_t *record;
    Py_ssize_t size, count = 0;
    struct key key;
    Py_buffer found;

    if (nargs != 2 || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "Expected a record in bytes and room for rows, got others");
        return NULL;
    }
    record = (const uint8_t *)PyBytes_AsString(args[0]);
    size = PyBytes_Size(args[0]);
    if (PyObject_GetBuffer(args[1], &found, PyBUF_WRITABLE) != 0)
        return NULL;
    if (found.len / (Py_ssize_t)sizeof(uint32_t) < (Py_ssize_t)index->room) {
        PyErr_Format(PyExc_ValueError, "Expected room for %u rows, got %zd bytes", index->room, found.len);
    } else if (index->room != 0 && (compute(index, record, (uint64_t)size, &key) == 0 ||
                                    interpret(index, record, (uint64_t)size, &key) == 0)) {
        count = rows_of(index, &key, found.buf);
    }
    PyBuffer_Release(&found);
    return PyErr_Occurred() == NULL ? PyLong_FromSsize_t(count) : NULL;
}

/* --- the type --- */

static PyObject *index_install(PyObject *self, PyObject *args)
{
    struct index *index = (struct index *)self;
    PyObject *keep_alive, *old = index->keep_alive;
    unsigned long long address;

    if (!PyArg_ParseTuple(args, "KO:install", &address, &keep_alive))
        return NULL;
    index->keep_alive = Py_NewRef(keep_alive);
    memcpy(&index->compiled, &(uintptr_t){(uintptr_t)address}, sizeof(uintptr_t));
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *index_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"program", "record_size", NULL};
    struct program *program;
    struct index *index;
    Py_ssize_t record_size;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!n:Index", keywords, sibling(type, PROGRAM), &program,
                                     &record_size))
        return NULL;
    if (program->root_count != 1 || strchr("qty", program->roots[0].form) == NULL || program->state_count != 0 ||
        program->parameter_count != 0 || record_size < 1)
        return PyErr_Format(PyExc_ValueError,
                            "Expected a program of one integer or text without parameters and states");
    index = (struct index *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (index != NULL) {
        index->program = (struct program *)Py_NewRef((PyObject *)program);
        index->is_text = program->roots[0].form != 'q';
        index->record_size = record_size;
    }
    return (PyObject *)index;
}

static const Py_ssize_t owned[] = {offsetof(struct index, program), offsetof(struct index, keep_alive), 0};

static void index_dealloc(PyObject *self)
{
    struct index *index = (struct index *)self;

    for (uint32_t row = 0; row < index->room; row++)
        Py_XDECREF(index->rows[row].asked);
    PyMem_Free(index->rows);
    PyMem_Free(index->table);
    clear_owned(self, owned);
    free_instance(self);
}

static PyMethodDef index_methods[] = {
    {"put", index_put, METH_VARARGS,
     PyDoc_STR("put($self, row, parameters, /)\n--\n\nA row's parameters: its number, or its text.")},
    {"remove", index_remove, METH_O, PyDoc_STR("remove($self, row, /)\n--\n\nTakes a row out.")},
    {"rows", (PyCFunction)(void (*)(void))index_rows, METH_FASTCALL,
     PyDoc_STR("rows($self, record, target, /)\n--\n\nWrites which rows a record passes, as uint32; how many.")},
    {"install", index_install, METH_VARARGS,
     PyDoc_STR("install($self, judge, keep_alive, /)\n--\n\nFrom now on compiled code runs.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef index_members[] = {
    {"room", T_UINT, offsetof(struct index, room), READONLY, PyDoc_STR("For how many rows.")}, {NULL, 0, 0, 0, NULL}};

static PyGetSetDef index_properties[] = {{RAW_TABLE, index_raw, NULL, PyDoc_STR("Its functions, for C code."), NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot index_slots[] = {
    {Py_tp_doc, PyDoc_STR("Index(program, record_size)\n--\n\nRows by the one integer, or text, that each asks for.")},
    {Py_tp_new, index_new},
    {Py_tp_dealloc, index_dealloc},
    {Py_tp_methods, index_methods},
    {Py_tp_members, index_members},
    {Py_tp_getset, index_properties},
    {0, NULL}};

PyType_Spec echo_index_spec = {
    .name = "echo_core._c.expressions.Index",
    .basicsize = sizeof(struct index),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = index_slots,
};
