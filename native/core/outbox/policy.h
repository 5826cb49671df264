/* How a full backlog is treated: that of an outgoing stream, and a queue. Python has these as BLOCK, DROP_OLDEST ... */
#ifndef ECHO_CORE_POLICY_H
#define ECHO_CORE_POLICY_H

enum policy { POLICY_BLOCK, POLICY_DROP_OLDEST, POLICY_DROP_NEWEST, POLICY_ERROR };

#endif
