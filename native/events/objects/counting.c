/* How many objects a record would become, before any is made.
 *
 * A value is one object: each field of each record, each element of each list, a numpy array as a whole. An option
 * counts as what it would hold. A list whose elements have no lists in them is not walked, since its elements
 * are as many objects as its length says, and most records are known to be harmless by their size alone (`density`).
 */
#include "events/objects/objects.h"

/* A record being counted. */
struct census {
    const uint8_t *bytes; /* borrowed */
    Py_ssize_t size;      /* how many there are */
    int64_t most;         /* counting ends above it */
    int64_t count;        /* so far */
};

/* --- what is known of a type --- */

static int64_t at_most(int64_t objects)
{
    return objects < MAX_OBJECTS ? objects : MAX_OBJECTS;
}

static int64_t per_byte(const struct value *element)
{
    int64_t own = (element->objects + element->size - 1) / element->size;

    return own > element->density ? own : element->density;
}

static void estimate_elements(struct value *value)
{
    const struct value *element = value->element;
    int64_t count = value->size / element->size;

    value->objects = 1;
    value->density = 0;
    if (value->dtype != NULL)
        return;
    value->density = value->form == FORM_SEQUENCE ? per_byte(element) : element->density;
    if (value->form == FORM_ARRAY)
        value->objects = at_most(element->objects < MAX_OBJECTS / count ? 1 + count * element->objects : MAX_OBJECTS);
}

static void estimate_record(struct value *record)
{
    Py_ssize_t i;

    record->objects = 1;
    for (i = 0; i < record->count; i++) {
        const struct value *field = record->fields[i].value;

        record->objects = at_most(record->objects + field->objects);
        if (field->density > record->density)
            record->density = field->density;
    }
}

void echo_value_estimate(struct value *value)
{
    value->objects = 1;
    switch (value->form) {
    case FORM_OPTION:
    case FORM_REFERENCE:
        value->objects = value->element->objects;
        value->density = value->element->density;
        return;
    case FORM_ARRAY:
    case FORM_SEQUENCE:
        estimate_elements(value);
        return;
    case FORM_RECORD:
        estimate_record(value);
        return;
    default:
        return;
    }
}

/* --- what a record says --- */

static void count_lists(struct census *census, const struct value *value, Py_ssize_t at, const int64_t *lengths);

static void count_each(struct census *census, const struct value *element, Py_ssize_t at, Py_ssize_t count)
{
    for (; count > 0 && census->count <= census->most; count--, at += element->size)
        count_lists(census, element, at, NULL);
}

static void count_sequence(struct census *census, const struct value *value, Py_ssize_t at, const int64_t *lengths)
{
    const struct value *element = value->element;
    int64_t shape[MAX_DIMENSIONS], count = lengths_of(value, census->bytes + at, lengths, shape);
    uint64_t start = load_uint64_t(census->bytes + at);

    if (count < 0 || start > (uint64_t)census->size || !fit(count, element->size, census->size - (Py_ssize_t)start))
        return; /* who reads it says what is wrong */
    census->count = at_most(census->count + count * at_most(element->objects));
    if (element->density != 0)
        count_each(census, element, (Py_ssize_t)start, (Py_ssize_t)count);
}

static void count_record(struct census *census, const struct value *record, Py_ssize_t at)
{
    int64_t lengths[MAX_TIES];
    Py_ssize_t i;

    if (!load_ties(record, census->bytes + at, lengths))
        return;
    for (i = 0; i < record->count; i++)
        count_lists(census, record->fields[i].value, at + record->fields[i].at, lengths);
}

/* What the lists in a value hold. */
static void count_lists(struct census *census, const struct value *value, Py_ssize_t at, const int64_t *lengths)
{
    if (value->density == 0 || census->count > census->most)
        return;
    switch (value->form) {
    case FORM_OPTION:
        if (census->bytes[at + value->element->size] != 0)
            count_lists(census, value->element, at, lengths);
        return;
    case FORM_REFERENCE:
        if (load_uint64_t(census->bytes + at) != 0)
            count_lists(census, value->element, at, lengths);
        return;
    case FORM_ARRAY:
        count_each(census, value->element, at, value->size / value->element->size);
        return;
    case FORM_SEQUENCE:
        count_sequence(census, value, at, lengths);
        return;
    default:
        count_record(census, value, at);
    }
}

int64_t echo_value_count(const struct value *value, const uint8_t *record, Py_ssize_t size, int64_t most)
{
    struct census census = {.bytes = record, .size = size, .most = most, .count = value->objects};

    if (size >= value->size)
        count_lists(&census, value, 0, NULL);
    return census.count;
}
