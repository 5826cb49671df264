/* What is derived from events that are kept, for sinks that come later.
 *
 * An outlet that is derived from one with a history has none of its own: what is kept there is judged anew for each such
 * sink, as it would be today, which runs Python code. What passes meanwhile is noted, so that nothing is missing between.
 * The numbers of what was judged anew end where those of that begin.
 */
#include "streams/branches.h"

#include <stdlib.h>
#include <string.h>

void echo_outlet_note(const struct outlet *outlet, const struct record *record, uint64_t events, uint64_t number)
{
    Py_ssize_t one = events == 1 ? record->size : outlet->record_size;

    if (echo_history_add(outlet->meanwhile, record, one, number) != 0)
        PyErr_Clear(); /* what follows is noted again; of what was before a sink gets nothing */
}

/* One (record, time of submission or 0) of the list, with a reference. -1 with TypeError. Runs no Python code. */
static int take_item(PyObject *item, uint64_t number, struct kept *kept)
{
    PyObject *record = PyTuple_CheckExact(item) && PyTuple_Size(item) == 2 ? PyTuple_GetItem(item, 0) : NULL;
    PyObject *time = record != NULL ? PyTuple_GetItem(item, 1) : NULL;

    if (record == NULL || !PyBytes_CheckExact(record) || !PyLong_CheckExact(time)) {
        PyErr_Format(PyExc_TypeError, "Expected a record and the time of its submission, got %R", item);
        return -1;
    }
    *kept = (struct kept){record, number, PyLong_AsLongLong(time)};
    if (PyErr_Occurred() != NULL)
        return -1;
    Py_INCREF(record);
    return 0;
}

static void let_go(struct kept *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        Py_DECREF(all[i].record);
    free(all);
}

/* What is in the list, whose numbers end before `next`, and room for so many more. NULL with an exception. */
static struct kept *take_earlier(PyObject *earlier, uint64_t next, size_t more)
{
    size_t i, count = (size_t)PyList_Size(earlier);
    struct kept *all = count <= next ? malloc((count + more + 1) * sizeof *all) : NULL;

    if (all == NULL) {
        PyErr_SetString(count <= next ? PyExc_MemoryError : PyExc_ValueError,
                        "Expected memory, and numbers from 0 on, for what was judged anew");
        return NULL;
    }
    for (i = 0; i < count; i++)
        if (take_item(PyList_GetItem(earlier, (Py_ssize_t)i), next - count + i, &all[i]) != 0) {
            let_go(all, i);
            return NULL;
        }
    return all;
}

/* Where the last of them begin whose numbers follow each other, up to that of the next event. */
static size_t unbroken(const struct kept *all, size_t count, uint64_t sequence, size_t most)
{
    size_t i = count;

    while (i > 0 && count - i < most && all[i - 1].number + (count - i) + 1 == sequence)
        i--;
    return i;
}

struct kept *echo_outlet_kept_later(const struct outlet *outlet, PyObject *earlier, uint64_t next, size_t *count)
{
    size_t meanwhile, skipped;
    struct kept *noted = echo_history_followed(outlet->meanwhile, &meanwhile);
    struct kept *all = noted != NULL ? take_earlier(earlier, next, meanwhile) : NULL;

    if (all == NULL) {
        if (noted != NULL)
            let_go(noted, meanwhile);
        return NULL;
    }
    *count = (size_t)PyList_Size(earlier);
    for (size_t i = 0; i < meanwhile; i++) {
        if (noted[i].number >= next)
            all[(*count)++] = noted[i];
        else
            Py_DECREF(noted[i].record);
    }
    free(noted);
    skipped = unbroken(all, *count, outlet->sequence, (size_t)outlet->first_number);
    for (size_t i = 0; i < skipped; i++)
        Py_DECREF(all[i].record);
    *count -= skipped;
    memmove(all, all + skipped, *count * sizeof *all);
    return all;
}
