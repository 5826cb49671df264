/* Objects as they are: the fields that a program reads, without encoding the rest.
 *
 * Each is written to its place in a record by the functions that encode it (events/leaves.h), so a float32 is rounded
 * as its record would have it. What these functions do not take is left to the encoder.
 */
#include "events/leaves.h"
#include "expressions/judges.h"

/* --- reading --- */

static enum outcome write_member(PyObject *value, uint8_t *bytes, const struct leaf *leaf)
{
    Py_ssize_t i, count = PyTuple_Size(leaf->members);

    for (i = 0; i < count; i++) {
        if (PyTuple_GetItem(leaf->members, i) == value) {
            store_number(bytes, leaf->size, leaf->numbers[i]);
            return GOOD;
        }
    }
    return UNUSUAL;
}

static inline enum outcome write_leaf(PyObject *it, uint8_t *bytes, const struct leaf *leaf)
{
    switch (leaf->form) {
        LEAVES(LEAF_TO_WRITE)
    case FORM_CHARS:
        return write_chars(it, bytes, leaf->size);
    default:
        return write_member(it, bytes, leaf);
    }
}

/* The value of a leaf; borrowed. NULL: an object on the way is of another class, or a slot is empty. */
static inline PyObject *value_in(PyObject *event, const struct leaf *leaf)
{
    PyObject *it = *slot_at(event, leaf->slots[0]);
    int i;

    for (i = 1; i < leaf->slot_count; i++) {
        if (it == NULL || Py_TYPE(it) != leaf->classes[i - 1])
            return NULL;
        it = *slot_at(it, leaf->slots[i]);
    }
    return it;
}

const uint8_t *echo_access_record(const struct access *access, PyObject *event)
{
    const struct leaf *leaf, *end = access->leaves + access->count;

    if (Py_TYPE(event) != access->cls)
        return NULL;
    if (access->inlined != 0)
        return (const uint8_t *)event + access->inlined;
    for (leaf = access->leaves; leaf < end; leaf++) {
        PyObject *it = value_in(event, leaf);

        if (it == NULL || write_leaf(it, access->room + leaf->at, leaf) != GOOD)
            return NULL;
    }
    return access->room;
}

/* --- making --- */

static int take_numbers(struct leaf *leaf, PyObject *numbers)
{
    Py_ssize_t i, count = PyTuple_Size(numbers);

    leaf->numbers = PyMem_Calloc((size_t)count + 1, sizeof *leaf->numbers);
    if (leaf->numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < count; i++) {
        leaf->numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(numbers, i));
        if (leaf->numbers[i] == -1 && PyErr_Occurred() != NULL)
            return -1;
    }
    return 0;
}

static int take_slots(struct leaf *leaf, PyObject *slots, PyObject *classes)
{
    Py_ssize_t i, count = PyTuple_Size(slots);

    if (count < 1 || count > MAX_SLOTS || PyTuple_Size(classes) != count - 1) {
        PyErr_Format(PyExc_ValueError, "Expected 1 to %d slots, got %zd", MAX_SLOTS, count);
        return -1;
    }
    for (i = 0; i < count; i++) {
        leaf->slots[i] = PyLong_AsSsize_t(PyTuple_GetItem(slots, i));
        if (leaf->slots[i] < (Py_ssize_t)sizeof(PyObject) || leaf->slots[i] > MAX_OFFSET) {
            if (PyErr_Occurred() == NULL)
                PyErr_Format(PyExc_ValueError, "Expected the offset of a slot, got %zd", leaf->slots[i]);
            return -1;
        }
        if (i > 0)
            leaf->classes[i - 1] = (PyTypeObject *)PyTuple_GetItem(classes, i - 1);
    }
    leaf->slot_count = (int)count;
    return 0;
}

static int take_leaf(struct leaf *leaf, PyObject *details, Py_ssize_t record_size)
{
    PyObject *slots, *classes, *numbers;
    Py_ssize_t size;
    int form;

    if (!PyArg_ParseTuple(details, "nCnO!O!O!O!:leaf", &leaf->at, &form, &leaf->size, &PyTuple_Type, &slots,
                          &PyTuple_Type, &classes, &PyTuple_Type, &leaf->members, &PyTuple_Type, &numbers))
        return -1;
    size = size_of_form(form);
    if (size < 0 || (size == 0 && form != FORM_CHARS && form != FORM_MEMBER) || (size > 0 && size != leaf->size) ||
        leaf->size < 1 || leaf->at < 0 || leaf->at > record_size - leaf->size ||
        PyTuple_Size(leaf->members) != PyTuple_Size(numbers)) {
        PyErr_SetString(PyExc_ValueError, "Expected a leaf within its record, got another");
        return -1;
    }
    leaf->form = (char)form;
    return take_slots(leaf, slots, classes) != 0 ? -1 : take_numbers(leaf, numbers);
}

int echo_access_fill(struct access *access, PyTypeObject *cls, PyObject *details, Py_ssize_t record_size)
{
    Py_ssize_t i, count = PyTuple_Size(details) - 1;

    access->inlined = PyLong_AsSsize_t(PyTuple_GetItem(details, 0));
    if (access->inlined == -1 && PyErr_Occurred() != NULL)
        return -1;
    access->details = Py_NewRef(details);
    access->leaves = PyMem_Calloc((size_t)count + 1, sizeof *access->leaves);
    access->room = PyMem_Calloc((size_t)record_size + 1, 1);
    if (access->leaves == NULL || access->room == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; access->count < count; access->count++) {
        i = access->count;
        if (take_leaf(&access->leaves[i], PyTuple_GetItem(details, i + 1), record_size) != 0) {
            PyMem_Free(access->leaves[i].numbers);
            return -1;
        }
    }
    access->cls = (PyTypeObject *)Py_NewRef((PyObject *)cls); /* last: now it is whole */
    return 0;
}

void echo_access_clear(struct access *access)
{
    Py_ssize_t i;

    for (i = 0; i < access->count; i++)
        PyMem_Free(access->leaves[i].numbers);
    PyMem_Free(access->leaves);
    PyMem_Free(access->room);
    Py_CLEAR(access->details);
    Py_CLEAR(access->cls);
    access->leaves = NULL;
    access->room = NULL;
    access->count = 0;
}
