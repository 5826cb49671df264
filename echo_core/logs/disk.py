"""Disk: all that writers of logs do with files. Tests have one that remembers, and one that fails."""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path
from typing import Protocol

from echo_core._c import logs as c
from echo_core.errors import LogError

Writable = bytes | c.Batch


class Disk(Protocol):
    """Files by their descriptors. What fails raises OSError, also where less was written than asked for."""

    def make_folder(self, path: Path) -> None: ...
    def names(self, path: Path) -> list[str]: ...
    def lock(self, path: Path) -> int:
        """A descriptor, which has the file's lock; LogError: another process, or log, has it."""
        ...

    def create(self, path: Path) -> int:
        """A new file that its user alone can read, open for writing."""
        ...

    def write(self, fd: int, data: Writable, offset: int) -> None: ...
    def sync(self, fd: int) -> None:
        """All that was written to the file is on the disk, its size included."""
        ...

    def sync_file(self, path: Path) -> None:
        """The same of a file that somebody else may have written."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Which files there are is on the disk."""
        ...

    def remove(self, path: Path) -> None: ...
    def close(self, fd: int) -> None: ...
    def status(self, path: Path) -> tuple[int, int]:
        """The size of a file, and when it was last written, in ns of wall time."""
        ...

    def content(self, path: Path) -> mmap.mmap | bytes:
        """All of a file."""
        ...

    def free_bytes(self, path: Path) -> int: ...


class RealDisk:
    """That of this machine."""

    def make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        return os.listdir(path)

    def lock(self, path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 200, 0).decode(errors="replace").strip()
            os.close(fd)
            msg = (
                f"Expected a log that nobody else writes to, got one that is written by {holder or 'another'}"
            )
            raise LogError(
                msg,
                path=str(path.parent),
                hint="close that recorder first, or record to another log",
            ) from None
        text = f"process {os.getpid()} on {os.uname().nodename}\n".encode()
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
        return fd

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, fd: int, data: Writable, offset: int) -> None:
        if isinstance(data, c.Batch):
            data.write(fd, offset)
            return
        rest = memoryview(data)
        while rest:
            written = os.pwrite(fd, rest, offset)
            rest, offset = rest[written:], offset + written

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def sync_file(self, path: Path) -> None:
        self._sync(path, os.O_RDONLY)

    def sync_folder(self, path: Path) -> None:
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def _sync(self, path: Path, flags: int) -> None:
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def close(self, fd: int) -> None:
        os.close(fd)

    def status(self, path: Path) -> tuple[int, int]:
        found = path.stat()
        return found.st_size, found.st_mtime_ns

    def content(self, path: Path) -> mmap.mmap | bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""
        finally:
            os.close(fd)

    def free_bytes(self, path: Path) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize
