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

int echo_fan_follow(struct follower *self, const struct subject *subject, uint64_t number, struct passes *passes)
{
    struct fan *fan = (struct fan *)self;

    return subject->event != NULL || subject->record_size == 0 ? follow_one(fan, subject, number, passes)
                                                               : follow_each(fan, subject, number, passes);
}
