/* Tries what layouts.h says of objects on real ones, once, when the module is imported.
 *
 * Free-threaded builds and machines of another word or byte order know nothing. */
#include "events/layouts.h"
#include "events/leaves.h"

#include <structmember.h>

struct layouts echo_layouts;

/* --- wide ints --- */

static void set_digits(PyObject *wide, const uint64_t halves[2], Py_ssize_t count)
{
    unsigned __int128 rest = (unsigned __int128)halves[0] << 64 | halves[1];
    uint32_t *digits = (uint32_t *)(void *)((char *)wide + INT_DIGITS_AT);
    int64_t tag = (int64_t)count * 8;
    Py_ssize_t i;

    if (echo_layouts.ints == INTS_HAVE_TAG)
        memcpy((char *)wide + BEHIND_HEAD, &tag, sizeof tag);
    for (i = 0; i < count; i++, rest >>= DIGIT_BITS)
        digits[i] = (uint32_t)rest & ((UINT32_C(1) << DIGIT_BITS) - 1);
}

PyObject *echo_new_wide_int(const uint64_t halves[2])
{
    PyObject *wide;
    Py_ssize_t count;

    if (halves[0] == 0)
        return PyLong_FromUnsignedLongLong(halves[1]);
    count = (128 - __builtin_clzll(halves[0]) + DIGIT_BITS - 1) / DIGIT_BITS;
    wide = PyType_GenericAlloc(&PyLong_Type, count); /* as for a subclass; sets the size */
    if (wide != NULL)
        set_digits(wide, halves, count);
    return wide;
}

int echo_take_wide_int(PyObject *exact_int, uint64_t halves[2])
{
    unsigned __int128 number = 0;
    int64_t count;
    uint32_t digit;

    memcpy(&count, behind_head(exact_int), sizeof count);
    if (echo_layouts.ints == INTS_HAVE_TAG)
        count = (count & 3) == 2 ? -1 : count >> 3;
    if (echo_layouts.ints == INTS_UNKNOWN || count < 0 || count > 5)
        return 0;
    while (count > 0) {
        memcpy(&digit, (char *)exact_int + INT_DIGITS_AT + 4 * --count, sizeof digit);
        if (number >> (128 - DIGIT_BITS) != 0)
            return 0;
        number = number << DIGIT_BITS | digit;
    }
    halves[0] = (uint64_t)(number >> 64);
    halves[1] = (uint64_t)number;
    return 1;
}

/* --- trying them --- */

/* Whether a number lies as it should: short if it has at most two digits. */
static int is_int(int64_t number, int is_short)
{
    PyObject *object = PyLong_FromLongLong(number);
    int64_t found = ~number;
    int holds = object != NULL && take_short_int(object, &found) == is_short && (!is_short || found == number);

    Py_XDECREF(object);
    return holds;
}

/* Whether what is made of two halves is what Python's own arithmetic makes of them, and is read again. */
static int is_wide(uint64_t high, uint64_t low)
{
    uint64_t halves[2] = {high, low}, again[2] = {0};
    PyObject *made = echo_new_wide_int(halves), *above = PyLong_FromUnsignedLongLong(high);
    PyObject *bits = PyLong_FromLong(64), *below = PyLong_FromUnsignedLongLong(low);
    PyObject *shifted = above != NULL && bits != NULL ? PyNumber_Lshift(above, bits) : NULL;
    PyObject *whole = shifted != NULL && below != NULL ? PyNumber_Or(shifted, below) : NULL;
    int holds = made != NULL && whole != NULL && echo_take_wide_int(whole, again) && again[0] == high &&
                again[1] == low && PyObject_RichCompareBool(made, whole, Py_EQ) == 1;

    Py_XDECREF(made);
    Py_XDECREF(above);
    Py_XDECREF(bits);
    Py_XDECREF(below);
    Py_XDECREF(shifted);
    Py_XDECREF(whole);
    return holds;
}

static int are_ints(enum int_layout layout)
{
    int64_t two_digits = INT64_C(1) << 2 * DIGIT_BITS;
    int64_t shorts[] = {0,
                        1,
                        -1,
                        255,
                        -255,
                        (1 << DIGIT_BITS) - 1,
                        1 << DIGIT_BITS,
                        -(1 << DIGIT_BITS),
                        two_digits - 1,
                        1 - two_digits};
    size_t i;

    echo_layouts.ints = layout;
    for (i = 0; i < sizeof shorts / sizeof *shorts; i++) {
        if (!is_int(shorts[i], 1))
            return 0;
    }
    return is_int(two_digits, 0) && is_int(-two_digits, 0) && is_int(INT64_MIN, 0) && is_wide(1, 0) &&
           is_wide(UINT64_MAX, UINT64_MAX) && is_wide(UINT64_C(0x0123456789abcdef), 7);
}

static int are_floats(void)
{
    double samples[] = {0.0, 1.5, -2.25e300};
    int holds = 1;
    size_t i;

    for (i = 0; i < sizeof samples / sizeof *samples; i++) {
        PyObject *object = PyFloat_FromDouble(samples[i]);

        holds &= object != NULL && memcmp(behind_head(object), &samples[i], sizeof *samples) == 0;
        Py_XDECREF(object);
    }
    return holds;
}

/* Whether text is read as it is, if it is ASCII, and left alone otherwise. */
static int is_text(const char *sample, int is_ascii)
{
    PyObject *object = PyUnicode_FromString(sample);
    Py_ssize_t size = 0;
    const char *found = object != NULL ? ascii_of(object, &size) : NULL;
    int holds = is_ascii
                    ? found != NULL && size == (Py_ssize_t)strlen(sample) && memcmp(found, sample, (size_t)size) == 0
                    : object != NULL && found == NULL;

    Py_XDECREF(object);
    return holds;
}

static int are_texts(void)
{
    return is_text("", 1) && is_text("a", 1) && is_text("sixteen and more of them", 1) && is_text("caf\xc3\xa9", 0) &&
           is_text("\xe2\x82\xac", 0) && is_text("\xf0\x9f\x98\x80", 0);
}

static int are_bytes(void)
{
    static const char *const samples[] = {"", "a", "sixteen and more of them"};
    int holds = 1;
    size_t i;

    for (i = 0; i < sizeof samples / sizeof *samples; i++) {
        PyObject *object = PyBytes_FromString(samples[i]);
        Py_ssize_t size = -1;

        echo_layouts.has_bytes = 1;
        holds &= object != NULL && (const char *)bytes_of(object, &size) == PyBytes_AsString(object) &&
                 size == (Py_ssize_t)strlen(samples[i]);
        Py_XDECREF(object);
    }
    return holds;
}

/* Whether a list and a tuple of these three are found to hold them. */
static int are_items(void)
{
    PyObject *samples[] = {Py_None, Py_True, Py_False};
    PyObject *tuple = PyTuple_Pack(3, samples[0], samples[1], samples[2]);
    PyObject *list = tuple != NULL ? PySequence_List(tuple) : NULL;
    int holds;

    echo_layouts.has_items = 1;
    holds = list != NULL && count_items(list) == 3 && count_items(tuple) == 3 &&
            memcmp(items_of(tuple), samples, sizeof samples) == 0 &&
            memcmp(items_of(list), samples, sizeof samples) == 0;
    Py_XDECREF(list);
    Py_XDECREF(tuple);
    return holds;
}

/* --- classes --- */

#define PROBE_AT (BEHIND_HEAD + 40) /* as good as any */
#define VECTORCALL_OFFSET_AT 56     /* in a type: where in its instances that function is */
#define HAVE_VECTORCALL (1UL << 11) /* a flag of such types */

static Py_ssize_t word_of(PyTypeObject *type, Py_ssize_t at)
{
    Py_ssize_t word;

    memcpy(&word, (char *)type + at, sizeof word);
    return word;
}

/* A type of ours that says where its instances have their function; NULL with an exception. */
static PyTypeObject *new_probe(void)
{
    PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, PROBE_AT, READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
    PyType_Slot slots[] = {{Py_tp_members, members}, {0, NULL}};
    PyType_Spec spec = {.name = "echo_core._c.events.Probe",
                        .basicsize = PROBE_AT + 8,
                        .flags = Py_TPFLAGS_DEFAULT | HAVE_VECTORCALL,
                        .slots = slots};

    return (PyTypeObject *)PyType_FromSpec(&spec);
}

/* What a call of a class runs is where `type` says, in the word in which our type has what it was told. Lists and
 * tuples have such a function, and a new class has none. */
static void find_vectorcall(void)
{
    PyTypeObject *probe = new_probe();
    Py_ssize_t at = word_of(&PyType_Type, VECTORCALL_OFFSET_AT),
               size = size_attribute((PyObject *)&PyType_Type, "__basicsize__");

    if (probe != NULL && word_of(probe, VECTORCALL_OFFSET_AT) == PROBE_AT &&
        (PyType_GetFlags(&PyType_Type) & HAVE_VECTORCALL) != 0 && at > VECTORCALL_OFFSET_AT && at % 8 == 0 &&
        at + 8 <= size && word_of(probe, at) == 0 && word_of(&PyList_Type, at) != 0 && word_of(&PyTuple_Type, at) != 0)
        echo_layouts.vectorcall_at = at;
    Py_XDECREF((PyObject *)probe);
}

static uint32_t load_version(PyObject *class, Py_ssize_t at)
{
    uint32_t version;

    memcpy(&version, (char *)class + at, sizeof version);
    return version;
}

/* Whether a class gets a version when an attribute is looked for, and loses it when one is set. */
static int is_version(PyObject *class, Py_ssize_t at)
{
    uint32_t before = 0, found;
    int i;

    for (i = 0; i < 3; i++) {
        Py_XDECREF(PyObject_GetAttrString(class, "__init__"));
        found = load_version(class, at);
        if (found == 0 || found == before || PyObject_SetAttrString(class, "it", Py_None) != 0 ||
            load_version(class, at) != 0)
            return 0;
        before = found;
    }
    return 1;
}

/* It stands two words before what a call runs. */
static void find_version(PyObject *class)
{
    Py_ssize_t at = echo_layouts.vectorcall_at - 16;

    if (echo_layouts.vectorcall_at != 0 && is_version(class, at))
        echo_layouts.version_at = at;
}

/* A class says where it has its dictionary, as any object does. */
static void find_type_dict(PyObject *class)
{
    PyObject *dict = PyObject_GenericGetDict(class, NULL);
    Py_ssize_t at = size_attribute((PyObject *)&PyType_Type, "__dictoffset__");

    if (dict != NULL && at > 0 && *slot_at(class, at) == dict)
        echo_layouts.type_dict_at = at;
    Py_XDECREF(dict);
}

static void find_classes(void)
{
    PyObject *class = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Probe");

    if (class == NULL)
        return;
    find_type_dict(class);
    if (echo_layouts.type_dict_at != 0)
        find_vectorcall();
    find_version(class);
    Py_DECREF(class);
}

/* The GIL guards what is read here. A build without it says so in its flags, which are part of sys.abiflags. */
static int has_gil(void)
{
    PyObject *flags = PySys_GetObject("abiflags"); /* borrowed */
    const char *text = flags != NULL ? PyUnicode_AsUTF8AndSize(flags, NULL) : NULL;

    PyErr_Clear();
    return text == NULL || strchr(text, 't') == NULL;
}

static int is_known_machine(void)
{
    return sizeof(void *) == 8 && sizeof(PyObject) == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && has_gil();
}

int echo_layouts_find(void)
{
    int has_tags = Py_Version >= 0x030C0000;

    memset(&echo_layouts, 0, sizeof echo_layouts);
    if (!is_known_machine())
        return 0;
    if (!are_ints(has_tags ? INTS_HAVE_TAG : INTS_HAVE_SIZE))
        echo_layouts.ints = INTS_UNKNOWN;
    echo_layouts.has_floats = are_floats();
    echo_layouts.has_items = are_items();
    echo_layouts.has_bytes = are_bytes();
    echo_layouts.text_data_at = BEHIND_HEAD + (has_tags ? 24 : 32);
    if (!are_texts())
        echo_layouts.text_data_at = 0;
    echo_layouts.has_times = echo_times_find();
    find_classes();
    return PyErr_Occurred() == NULL ? 0 : -1;
}
