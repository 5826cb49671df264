/* How events come to many branches of one shape: a table of their parameters says at once which of them an event passes.
 *
 * So an event costs what its takers cost, and little for each of the others: what is counted of these is counted once
 * for all (`judged`), and told apart where somebody asks. Where the table cannot say, each branch judges by itself.
 *
 * Each branch that an event passes is noted before the first of them goes on, as that may run any code: whoever sets
 * parameters there is told that the event was judged by the ones before.
 */
#include "streams/fans.h"

#include "links/errors.h"

#include <string.h>

/* So many branches are noted on the stack. */
#define STACK_BRANCHES 64

/* An array is judged for so many branches at once: a record costs a table 15 ns and 0.06 for each, a branch 0.8. */
#define MANY_FOR_ARRAYS 20

/* --- who takes part --- */

static unsigned long long judged_for(const struct branch *branch)
{
    return branch->is_counted ? branch->fan->judged - branch->since : 0;
}

unsigned long long echo_branch_filtered(const struct branch *branch)
{
    return branch->filtered + judged_for(branch);
}

unsigned long long echo_branch_come_to(const struct branch *branch)
{
    return judged_for(branch) != 0 ? Py_MAX(branch->come_to, branch->fan->come_to) : branch->come_to;
}

/* From now on the fan judges for it, or no longer does. */
static void count(struct branch *branch, int is_counted)
{
    if (branch->is_counted) {
        branch->come_to = echo_branch_come_to(branch);
        branch->filtered = echo_branch_filtered(branch);
    }
    branch->is_counted = is_counted;
    branch->since = branch->fan->judged;
}

/* Who takes anything: counted again only where that may have changed. */
static void look(struct fan *fan)
{
    uint32_t row;

    if (fan->looked_at == echo_takers_changes)
        return;
    fan->looked_at = echo_takers_changes;
    fan->wanted = 0;
    for (row = 0; row < fan->room; row++) {
        struct branch *branch = fan->rows[row];
        int is_wanted = branch != NULL && echo_branch_is_wanted(&branch->follower);

        fan->wanted += (uint32_t)is_wanted;
        if (branch != NULL && branch->is_counted != is_wanted)
            count(branch, is_wanted);
    }
}

int echo_fan_is_wanted(struct follower *self)
{
    struct fan *fan = (struct fan *)self;

    look(fan);
    return fan->wanted > 0;
}

static int make_room(struct fan *fan)
{
    uint32_t room = fan->room != 0 ? 2 * fan->room : STACK_BRANCHES;
    struct branch **rows = PyMem_Realloc(fan->rows, room * sizeof *rows);
    uint32_t *found = PyMem_Realloc(fan->found, room * sizeof *found);

    fan->rows = rows != NULL ? rows : fan->rows;
    fan->found = found != NULL ? found : fan->found;
    if (rows == NULL || found == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(rows + fan->room, 0, (room - fan->room) * sizeof *rows);
    fan->room = room;
    return 0;
}

int echo_fan_put(struct fan *fan, struct branch *branch)
{
    while (fan->lowest < fan->room && fan->rows[fan->lowest] != NULL)
        fan->lowest++;
    if ((fan->lowest == fan->room && make_room(fan) != 0) ||
        fan->asked->put(fan->table, fan->lowest, branch->raw->parameters(branch->judge)) != 0)
        return -1;
    fan->rows[fan->lowest] = (struct branch *)(void *)Py_NewRef((PyObject *)branch);
    fan->count++;
    branch->fan = fan;
    branch->row = fan->lowest;
    echo_takers_changes++;
    return 0;
}

void echo_fan_remove(struct fan *fan, struct branch *branch)
{
    if (branch->fan != fan)
        return;
    count(branch, 0);
    fan->asked->remove(fan->table, branch->row);
    fan->rows[branch->row] = NULL;
    fan->lowest = Py_MIN(fan->lowest, branch->row);
    fan->count--;
    branch->fan = NULL;
    echo_takers_changes++;
    Py_DECREF((PyObject *)branch);
}

int echo_fan_renew(const struct branch *branch)
{
    const struct fan *fan = branch->fan;

    return fan != NULL ? fan->asked->put(fan->table, branch->row, branch->raw->parameters(branch->judge)) : 0;
}

/* --- branches that are noted --- */

/* Owned references. Nobody else knows of them, so they stay whatever code runs. */
struct noted {
    struct branch *stack[STACK_BRANCHES];
    struct branch **branches; /* `stack`, or owned, PyMem */
    uint32_t count;
};

/* Room for so many; -1 with MemoryError. */
static int begin_noting(struct noted *noted, uint32_t most)
{
    noted->count = 0;
    noted->branches = most <= STACK_BRANCHES ? noted->stack : PyMem_Malloc(most * sizeof *noted->branches);
    if (noted->branches == NULL)
        PyErr_NoMemory();
    return noted->branches != NULL ? 0 : -1;
}

static void note(struct noted *noted, struct branch *branch)
{
    noted->branches[noted->count++] = (struct branch *)(void *)Py_NewRef((PyObject *)branch);
}

static void end_noting(struct noted *noted)
{
    for (uint32_t i = 0; i < noted->count; i++)
        Py_DECREF((PyObject *)noted->branches[i]);
    if (noted->branches != noted->stack)
        PyMem_Free(noted->branches);
}

/* --- an event --- */

/* Each that is wanted judges by itself. */
static int follow_each(struct fan *fan, const struct subject *subject, uint64_t number, struct passes *passes)
{
    struct noted noted;
    uint32_t i;
    int status = begin_noting(&noted, fan->count);

    if (status != 0)
        return -1;
    for (i = 0; i < fan->room; i++)
        if (fan->rows[i] != NULL && fan->rows[i]->is_counted)
            note(&noted, fan->rows[i]);
    for (i = 0; status == 0 && i < noted.count; i++)
        if (echo_branch_is_wanted(&noted.branches[i]->follower))
            status = echo_branch_follow(&noted.branches[i]->follower, subject, number, passes);
    end_noting(&noted);
    return status;
}

/* The event passes those whose rows were found: so many. */
static int pass_found(struct fan *fan, uint32_t found, const struct subject *subject, struct passes *passes)
{
    struct noted noted;
    uint32_t i;
    int status = begin_noting(&noted, found);

    if (status != 0)
        return -1;
    for (i = 0; i < found; i++) {
        struct branch *branch = fan->rows[fan->found[i]];

        if (branch->is_counted) {
            note(&noted, branch);
            branch->filtered--; /* it is in `judged`, as those are that do not pass */
            branch->deriving++;
        }
    }
    for (i = 0; i < noted.count; i++) {
        if (status == 0)
            status = echo_branch_pass(noted.branches[i], subject, passes);
        else
            noted.branches[i]->deriving--;
    }
    end_noting(&noted);
    return status;
}

/* What is judged: the record, if it is there, or what judges read of the event. 0; -1 with an exception, as the event had
 * to be encoded. Only then any code may run. */
static int find(const struct fan *fan, const struct subject *subject, const uint8_t **bytes, Py_ssize_t *size)
{
    const struct record *record = &subject->what->record;

    *bytes = NULL;
    if (record->bytes == NULL && fan->takes_objects)
        *bytes = fan->raw->fields(fan->judge, subject->event, size);
    if (*bytes != NULL)
        return 0;
    if (echo_subject_encode(subject) != 0)
        return -1;
    *bytes = record->bytes;
    *size = record->size;
    return 0;
}

static int follow_one(struct fan *fan, const struct subject *subject, uint64_t number, struct passes *passes)
{
    const uint8_t *bytes;
    Py_ssize_t size, found;

    if (find(fan, subject, &bytes, &size) != 0)
        return -1;
    look(fan); /* other code may have run */
    found = fan->asked->rows(fan->table, bytes, size, fan->found);
    if (found < 0)
        return follow_each(fan, subject, number, passes);
    fan->judged++;
    fan->come_to = number + 1;
    return found > 0 ? pass_found(fan, (uint32_t)found, subject, passes) : 0;
}

/* --- an array of records --- */

/* Which record passes which row. */
struct hit {
    uint32_t row, record;
};

struct hits {
    struct hit *all; /* owned, PyMem; by record */
    size_t count, room;
};

/* Those of one record are found. -1 with MemoryError. */
static int add_hits(struct hits *hits, const struct fan *fan, uint32_t found, uint32_t record)
{
    size_t room = Py_MAX(2 * hits->room, hits->count + found);
    struct hit *all = hits->all;

    if (hits->room - hits->count < found) {
        all = PyMem_Realloc(hits->all, room * sizeof *all);
        if (all == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        hits->all = all;
        hits->room = room;
    }
    for (uint32_t i = 0; i < found; i++)
        if (fan->rows[fan->found[i]]->is_counted)
            all[hits->count++] = (struct hit){fan->found[i], record};
    return 0;
}

/* 0; 1: the table cannot say of each. -1 with an exception. */
static int find_all(const struct fan *fan, const struct subject *subject, struct hits *hits)
{
    const uint8_t *bytes = subject->what->record.bytes;
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < subject->what->events; i++, bytes += subject->record_size) {
        Py_ssize_t found = fan->asked->rows(fan->table, bytes, subject->record_size, fan->found);

        status = found < 0 ? 1 : add_hits(hits, fan, (uint32_t)found, i);
    }
    return status;
}

/* The records of each row, one row behind the other: `ends` says where they end. */
static void sort(const struct hits *hits, uint32_t room, size_t *ends, uint32_t *records)
{
    size_t i, before = 0, count;
    uint32_t row;

    for (i = 0; i < hits->count; i++)
        ends[hits->all[i].row]++;
    for (row = 0; row < room; row++) {
        count = ends[row];
        ends[row] = before;
        before += count;
    }
    for (i = 0; i < hits->count; i++)
        records[ends[hits->all[i].row]++] = hits->all[i].record;
}

/* As pass_found, with what was sorted. The ends are kept of those that are noted, as rows may change. */
static int pass_sorted(struct fan *fan, size_t *ends, const uint32_t *records, const struct subject *subject,
                       struct passes *passes)
{
    struct noted noted;
    size_t begin = 0;
    uint32_t row;
    int status = begin_noting(&noted, fan->wanted);

    if (status != 0)
        return -1;
    for (row = 0; row < fan->room; row++) {
        struct branch *branch = fan->rows[row];

        if (ends[row] == begin)
            continue;
        branch->filtered -= ends[row] - begin;
        branch->deriving += ends[row] - begin;
        begin = ends[noted.count] = ends[row];
        note(&noted, branch);
    }
    for (row = 0, begin = 0; row < noted.count; begin = ends[row++]) {
        noted.branches[row]->deriving -= ends[row] - begin;
        if (status == 0)
            status = echo_branch_pass_rows(noted.branches[row], subject, records + begin,
                                           (Py_ssize_t)(ends[row] - begin), passes);
    }
    end_noting(&noted);
    return status;
}

static int pass_hits(struct fan *fan, const struct hits *hits, const struct subject *subject, struct passes *passes)
{
    size_t *ends = PyMem_Calloc(fan->room, sizeof *ends);
    uint32_t *records = PyMem_Malloc(hits->count * sizeof *records);
    int status = -1;

    if (ends != NULL && records != NULL) {
        sort(hits, fan->room, ends, records);
        status = pass_sorted(fan, ends, records, subject, passes);
    } else
        PyErr_NoMemory();
    PyMem_Free(ends);
    PyMem_Free(records);
    return status;
}

/* Record by record for all rows, where these are many: an array takes each branch less than that for itself. */
static int follow_array(struct fan *fan, const struct subject *subject, uint64_t number, struct passes *passes)
{
    struct hits hits = {NULL, 0, 0};
    int status = 1;

    look(fan);
    if (fan->wanted >= MANY_FOR_ARRAYS && subject->what->events <= UINT32_MAX)
        status = find_all(fan, subject, &hits);
    if (status == 0) {
        fan->judged += subject->what->events;
        fan->come_to = number + subject->what->events;
        status = hits.count > 0 ? pass_hits(fan, &hits, subject, passes) : 0;
    } else if (status > 0)
        status = follow_each(fan, subject, number, passes);
    PyMem_Free(hits.all);
    return status;
}

int echo_fan_follow(struct follower *self, const struct subject *subject, uint64_t number, struct passes *passes)
{
    struct fan *fan = (struct fan *)self;

    return subject->event != NULL || subject->record_size == 0 ? follow_one(fan, subject, number, passes)
                                                               : follow_array(fan, subject, number, passes);
}
