/* Which bytes are kept, and when they come back; kept_bytes.h says what for. */
#include "kept_bytes.h"

/* As many as a receiver may have in hand: those of a window wait for a handler, and each is one of these. */
#define MAX_KEPT 64
#define MAX_KEPT_BYTES (32 * 1024 * 1024)

static PyObject *kept[MAX_KEPT]; /* owned; the oldest is first */
static int kept_count;
static Py_ssize_t kept_bytes;

/* The reference becomes the caller's. */
static PyObject *remove_oldest(void)
{
    PyObject *oldest = kept[0];

    kept_count--;
    kept_bytes -= PyBytes_Size(oldest);
    for (int i = 0; i < kept_count; i++)
        kept[i] = kept[i + 1];
    return oldest;
}

/* Whether nobody sees it if they change. Bytes know their hash once somebody has asked for it: CPython has it in the word
 * before the content, and -1 there until then. */
static int are_unused(PyObject *bytes)
{
    return Py_REFCNT(bytes) == 1 && ((const Py_hash_t *)(void *)PyBytes_AsString(bytes))[-1] == -1;
}

static void keep(PyObject *bytes, Py_ssize_t size)
{
    while (kept_count == MAX_KEPT || kept_bytes > MAX_KEPT_BYTES - size)
        Py_DECREF(remove_oldest());
    kept[kept_count++] = Py_NewRef(bytes);
    kept_bytes += size;
}

PyObject *echo_kept_bytes(Py_ssize_t size)
{
    PyObject *made;

    for (int i = 0; i < kept_count; i++)
        if (PyBytes_Size(kept[i]) == size && are_unused(kept[i]))
            return Py_NewRef(kept[i]);
    made = PyBytes_FromStringAndSize(NULL, size);
    if (made != NULL && size <= MAX_KEPT_BYTES)
        keep(made, size);
    return made;
}
