"""Disks of tests: one in memory that remembers what was done to it, and one that fails."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.logs.disk import RealDisk, Writable


@dataclass(frozen=True)
class Create:
    name: str


@dataclass(frozen=True)
class Write:
    name: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Sync:
    name: str


@dataclass(frozen=True)
class SyncFolder:
    pass


@dataclass(frozen=True)
class Remove:
    name: str


@dataclass(frozen=True)
class Receipt:
    """Somebody was told that all before is on the disk: up to an offset of a segment."""

    name: str
    end: int


Operation = Create | Write | Sync | SyncFolder | Remove | Receipt


@dataclass
class RecordingDisk:
    """Files in memory; `done` has everything in its order."""

    files: dict[str, bytearray] = field(default_factory=dict[str, bytearray])
    done: list[Operation] = field(default_factory=list[Operation])
    _open: dict[int, str] = field(default_factory=dict[int, str])
    is_locked: bool = False

    def make_folder(self, path: Path) -> None:
        pass

    def names(self, path: Path) -> list[str]:
        return list(self.files)

    def lock(self, path: Path) -> int:
        if self.is_locked:
            msg = "Expected a log that nobody else writes to"
            raise LogError(msg)
        self.is_locked = True
        return -1

    def create(self, path: Path) -> int:
        if path.name in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self.files[path.name] = bytearray()
        self.done.append(Create(path.name))
        fd = 1000 + len(self._open)
        self._open[fd] = path.name
        return fd

    def write(self, fd: int, data: Writable, offset: int) -> None:
        written = data.tobytes() if isinstance(data, c.Batch) else data
        name = self._open[fd]
        file = self.files[name]
        file.extend(bytes(max(0, offset - len(file))))
        file[offset : offset + len(written)] = written
        self.done.append(Write(name, offset, written))

    def sync(self, fd: int) -> None:
        self.done.append(Sync(self._open[fd]))

    def sync_file(self, path: Path) -> None:
        self.done.append(Sync(path.name))

    def sync_folder(self, path: Path) -> None:
        self.done.append(SyncFolder())

    def remove(self, path: Path) -> None:
        del self.files[path.name]
        self.done.append(Remove(path.name))

    def close(self, fd: int) -> None:
        if fd == -1:
            self.is_locked = False

    def status(self, path: Path) -> tuple[int, int]:
        return len(self.files[path.name]), 0

    def content(self, path: Path) -> bytes:
        return bytes(self.files[path.name])

    def free_bytes(self, path: Path) -> int:
        return 1 << 40


class FailingDisk(RealDisk):
    """The real one, whose call number `at` fails; `calls` counts them."""

    def __init__(self, at: int, code: int, *, is_for_good: bool = False) -> None:
        self.calls = 0
        self.failed: str | None = None
        self._at = at
        self._code = code
        self._is_for_good = is_for_good

    def _call(self, what: str) -> None:
        self.calls += 1
        if self.calls == self._at or (self._is_for_good and self.calls > self._at):
            self.failed = self.failed or what
            raise OSError(self._code, os.strerror(self._code))

    def create(self, path: Path) -> int:
        self._call("create")
        return super().create(path)

    def write(self, fd: int, data: Writable, offset: int) -> None:
        if self.calls + 1 == self._at:  # half of it gets there, as on a disk that runs full
            written = data.tobytes() if isinstance(data, c.Batch) else data
            super().write(fd, written[: len(written) // 2], offset)
        self._call("write")
        super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        self._call("sync")
        super().sync(fd)

    def sync_file(self, path: Path) -> None:
        self._call("sync_file")
        super().sync_file(path)

    def sync_folder(self, path: Path) -> None:
        self._call("sync_folder")
        super().sync_folder(path)

    def remove(self, path: Path) -> None:
        self._call("remove")
        super().remove(path)
