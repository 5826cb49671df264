/* Datetimes and timedeltas, and nanoseconds. */
#pragma once

#include "events/outcome.h"

#include <stdint.h>

/* Whether datetimes and timedeltas are as they are expected to be; looks for what makes them. An exception stays set only
 * where memory runs out. Once, before anything below is called. */
int echo_times_find(void);

/* A new datetime in UTC, of nanoseconds since 1970 that are cut to microseconds towards 0. */
PyObject *echo_new_timestamp(int64_t nanoseconds);

/* An exact datetime that has a time zone. Asks one that is not UTC how far away it is, which may run any code. */
enum outcome echo_write_timestamp(PyObject *it, uint8_t *bytes);

/* A new timedelta, cut likewise. */
PyObject *echo_new_duration(int64_t nanoseconds);

/* An exact timedelta. */
enum outcome echo_write_duration(PyObject *it, uint8_t *bytes);
