/* How a full backlog is treated: that of an outgoing stream, and a queue. Python has these as BLOCK, DROP_OLDEST ... */
#pragma once

enum policy { POLICY_BLOCK, POLICY_DROP_OLDEST, POLICY_DROP_NEWEST, POLICY_ERROR };
