/* The thread of an outbox, which writes what the threads that put have left behind. */
#ifndef ECHO_CORE_WRITER_H
#define ECHO_CORE_WRITER_H

#include "core/outbox/outbox.h"

#pragma GCC visibility push(hidden)

/* Somebody has left work: it is done by `due` (ticks). Starts the thread if need be. Locked. */
void echo_writer_call(struct outbox *outbox, int64_t due);

/* When the outbox has ended. No lock. */
void echo_writer_join(struct outbox *outbox);

#pragma GCC visibility pop

#endif
