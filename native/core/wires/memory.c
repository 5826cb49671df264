/* Sealed memory for two processes. No Python; memory.h says what is trusted. */
#define _GNU_SOURCE
#include "core/wires/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* since Linux 6.3; without it later kernels warn */
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Else one who has it could seal it against writing, and the next to come could not map it. */
#define OWN_SEALS (SEALS | F_SEAL_SEAL)

static int create_descriptor(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

int echo_memory_create(const char *name, uint64_t size)
{
    int fd = create_descriptor(name), error;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, OWN_SEALS) == 0)
        return fd;
    error = errno;
    close(fd);
    return -error;
}

const char *echo_memory_refusal(int fd, uint64_t *size)
{
    struct stat status;
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0)
        return "it is no memory that can be sealed";
    if ((seals & SEALS) != SEALS)
        return "it is not sealed against a change of its size";
    /* Huge pages can be sealed too, but run out: an access to one that is missing ends in SIGBUS. */
    if (fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC)
        return "it is not of ordinary pages";
    if (fstat(fd, &status) != 0 || status.st_size < 0)
        return "its size is unknown";
    *size = (uint64_t)status.st_size;
    return NULL;
}

void *echo_memory_map(int fd, uint64_t offset, uint64_t size, int protection)
{
    void *memory = mmap(NULL, size, protection, MAP_SHARED, fd, (off_t)offset);

    return memory != MAP_FAILED ? memory : NULL;
}
