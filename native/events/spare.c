/* Which large objects are kept; spare.h says what for. */
#include "events/spare.h"

#define MAX_KEPT 16
#define MAX_KEPT_BYTES (32 * 1024 * 1024)

static struct spare {
    PyObject *object; /* owned */
    Py_ssize_t size;
} kept[MAX_KEPT]; /* the newest is last: it is in the cache */
static int kept_count;
static Py_ssize_t kept_bytes;

static PyObject *remove_at(int index)
{
    PyObject *object = kept[index].object;

    kept_count--;
    kept_bytes -= kept[index].size;
    for (int i = index; i < kept_count; i++)
        kept[i] = kept[i + 1];
    return object;
}

PyObject *echo_spare_take(Py_ssize_t size)
{
    for (int i = kept_count - 1; i >= 0; i--)
        if (kept[i].size == size)
            return remove_at(i);
    return NULL;
}

int echo_spare_keep(PyObject *ended, Py_ssize_t size)
{
    if (size < LARGE_BYTES || size > MAX_KEPT_BYTES)
        return 0;
    while (kept_count == MAX_KEPT || kept_bytes > MAX_KEPT_BYTES - size)
        PyObject_GC_Del(remove_at(0));
    Py_SET_TYPE(ended, &PyList_Type); /* its own may be gone by then: PyObject_GC_Del asks what lies before it */
    kept[kept_count++] = (struct spare){ended, size};
    kept_bytes += size;
    return 1;
}
