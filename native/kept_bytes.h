/* Bytes for large records, whose memory is used again.
 *
 * malloc takes so much from the system and gives it back each time, and the system fills in page by page what is
 * touched: for half a MiB that takes ten times as long as writing it. So the last ones are kept, and come back when
 * nobody else refers to them any more. The GIL guards them; each module that links this has its own.
 */
#pragma once

#include "stable_abi.h"

/* Fewer bytes are malloc's business. */
#define KEPT_BYTES (64 * 1024)

/* bytes_to_fill for so many. */
PyObject *echo_kept_bytes(Py_ssize_t size);

/* Bytes whose content is anything, and the caller's to write before it shows them to others. NULL with an exception. */
static inline PyObject *bytes_to_fill(Py_ssize_t size)
{
    return size < KEPT_BYTES ? PyBytes_FromStringAndSize(NULL, size) : echo_kept_bytes(size);
}
