/* How instances of the classes of collected.h begin and end.
 *
 * A class statement would have Python take their memory from its allocator, zero it, track it, and search all bases
 * for what is to be done in the end: together as long as all else that happens to a small event. Python's way stays for
 * what is rare: where a class has a finalizer, and for instances of derived classes.
 *
 * Where the slots are the type says itself, in tp_members, as Python's own classes do.
 */
#include "events/collected.h"
#include "events/bytes.h"
#include "events/layouts.h"
#include "events/spare.h"

#include <structmember.h>

/* Of memory that no object has: so many pieces of each size, up to this one. */
#define MAX_FREE 256
#define MAX_FREE_BYTES 512

/* Objects that end within one another: from there on they wait, as the stack has an end. */
#define MAX_DEPTH 100

/* The GIL guards it. Pieces are linked by their ob_type, which only objects need. */
static struct {
    PyObject *first; /* NULL: there is none */
    int count;
} free_pieces[MAX_FREE_BYTES / 8 + 1];

/* Of each thread: a finalizer may wait for another one. */
static _Thread_local int depth /* of ends within one another */
    __attribute__((tls_model("initial-exec")));
static _Thread_local PyObject *postponed /* owned list of what they referred to; NULL: nothing waits */
    __attribute__((tls_model("initial-exec")));

static destructor python_dealloc; /* what a class statement gives a class */

static void collected_dealloc(PyObject *self);

/* --- what is known of a class --- */

int echo_is_collected(PyTypeObject *type)
{
    return (destructor)PyType_GetSlot(type, Py_tp_dealloc) == collected_dealloc;
}

/* The slots of an instance of such a class or of a derived one; the last has no name. NULL: it is neither. */
static const PyMemberDef *slots_of(PyTypeObject *type)
{
    while (type != NULL && !echo_is_collected(type))
        type = PyType_GetSlot(type, Py_tp_base);
    return type != NULL ? PyType_GetSlot(type, Py_tp_members) : NULL;
}

static int has_finalizer(PyTypeObject *type)
{
    return PyType_GetSlot(type, Py_tp_finalize) != NULL;
}

/* What was found of classes lately. A class that is changed gets another version, as does one that takes its place. */
#define RECENT 64
static struct {
    const PyMemberDef *slots; /* borrowed from the class */
    uint32_t version;         /* 0: nothing was found */
} recent[RECENT];

/* The slots, if there is nothing else to look after in the end: NULL for a derived class, or one with a finalizer. */
static inline const PyMemberDef *usual_slots(PyTypeObject *type)
{
    uint32_t version = version_of((PyObject *)type);
    size_t i = ((uintptr_t)type >> 6) % RECENT;
    const PyMemberDef *slots;

    if (version != 0 && recent[i].version == version)
        return recent[i].slots;
    slots = echo_is_collected(type) && !has_finalizer(type) ? PyType_GetSlot(type, Py_tp_members) : NULL;
    recent[i].slots = slots;
    recent[i].version = version;
    return slots;
}

/* Slots are the last of an instance. */
static Py_ssize_t size_of(const PyMemberDef *slots)
{
    Py_ssize_t size = 0;

    for (; slots->name != NULL; slots++)
        size = slots->offset + (Py_ssize_t)sizeof(PyObject *);
    return size;
}

/* --- the beginning --- */

static PyObject *new_object(PyTypeObject *type, Py_ssize_t size)
{
    PyObject *spare = size >= LARGE_BYTES ? echo_spare_take(size) : NULL;

    return spare != NULL ? PyObject_Init(spare, type) : PyObject_GC_New(PyObject, type);
}

PyObject *echo_collected_new(PyTypeObject *type, Py_ssize_t size)
{
    PyObject *object = size <= MAX_FREE_BYTES ? free_pieces[size / 8].first : NULL;

    if (object != NULL) {
        free_pieces[size / 8].first = (PyObject *)object->ob_type;
        free_pieces[size / 8].count--;
        PyObject_Init(object, type);
    } else {
        object = new_object(type, size);
        if (object == NULL)
            return NULL;
    }
    zero((uint8_t *)object + BEHIND_HEAD, size - BEHIND_HEAD);
    return object;
}

PyObject *echo_collected_new_but(PyTypeObject *type, Py_ssize_t size, Py_ssize_t from, Py_ssize_t count)
{
    PyObject *object = new_object(type, size);

    if (object == NULL)
        return NULL;
    zero((uint8_t *)object + BEHIND_HEAD, from - BEHIND_HEAD);
    zero((uint8_t *)object + from + count, size - from - count);
    return object;
}

/* Types that Python makes in between inherit this, and have more bytes. */
PyObject *echo_collected_alloc(PyTypeObject *type, Py_ssize_t items)
{
    if (!echo_is_collected(type))
        return PyType_GenericAlloc(type, items);
    return echo_collected_new(type, size_of(PyType_GetSlot(type, Py_tp_members)));
}

/* --- the end --- */

/* 0: there are enough of its size. */
static int keep(PyObject *object, Py_ssize_t size)
{
    if (free_pieces[size / 8].count == MAX_FREE)
        return 0;
    object->ob_type = (PyTypeObject *)free_pieces[size / 8].first;
    free_pieces[size / 8].first = object;
    free_pieces[size / 8].count++;
    return 1;
}

static void give_back(PyObject *object, Py_ssize_t size)
{
    if (PyObject_GC_IsFinalized(object) ||
        !(size > MAX_FREE_BYTES ? echo_spare_keep(object, size) : keep(object, size)))
        PyObject_GC_Del(object);
}

/* Steals a value that would end too deep; where there is no memory to note it, it has to end here. */
static void postpone(PyObject *value)
{
    PyObject *type, *error, *traceback, *list;

    PyErr_Fetch(&type, &error, &traceback);
    if (postponed == NULL) {
        list = PyList_New(0); /* which may run the collector, so that there is one then */
        if (postponed == NULL)
            postponed = list;
        else
            Py_XDECREF(list);
    }
    if (postponed != NULL)
        (void)PyList_Append(postponed, value); /* takes a reference of its own, if it can */
    PyErr_Restore(type, error, traceback);
    Py_DECREF(value);
}

static void release_postponed(void)
{
    depth++; /* nobody else comes here meanwhile */
    while (postponed != NULL) {
        PyObject *values = postponed;

        postponed = NULL;
        Py_DECREF(values);
    }
    depth--;
}

/* What an object refers to, which nobody else knows of any more; how many bytes it has. May run any code. */
static inline Py_ssize_t release_slots(PyObject *object, const PyMemberDef *slots)
{
    Py_ssize_t size = 0;

    depth++;
    for (; slots->name != NULL; slots++) {
        PyObject *value = *slot_at(object, slots->offset);

        size = slots->offset + (Py_ssize_t)sizeof value;
        if (value != NULL && depth > MAX_DEPTH)
            postpone(value);
        else
            Py_XDECREF(value);
    }
    if (--depth == 0 && postponed != NULL)
        release_postponed();
    return size;
}

/* Python calls the finalizer, and then this again unless the object has come back to life. Of a derived class it has
 * done all that it knows of. */
static __attribute__((noinline)) void dealloc_unusual(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    if (echo_is_collected(type) && has_finalizer(type) && !PyObject_GC_IsFinalized(self)) {
        python_dealloc(self);
        return;
    }
    PyObject_GC_UnTrack(self);
    release_slots(self, slots_of(type));
    free_instance(self);
}

static void collected_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    const PyMemberDef *slots = usual_slots(type);

    if (slots == NULL) {
        dealloc_unusual(self);
        return;
    }
    PyObject_GC_UnTrack(self);
    give_back(self, release_slots(self, slots));
    Py_DECREF(type); /* every instance of a heap type holds it */
}

/* --- the collector --- */

static int collected_traverse(PyObject *self, visitproc visit, void *arg)
{
    const PyMemberDef *slots = slots_of(Py_TYPE(self));

    Py_VISIT(Py_TYPE(self));
    for (; slots->name != NULL; slots++)
        Py_VISIT(*slot_at(self, slots->offset));
    return 0;
}

static int collected_clear(PyObject *self)
{
    const PyMemberDef *slots = slots_of(Py_TYPE(self));

    for (; slots->name != NULL; slots++)
        Py_CLEAR(*slot_at(self, slots->offset));
    return 0;
}

/* --- making a class --- */

#define SLOT_NAME "_echo" /* of all slots; nobody finds them by it */

static int find_python_dealloc(void)
{
    PyObject *probe = python_dealloc == NULL ? PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Probe") : NULL;

    if (probe != NULL)
        python_dealloc = (destructor)PyType_GetSlot((PyTypeObject *)probe, Py_tp_dealloc);
    Py_XDECREF(probe);
    return python_dealloc != NULL ? 0 : -1;
}

/* What tp_members is to be, PyMem: the slots of the bases, and then the class's own. NULL with an exception. */
static PyMemberDef *new_members(PyTypeObject *base, Py_ssize_t room, Py_ssize_t count)
{
    const PyMemberDef *inherited = slots_of(base);
    Py_ssize_t i, before = 0;
    PyMemberDef *members;

    while (inherited != NULL && inherited[before].name != NULL)
        before++;
    members = PyMem_Calloc((size_t)(before + count + 1), sizeof *members);
    if (members == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (i = 0; i < before; i++)
        members[i] = inherited[i];
    for (i = 0; i < count; i++)
        members[before + i] =
            (PyMemberDef){.name = SLOT_NAME, .type = T_OBJECT_EX, .offset = room + i * (Py_ssize_t)sizeof(PyObject *)};
    return members;
}

PyObject *echo_collected_class(const char *name, PyObject *bases, Py_ssize_t room, Py_ssize_t slots)
{
    PyMemberDef *members = new_members((PyTypeObject *)PyTuple_GetItem(bases, 0), room, slots);
    PyType_Slot type_slots[] = {{Py_tp_members, members},           {Py_tp_alloc, echo_collected_alloc},
                                {Py_tp_dealloc, collected_dealloc}, {Py_tp_traverse, collected_traverse},
                                {Py_tp_clear, collected_clear},     {0, NULL}};
    PyType_Spec spec = {.name = name,
                        .basicsize = (int)(room + slots * (Py_ssize_t)sizeof(PyObject *)),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                        .slots = type_slots};
    PyObject *made = NULL;

    if (members != NULL && find_python_dealloc() == 0)
        made = PyType_FromSpecWithBases(&spec, bases); /* copies the members */
    PyMem_Free(members);
    if (made != NULL && PyObject_SetAttrString(made, SLOT_NAME, NULL) != 0) /* later Pythons' DelAttr is no macro */
        Py_CLEAR(made);
    return made;
}
