"""Logs that are made of events at hand, without a channel; and logs whose segments become another's."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from echo_core._c import logs as c
from echo_core.codegen.codecs import Codec, codec
from echo_core.errors import FormatError, LogError, TimedOutError, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.logs import limits
from echo_core.logs.described import Level, StreamKey
from echo_core.logs.disk import RealDisk
from echo_core.logs.folders import LOCK, demand_log_or_nothing, segment_numbers, segment_path
from echo_core.logs.layout import Previous
from echo_core.logs.scanning import Ending, ending_of
from echo_core.logs.segments import SystemClock, new_header
from echo_core.logs.writing import LogWriter

T = TypeVar("T")

_ROOM_S = 60.0  # for the disk to take what is staged
_CANNOT_EXCHANGE = errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP


class NewLog:
    """A log that is being written; `echo.create_log` makes one. Use it as a context manager."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._writer.path

    def stream(
        self,
        event: type[T] | Format,
        *,
        channel: str = "made",
        source: str = "made",
        source_id: bytes | None = None,
    ) -> NewStream[T]:
        """The way of events of one class, or records of one format, into the log.

        Arguments:
            event: the class, or the format of records that are at hand.
            channel: its name. What is called alike is one channel, in any log that is made so.
            source: the source's name.
            source_id: 16 bytes by which the source is known; by default random ones. Each stream of a source
                is a run of its own, with numbers from 0 on.
        """
        identity = blake2b(channel.encode(), digest_size=16, person=b"echo made log").digest()
        source_id = secrets.token_bytes(16) if source_id is None else source_id
        key = StreamKey(identity, channel, "", source_id, source, secrets.randbits(64))
        return NewStream(self._writer, key, event)

    def close(self) -> None:
        """Writes what is left, and has the disk keep all. LogError where it does not."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class NewStream(Generic[T]):
    """The events of one source, as they are appended. Nothing is dropped: who appends waits for the disk."""

    def __init__(self, writer: LogWriter, key: StreamKey, event: type[T] | Format) -> None:
        self.format = event if isinstance(event, Format) else format_of(event)
        self.key = key
        self.events = 0
        """How many there are, and the number of the next."""
        self._codec: Codec[Any] | None = None if isinstance(event, Format) else codec(event)
        self._log = writer
        self._stream = writer.stream(key, self.format)

    def append(self, events: Iterable[T]) -> None:
        """Events of the class."""
        if self._codec is None:
            raise unexpected(FormatError, "a stream of a class", f"one of the format `{self.format.name}`")
        if self.format.is_fixed:
            self._append_many(self._codec.encode_many(events))
        else:
            self.append_records(map(self._codec.encode, events))

    def append_records(self, records: Iterable[bytes], *, time_ns: int = 0) -> None:
        """Records of the format, one by one.

        `time_ns`: when they came to be; by default now.
        """
        for record in records:
            self._wait_room(len(record))
            self._stream.append(record, sequence=self.events, time_ns=time_ns)
            self.events += 1

    def append_array(self, records: np.ndarray[Any, Any], *, time_ns: int = 0) -> None:
        """Records of the format as a structured array; FormatError for another dtype."""
        self._demand_dtype(records)
        self._append_many(np.ascontiguousarray(records).view(np.uint8).data, time_ns)

    def _demand_dtype(self, records: np.ndarray[Any, Any]) -> None:
        if not self.format.is_fixed or records.dtype != self.format.dtype:
            raise unexpected(FormatError, f"records of `{self.format.name}`", f"`{records.dtype}`")

    def _append_many(self, data: bytes | memoryview, time_ns: int = 0) -> None:
        size = self.format.size_bytes
        step = max(1, limits.BLOCK_BYTES // size) * size
        whole = memoryview(data).cast("B")
        for first in range(0, len(whole), step):
            part = whole[first : first + step]
            self._wait_room(len(part))
            self._stream.append_batch(part, sequence=self.events, time_ns=time_ns)
            self.events += len(part) // size

    def _wait_room(self, size: int) -> None:
        if self._log.wait_room(size, _ROOM_S):
            return
        failure, where = self._log.statistics().failure, str(self._log.path)
        if failure is not None:
            raise LogError(failure, path=where)
        msg = f"Expected room for {size} bytes within {_ROOM_S} s"
        raise TimedOutError(msg, path=where)


def create_log(path: str | os.PathLike[str]) -> NewLog:
    """Makes a log of events at hand, or goes on with one: see `NewLog`.

    Arguments:
        path: the folder, by convention named `*.echolog`.

    Raises:
        LogError: somebody else writes to it, or the disk failed.

    >>> import tempfile
    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with echo.create_log(f"{folder}/made.echolog") as log:
    ...         log.stream(Point, channel="points").append([Point(1.0), Point(2.0)])
    ...     with echo.open_log(f"{folder}/made.echolog") as log:
    ...         print([point.x for point in log[Point]])
    [1.0, 2.0]
    """
    return NewLog(LogWriter(path, level=Level.BUFFERED))


def adopt_logs(path: str | os.PathLike[str], parts: Sequence[str | os.PathLike[str]]) -> None:
    """Makes the segments of other logs the last ones of a log, in their order, without copying them.

    The log is made where there is none. The others have to be on the same file system, and are empty then.
    Readers of the log get each segment as a whole. What is there when this returns is on the disk.

    Arguments:
        path: the folder of the log.
        parts: those of the others.

    Raises:
        LogError: somebody writes to one of these logs, or the disk failed.

    >>> import tempfile
    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("first", "second"):
    ...         with echo.create_log(f"{folder}/{name}.echolog") as log:
    ...             log.stream(Point, channel=name).append([Point(1.0)])
    ...     echo.adopt_logs(f"{folder}/all.echolog", [f"{folder}/first.echolog", f"{folder}/second.echolog"])
    ...     with echo.open_log(f"{folder}/all.echolog") as log:
    ...         print([point.x for point in log[Point]])
    [1.0, 1.0]
    """
    disk, into = RealDisk(), Path(path)
    held: list[int] = []
    try:
        disk.make_folder(into)
        held += [disk.lock(Path(folder) / LOCK) for folder in (into, *parts)]
        chain = _Chain.behind(into, disk)
        for part in map(Path, parts):
            for number in segment_numbers(disk.names(part)):
                chain.add(segment_path(part, number))
        chain.settle()
    except OSError as error:
        msg = f"The disk failed: {error.strerror or error}"
        raise LogError(msg, path=str(into)) from error
    finally:
        for fd in held:
            disk.close(fd)


def replace_log(path: str | os.PathLike[str], by: str | os.PathLike[str]) -> None:
    """Puts another log in the place of one, in one step: who opens `path` finds the one or the other.

    What was there has the place of the other then, for whoever wants to remove it. Who reads it is told by
    LogError that it was replaced, as soon as they want what is no longer there; nobody gets some of both. A
    file system that cannot exchange two folders, as some of networks, has for a moment nothing at `path`.

    Arguments:
        path: the folder of the log. Where there is none, the other is moved there.
        by: that of the other, on the same file system.

    Raises:
        LogError: somebody writes to one of these logs; either is something else; or the disk failed.

    >>> import tempfile
    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, x in ("run", 1.0), ("better", 2.0):
    ...         with echo.create_log(f"{folder}/{name}.echolog") as log:
    ...             log.stream(Point).append([Point(x)])
    ...     echo.replace_log(f"{folder}/run.echolog", f"{folder}/better.echolog")
    ...     with echo.open_log(f"{folder}/run.echolog") as log:
    ...         print([point.x for point in log[Point]])
    [2.0]
    """
    disk, place, other = RealDisk(), Path(path), Path(by)
    held: list[int] = []
    try:
        for folder in filter(Path.exists, (other, place)):
            demand_log_or_nothing(disk.names(folder), folder)
            held.append(disk.lock(folder / LOCK))
        _move(other, place)
        for parent in {place.parent, other.parent}:
            disk.sync_folder(parent)
    except OSError as error:
        msg = f"The disk failed: {error.strerror or error}"
        raise LogError(msg, path=str(place)) from error
    finally:
        for fd in held:
            disk.close(fd)


def _move(other: Path, place: Path) -> None:
    if not place.exists():
        os.rename(other, place)
        return
    try:
        c.exchange(os.fspath(other), os.fspath(place))
    except OSError as error:
        if error.errno not in _CANNOT_EXCHANGE:
            raise
        aside = other.with_name(f"{other.name}.{secrets.token_hex(8)}")
        os.rename(place, aside)
        os.rename(other, place)
        os.rename(aside, other)


def _ending(disk: RealDisk, path: Path) -> Ending:
    data = disk.content(path)
    try:
        return ending_of(data)
    finally:
        if isinstance(data, mmap.mmap):
            data.close()


class _Chain:
    """The segments of a log, each of which says how the one before it ends."""

    def __init__(self, folder: Path, disk: RealDisk, log_id: bytes, previous: Previous, last: int) -> None:
        self._folder = folder
        self._disk = disk
        self._log_id = log_id
        self._previous = previous
        self._last = last  # the highest number of a file

    @staticmethod
    def behind(folder: Path, disk: RealDisk) -> _Chain:
        """What is there stays as it is, and is on the disk before anything is built on it."""
        numbers = segment_numbers(disk.names(folder))
        last = numbers[-1] if numbers else 0
        for number in reversed(numbers):
            path = segment_path(folder, number)
            disk.sync_file(path)
            found = _ending(disk, path)
            if found.header is not None:
                previous = Previous(number, found.header.salt, found.length, found.crc)
                return _Chain(folder, disk, found.header.log_id, previous, last)
        return _Chain(folder, disk, secrets.token_bytes(16), Previous(), last)

    def add(self, path: Path) -> None:
        """Has a segment follow. Its blocks are bound to its salt, which it keeps."""
        found = _ending(self._disk, path)
        if found.header is None:
            return  # its maker was stopped before it began
        number = self._last + 1
        header = replace(found.header, log_id=self._log_id, number=number, previous=self._previous)
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self._disk.write(fd, header.to_bytes(), 0)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)
        os.rename(path, segment_path(self._folder, number))
        self._previous = Previous(number, header.salt, found.length, found.crc)
        self._last = number

    def settle(self) -> None:
        """Which files there are is on the disk. A log without any gets an empty one."""
        if self._last == 0:
            epoch, none = secrets.randbits(64), self._previous
            header = new_header(SystemClock(), log_id=self._log_id, number=1, epoch=epoch, previous=none)
            fd = self._disk.create(segment_path(self._folder, 1))
            self._disk.write(fd, header.to_bytes(), 0)
            self._disk.sync(fd)
            self._disk.close(fd)
        self._disk.sync_folder(self._folder)
        self._disk.sync_folder(self._folder.parent)
