/* CRC-32C (Castagnoli, reflected, as in iSCSI), by the CPU's instruction where it has one and by tables elsewhere. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Before all else, once for each process or more often: makes the tables. */
void echo_crc32c_prepare(void);

/* Of what `crc` is the CRC of (0: of nothing), and then these bytes. */
uint32_t echo_crc32c(uint32_t crc, const void *bytes, size_t size);

/* The same by tables alone, which is the oracle. */
uint32_t echo_crc32c_by_table(uint32_t crc, const void *bytes, size_t size);
