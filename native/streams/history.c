/* Histories: what a sink that comes late gets before all that is new.
 *
 * The records are bytes objects, so that whoever has asked for them may hand them out while others are added.
 */
#include "streams/keyed.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

/* So much more is kept while sinks follow. */
#define FOLLOWED_EVENTS 65536
#define FOLLOWED_BYTES (16 * 1024 * 1024)

struct history {
    struct kept *ring; /* owned; NULL: nothing was ever kept */
    size_t capacity;   /* of the ring, a power of two; 0 at first */
    size_t head;       /* where the oldest lies */
    size_t count;
    size_t bytes; /* of all records */
    size_t max_events, max_bytes;
    size_t followers;    /* sinks that are handed what is kept */
    struct keyed *keyed; /* owned; has all there is. NULL: there is no key */
};

static struct kept *kept_at(const struct history *history, size_t i)
{
    return &history->ring[(history->head + i) & (history->capacity - 1)];
}

static void drop_oldest(struct history *history)
{
    struct kept *oldest = kept_at(history, 0);

    history->bytes -= (size_t)PyBytes_Size(oldest->record);
    Py_DECREF(oldest->record);
    history->head++;
    history->count--;
}

void echo_history_forget(struct history *history)
{
    if (history->keyed != NULL)
        echo_keyed_forget(history->keyed);
    while (history->count > 0)
        drop_oldest(history);
}

size_t echo_history_bytes(const struct history *history)
{
    return history->keyed != NULL ? echo_keyed_bytes(history->keyed) : history->bytes;
}

/* -1 with TypeError, ValueError or MemoryError. */
static int make_keyed(struct history *history, PyObject *key)
{
    struct key_place place;
    Py_ssize_t keys;

    if (!PyArg_ParseTuple(key, "nnppn", &place.offset, &place.size, &place.is_text, &place.is_big, &keys))
        return -1;
    if (place.offset < 0 || place.size < 1 || place.offset > PY_SSIZE_T_MAX - place.size ||
        (place.is_text && place.size > 8) || keys < 1 || keys >= UINT32_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "Expected the place of a key, and at least 1 value of it");
        return -1;
    }
    history->keyed = echo_keyed_new(place, history->max_events, (size_t)keys, history->max_bytes);
    if (history->keyed == NULL)
        PyErr_NoMemory();
    return history->keyed != NULL ? 0 : -1;
}

int echo_history_new(const struct keeping *keeping, struct history **history)
{
    if (keeping->events < 0 || keeping->bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "Expected to keep at least 0 events and 0 bytes");
        return -1;
    }
    if (keeping->events == 0)
        return 0;
    *history = calloc(1, sizeof **history);
    if (*history == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    (*history)->max_events = (size_t)keeping->events;
    (*history)->max_bytes = (size_t)keeping->bytes;
    return keeping->key == NULL || keeping->key == Py_None ? 0 : make_keyed(*history, keeping->key);
}

struct history *echo_history_of_followers(void)
{
    struct history *history = calloc(1, sizeof *history);

    if (history == NULL)
        PyErr_NoMemory();
    else
        history->max_bytes = FOLLOWED_BYTES; /* of one that is larger nothing is kept, nor of what was before it */
    return history;
}

void echo_history_free(struct history *history)
{
    if (history == NULL)
        return;
    echo_history_forget(history);
    echo_keyed_free(history->keyed);
    free(history->ring);
    free(history);
}

static int grow(struct history *history)
{
    size_t i, capacity = history->capacity != 0 ? 2 * history->capacity : FIRST_CAPACITY;
    struct kept *ring = malloc(capacity * sizeof *ring);

    if (ring == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < history->count; i++)
        ring[i] = *kept_at(history, i);
    free(history->ring);
    history->ring = ring;
    history->capacity = capacity;
    history->head = 0;
    return 0;
}

static size_t most_events(const struct history *history)
{
    return history->max_events + (history->followers > 0 ? FOLLOWED_EVENTS : 0);
}

/* Room for so many more. */
static void make_room(struct history *history, size_t events, size_t bytes)
{
    size_t most_bytes = history->max_bytes + (history->followers > 0 ? FOLLOWED_BYTES : 0);

    while (history->count > 0 &&
           (history->count + events > most_events(history) || history->bytes + bytes > most_bytes))
        drop_oldest(history);
}

void echo_history_follow(struct history *history, int more)
{
    if (history == NULL)
        return;
    history->followers += more ? 1 : -(size_t)(history->followers > 0);
    make_room(history, 0, 0);
}

int echo_history_is_followed(const struct history *history)
{
    return history != NULL && history->followers > 0;
}

int echo_parse_hold(PyObject *argument, int *change)
{
    long number = PyLong_AsLong(argument);

    if (number == -1 && PyErr_Occurred() != NULL)
        return -1;
    if (number < -1 || number > 1) {
        PyErr_Format(PyExc_ValueError, "Expected one sink more, still, or less: 1, 0 or -1, got %ld", number);
        return -1;
    }
    *change = (int)number;
    return 0;
}

/* Takes the reference over, unless it fails. */
static int add_one(struct history *history, struct kept kept)
{
    size_t size = (size_t)PyBytes_Size(kept.record);

    make_room(history, 1, size);
    if (history->count == history->capacity && grow(history) != 0)
        return -1;
    *kept_at(history, history->count++) = kept;
    history->bytes += size;
    return 0;
}

static int add(struct history *history, struct kept kept)
{
    return history->keyed != NULL ? echo_keyed_add(history->keyed, kept) : add_one(history, kept);
}

int echo_history_add(struct history *history, const struct record *record, Py_ssize_t size, uint64_t number)
{
    size_t records = size != 0 ? (size_t)(record->size / size) : 1;
    size_t i = history->keyed == NULL && records > most_events(history) ? records - most_events(history) : 0;
    const char *bytes = (const char *)record->bytes;
    PyObject *copy;

    if (history->keyed == NULL && (size_t)size > history->max_bytes) {
        echo_history_forget(history);
        return 0;
    }
    for (; i < records; i++) {
        copy = PyBytes_FromStringAndSize(bytes + (Py_ssize_t)i * size, size);
        if (copy == NULL || add(history, (struct kept){copy, number + i, record->submitted_ns}) != 0) {
            Py_XDECREF(copy);
            echo_history_forget(history); /* rather none than some with others missing between them */
            return -1;
        }
    }
    return 0;
}

uint64_t echo_history_forgotten(const struct history *history)
{
    return history != NULL && history->keyed != NULL ? echo_keyed_forgotten(history->keyed) : 0;
}

/* --- what is kept --- */

static int compare_numbers(const void *one, const void *other)
{
    uint64_t first = ((const struct kept *)one)->number, second = ((const struct kept *)other)->number;

    return (first > second) - (first < second);
}

static size_t copy_all(const struct history *history, struct kept *room)
{
    if (history->keyed != NULL)
        return echo_keyed_all(history->keyed, room);
    for (size_t i = 0; room != NULL && i < history->count; i++)
        room[i] = *kept_at(history, i);
    return history->count;
}

struct kept *echo_history_followed(const struct history *history, size_t *count)
{
    struct kept *all;

    *count = history != NULL ? copy_all(history, NULL) : 0;
    all = malloc((*count + 1) * sizeof *all);
    if (all == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (history != NULL)
        copy_all(history, all);
    for (size_t i = 0; i < *count; i++)
        Py_INCREF(all[i].record);
    if (history != NULL && history->keyed != NULL)
        qsort(all, *count, sizeof *all, compare_numbers);
    return all;
}

struct kept *echo_history_all(const struct history *history, size_t *count)
{
    struct kept *all = echo_history_followed(history, count);
    size_t i, more = 0;

    if (all == NULL || history == NULL || history->keyed != NULL || *count <= history->max_events)
        return all;
    more = *count - history->max_events; /* for those that follow */
    for (i = 0; i < more; i++)
        Py_DECREF(all[i].record);
    *count -= more;
    memmove(all, all + more, *count * sizeof *all);
    return all;
}

static int append(PyObject *list, const struct kept *kept)
{
    PyObject *item =
        Py_BuildValue("KOL", (unsigned long long)kept->number, kept->record, (long long)kept->submitted_ns);
    int status = item != NULL ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return status;
}

/* New objects may have the garbage collector run, and that any code, which may add others, drop these, or end the
 * history: so first of all they are copied. */
PyObject *echo_history_since(const struct history *history, uint64_t number, uint64_t next, int is_following)
{
    size_t i, count;
    struct kept *all = is_following ? echo_history_followed(history, &count) : echo_history_all(history, &count);
    PyObject *list = all != NULL ? PyList_New(0) : NULL;
    int status = 0;

    for (i = 0; list != NULL && status == 0 && i < count; i++)
        if (all[i].number >= number)
            status = append(list, &all[i]);
    for (i = 0; all != NULL && i < count; i++)
        Py_DECREF(all[i].record);
    free(all);
    if (status != 0)
        Py_CLEAR(list);
    return list != NULL ? Py_BuildValue("NK", list, (unsigned long long)next) : NULL;
}
