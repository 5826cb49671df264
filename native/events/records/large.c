/* The memory of large events, which is used again.
 *
 * malloc takes so much from the system and gives it back each time, and the system fills in page by page what is
 * touched: for half a MiB that takes ten times as long as writing it. So the last few pieces are kept, whatever class
 * their events are of. The GIL guards them.
 *
 *   | size | unused | object: head, record ...
 *   0                HEADER_BYTES
 */
#include "events/records/records.h"

#include <stdlib.h>

#define HEADER_BYTES 64 /* what follows lies at a multiple of it */

/* Of pieces that no event has. */
#define MAX_KEPT 16
#define MAX_KEPT_BYTES (32 * 1024 * 1024)

/* A piece may be larger than is asked for by so much of it. */
#define WASTE_PART 4

struct piece {
    _Alignas(HEADER_BYTES) Py_ssize_t size; /* of all of it */
};
_Static_assert(sizeof(struct piece) == HEADER_BYTES, "an object begins behind it");

static struct piece *kept[MAX_KEPT]; /* owned; the one that was in use last is last: it is in the cache */
static int kept_count;
static Py_ssize_t kept_bytes;

static int fits(const struct piece *piece, Py_ssize_t size)
{
    return piece->size >= size && piece->size - size <= piece->size / WASTE_PART;
}

static struct piece *remove_kept(int index)
{
    struct piece *piece = kept[index];

    kept_count--;
    kept_bytes -= piece->size;
    for (int i = index; i < kept_count; i++)
        kept[i] = kept[i + 1];
    return piece;
}

static struct piece *take(Py_ssize_t size)
{
    struct piece *piece;

    for (int i = kept_count - 1; i >= 0; i--)
        if (fits(kept[i], size))
            return remove_kept(i);
    size = (size + HEADER_BYTES - 1) & -(Py_ssize_t)HEADER_BYTES;
    piece = aligned_alloc(HEADER_BYTES, (size_t)size);
    if (piece != NULL)
        piece->size = size;
    return piece;
}

PyObject *echo_large_new(PyTypeObject *type, Py_ssize_t size)
{
    struct piece *piece = take(size + HEADER_BYTES);

    if (piece == NULL)
        return PyErr_NoMemory();
    return PyObject_Init((PyObject *)(void *)(piece + 1), type);
}

PyObject *echo_record_new_elsewhere(const struct shape *shape)
{
    if (!shape->is_large)
        return PyType_GenericAlloc(shape->owner, 0); /* zeroed */
    return shape->is_collected ? echo_collected_new_but(shape->owner, shape->object_size, shape->record, shape->size)
                               : echo_large_new(shape->owner, shape->object_size);
}

PyObject *echo_large_alloc(PyTypeObject *type, Py_ssize_t items)
{
    Py_ssize_t size = size_attribute((PyObject *)type, "__basicsize__");
    PyObject *object = size >= 0 ? echo_large_new(type, size) : NULL;

    (void)items;
    if (object != NULL)
        memset((uint8_t *)object + sizeof *object, 0, (size_t)size - sizeof *object);
    return object;
}

void echo_large_free(void *object)
{
    struct piece *piece = (struct piece *)object - 1;

    if (piece->size > MAX_KEPT_BYTES) {
        free(piece);
        return;
    }
    while (kept_count == MAX_KEPT || kept_bytes + piece->size > MAX_KEPT_BYTES)
        free(remove_kept(0));
    kept[kept_count++] = piece;
    kept_bytes += piece->size;
}
