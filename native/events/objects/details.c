/* What a Value is made of, as Python says it. All of it is checked here: that everything lies within its record or its
 * object, and is complete. Writing (writing.c) and reading (reading.c) then rely on it.
 */
#include "events/arrays.h"
#include "events/objects/objects.h"

static int is_within(Py_ssize_t at, Py_ssize_t size, Py_ssize_t whole)
{
    return at >= 0 && size >= 0 && at <= whole && size <= whole - at;
}

static int refuse(const char *what, PyObject *it)
{
    if (PyErr_Occurred() == NULL)
        PyErr_Format(PyExc_ValueError, "Expected %s, got %R", what, it);
    return -1;
}

/* A zeroed array, at least one long so that it is never NULL. */
static void *new_array(Py_ssize_t count, size_t size)
{
    void *array = PyMem_Calloc((size_t)count + 1, size);

    if (array == NULL)
        PyErr_NoMemory();
    return array;
}

/* --- what values are made of --- */

static int nest(struct value *outer, const struct value *inner)
{
    if (inner->depth >= outer->depth)
        outer->depth = inner->depth + 1;
    return outer->depth <= MAX_DEPTH ? 0 : refuse("fewer Values inside one another", (PyObject *)inner);
}

static int set_element(struct value *value, PyObject *element)
{
    const struct value *inner = (struct value *)element;

    if (!Py_IS_TYPE(element, Py_TYPE((PyObject *)value)) || inner->size < 1)
        return refuse("a Value of some size", element);
    value->element = (struct value *)element;
    value->is_fixed = inner->is_fixed;
    value->runs_python = inner->runs_python;
    value->has_after = inner->has_after;
    value->last_tie = inner->last_tie;
    return nest(value, inner);
}

/* (members, numbers), these ascending */
static int set_members(struct value *value, PyObject *details)
{
    PyObject *members, *numbers;
    Py_ssize_t i;

    if (!PyArg_ParseTuple(details, "O!O!:Value", &PyTuple_Type, &members, &PyTuple_Type, &numbers))
        return -1;
    if (PyTuple_Size(members) < 1 || PyTuple_Size(members) != PyTuple_Size(numbers))
        return refuse("as many numbers as members", details);
    value->members = new_array(PyTuple_Size(members), sizeof *value->members);
    value->numbers = new_array(PyTuple_Size(members), sizeof *value->numbers);
    if (value->members == NULL || value->numbers == NULL)
        return -1;
    for (i = 0; i < PyTuple_Size(members); i++) {
        value->numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(numbers, i));
        if (PyErr_Occurred() != NULL || (i > 0 && value->numbers[i] <= value->numbers[i - 1]))
            return refuse("ascending numbers", numbers);
        value->members[i] = PyTuple_GetItem(members, i);
    }
    value->count = PyTuple_Size(members);
    return 0;
}

/* (read, write) */
static int set_functions(struct value *value, PyObject *details)
{
    if (!PyArg_ParseTuple(details, "OO:Value", &value->read, &value->write))
        return -1;
    if (!PyCallable_Check(value->read) || !PyCallable_Check(value->write))
        return refuse("two functions", details);
    value->runs_python = value->is_free = 1;
    return 0;
}

static int is_place(Py_ssize_t at, Py_ssize_t size, Py_ssize_t basicsize)
{
    return at == 0 || (at >= (Py_ssize_t)sizeof(PyObject) && is_within(at, size, basicsize));
}

static int is_slot(Py_ssize_t at, Py_ssize_t basicsize)
{
    return is_place(at, sizeof(PyObject *), basicsize) && at % (Py_ssize_t)sizeof(PyObject *) == 0;
}

/* (class, slot of the int, slot of the safety, safety) */
static int set_uuid(struct value *value, PyObject *details)
{
    PyObject *cls;
    Py_ssize_t basicsize;

    if (!PyArg_ParseTuple(details, "O!nnO:Value", &PyType_Type, &cls, &value->number_slot, &value->safety_slot,
                          &value->safety))
        return -1;
    basicsize = size_attribute(cls, "__basicsize__");
    if (basicsize < 0 || value->number_slot == 0 || value->safety_slot == 0 || value->size != 16 ||
        !is_slot(value->number_slot, basicsize) || !is_slot(value->safety_slot, basicsize))
        return refuse("a class with two slots, and 16 bytes", cls);
    value->cls = (PyTypeObject *)cls;
    value->is_free = 1;
    return 0;
}

/* (element,): in place before a flag, or by the element's own slot */
static int set_option(struct value *value, PyObject *details)
{
    PyObject *element;

    if (!PyArg_ParseTuple(details, "O:Value", &element) || set_element(value, element) != 0)
        return -1;
    if (value->form == FORM_OPTION)
        return value->element->size < value->size ? 0 : refuse("room for a flag", element);
    if (value->element->size != value->size || strchr("tyl", value->element->form) == NULL)
        return refuse("an element with a slot", element);
    return 0;
}

/* One dimension: its length, None for one of its own, or the index of a tie as a 1-tuple. */
static int set_dimension(struct value *value, struct dimension *dimension, PyObject *it)
{
    if (it == Py_None) {
        dimension->length = OWN;
    } else if (PyTuple_Check(it)) {
        if (!PyArg_ParseTuple(it, "n:Value", &dimension->tie) || dimension->tie < 0)
            return refuse("a tie", it);
        dimension->length = TIED;
        if (dimension->tie > value->last_tie)
            value->last_tie = dimension->tie;
    } else {
        dimension->length = PyLong_AsLongLong(it);
        if (dimension->length < 0 || dimension->length > MAX_OFFSET)
            return refuse("a length", it);
    }
    return dimension->length >= 0 || value->form == FORM_SEQUENCE ? 0 : refuse("a fixed length", it);
}

static int set_dimensions(struct value *value, PyObject *all)
{
    Py_ssize_t i, own = 0;
    int64_t count = 1;

    if (PyTuple_Size(all) < 1 || PyTuple_Size(all) > MAX_DIMENSIONS)
        return refuse("some dimensions", all);
    value->dimensions = new_array(PyTuple_Size(all), sizeof *value->dimensions);
    if (value->dimensions == NULL)
        return -1;
    for (i = 0; i < PyTuple_Size(all); i++) {
        if (set_dimension(value, &value->dimensions[i], PyTuple_GetItem(all, i)) != 0)
            return -1;
        own += value->dimensions[i].length == OWN;
        if (value->form != FORM_ARRAY)
            continue;
        if (value->dimensions[i].length < 1 || value->dimensions[i].length > MAX_OFFSET / count)
            return refuse("an array within bounds", all);
        count *= value->dimensions[i].length;
    }
    value->count = PyTuple_Size(all);
    if (value->size != (value->form == FORM_ARRAY ? count * value->element->size : 8 * (1 + own)))
        return refuse("dimensions that agree with the size", all);
    return 0;
}

/* (element, dimensions, container, dtype or None) */
static int set_elements(struct value *value, PyObject *details)
{
    PyObject *element, *dimensions, *container, *dtype;
    int is_numpy;

    if (!PyArg_ParseTuple(details, "OO!O!O:Value", &element, &PyTuple_Type, &dimensions, &PyType_Type, &container,
                          &dtype))
        return -1;
    if (set_element(value, element) != 0)
        return -1;
    if (value->element->last_tie >= 0)
        return refuse("an element without ties", element);
    if (set_dimensions(value, dimensions) != 0)
        return -1;
    is_numpy = container != (PyObject *)&PyList_Type && container != (PyObject *)&PyTuple_Type;
    if ((container == (PyObject *)&PyTuple_Type && value->count != 1) || is_numpy != (dtype != Py_None) ||
        (is_numpy && !value->element->is_fixed))
        return refuse("a container that holds the elements", details);
    if (is_numpy && size_attribute(dtype, "itemsize") != value->element->size)
        return PyErr_Occurred() != NULL ? -1 : refuse("a dtype of the element's size", dtype);
    value->container = (PyTypeObject *)container;
    value->dtype = is_numpy ? dtype : NULL;
    value->is_known_array = is_numpy && echo_arrays_find(dtype) && value->container == echo_arrays.type;
    value->dtype_name = PyUnicode_InternFromString("dtype");
    value->is_fixed = value->form == FORM_ARRAY && value->element->is_fixed;
    value->is_free = value->is_fixed && value->element->is_free;
    if (is_numpy && value->element->form == FORM_RECORD)
        value->runs_python = 1; /* numpy makes objects to compare such dtypes, so the GC may run */
    return value->dtype_name != NULL ? 0 : -1;
}

/* --- records --- */

/* Whether object.__new__ makes instances of a class; -1 with an exception. It does not where they are more
 * than Python's own, such as a deque's. May run any code. */
static int can_be_made(PyObject *cls)
{
    PyObject *instance = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__new__", "O", cls);

    if (instance == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return -1;
        PyErr_Clear();
    }
    Py_XDECREF(instance);
    return instance != NULL;
}

static int set_class(struct value *value, PyObject *cls)
{
    int is_usual = can_be_made(cls);

    value->cls = (PyTypeObject *)cls;
    value->is_collected = echo_is_collected(value->cls);
    if (is_usual == 1)
        value->new_instance = (allocfunc)PyType_GetSlot(value->cls, Py_tp_alloc);
    return is_usual < 0 ? -1 : 0;
}

/* (name, value, at, slot, inlined) */
static int add_field(struct value *record, PyObject *item, Py_ssize_t basicsize)
{
    struct member *field = &record->fields[record->count];

    if (!PyArg_ParseTuple(item, "UO!nnn:Value", &field->name, Py_TYPE((PyObject *)record), &field->value, &field->at,
                          &field->slot, &field->inlined))
        return -1;
    if (!is_within(field->at, field->value->size, record->size) || !is_slot(field->slot, basicsize) ||
        !is_place(field->inlined, field->value->size, basicsize) || field->value->last_tie >= record->tie_count)
        return refuse("a field within its record", item);
    record->count++;
    if (!field->value->is_free)
        record->checked[record->checked_count++] = field;
    record->is_fixed &= field->value->is_fixed;
    record->is_free &= field->value->is_free;
    record->runs_python |= field->value->runs_python || (field->slot == 0 && field->inlined == 0);
    record->has_after |= field->value->has_after;
    return nest(record, field->value);
}

static int add_fields(struct value *record, PyObject *fields, Py_ssize_t basicsize)
{
    Py_ssize_t i;

    record->fields = new_array(PyTuple_Size(fields), sizeof *record->fields);
    record->checked = new_array(PyTuple_Size(fields), sizeof *record->checked);
    if (record->fields == NULL || record->checked == NULL)
        return -1;
    record->is_fixed = 1;
    record->is_free = record->gap_count == 0;
    for (i = 0; i < PyTuple_Size(fields); i++) {
        if (add_field(record, PyTuple_GetItem(fields, i), basicsize) != 0)
            return -1;
    }
    return 0;
}

/* (at, form) each */
static int add_ties(struct value *record, PyObject *ties)
{
    Py_ssize_t i;

    if (PyTuple_Size(ties) > MAX_TIES)
        return refuse("fewer ties", ties);
    record->ties = new_array(PyTuple_Size(ties), sizeof *record->ties);
    if (record->ties == NULL)
        return -1;
    for (i = 0; i < PyTuple_Size(ties); i++) {
        struct tie *tie = &record->ties[i];
        int form;

        if (!PyArg_ParseTuple(PyTuple_GetItem(ties, i), "nC:Value", &tie->at, &form))
            return -1;
        tie->form = (char)form;
        if (!is_integer(form) || !is_within(tie->at, size_of_form(form), record->size))
            return refuse("an integer within the record", ties);
    }
    record->tie_count = PyTuple_Size(ties);
    return 0;
}

/* (at, size) each */
static int add_gaps(struct value *record, PyObject *gaps)
{
    Py_ssize_t i;

    record->gaps = new_array(PyTuple_Size(gaps), sizeof *record->gaps);
    if (record->gaps == NULL)
        return -1;
    for (i = 0; i < PyTuple_Size(gaps); i++) {
        struct gap *gap = &record->gaps[i];

        if (!PyArg_ParseTuple(PyTuple_GetItem(gaps, i), "nn:Value", &gap->at, &gap->size))
            return -1;
        if (!is_within(gap->at, gap->size, record->size))
            return refuse("a gap within the record", gaps);
    }
    record->gap_count = PyTuple_Size(gaps);
    return 0;
}

/* (class, fields, ties, gaps, inlined, name of a method or None) */
static int set_record(struct value *value, PyObject *details)
{
    PyObject *cls, *fields, *ties, *gaps, *after;
    Py_ssize_t basicsize;

    if (!PyArg_ParseTuple(details, "O!O!O!O!nO:Value", &PyType_Type, &cls, &PyTuple_Type, &fields, &PyTuple_Type, &ties,
                          &PyTuple_Type, &gaps, &value->inlined, &after))
        return -1;
    basicsize = size_attribute(cls, "__basicsize__");
    if (basicsize < 0 || !is_place(value->inlined, value->size, basicsize))
        return refuse("a class with room for the record", cls);
    if (set_class(value, cls) != 0)
        return -1;
    if (add_ties(value, ties) != 0 || add_gaps(value, gaps) != 0 || add_fields(value, fields, basicsize) != 0)
        return -1;
    if (value->inlined != 0 && !value->is_fixed)
        return refuse("no variable parts", cls);
    if (after != Py_None) {
        if (!PyUnicode_Check(after))
            return refuse("the name of a method", after);
        value->after = after;
        value->runs_python = value->has_after = 1;
    }
    value->last_tie = -1;
    return 0;
}

/* --- a Value --- */

static int set_leaf(struct value *value, PyObject *details)
{
    Py_ssize_t size = size_of_form(value->form);
    int is_text = value->form == FORM_CHARS || value->form == FORM_BYTES;

    if (PyTuple_Size(details) != 0 || (size != value->size && !is_text))
        return refuse("the form of a leaf, its size and no details", details);
    value->is_fixed = value->form != FORM_TEXT && value->form != FORM_BLOB;
    value->is_free = value->is_fixed && value->form != FORM_BOOL && value->form != FORM_CHARS;
    value->runs_python = value->form == FORM_TIMESTAMP; /* that of a datetime's time zone */
    return 0;
}

static int is_size_of_number(Py_ssize_t size)
{
    return size == 1 || size == 2 || size == 4 || size == 8;
}

static int set_details(struct value *value, PyObject *details)
{
    value->last_tie = -1;
    value->is_fixed = value->depth = 1;
    switch (value->form) {
    case FORM_MEMBER:
        return is_size_of_number(value->size) ? set_members(value, details) : refuse("a size", details);
    case FORM_UUID:
        return set_uuid(value, details);
    case FORM_PYTHON:
        return set_functions(value, details);
    case FORM_OPTION:
    case FORM_REFERENCE:
        return set_option(value, details);
    case FORM_ARRAY:
    case FORM_SEQUENCE:
        return set_elements(value, details);
    case FORM_RECORD:
        return set_record(value, details);
    default:
        return set_leaf(value, details);
    }
}

static char is_quiet(const struct value *value)
{
    if (value->form == FORM_OPTION || value->form == FORM_REFERENCE)
        return value->element->is_quiet;
    return !value->runs_python && strchr("alr", value->form) == NULL;
}

/* (form, size, alignment, details) */
int echo_value_fill(struct value *value, PyObject *args)
{
    PyObject *details;
    int form;

    if (!PyArg_ParseTuple(args, "CnnO!:Value", &form, &value->size, &value->alignment, &PyTuple_Type, &details))
        return -1;
    value->details = Py_NewRef(details);
    value->form = (char)(form < 128 ? form : 0);
    if (value->size < 1 || value->size > MAX_OFFSET || value->alignment < 1 || value->alignment > 64 ||
        (value->alignment & (value->alignment - 1)) != 0)
        return refuse("a size and an alignment", args);
    if (set_details(value, details) != 0)
        return -1;
    value->is_quiet = is_quiet(value);
    echo_value_estimate(value);
    return 0;
}
