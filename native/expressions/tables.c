/* The type Table: many rows of parameters of one program, and which of them a record passes.
 *
 * Parameters are kept by column: a block of 64 rows is judged at once by compiled code, which answers with a bit for
 * each. Where it cannot, each row is interpreted. Cells that belong to no row are judged as well, so they must not be
 * what fails: then they are filled with the parameters of a row that does not.
 */
#include "expressions/judges.h"
#include "expressions/module.h"
#include "expressions/rows.h"

#include <string.h>
#include <structmember.h>

#define WORD_ROWS 64

/* rows: in words of 64. mask: a word for each. Below 0 where anything failed. */
typedef int64_t judge_table(const uint8_t *record, uint64_t size, const int64_t *columns, uint64_t words,
                            uint64_t *mask);

/* The Python object. Rows are numbered from 0; one that is taken out is left free. */
struct table {
    PyObject ob_base;        /* spelled out: PyObject_HEAD hides it */
    struct program *program; /* owned; has one root and no states */
    PyObject *keep_alive;    /* owned; what owns the compiled code, or NULL */
    judge_table *compiled;   /* NULL: interpreted */
    int64_t *columns;        /* owned; for each 64 rows: 64 of the first parameter, 64 of the second, and so on */
    uint64_t *used;          /* owned; a bit for each row */
    uint64_t *mask;          /* owned; room for an answer */
    Py_ssize_t words;        /* of 64 rows, that there is room for */
    Py_ssize_t record_size;
    unsigned long long interpreted;
};

/* --- rows --- */

static int64_t *cell(const struct table *table, Py_ssize_t row, Py_ssize_t parameter)
{
    return table->columns + (row / WORD_ROWS * table->program->parameter_count + parameter) * WORD_ROWS +
           row % WORD_ROWS;
}

static int make_room(struct table *table, Py_ssize_t words)
{
    Py_ssize_t columns = table->program->parameter_count * WORD_ROWS;
    int64_t *grown = PyMem_Calloc((size_t)(words * columns) + 1, sizeof *grown);
    uint64_t *used = PyMem_Calloc((size_t)words, sizeof *used);
    uint64_t *mask = PyMem_Calloc((size_t)words, sizeof *mask);

    if (grown == NULL || used == NULL || mask == NULL) {
        PyMem_Free(grown);
        PyMem_Free(used);
        PyMem_Free(mask);
        PyErr_NoMemory();
        return -1;
    }
    if (table->words != 0) {
        memcpy(grown, table->columns, (size_t)(table->words * columns) * sizeof *grown);
        memcpy(used, table->used, (size_t)table->words * sizeof *used);
    }
    PyMem_Free(table->columns);
    PyMem_Free(table->used);
    PyMem_Free(table->mask);
    table->columns = grown;
    table->used = used;
    table->mask = mask;
    table->words = words;
    return 0;
}

static int is_used(const struct table *table, Py_ssize_t row)
{
    return (int)(table->used[row / WORD_ROWS] >> row % WORD_ROWS & 1);
}

/* The snapshot as a Judge has it, without texts. */
static int put(PyObject *self, uint32_t row, PyObject *parameters)
{
    struct table *table = (struct table *)self;
    const struct parameter *values = (const struct parameter *)(const void *)PyBytes_AsString(parameters);
    Py_ssize_t i;

    if (echo_row_check(row) != 0 || echo_parameters_check(table->program, parameters) != 0)
        return -1;
    while (row >= table->words * WORD_ROWS) {
        if (make_room(table, table->words != 0 ? 2 * table->words : 1) != 0)
            return -1;
    }
    for (i = 0; i < table->program->parameter_count; i++)
        *cell(table, row, i) = values[i].bits;
    table->used[row / WORD_ROWS] |= UINT64_C(1) << row % WORD_ROWS;
    return 0;
}

static void take_out(PyObject *self, uint32_t row)
{
    struct table *table = (struct table *)self;

    if (row < table->words * WORD_ROWS)
        table->used[row / WORD_ROWS] &= ~(UINT64_C(1) << row % WORD_ROWS);
}

/* The cells of no row get this one's parameters. */
static void fill_unused(struct table *table, Py_ssize_t from)
{
    Py_ssize_t row, i;

    for (row = 0; row < table->words * WORD_ROWS; row++) {
        for (i = 0; !is_used(table, row) && i < table->program->parameter_count; i++)
            *cell(table, row, i) = *cell(table, from, i);
    }
}

/* --- judging --- */

/* 1: it passes. 0: it does not. -1: a step has failed, so it does not. */
static int interpret_row(const struct table *table, const uint8_t *record, uint64_t size, Py_ssize_t row)
{
    const struct program *program = table->program;
    struct parameter parameters[UINT8_MAX + 1];
    struct value values[MAX_STEPS];
    uint16_t errors[MAX_STEPS];
    const struct input input = {.record = record, .size = size, .parameters = (const uint8_t *)parameters};
    Py_ssize_t i;

    for (i = 0; i < program->parameter_count; i++)
        parameters[i] = (struct parameter){.bits = *cell(table, row, i)};
    echo_interpret(program->steps, program->step_count, program->pool, &input, values, errors);
    return errors[program->roots[0].step] == 0 ? values[program->roots[0].step].i != 0 : -1;
}

/* 0; -1: a row cannot be judged together with the others, or nothing is compiled. */
static int judge_together(struct table *table, const uint8_t *record, uint64_t size)
{
    Py_ssize_t row, rows = table->words * WORD_ROWS;

    if (table->compiled == NULL || size < (uint64_t)table->record_size)
        return -1;
    if (table->compiled(record, size, table->columns, (uint64_t)table->words, table->mask) >= 0)
        return 0;
    for (row = 0; row < rows && (!is_used(table, row) || interpret_row(table, record, size, row) < 0); row++)
        continue;
    if (row < rows)
        fill_unused(table, row);
    return row < rows && table->compiled(record, size, table->columns, (uint64_t)table->words, table->mask) >= 0 ? 0
                                                                                                                 : -1;
}

static void interpret_rows(struct table *table, const uint8_t *record, uint64_t size)
{
    Py_ssize_t row;

    table->interpreted++;
    memset(table->mask, 0, (size_t)table->words * sizeof *table->mask);
    for (row = 0; row < table->words * WORD_ROWS; row++) {
        if (is_used(table, row) && interpret_row(table, record, size, row) > 0)
            table->mask[row / WORD_ROWS] |= UINT64_C(1) << row % WORD_ROWS;
    }
}

/* The numbers of the rows whose bits are set; returns how many. */
static Py_ssize_t numbers_of(const struct table *table, uint32_t *rows)
{
    Py_ssize_t word, count = 0;

    for (word = 0; word < table->words; word++) {
        uint64_t left = table->mask[word] & table->used[word];

        for (; left != 0; left &= left - 1)
            rows[count++] = (uint32_t)(word * WORD_ROWS + __builtin_ctzll(left));
    }
    return count;
}

static Py_ssize_t rows_together(PyObject *self, const uint8_t *record, Py_ssize_t size, uint32_t *rows)
{
    struct table *table = (struct table *)self;

    return judge_together(table, record, (uint64_t)size) == 0 ? numbers_of(table, rows) : -1;
}

static const struct raw_table raw = {.put = put, .remove = take_out, .rows = rows_together};

static PyObject *table_raw(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    return PyCapsule_New((void *)(uintptr_t)&raw, RAW_TABLE, NULL);
}

/* put(row, parameters) */
static PyObject *table_put(PyObject *self, PyObject *args)
{
    return echo_put_row(&raw, self, args);
}

static PyObject *table_remove(PyObject *self, PyObject *row)
{
    return echo_remove_row(&raw, self, row);
}

/* Whether it takes a row's interpretation or not. */
static Py_ssize_t rows_of(struct table *table, const uint8_t *record, uint64_t size, uint32_t *rows)
{
    if (judge_together(table, record, size) != 0)
        interpret_rows(table, record, size);
    return numbers_of(table, rows);
}

/* rows(record, target): which rows the record passes, as uint32; how many. */
static PyObject *table_rows(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct table *table = (struct table *)self;
    PyObject *record;
    Py_ssize_t count = -1;
    Py_buffer rows;

    if (nargs != 2 || !PyBytes_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "Expected a record in bytes and room for rows, got others");
        return NULL;
    }
    record = args[0];
    if (PyObject_GetBuffer(args[1], &rows, PyBUF_WRITABLE) != 0)
        return NULL;
    if (rows.len / (Py_ssize_t)sizeof(uint32_t) < table->words * WORD_ROWS)
        PyErr_Format(PyExc_ValueError, "Expected room for %zd rows, got %zd bytes", table->words * WORD_ROWS, rows.len);
    else
        count = rows_of(table, (const uint8_t *)PyBytes_AsString(record), (uint64_t)PyBytes_Size(record), rows.buf);
    PyBuffer_Release(&rows);
    return count >= 0 ? PyLong_FromSsize_t(count) : NULL;
}

/* --- the type --- */

static int take_address(PyObject *object, void *out)
{
    unsigned long long address = PyLong_AsUnsignedLongLong(object);

    if (address == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return 0;
    memcpy(out, &(uintptr_t){(uintptr_t)address}, sizeof(uintptr_t));
    return 1;
}

static PyObject *table_install(PyObject *self, PyObject *args)
{
    struct table *table = (struct table *)self;
    PyObject *keep_alive, *old = table->keep_alive;
    judge_table *compiled;

    if (!PyArg_ParseTuple(args, "O&O:install", take_address, &compiled, &keep_alive))
        return NULL;
    table->keep_alive = Py_NewRef(keep_alive);
    table->compiled = compiled;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"program", "record_size", NULL};
    struct program *program;
    struct table *table;
    Py_ssize_t record_size;
    int i, has_texts = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!n:Table", keywords, sibling(type, PROGRAM), &program,
                                     &record_size))
        return NULL;
    for (i = 0; i < program->step_count; i++)
        has_texts |= program->steps[i].op == OP_TEXT_PARAM;
    if (program->root_count != 1 || program->state_count != 0 || program->parameter_count > UINT8_MAX || has_texts ||
        record_size < 1)
        return PyErr_Format(PyExc_ValueError, "Expected a program of one root without states and texts");
    table = (struct table *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (table != NULL) {
        table->program = (struct program *)Py_NewRef((PyObject *)program);
        table->record_size = record_size;
    }
    return (PyObject *)table;
}

static const Py_ssize_t owned[] = {offsetof(struct table, program), offsetof(struct table, keep_alive), 0};

static void table_dealloc(PyObject *self)
{
    struct table *table = (struct table *)self;

    PyMem_Free(table->columns);
    PyMem_Free(table->used);
    PyMem_Free(table->mask);
    clear_owned(self, owned);
    free_instance(self);
}

static PyMethodDef table_methods[] = {
    {"put", table_put, METH_VARARGS, PyDoc_STR("put($self, row, parameters, /)\n--\n\nA row's parameters.")},
    {"remove", table_remove, METH_O, PyDoc_STR("remove($self, row, /)\n--\n\nTakes a row out.")},
    {"rows", (PyCFunction)(void (*)(void))table_rows, METH_FASTCALL,
     PyDoc_STR("rows($self, record, target, /)\n--\n\nWrites which rows a record passes, as uint32; how many.")},
    {"install", table_install, METH_VARARGS,
     PyDoc_STR("install($self, judge, keep_alive, /)\n--\n\nFrom now on compiled code runs.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef table_members[] = {
    {"interpreted", T_ULONGLONG, offsetof(struct table, interpreted), READONLY,
     PyDoc_STR("Events that no compiled code could decide.")},
    {"words", T_PYSSIZET, offsetof(struct table, words), READONLY, PyDoc_STR("Room, in 64 rows.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef table_properties[] = {{RAW_TABLE, table_raw, NULL, PyDoc_STR("Its functions, for C code."), NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot table_slots[] = {
    {Py_tp_doc, PyDoc_STR("Table(program, record_size)\n--\n\nMany rows of parameters of one program.")},
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_tp_members, table_members},
    {Py_tp_getset, table_properties},
    {0, NULL}};

PyType_Spec echo_table_spec = {
    .name = "echo_core._c.expressions.Table",
    .basicsize = sizeof(struct table),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = table_slots,
};
