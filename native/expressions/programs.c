/* The type Program: checks steps once, so that executing them needs no checks. */
#include "expressions/programs.h"
#include "expressions/module.h"

#include <string.h>
#include <structmember.h>

static const char *const names[] = {
#define NAME(name) #name,
    OPS(NAME)
#undef NAME
};

PyObject *echo_new_operations(void)
{
    PyObject *operations = PyDict_New();
    int i;

    for (i = 0; operations != NULL && i < OP_COUNT; i++) {
        PyObject *number = PyLong_FromLong(i);

        if (number == NULL || PyDict_SetItemString(operations, names[i], number) != 0)
            Py_CLEAR(operations);
        Py_XDECREF(number);
    }
    return operations;
}

/* --- checking --- */

static int is_load(int op)
{
    return op >= OP_LOAD_BOOL && op <= OP_FIXED;
}

/* Which operands are steps: bit 0 for a, and so on; above, whether each may be missing. */
static int operands_of(int op)
{
    if (op <= OP_STATE_COUNT)
        return 0;
    if (is_load(op) || op == OP_ARRAY)
        return 0x11;
    switch (op) {
    case OP_TEXT:
        return 4;
    case OP_REGION:
        return 6;
    case OP_SLICE:
    case OP_FOR:
    case OP_LENGTH:
    case OP_CHARACTERS:
    case OP_DIGEST:
    case OP_POW_I:
    case OP_POW_U:
    case OP_POW_F:
    case OP_NEG_I:
    case OP_ABS_I:
    case OP_NOT_I:
    case OP_NEG_F:
    case OP_ABS_F:
    case OP_NOT:
        return 1;
    case OP_CHOOSE:
        return 7;
    default:
        if (op >= OP_SQRT_F && op <= OP_IS_FINITE)
            return 1;
        return op >= OP_SUM_I ? 0x47 : 3;
    }
}

static int are_operands(const struct step *step, uint32_t at)
{
    const uint16_t operands[] = {step->a, step->b, step->c};
    int i, which = operands_of(step->op);

    for (i = 0; i < 3; i++) {
        int may_be_missing = which >> (4 + i) & 1;

        if (which >> i & 1 && operands[i] >= at && !(may_be_missing && operands[i] == NO_STEP))
            return 0;
    }
    return 1;
}

/* Whether what stands in the step itself is in range. */
static int are_numbers(const struct program *program, const struct step *step, Py_ssize_t pool_size)
{
    if (step->op == OP_TEXT_CONST)
        return step->imm >= 0 && step->aux >= 0 && step->aux <= pool_size && step->imm <= pool_size - step->aux;
    if (step->op == OP_PARAM || step->op == OP_TEXT_PARAM)
        return step->imm >= 0 && step->imm < program->parameter_count;
    if (step->op == OP_STATE || step->op == OP_STATE_COUNT)
        return step->imm >= 0 && step->imm < program->state_count;
    if (is_load(step->op))
        return step->imm >= 0 && step->aux >= 0 && (step->b == IS_SWAPPED || step->b == 0);
    if (step->op == OP_ARRAY)
        return step->imm >= 0 && step->aux >= 0;
    if (step->op == OP_REGION || step->op == OP_INDEX || step->op == OP_FOR)
        return step->imm > 0;
    if (step->op == OP_SLICE)
        return step->aux > 0;
    if (step->op == OP_POW_I || step->op == OP_POW_U || step->op == OP_POW_F)
        return step->imm >= 0 && step->imm <= 64;
    return step->op < OP_COUNT;
}

/* Loops lie within one another or apart, and each ends with what reduces it. */
static int are_loops(const struct program *program)
{
    uint16_t open[8];
    int depth = 0;
    uint32_t i;

    for (i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];

        if (step->op == OP_FOR) {
            if (depth == 8 || step->b <= i || step->b >= program->step_count || program->steps[step->b].op < OP_SUM_I)
                return 0;
            open[depth++] = (uint16_t)i;
        } else if (step->op >= OP_SUM_I && (depth == 0 || open[--depth] != step->a || program->steps[step->a].b != i)) {
            return 0;
        }
    }
    return depth == 0;
}

static int check_steps(const struct program *program, Py_ssize_t pool_size)
{
    uint32_t i;

    for (i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];

        if (step->op >= OP_COUNT || !are_operands(step, i) || !are_numbers(program, step, pool_size)) {
            PyErr_Format(PyExc_ValueError, "Expected a step that reads earlier ones, got number %u", (unsigned)i);
            return -1;
        }
    }
    if (!are_loops(program)) {
        PyErr_SetString(PyExc_ValueError, "Expected loops that end with their reductions");
        return -1;
    }
    return 0;
}

static int check_updates(const struct program *program)
{
    int i;

    for (i = 0; i < program->update_count; i++) {
        const struct update *update = &program->updates[i];

        if (update->state >= program->state_count || update->step >= program->step_count ||
            update->following > SELECTED_VALUE) {
            PyErr_Format(PyExc_ValueError, "Expected states that follow steps, got number %d", i);
            return -1;
        }
    }
    return 0;
}

/* roots: a tuple of (step, form). */
static int take_roots(struct program *program, PyObject *roots)
{
    Py_ssize_t i, count = PyTuple_Size(roots);

    if (count < 1 || count > MAX_ROOTS) {
        PyErr_Format(PyExc_ValueError, "Expected 1 to %d roots, got %zd", MAX_ROOTS, count);
        return -1;
    }
    for (i = 0; i < count; i++) {
        int step, form;

        if (!PyArg_ParseTuple(PyTuple_GetItem(roots, i), "iC:root", &step, &form))
            return -1;
        if (step < 0 || step >= program->step_count || form <= 0 || form >= 128 || strchr("?qQdty", form) == NULL) {
            PyErr_Format(PyExc_ValueError, "Expected a step and a form, got %d", step);
            return -1;
        }
        program->roots[i] = (struct root){.step = (uint16_t)step, .form = (char)form};
    }
    program->root_count = (uint16_t)count;
    return 0;
}

/* Pointers into bytes objects, whose memory is aligned as any object's is. */
static int take_bytes(struct program *program, PyObject *steps, PyObject *pool, PyObject *updates)
{
    Py_ssize_t size = PyBytes_Size(steps), updates_size = PyBytes_Size(updates);

    if (size % sizeof(struct step) != 0 || size == 0 || size / sizeof(struct step) > MAX_STEPS ||
        updates_size % sizeof(struct update) != 0 || updates_size / sizeof(struct update) > MAX_STATES) {
        PyErr_Format(PyExc_ValueError, "Expected 1 to %d steps of %zu bytes, got %zd bytes", MAX_STEPS,
                     sizeof(struct step), size);
        return -1;
    }
    program->steps_bytes = Py_NewRef(steps);
    program->pool_bytes = Py_NewRef(pool);
    program->updates_bytes = Py_NewRef(updates);
    program->steps = (const struct step *)(const void *)PyBytes_AsString(steps);
    program->pool = (const uint8_t *)PyBytes_AsString(pool);
    program->updates = (struct update *)(void *)PyBytes_AsString(updates);
    program->step_count = (uint16_t)(size / (Py_ssize_t)sizeof(struct step));
    program->update_count = (uint16_t)(updates_size / (Py_ssize_t)sizeof(struct update));
    return 0;
}

static int fill(struct program *program, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"steps", "pool", "roots", "updates", "states", "parameters", NULL};
    PyObject *steps, *pool, *roots, *updates;
    int states, parameters;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SSO!Sii:Program", keywords, &steps, &pool, &PyTuple_Type, &roots,
                                     &updates, &states, &parameters))
        return -1;
    if (states < 0 || states > MAX_STATES || parameters < 0 || parameters > UINT16_MAX) {
        PyErr_Format(PyExc_ValueError, "Expected at most %d states, got %d", MAX_STATES, states);
        return -1;
    }
    program->state_count = (uint16_t)states;
    program->parameter_count = (uint16_t)parameters;
    if (take_bytes(program, steps, pool, updates) != 0 || take_roots(program, roots) != 0)
        return -1;
    return check_steps(program, PyBytes_Size(pool)) != 0 ? -1 : check_updates(program);
}

int echo_parameters_check(const struct program *program, PyObject *parameters)
{
    Py_ssize_t i, size = PyBytes_Size(parameters), needed = program->parameter_count * sizeof(struct parameter);
    const struct parameter *each = (const struct parameter *)(const void *)PyBytes_AsString(parameters);

    if (size < needed) {
        PyErr_Format(PyExc_ValueError, "Expected %zd bytes of parameters, got %zd", needed, size);
        return -1;
    }
    for (i = 0; i < program->step_count; i++) {
        const struct step *step = &program->steps[i];

        if (step->op == OP_TEXT_PARAM && (each[step->imm].bits < needed || each[step->imm].bits > size ||
                                          each[step->imm].size > (uint64_t)(size - each[step->imm].bits))) {
            PyErr_SetString(PyExc_ValueError, "Expected texts within the parameters, got one outside");
            return -1;
        }
    }
    return 0;
}

/* --- evaluating --- */

static PyObject *object_of(const struct root *root, const struct value *value)
{
    switch (root->form) {
    case '?':
        return PyBool_FromLong(value->i != 0);
    case 'q':
        return PyLong_FromLongLong(value->i);
    case 'Q':
        return PyLong_FromUnsignedLongLong(value->u);
    case 'd':
        return PyFloat_FromDouble(value->f);
    case 't':
        return PyUnicode_DecodeUTF8((const char *)value->bytes, (Py_ssize_t)value->count, "replace");
    default:
        return PyBytes_FromStringAndSize((const char *)value->bytes, (Py_ssize_t)value->count);
    }
}

/* The roots' values; an int in place of one is wrapped in a tuple: the step that failed. */
static PyObject *values_of(const struct program *program, const struct value *values, const uint16_t *errors)
{
    PyObject *list = PyList_New(program->root_count);
    Py_ssize_t i;

    for (i = 0; list != NULL && i < program->root_count; i++) {
        const struct root *root = &program->roots[i];
        uint16_t error = errors[root->step];
        PyObject *it = error != 0 ? Py_BuildValue("(i)", error - 1) : object_of(root, &values[root->step]);

        if (it == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, i, it);
    }
    return list;
}

/* evaluate(record, parameters, states=b""). The record is copied: its bytes may change while texts are made of it. */
static PyObject *program_evaluate(PyObject *self, PyObject *args)
{
    struct program *program = (struct program *)self;
    struct value values[MAX_STEPS];
    uint16_t errors[MAX_STEPS];
    struct state none[MAX_STATES] = {{0, 0}};
    PyObject *record, *parameters, *states = NULL;
    struct input input;

    if (!PyArg_ParseTuple(args, "SS|S:evaluate", &record, &parameters, &states))
        return NULL;
    if (echo_parameters_check(program, parameters) != 0)
        return NULL;
    if (states != NULL && PyBytes_Size(states) != (Py_ssize_t)(program->state_count * sizeof(struct state)))
        return PyErr_Format(PyExc_ValueError, "Expected %d states, got %zd bytes", program->state_count,
                            PyBytes_Size(states));
    if (states != NULL)
        memcpy(none, PyBytes_AsString(states), (size_t)PyBytes_Size(states));
    input = (struct input){.record = (const uint8_t *)PyBytes_AsString(record),
                           .size = (uint64_t)PyBytes_Size(record),
                           .parameters = (const uint8_t *)PyBytes_AsString(parameters),
                           .states = none};
    echo_interpret(program->steps, program->step_count, program->pool, &input, values, errors);
    return values_of(program, values, errors);
}

/* --- the type --- */

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct program *program = (struct program *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (program != NULL && fill(program, args, kwargs) != 0)
        Py_CLEAR(program);
    return (PyObject *)program;
}

static const Py_ssize_t owned[] = {offsetof(struct program, steps_bytes), offsetof(struct program, pool_bytes),
                                   offsetof(struct program, updates_bytes), 0};

static void program_dealloc(PyObject *self)
{
    clear_owned(self, owned);
    free_instance(self);
}

static PyMethodDef program_methods[] = {
    {"evaluate", program_evaluate, METH_VARARGS,
     PyDoc_STR("evaluate($self, record, parameters, states=b'', /)\n--\n\n"
               "The values of the roots by interpretation; in place of one a tuple of the step that failed.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, PyDoc_STR("Program(steps, pool, roots, updates, states, parameters)\n--\n\n"
                          "Steps that compute values of records of one layout.")},
    {Py_tp_new, program_new},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_methods, program_methods},
    {0, NULL}};

PyType_Spec echo_program_spec = {
    .name = "echo_core._c.expressions.Program",
    .basicsize = sizeof(struct program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = program_slots,
};
