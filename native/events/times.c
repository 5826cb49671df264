/* Datetimes and timedeltas as they lie in memory, and nanoseconds.
 *
 * They are made by the functions that Python's own `datetime` offers to C in a capsule, and read where they lie, for
 * the stable ABI has nothing for it. What the two structs are is tried when the module is imported; formats/leaves.py
 * defines what a value becomes.
 */
#include "events/times.h"
#include "events/layouts.h"

#define DAY_SECONDS 86400
#define SECOND_US INT64_C(1000000)

/* What the capsule holds, as Include/datetime.h has it since 3.7. */
struct capsule {
    PyTypeObject *date, *datetime, *time, *timedelta, *tzinfo; /* borrowed; they live as long as the process */
    PyObject *utc;
    PyObject *(*new_date)(int, int, int, PyTypeObject *);
    PyObject *(*new_datetime)(int, int, int, int, int, int, int, PyObject *, PyTypeObject *);
    PyObject *(*new_time)(int, int, int, int, PyObject *, PyTypeObject *);
    PyObject *(*new_timedelta)(int days, int seconds, int microseconds, int normalise, PyTypeObject *);
};

/* A timedelta, behind its head. */
struct span {
    Py_ssize_t hash;
    int32_t days, seconds, microseconds; /* only the days may be negative */
};

/* A datetime, behind its head. */
struct instant {
    Py_ssize_t hash;
    uint8_t has_zone;                                                  /* 0: there is no zone, and no room for one */
    uint8_t year[2], month, day, hour, minute, second, microsecond[3]; /* the higher bytes first */
    uint8_t fold;
    PyObject *zone;
};

static const struct capsule *capsule;
static PyObject *utcoffset; /* the name of a method */

static const struct span *span_of(PyObject *timedelta)
{
    return (const struct span *)(const void *)behind_head(timedelta);
}

static const struct instant *instant_of(PyObject *datetime)
{
    return (const struct instant *)(const void *)behind_head(datetime);
}

/* --- days of the Gregorian calendar --- */

/* Years begin in March here, so that the odd day is the last one. An era has 400 years. */
#define ERA_DAYS 146097
#define DAYS_BEFORE_1970 719468 /* since 1 March of the year 0 */

/* From 1970 on; of the years from 1 on. */
static int64_t days_of(int year, int month, int day)
{
    int years = month > 2 ? year : year - 1, of_era = years % 400;
    int of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return (int64_t)(years / 400) * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_BEFORE_1970;
}

/* Of days that nanoseconds in 64 bits can reach, which are after the year 0. */
static void date_of(int64_t days, int *year, int *month, int *day)
{
    int since = (int)days + DAYS_BEFORE_1970, era = since / ERA_DAYS, of_era = since % ERA_DAYS;
    int years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * years + years / 4 - years / 100), march = (5 * of_year + 2) / 153;

    *day = of_year - (153 * march + 2) / 5 + 1;
    *month = march < 10 ? march + 3 : march - 9;
    *year = era * 400 + years + (*month <= 2);
}

/* --- durations --- */

static int64_t floor_divide(int64_t number, int64_t divisor, int64_t *rest)
{
    int64_t quotient = number / divisor;

    *rest = number % divisor;
    if (*rest < 0) {
        *rest += divisor;
        quotient--;
    }
    return quotient;
}

/* Microseconds as nanoseconds, where 64 bits hold them. */
static enum outcome store_nanoseconds(int64_t microseconds, uint8_t *bytes)
{
    if (microseconds < INT64_MIN / 1000 || microseconds > INT64_MAX / 1000)
        return UNUSUAL;
    memcpy(bytes, &(int64_t){microseconds * 1000}, 8);
    return GOOD;
}

/* In microseconds: at most 10^9 days, which 64 bits hold only in part. 0: they do not. */
static int span_us(const struct span *span, int64_t *microseconds)
{
    if (span->days < -200000 || span->days > 200000)
        return 0;
    *microseconds = ((int64_t)span->days * DAY_SECONDS + span->seconds) * SECOND_US + span->microseconds;
    return 1;
}

PyObject *echo_new_duration(int64_t nanoseconds)
{
    int64_t of_day, microsecond, days = floor_divide(nanoseconds / 1000, DAY_SECONDS * SECOND_US, &of_day);
    int64_t second = floor_divide(of_day, SECOND_US, &microsecond);

    return capsule->new_timedelta((int)days, (int)second, (int)microsecond, 0, capsule->timedelta);
}

enum outcome echo_write_duration(PyObject *it, uint8_t *bytes)
{
    int64_t microseconds;

    if (!Py_IS_TYPE(it, capsule->timedelta) || !span_us(span_of(it), &microseconds))
        return UNUSUAL;
    return store_nanoseconds(microseconds, bytes);
}

/* --- timestamps --- */

PyObject *echo_new_timestamp(int64_t nanoseconds)
{
    int64_t of_day, microsecond, days = floor_divide(nanoseconds / 1000, DAY_SECONDS * SECOND_US, &of_day);
    int second = (int)floor_divide(of_day, SECOND_US, &microsecond), year, month, day;

    date_of(days, &year, &month, &day);
    return capsule->new_datetime(year, month, day, second / 3600, second / 60 % 60, second % 60, (int)microsecond,
                                 capsule->utc, capsule->datetime);
}

/* Since 1970, by the datetime's own clock. */
static int64_t local_us(const struct instant *at)
{
    int64_t days = days_of(at->year[0] << 8 | at->year[1], at->month, at->day);
    int64_t second = (days * 24 + at->hour) * 3600 + at->minute * 60 + at->second;

    return second * SECOND_US + (at->microsecond[0] << 16 | at->microsecond[1] << 8 | at->microsecond[2]);
}

/* How far its clock is ahead of UTC. */
static enum outcome offset_us(PyObject *datetime, int64_t *offset)
{
    PyObject *found = PyObject_CallMethodObjArgs(datetime, utcoffset, NULL);
    int is_offset = found != NULL && Py_IS_TYPE(found, capsule->timedelta) && span_us(span_of(found), offset);

    Py_XDECREF(found);
    return is_offset ? GOOD : outcome_of_error();
}

enum outcome echo_write_timestamp(PyObject *it, uint8_t *bytes)
{
    int64_t offset = 0;

    if (!Py_IS_TYPE(it, capsule->datetime) || !instant_of(it)->has_zone)
        return UNUSUAL;
    if (instant_of(it)->zone != capsule->utc) {
        enum outcome outcome = offset_us(it, &offset);

        if (outcome != GOOD)
            return outcome;
    }
    return store_nanoseconds(local_us(instant_of(it)) - offset, bytes);
}

/* --- trying them --- */

static int is_datetime(int year, int month, int day, int hour, int minute, int second, int microsecond)
{
    PyObject *aware =
        capsule->new_datetime(year, month, day, hour, minute, second, microsecond, capsule->utc, capsule->datetime);
    PyObject *naive =
        capsule->new_datetime(year, month, day, hour, minute, second, microsecond, Py_None, capsule->datetime);
    uint8_t parts[] = {(uint8_t)(year >> 8),
                       (uint8_t)year,
                       (uint8_t)month,
                       (uint8_t)day,
                       (uint8_t)hour,
                       (uint8_t)minute,
                       (uint8_t)second,
                       (uint8_t)(microsecond >> 16),
                       (uint8_t)(microsecond >> 8),
                       (uint8_t)microsecond};
    int holds = aware != NULL && naive != NULL && instant_of(aware)->has_zone == 1 &&
                instant_of(naive)->has_zone == 0 && memcmp(instant_of(aware)->year, parts, sizeof parts) == 0 &&
                instant_of(aware)->zone == capsule->utc;

    Py_XDECREF(aware);
    Py_XDECREF(naive);
    return holds;
}

static int is_timedelta(int days, int seconds, int microseconds)
{
    PyObject *made = capsule->new_timedelta(days, seconds, microseconds, 1, capsule->timedelta);
    int holds = made != NULL && span_of(made)->days == days && span_of(made)->seconds == seconds &&
                span_of(made)->microseconds == microseconds;

    Py_XDECREF(made);
    return holds;
}

static int is_size(PyTypeObject *type, Py_ssize_t size)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, "__basicsize__");
    int holds = found != NULL && PyLong_AsSsize_t(found) == size;

    Py_XDECREF(found);
    return holds;
}

static int are_as_expected(void)
{
    return is_size(capsule->datetime, BEHIND_HEAD + (Py_ssize_t)sizeof(struct instant)) &&
           is_size(capsule->timedelta, BEHIND_HEAD + (Py_ssize_t)sizeof(struct span)) &&
           is_datetime(1, 2, 3, 4, 5, 6, 7) && is_datetime(9999, 12, 31, 23, 59, 58, 0x0a0b0c) &&
           is_timedelta(0, 0, 1) && is_timedelta(-5, 6, 7) && is_timedelta(999999999, 86399, 999999);
}

int echo_times_find(void)
{
    int holds;

    capsule = PyCapsule_Import("datetime.datetime_CAPI", 0);
    if (utcoffset == NULL)
        utcoffset = PyUnicode_InternFromString("utcoffset");
    holds = capsule != NULL && utcoffset != NULL && are_as_expected();
    if (PyErr_Occurred() != NULL)
        outcome_of_error();
    return holds;
}
