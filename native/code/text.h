/* What compiled code and the C of events ask of text. Any thread may call these, without the GIL; nothing is read outside. */
#pragma once

#include <stdint.h>

/* How many bytes a text has before its NUL. -1: no NUL is among the bytes that are left, or UTF-8 stops before. */
int64_t echo_text_size(const uint8_t *text, uint64_t left);

/* 1: what comes before the first NUL, or all of it, is UTF-8. 0: it is not. */
int32_t echo_is_utf8(const uint8_t *text, uint64_t size);
