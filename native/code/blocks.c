/* echo_core._c.code: machine code in memory, and the CPU that runs it.
 *
 * Maps code that runs at any page, fills in the addresses of what it calls, and makes it executable; knows no
 * object format. Code calls functions of the process, so all of the C library, and those that are offered here,
 * which no linker sees. What is mapped is run as it is: where the bytes come from is for the caller to care
 * about. Memory is writable until it is executable, never both.
 *
 * Python's stable ABI of 3.11 only. The GIL is never released here. The counts are of the whole process, so
 * they are atomic; all other state belongs to one object and is fixed once that is made.
 */
#define _GNU_SOURCE 1 /* RTLD_DEFAULT */
#include "stable_abi.h"
#include <structmember.h>

#include "code/numbers.h"
#include "code/text.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The machine that this is, as ELF numbers them; 0 for one that no code is laid out for. */
#if defined(__x86_64__) && defined(__LP64__)
#define MACHINE 62
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define MACHINE 183
#else
#define MACHINE 0
#endif

/* The Python object: one mapping. */
struct block {
    PyObject ob_base;           /* spelled out: PyObject_HEAD hides it */
    unsigned long long address; /* where the code is; owned. 0: nothing is mapped */
    unsigned long long size;    /* bytes mapped: whole pages */
};

/* Since the process began. */
static atomic_ullong mapped_count, unmapped_count, mapped_bytes;

/* --- what code calls --- */

static const struct {
    const char *name;
    void (*function)(void); /* of whatever type */
} offered[] = {
    {"echo_is_utf8", (void (*)(void))echo_is_utf8},
    {"echo_text_size", (void (*)(void))echo_text_size},
    {"echo_compare_int", (void (*)(void))echo_compare_int},
    {"echo_compare_uint", (void (*)(void))echo_compare_uint},
    {"echo_floor_divide", (void (*)(void))echo_floor_divide},
    {"echo_remainder", (void (*)(void))echo_remainder},
    {"echo_power", (void (*)(void))echo_power},
    {"echo_floor", (void (*)(void))echo_floor},
    {"echo_ceil", (void (*)(void))echo_ceil},
    {"echo_compare_bytes", (void (*)(void))echo_compare_bytes},
    {"echo_starts", (void (*)(void))echo_starts},
    {"echo_ends", (void (*)(void))echo_ends},
    {"echo_contains", (void (*)(void))echo_contains},
    {"echo_digest", (void (*)(void))echo_digest},
    {"echo_count_characters", (void (*)(void))echo_count_characters},
    {"echo_slot_text_size", (void (*)(void))echo_slot_text_size},
    {"echo_chars_size", (void (*)(void))echo_chars_size},
};

#define OFFERED (sizeof offered / sizeof offered[0])

/* The address of a function by its name; NULL with LookupError. */
static void *find(const char *name)
{
    void *address;
    size_t i;

    for (i = 0; i < OFFERED; i++) {
        if (strcmp(offered[i].name, name) == 0)
            return (void *)(uintptr_t)offered[i].function;
    }
    address = dlsym(RTLD_DEFAULT, name);
    if (address == NULL)
        PyErr_Format(PyExc_LookupError, "Expected a function of this process, got %s", name);
    return address;
}

static PyObject *functions(PyObject *module, PyObject *unused)
{
    PyObject *found = PyDict_New();
    size_t i;

    (void)module;
    (void)unused;
    for (i = 0; found != NULL && i < OFFERED; i++) {
        PyObject *address = PyLong_FromUnsignedLongLong((uintptr_t)offered[i].function);

        if (address == NULL || PyDict_SetItemString(found, offered[i].name, address) != 0)
            Py_CLEAR(found);
        Py_XDECREF(address);
    }
    return found;
}

/* --- mapping --- */

/* The size in whole pages; 0 with ValueError. */
static size_t size_in_pages(Py_ssize_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (size < 1 || (size_t)size > SIZE_MAX / 2 - page) {
        PyErr_Format(PyExc_ValueError, "Expected at least 1 byte of code, got %zd", size);
        return 0;
    }
    return ((size_t)size + page - 1) / page * page;
}

/* Has the block own memory that is writable and zero; -1 with an exception. */
static int map_memory(struct block *block, Py_ssize_t size)
{
    size_t pages = size_in_pages(size);
    void *start;

    if (pages == 0)
        return -1;
    start = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    block->address = (uintptr_t)start;
    block->size = pages;
    atomic_fetch_add(&mapped_count, 1);
    atomic_fetch_add(&mapped_bytes, pages);
    return 0;
}

/* Fills in one address: `import` is (name, offset) of a function. */
static int fill_in(uint8_t *code, Py_ssize_t size, PyObject *import)
{
    const char *name;
    Py_ssize_t offset;
    void *address;

    if (!PyTuple_Check(import)) {
        PyErr_Format(PyExc_TypeError, "Expected a name and an offset, got %R", import);
        return -1;
    }
    if (!PyArg_ParseTuple(import, "sn:Block", &name, &offset))
        return -1;
    if (offset < 0 || size < (Py_ssize_t)sizeof address || offset > size - (Py_ssize_t)sizeof address) {
        PyErr_Format(PyExc_ValueError, "Expected room for an address in %zd bytes, got offset %zd", size, offset);
        return -1;
    }
    address = find(name);
    if (address == NULL)
        return -1;
    memcpy(code + offset, &address, sizeof address);
    return 0;
}

/* Code and addresses into memory that is writable, which is executable afterwards; -1 with an exception. */
static int fill(struct block *block, const Py_buffer *image, PyObject *imports)
{
    uint8_t *code = (uint8_t *)(uintptr_t)block->address;
    Py_ssize_t i, count = PyTuple_Size(imports);

    memcpy(code, image->buf, (size_t)image->len);
    for (i = 0; i < count; i++) {
        if (fill_in(code, image->len, PyTuple_GetItem(imports, i)) != 0)
            return -1;
    }
    if (mprotect(code, (size_t)block->size, PROT_READ | PROT_EXEC) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    __builtin___clear_cache((char *)code, (char *)code + image->len);
    return 0;
}

/* --- the type --- */

/* Returns a block of this code; NULL with an exception. */
static PyObject *block_of(PyTypeObject *type, const Py_buffer *image, PyObject *imports)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct block *block = (struct block *)allocate(type, 0); /* zeroed */

    if (block == NULL)
        return NULL;
    if (map_memory(block, image->len) != 0 || fill(block, image, imports) != 0)
        Py_CLEAR(block); /* which unmaps */
    return (PyObject *)block;
}

static PyObject *block_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"image", "imports", NULL};
    Py_buffer image;
    PyObject *imports, *block;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*O!:Block", names, &image, &PyTuple_Type, &imports))
        return NULL;
    block = block_of(type, &image, imports);
    PyBuffer_Release(&image);
    return block;
}

/* Whoever runs the code holds the block, so no one runs it any more. */
static void block_dealloc(PyObject *self)
{
    struct block *block = (struct block *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    if (block->address != 0) {
        munmap((void *)(uintptr_t)block->address, (size_t)block->size); /* fails for no mapping of ours */
        atomic_fetch_add(&unmapped_count, 1);
        atomic_fetch_sub(&mapped_bytes, block->size);
    }
    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

static PyMemberDef block_members[] = {
    {"address", T_ULONGLONG, offsetof(struct block, address), READONLY,
     PyDoc_STR("Where the image begins: a multiple of the page size.")},
    {"size", T_ULONGLONG, offsetof(struct block, size), READONLY, PyDoc_STR("Bytes mapped: whole pages.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot block_slots[] = {
    {Py_tp_doc, PyDoc_STR("Block(image, imports)\n--\n\n"
                          "Executable memory that begins with image, for as long as this object lives. Each "
                          "import is the name of a function of this process and the offset in the image at "
                          "which its address belongs.")},
    {Py_tp_new, block_new},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_members, block_members},
    {0, NULL}};

static PyType_Spec block_spec = {
    .name = "echo_core._c.code.Block",
    .basicsize = sizeof(struct block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = block_slots,
};

/* --- counts --- */

static PyObject *statistics(PyObject *module, PyObject *unused)
{
    unsigned long long unmapped = atomic_load(&unmapped_count); /* first, so it is not above the next */

    (void)module;
    (void)unused;
    return Py_BuildValue("(KKK)", (unsigned long long)atomic_load(&mapped_count), unmapped,
                         (unsigned long long)atomic_load(&mapped_bytes));
}

/* --- the CPU --- */

#if defined(__x86_64__)
#include <cpuid.h>

enum { A = 1, B = 2, C = 4, D = 8 }; /* registers */

/* What compilers look at to name a CPU and its features; never a register that differs between the cores of
 * one machine, such as the APIC number in leaf 1. */
static const struct {
    uint32_t leaf;
    uint32_t subleaf;
    uint32_t registers;
} examined[] = {
    {0x0, 0, A | B | C | D},
    {0x1, 0, A | C | D},
    {0x7, 0, A | B | C | D},
    {0x7, 1, A | B | C | D},
    {0xD, 1, A},
    {0x14, 0, B},
    {0x19, 0, B},
    {0x1E, 1, A},
    {0x24, 0, A | B},
    {0x80000001, 0, C | D},
    {0x80000008, 0, B},
    {0x80000021, 0, A},
};

#define EXAMINED (sizeof examined / sizeof examined[0])
#define OSXSAVE (1u << 27) /* in leaf 1, register C: XGETBV may be executed */

/* Which registers the operating system saves: without that a feature is of no use. */
static uint64_t saved_state(void)
{
    uint32_t a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

static PyObject *cpu(PyObject *module, PyObject *unused)
{
    uint32_t words[EXAMINED * 4 + 2] = {0};
    uint64_t saved = saved_state();
    size_t i, r;

    (void)module;
    (void)unused;
    for (i = 0; i < EXAMINED; i++) {
        uint32_t *row = words + 4 * i;
        __get_cpuid_count(examined[i].leaf, examined[i].subleaf, row, row + 1, row + 2, row + 3);
        for (r = 0; r < 4; r++)
            row[r] = examined[i].registers >> r & 1 ? row[r] : 0;
    }
    memcpy(words + EXAMINED * 4, &saved, sizeof saved);
    return PyBytes_FromStringAndSize((const char *)words, sizeof words);
}
#else
static PyObject *cpu(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBytes_FromStringAndSize(NULL, 0);
}
#endif

/* --- the module --- */

static PyMethodDef module_methods[] = {
    {"statistics", statistics, METH_NOARGS,
     PyDoc_STR("statistics()\n--\n\n"
               "Since the process began: blocks mapped, blocks unmapped; and the bytes mapped now.")},
    {"functions", functions, METH_NOARGS,
     PyDoc_STR("functions()\n--\n\n"
               "The addresses of the functions that code may call besides those of the process, by name.")},
    {"cpu", cpu, METH_NOARGS,
     PyDoc_STR("cpu()\n--\n\n"
               "All that a compiler asks of this CPU, the same on each of its cores; empty where unknown.")},
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &block_spec, NULL);
    int status;

    if (type == NULL)
        return -1;
    status = PyModule_AddType(module, (PyTypeObject *)type); /* takes a reference of its own */
    Py_DECREF(type);
    if (status != 0)
        return -1;
    return PyModule_AddIntMacro(module, MACHINE);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.code",
    .m_doc = PyDoc_STR("Machine code in memory, and the CPU that runs it."),
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_code(void)
{
    return PyModuleDef_Init(&module_definition);
}
