/* The thread of an outbox, which writes what the threads that put have left behind. */
#pragma once

#include "core/outbox/outbox.h"

/* Somebody has left work: it is done by `due` (ticks). Starts the thread if need be. Locked. */
void echo_writer_call(struct outbox *outbox, int64_t due);

/* When the outbox has ended. No lock. */
void echo_writer_join(struct outbox *outbox);
