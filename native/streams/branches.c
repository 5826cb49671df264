/* How events come to what is derived from their outlet.
 *
 * A branch leads to an outlet of its own, which numbers what passes, and has streams and sinks as any other. So what is
 * derived is judged once, for all who take it, and derived from again.
 *
 * An event is judged before anybody gets it, as it is, or by its record where that is made anyway: what does not pass is
 * neither encoded nor sent. Judging, encoding and deriving may run any code, so all of that comes before the first number
 * is taken (passes.c): what fails takes none, and whoever sets parameters is told how many have no number yet.
 */
#include "streams/branches.h"

#include "streams/calls.h"
#include "streams/outgoing.h"

#include "links/errors.h"

#include <string.h>

/* So many bytes of derived records are made in one piece: their size is of a peer's choice. */
#define PIECE_BYTES (1024 * 1024)
#define MOST_ROWS(size) Py_MAX(PIECE_BYTES / (size), 1)

static struct follower *follower_at(PyObject *branches, Py_ssize_t i)
{
    return (struct follower *)(void *)PyTuple_GetItem(branches, i);
}

static int is_follower_wanted(struct follower *follower)
{
    return follower->is_wanted(follower);
}

/* Whether anybody takes what an outlet gives, or what is derived from it. Where sinks that come later get something, they
 * may come while an event is on its way, and what is judged has to be numbered as for those that were there. */
static int is_wanted(const struct outlet *outlet)
{
    return outlet->outgoing_count + outlet->direct_count + outlet->converting_count > 0 || outlet->meanwhile != NULL ||
           (outlet->branch_count > 0 && echo_branches_are_wanted(outlet));
}

int echo_branches_are_wanted(const struct outlet *outlet)
{
    Py_ssize_t i = 0;

    while (i < outlet->branch_count && !is_follower_wanted(follower_at(outlet->branches, i)))
        i++;
    return i < outlet->branch_count;
}

int echo_branch_is_wanted(struct follower *self)
{
    return is_wanted(outlet_of((struct branch *)self));
}

static int needs_record(const struct branch *branch)
{
    return branch->derived_size != 0 || echo_needs_records(outlet_of(branch));
}

int echo_subject_encode(const struct subject *subject)
{
    if (subject->what->record.bytes != NULL)
        return 0;
    return echo_outlet_encode(subject->encoder, subject->event, subject->room, subject->room_size, subject->what);
}

/* --- derived records --- */

/* A new bytearray of the derived record, as far as it is taken over; NULL with an exception. */
static PyObject *convert(const struct branch *branch, PyObject *record)
{
    PyObject *converted, *room;

    if (branch->convert == NULL) {
        room = PyByteArray_FromStringAndSize(NULL, branch->derived_size);
        if (room != NULL)
            memset(PyByteArray_AsString(room), 0, (size_t)branch->derived_size);
        return room;
    }
    converted = call_one(branch->convert, record);
    room = converted != NULL ? PyByteArray_FromObject(converted) : NULL;
    Py_XDECREF(converted);
    return room;
}

/* What is computed, into the room. 1; 0: a step has failed. -1 with an exception. */
static int compute(const struct branch *branch, PyObject *record, PyObject *room)
{
    PyObject *done;
    int is_done;

    if (branch->write == NULL)
        return 1;
    done = PyObject_CallFunctionObjArgs(branch->write, record, room, branch->offsets, NULL);
    is_done = done != NULL ? done == Py_True : -1;
    Py_XDECREF(done);
    return is_done;
}

/* What follows relies on it, whatever has converted it: rows lie side by side. */
static int is_as_large_as_said(const struct branch *branch, PyObject *room)
{
    Py_ssize_t size = PyByteArray_Size(room);

    return outlet_of(branch)->record_size != 0 ? size == branch->derived_size : size >= branch->derived_size;
}

/* The derived record of one, as bytes. NULL: there is none; with an exception only where that is none of an Exception,
 * as what is wrong with one event of one receiver is not the source's. */
static PyObject *derive(struct branch *branch, const uint8_t *bytes, Py_ssize_t size)
{
    PyObject *record = PyBytes_FromStringAndSize((const char *)bytes, size), *made = NULL;
    PyObject *room = record != NULL ? convert(branch, record) : NULL;

    if (room != NULL && is_as_large_as_said(branch, room) && compute(branch, record, room) > 0)
        made = PyBytes_FromObject(room);
    Py_XDECREF(room);
    Py_XDECREF(record);
    branch->failed += made == NULL;
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return made;
}

/* --- what passes --- */

/* So many events have passed. `made`: their records, a reference that is taken over; NULL: those of the subject. */
static int pass_on(struct branch *branch, const struct subject *subject, PyObject *made, uint64_t events,
                   struct passes *passes)
{
    struct outlet *outlet = outlet_of(branch);
    uint64_t number = outlet->sequence + branch->waiting;
    struct pass *pass = echo_passes_add(passes, branch, subject, made, events);
    struct subject derived = *subject;

    if (pass == NULL)
        return -1;
    if (made != NULL)
        derived = (struct subject){.what = &pass->submission, .record_size = outlet->record_size};
    derived.is_selected = pass->is_selected;
    derived.glance = (struct glance){0, 0};
    return outlet->branch_count > 0 ? echo_branches_follow(outlet, &derived, number, passes) : 0;
}

/* --- one event, or one record --- */

/* 1, 0, or -1 with an exception. */
static int is_passing(const struct branch *branch, const struct subject *subject, int64_t now_ns)
{
    const struct record *record = &subject->what->record;

    if (branch->judge == NULL)
        return 1;
    return record->bytes != NULL ? branch->raw->record(branch->judge, record->bytes, record->size, now_ns)
                                 : branch->raw->object(branch->judge, subject->event, now_ns);
}

/* The record of an event that passes is there, and `*made` the derived one, where either is needed. 1; 0: the derived one
 * cannot be made. -1 with an exception. Meanwhile other code may run, and look at how many are being derived. */
static int derive_one(struct branch *branch, const struct subject *subject, PyObject **made)
{
    const struct record *record = &subject->what->record;
    int status = 1;

    if (needs_record(branch) && echo_subject_encode(subject) != 0)
        status = -1;
    if (status > 0 && branch->derived_size != 0) {
        *made = derive(branch, record->bytes, record->size);
        status = *made != NULL ? 1 : -(PyErr_Occurred() != NULL);
    }
    return status;
}

int echo_branch_pass(struct branch *branch, const struct subject *subject, struct passes *passes)
{
    PyObject *made = NULL;
    int passing = derive_one(branch, subject, &made);

    branch->deriving--;
    if (passing > 0)
        return pass_on(branch, subject, made, 1, passes);
    branch->filtered += passing == 0;
    return passing;
}

/* What a branch has judged to pass. */
static int pass_judged(struct branch *branch, const struct subject *subject, struct passes *passes)
{
    branch->deriving++;
    return echo_branch_pass(branch, subject, passes);
}

static int follow_one(struct branch *branch, const struct subject *subject, int64_t now_ns, struct passes *passes)
{
    int passing = is_passing(branch, subject, now_ns);

    if (passing > 0)
        return pass_judged(branch, subject, passes);
    branch->filtered += passing == 0;
    return passing;
}

/* --- records side by side --- */

static Py_ssize_t derived_row_size(const struct branch *branch, const struct subject *subject)
{
    return branch->derived_size != 0 ? branch->derived_size : subject->record_size;
}

/* Which of them pass, ascending. */
static Py_ssize_t judge_rows(const struct branch *branch, const struct subject *subject, int64_t now_ns,
                             uint32_t *indices)
{
    Py_ssize_t i, count = (Py_ssize_t)subject->what->events;

    if (branch->judge != NULL)
        return branch->raw->rows(branch->judge, subject->what->record.bytes, count, indices, now_ns);
    for (i = 0; i < count; i++)
        indices[i] = (uint32_t)i;
    return count;
}

/* One row's derived record to its place. 1; 0: there is none. -1 with an exception, as derive. */
static int derive_row(struct branch *branch, const struct subject *subject, const uint8_t *record, char *target)
{
    PyObject *row = derive(branch, record, subject->record_size);

    if (row == NULL)
        return PyErr_Occurred() != NULL ? -1 : 0;
    memcpy(target, PyBytes_AsString(row), (size_t)branch->derived_size);
    Py_DECREF(row);
    return 1;
}

/* How many rows are made into new bytes; what is behind them is not used. -1 with an exception, as derive. */
static Py_ssize_t fill(struct branch *branch, const struct subject *subject, const uint32_t *indices, Py_ssize_t count,
                       char *target)
{
    Py_ssize_t size = derived_row_size(branch, subject), i, done = 0;
    int more = 1;

    for (i = 0; more >= 0 && i < count; i++) {
        const uint8_t *record = subject->what->record.bytes + (Py_ssize_t)indices[i] * subject->record_size;

        if (branch->derived_size == 0)
            memcpy(target + done * size, record, (size_t)size);
        else
            more = derive_row(branch, subject, record, target + done * size);
        done += more > 0;
    }
    return more < 0 ? -1 : done;
}

/* Their records side by side, as new bytes; *count is then how many there are. NULL: none, with an exception only as
 * derive: what a receiver asks for may be more than there is memory for. */
static PyObject *gather(struct branch *branch, const struct subject *subject, const uint32_t *indices,
                        Py_ssize_t *count)
{
    Py_ssize_t size = derived_row_size(branch, subject), wanted = *count;
    PyObject *rows = PyBytes_FromStringAndSize(NULL, wanted * size), *made = rows;

    *count = 0;
    if (rows != NULL)
        *count = fill(branch, subject, indices, wanted, PyBytes_AsString(rows));
    if (rows != NULL && *count != wanted) {
        made = *count > 0 ? PyBytes_FromStringAndSize(PyBytes_AsString(rows), *count * size) : NULL;
        Py_DECREF(rows);
    }
    if (made == NULL && PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        branch->failed += (unsigned long long)(rows == NULL ? wanted : *count);
        *count = 0;
    }
    return made;
}

/* Those that pass, block by block. How many are passed on; -1 with an exception. */
static Py_ssize_t pass_rows(struct branch *branch, const struct subject *subject, const uint32_t *indices,
                            Py_ssize_t count, struct passes *passes)
{
    Py_ssize_t at, more, done = 0, block = branch->derived_size != 0 ? MOST_ROWS(branch->derived_size) : count;
    PyObject *rows;

    for (at = 0; at < count; at += block) {
        more = Py_MIN(count - at, block);
        branch->deriving += (uint64_t)(count - at);
        rows = gather(branch, subject, indices + at, &more);
        branch->deriving -= (uint64_t)(count - at);
        if (rows == NULL && PyErr_Occurred() != NULL)
            return -1;
        if (rows != NULL && pass_on(branch, subject, rows, (uint64_t)more, passes) != 0)
            return -1;
        done += more;
    }
    return done;
}

static int follow_rows(struct branch *branch, const struct subject *subject, int64_t now_ns, struct passes *passes)
{
    uint64_t all = subject->what->events;
    uint32_t *indices = all <= UINT32_MAX ? PyMem_Malloc((size_t)all * sizeof *indices) : NULL;
    Py_ssize_t done = 0;

    if (indices != NULL)
        done = pass_rows(branch, subject, indices, judge_rows(branch, subject, now_ns, indices), passes);
    else
        branch->failed += all;
    PyMem_Free(indices);
    if (done < 0)
        return -1;
    branch->filtered += all - (uint64_t)done;
    return 0;
}

/* One of several records. */
static struct submission one_of(const struct subject *subject, uint64_t index)
{
    struct submission what = *subject->what;

    what.owner = NULL;
    what.events = 1;
    what.record.bytes += (Py_ssize_t)index * subject->record_size;
    what.record.size = subject->record_size;
    return what;
}

/* Those whose derived records vary in size go one by one. */
static int follow_each(struct branch *branch, const struct subject *subject, int64_t now_ns, struct passes *passes)
{
    struct submission what = one_of(subject, 0);
    const struct subject one = {.what = &what, .is_selected = subject->is_selected};
    int status = 0;

    for (uint64_t i = 0; status == 0 && i < subject->what->events; i++) {
        status = follow_one(branch, &one, now_ns, passes);
        what.record.bytes += subject->record_size;
    }
    return status;
}

static int pass_each(struct branch *branch, const struct subject *subject, const uint32_t *indices, Py_ssize_t count,
                     struct passes *passes)
{
    int status = 0;

    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        struct submission what = one_of(subject, indices[i]);
        const struct subject one = {.what = &what, .is_selected = subject->is_selected};

        status = pass_judged(branch, &one, passes);
    }
    return status;
}

static int goes_by_rows(const struct branch *branch)
{
    return branch->derived_size == 0 || outlet_of(branch)->record_size != 0;
}

int echo_branch_pass_rows(struct branch *branch, const struct subject *subject, const uint32_t *indices,
                          Py_ssize_t count, struct passes *passes)
{
    Py_ssize_t done;

    if (!goes_by_rows(branch))
        return pass_each(branch, subject, indices, count, passes);
    done = pass_rows(branch, subject, indices, count, passes);
    if (done < 0)
        return -1;
    branch->filtered += (uint64_t)(count - done);
    return 0;
}

/* --- all branches --- */

int echo_branch_follow(struct follower *self, const struct subject *subject, uint64_t number, struct passes *passes)
{
    struct branch *branch = (struct branch *)self;
    int64_t now_ns = branch->has_clock ? monotonic_ns() : 0;

    branch->come_to = number + subject->what->events;
    if (!branch->takes_objects && echo_subject_encode(subject) != 0)
        return -1;
    if (subject->event != NULL || subject->record_size == 0)
        return follow_one(branch, subject, now_ns, passes);
    return goes_by_rows(branch) ? follow_rows(branch, subject, now_ns, passes)
                                : follow_each(branch, subject, now_ns, passes);
}

/* One that has judged by itself, and has nothing to do for an event that does not pass: 1 and 0; -1: it has. */
static inline int is_passing_at_a_glance(struct branch *branch, PyObject *event)
{
    return branch->takes_objects && branch->judge != NULL
               ? branch->raw->glance(branch->judge, event, branch->has_clock ? monotonic_ns() : 0)
               : -1;
}

static inline struct glance glance_at(const struct outlet *outlet, PyObject *event)
{
    uint64_t come_to = outlet->sequence + 1;
    struct follower *follower;
    struct branch *branch;
    Py_ssize_t i;
    int passing;

    for (i = 0; i < outlet->branch_count; i++) {
        follower = i == 0 ? outlet->first_branch : follower_at(outlet->branches, i);
        branch = (struct branch *)follower;
        if (follower->follow != echo_branch_follow)
            break;
        if (!is_wanted(outlet_of(branch)))
            continue;
        passing = is_passing_at_a_glance(branch, event);
        if (passing >= 0)
            branch->come_to = come_to;
        if (passing != 0)
            return (struct glance){i, passing > 0};
        branch->filtered++;
    }
    return (struct glance){i, 0};
}

int echo_branches_reject(struct outlet *outlet, PyObject *event, struct glance *glance)
{
    if (outlet->takes_records || outlet->measures)
        return 0;
    *glance = glance_at(outlet, event);
    if (glance->done < outlet->branch_count || outlet->direct_count > 0)
        return 0;
    outlet->sequence++;
    return 1;
}

int echo_branches_follow(const struct outlet *outlet, const struct subject *subject, uint64_t number,
                         struct passes *passes)
{
    PyObject *branches = Py_NewRef(outlet->branches); /* they may be replaced meanwhile */
    Py_ssize_t i = subject->glance.done, count = outlet->branch_count;
    int status = 0;

    if (subject->glance.is_passing)
        status = pass_judged((struct branch *)follower_at(branches, i++), subject, passes);
    for (; status == 0 && i < count; i++) {
        struct follower *follower = follower_at(branches, i);

        if (is_follower_wanted(follower))
            status = follower->follow(follower, subject, number, passes);
    }
    Py_DECREF(branches);
    return status;
}
