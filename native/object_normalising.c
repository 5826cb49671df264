/* Bytes of fixed values that others have written, made what object_writing.c would have made of the values.
 *
 * They come from numpy's arrays and from events that keep their record as they received it. Nothing of a
 * sender's memory travels on with them: not what stands in gaps, behind the end of a text, or beside what is
 * absent.
 */
#include "objects.h"

static int normalise_chars(uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t i, length = text_length(bytes, size);
    PyObject *text;

    memset(bytes + length, 0, (size_t)(size - length));
    for (i = 0; i < length && bytes[i] < 0x80; i++)
        ;
    if (i == length)
        return 1;
    text = PyUnicode_DecodeUTF8((char *)bytes, length, NULL);
    if (text == NULL)
        PyErr_Clear();
    Py_XDECREF(text);
    return text != NULL;
}

static int has_number(const struct value *value, int64_t number)
{
    Py_ssize_t i;

    for (i = 0; i < value->count && value->numbers[i] != number; i++)
        ;
    return i < value->count;
}

static int normalise_option(const struct value *value, uint8_t *bytes, int strict)
{
    Py_ssize_t flag = value->element->size;
    int is_there = bytes[flag] != 0;

    memset(bytes + flag, 0, (size_t)(value->size - flag));
    bytes[flag] = (uint8_t)is_there;
    if (is_there)
        return echo_value_normalise(value->element, bytes, strict);
    memset(bytes, 0, (size_t)flag);
    return 1;
}

static int normalise_record(const struct value *record, uint8_t *bytes, int strict)
{
    Py_ssize_t i;

    for (i = 0; i < record->gap_count; i++)
        memset(bytes + record->gaps[i].at, 0, (size_t)record->gaps[i].size);
    for (i = 0; i < record->count; i++) {
        const struct value *value = record->fields[i].value;

        if (!value->is_free && !echo_value_normalise(value, bytes + record->fields[i].at, strict))
            return 0;
    }
    return 1;
}

int echo_value_normalise(const struct value *value, uint8_t *bytes, int strict)
{
    Py_ssize_t at;

    if (value->is_free)
        return 1;
    switch ((enum form)value->form) {
    case FORM_BOOL:
        *bytes = *bytes != 0;
        return 1;
    case FORM_CHARS:
        return normalise_chars(bytes, value->size);
    case FORM_MEMBER:
        return !strict || has_number(value, load_number(bytes, value->size));
    case FORM_OPTION:
        return normalise_option(value, bytes, strict);
    case FORM_ARRAY:
        for (at = 0; at < value->size; at += value->element->size) {
            if (!echo_value_normalise(value->element, bytes + at, strict))
                return 0;
        }
        return 1;
    case FORM_RECORD:
        return normalise_record(value, bytes, strict);
    default: /* any bytes will do */
        return 1;
    }
}
