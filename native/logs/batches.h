/* Batches: closed chunks on their way into one file. */
#pragma once

#include "logs/staging.h"

/* At most so many blocks and bytes go into one write. */
#define MAX_BATCH_BLOCKS 256
#define MAX_BATCH_BYTES (8u << 20)

/* The chunks that fit before `end`, the first of them in any case where `is_forced`, as one Batch; None: none does. */
PyObject *echo_take_batch(struct staging *staging, uint64_t salt, uint64_t offset, uint64_t end, int is_forced);
