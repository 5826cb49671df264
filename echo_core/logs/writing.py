"""LogWriter: a log's folder, open for writing by one process.

Records are copied into memory (`Stage`, in C) by whoever has them. One thread writes what is closed there, and
whoever waits for `sync` does the same in person; two locks order them: `_writing` is held while blocks are written,
`_syncing` while a file is synced, and who needs both takes them in this order. A failure of the disk is never tried
again: the kernel may have dropped what it could not write, and would say that all is well the second time. The log
has failed then, and all that comes is counted as lost.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from echo_core._c import logs as c
from echo_core.errors import ClosedError, LogError, TimedOutError
from echo_core.formats.format import Format
from echo_core.logs import layout, limits
from echo_core.logs.described import Level, Position, Retain, Rotate, StreamKey
from echo_core.logs.disk import Disk, RealDisk
from echo_core.logs.folders import segment_numbers, segment_path
from echo_core.logs.layout import Kind, Previous
from echo_core.logs.scanning import Ending, ending_of
from echo_core.logs.segments import Clock, Declared, Segment, SystemClock, new_header

FLUSH_SHARE = 0.3  # of what may be staged: when open chunks have so much, they are written
FLUSH_S = 5.0  # no event that is buffered waits longer
SYNC_S = 5.0
_TURN_S = 0.5  # how long the thread sleeps at most; so it begins to write that much earlier than FLUSH_S
_END_ROOM = 64 * 1024  # of a segment: what is added at its end, besides its index

_ROTATE = Rotate()
_RETAIN = Retain()


class StreamWriter(c.Stage):
    """The way of one stream's events into a log. `append` and `append_batch` say whether there was room."""

    key: StreamKey
    format: Format

    @property
    def taker(self) -> StreamWriter:
        """What a Delivery hands records to: native/logs/taking.h."""
        return self


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """What a log has taken and written so far."""

    events: int
    """Taken."""
    bytes: int
    """Of records taken."""
    staged_bytes: int
    """Of memory that holds what is not written yet."""
    lost: int
    """Events for which there was no room."""
    written_events: int
    written_bytes: int
    """In files, since this writer began."""
    position: Position
    """The end of what is written."""
    synced: Position
    """The end of what is known to be on the disk."""
    segments: int
    """Files that there are."""
    removed: int
    """Files that retention has removed."""
    is_full: bool
    """The disk has no room, and what comes is lost when memory is used up."""
    failure: str | None
    """What the disk said when it failed."""


@dataclass(slots=True)
class _Stream:
    writer: StreamWriter
    declared: Declared
    closed_at: int | None = None
    """The serial of the last block that can be its, once it is closed."""


class LogWriter:
    """Writes a log. Threads may share it.

    Arguments:
        path: the folder, by convention named `*.echolog`. It is made where there is none, and continued where
            there is one: what is there stays as it is.
        level: what is promised of events that are taken.
        rotate: where a segment ends.
        retain: what is kept.
        max_staged_bytes: of memory for events that are not written yet.
        disk: what does all to files.
        clock: what time it is.

    Raises:
        LogError: somebody else writes to it, or the disk failed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        level: Level | str = Level.BUFFERED,
        rotate: Rotate = _ROTATE,
        retain: Retain = _RETAIN,
        max_staged_bytes: int = limits.MAX_STAGED_BYTES,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.path = Path(path)
        self.level = Level(level)
        self._rotate = rotate
        self._retain = retain
        self._disk = disk or RealDisk()
        self._clock = clock or SystemClock()
        flush = 0 if self.level is Level.VOLATILE else int(max_staged_bytes * FLUSH_SHARE)
        self._staging = c.Staging(max_staged_bytes, flush)
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._declaring = threading.Lock()
        self._formats: dict[bytes, Declared] = {}
        self._streams: dict[tuple[StreamKey, bytes], _Stream] = {}
        self._acknowledged: dict[str, dict[StreamKey, int]] = {}
        self._next_stream = 1
        self._next_format = 1
        self._written = self._synced = 0  # serials
        self._written_events = self._written_bytes = 0
        self._removed = 0
        self._failure: str | None = None
        self._is_full = False
        self._is_closing = self._is_closed = False
        self._begin()
        self._threads = [threading.Thread(target=self._write_on, name=f"log {self.path.name}", daemon=True)]
        if self.level is not Level.VOLATILE:
            name = f"log sync {self.path.name}"
            self._threads.append(threading.Thread(target=self._sync_on, name=name, daemon=True))
        self._ended = threading.Event()
        for thread in self._threads:
            thread.start()

    # --- beginning

    def _begin(self) -> None:
        try:
            self._disk.make_folder(self.path)
            self._lock = self._disk.lock(self.path / "lock")
        except OSError as error:
            raise _disk_error(error, self.path) from error
        try:
            self._segment = self._first_segment()
            self._segment.settle()
        except BaseException as error:
            self._disk.close(self._lock)
            if isinstance(error, OSError):
                raise _disk_error(error, self.path) from error
            raise
        self._synced_to = self._segment.position

    def _first_segment(self) -> Segment:
        """Behind what is there, which another writer may have left anywhere. Nothing of that is changed."""
        self._numbers = segment_numbers(self._disk.names(self.path))
        previous, log_id = Previous(), secrets.token_bytes(16)
        for number in reversed(self._numbers):
            found = self._settled(number)
            if found.header is not None:
                log_id = found.header.log_id
                previous = Previous(number, found.header.salt, found.length, found.crc)
                break
        self._epoch = secrets.randbits(64)
        self._log_id = log_id
        return self._new_segment(previous)

    def _settled(self, number: int) -> Ending:
        """Where an earlier writer's segment ends; on the disk, since what is built on it must not vanish."""
        path = segment_path(self.path, number)
        self._disk.sync_file(path)
        return ending_of(path)

    def _new_segment(self, previous: Previous) -> Segment:
        number = self._numbers[-1] + 1 if self._numbers else 1
        header = new_header(
            self._clock, log_id=self._log_id, number=number, epoch=self._epoch, previous=previous
        )
        segment = Segment(self._disk, self.path, header, self._declarations())
        self._numbers.append(number)
        return segment

    # --- what is written

    def stream(self, key: StreamKey, format_: Format) -> StreamWriter:
        """The way of a stream's events into this log. The same again where it is open.

        Raises:
            LogError: more formats or streams than a segment may declare.
        """
        self._check()
        token = bytes(format_.token)
        with self._declaring:
            known = self._streams.get((key, token))
            if known is not None and known.closed_at is None:
                return known.writer
            declared_format = self._declared_format(token, format_)
            if len(self._streams) >= limits.MAX_STREAMS:
                msg = f"Expected at most {limits.MAX_STREAMS} streams in a segment of a log"
                raise LogError(msg)
            number, self._next_stream = self._next_stream, self._next_stream + 1
            size = format_.size_bytes if format_.is_fixed else 0
            writer = StreamWriter(self._staging, number, declared_format.format, size)
            writer.key, writer.format = key, format_
            declared = Declared(
                Kind.STREAM, layout.stream_payload(key), stream=number, format=declared_format.format
            )
            self._streams[key, token] = _Stream(writer, declared)
            self._declare(declared)
            return writer

    def _declared_format(self, token: bytes, format_: Format) -> Declared:
        declared = self._formats.get(token)
        if declared is None:
            if len(self._formats) >= limits.MAX_FORMATS:
                msg = f"Expected at most {limits.MAX_FORMATS} formats in a segment of a log"
                raise LogError(msg)
            declared = Declared(Kind.FORMAT, format_.metadata, format=self._next_format)
            self._next_format += 1
            self._formats[token] = declared
            self._declare(declared)
        return declared

    def _declare(self, declared: Declared) -> None:
        for _ in range(2):  # as in `_declarations`
            self._staging.put(
                declared.kind, declared.payload, stream=declared.stream, format_number=declared.format
            )

    def _declarations(self) -> list[Declared]:
        """What each segment begins with. Twice, so that no flip makes its records unreadable."""
        with self._declaring:
            self._forget_closed()
            streams = [stream.declared for stream in self._streams.values()]
            declared = [each for each in [*self._formats.values(), *streams] for _ in range(2)]
            acknowledged = [self._acknowledgement(consumer) for consumer in self._acknowledged]
        return declared + acknowledged

    def _forget_closed(self) -> None:
        self._streams = {
            key: stream
            for key, stream in self._streams.items()
            if stream.closed_at is None or stream.closed_at > self._written
        }
        used = {stream.declared.format for stream in self._streams.values()}
        self._formats = {token: each for token, each in self._formats.items() if each.format in used}

    def close_stream(self, writer: StreamWriter) -> None:
        """Nothing more comes of it. What it had is written, and later segments do not declare it."""
        with self._declaring:
            writer.close()
            for stream in self._streams.values():
                if stream.writer is writer:
                    stream.closed_at = self._staging.closed

    def member(self, channel: bytes, member: bytes, activity: str, name: str, *, time_ns: int = 0) -> None:
        """Tells what a member of a channel did: "joined", "left". Written at once."""
        self._check()
        payload = layout.member_payload(channel, member, activity, name)
        self._staging.put(
            Kind.MEMBER, payload, flags=layout.Flag.SKIPPABLE, time=time_ns or self._clock.wall_ns()
        )

    def acknowledge(self, consumer: str, watermarks: Mapping[StreamKey, int]) -> None:
        """A consumer has done with the events of these streams up to these numbers.

        Raises:
            LogError: one of them is no stream of this writer.
        """
        self._check()
        with self._declaring:
            known = {key for key, _ in self._streams}
            for key in watermarks:
                if key not in known:
                    msg = f"Expected a stream of this log, got {key}"
                    raise LogError(msg)
            self._acknowledged.setdefault(consumer, {}).update(watermarks)
            declared = self._acknowledgement(consumer)
        self._staging.put(declared.kind, declared.payload, time=declared.time, flags=layout.Flag.SKIPPABLE)

    def _acknowledgement(self, consumer: str) -> Declared:
        numbers = {key: stream.declared.stream for (key, _), stream in self._streams.items()}
        marks = {numbers[key]: mark for key, mark in self._acknowledged[consumer].items() if key in numbers}
        payload = layout.acknowledgement_payload(consumer, marks)
        return Declared(Kind.ACK, payload, time=self._clock.wall_ns())

    # --- writing

    def _write_on(self) -> None:
        """The thread that writes."""
        turns = 0
        while not self._is_closing:
            turns = self._staging.turns
            self._flush_old()
            with self._writing:
                self._write_closed()
            self._staging.wait(turns, _TURN_S)

    def _flush_old(self) -> None:
        oldest = self._staging.oldest_tick
        if self.level is Level.VOLATILE or oldest == 0:
            return
        if self._clock.monotonic_ns() - oldest >= (FLUSH_S - _TURN_S) * 1e9:
            self._staging.flush()

    def _write_closed(self) -> None:
        """All that is closed, or up to a failure. `_writing` is held."""
        try:
            while self._failure is None and not self._is_closed:
                self._rotate_if_due()
                batch = self._segment.batch(self._staging, self._rotate.bytes - _END_ROOM)
                if batch is None and not self._staging.has_closed:
                    break
                if batch is None:
                    self._begin_next()
                else:
                    self._write_batch(batch)
        except OSError as error:
            self._fail(error)

    def _write_batch(self, batch: c.Batch) -> None:
        self._segment.write(batch)
        self._written = batch.last
        self._written_events += batch.events
        self._written_bytes += batch.size
        batch.done()

    def _rotate_if_due(self) -> None:
        segment = self._segment
        age_ns = self._clock.monotonic_ns() - segment.header.monotonic_ns
        is_old = age_ns >= self._rotate.seconds * 1e9 and segment.has_records
        if is_old or not segment.has_room_for_blocks():
            self._begin_next()

    def _begin_next(self) -> None:
        """The next segment. That it exists ends this one for readers, so this one's end is synced first."""
        before = self._segment
        before.seal()
        with self._syncing:
            if self.level is not Level.VOLATILE:
                self._disk.sync(before.fd)
            self._segment = self._new_segment(before.as_previous())
            if self.level is not Level.VOLATILE:
                self._segment.settle()
            before.close()
            self._note_synced(self._written, self._segment.position)

    def _note_synced(self, serial: int, position: Position) -> None:
        self._synced, self._synced_to = serial, position

    def _fail(self, error: OSError) -> None:
        if error.errno == errno.ENOSPC:
            self._is_full = True
        self._failure = str(_disk_error(error, self.path))
        self._staging.fail()

    # --- syncing

    def sync(self, timeout_s: float = 30.0) -> Position:
        """Waits until all that was taken is on the disk; one sync serves all who wait. Returns the end of it.

        Raises:
            LogError: the disk failed: what was taken since the last sync may be lost.
            TimedOutError: it took longer.
        """
        self._check()
        serial = self._staging.flush()
        if not self._writing.acquire(timeout=timeout_s):
            msg = f"Expected a log on the disk within {timeout_s} s"
            raise TimedOutError(msg, path=str(self.path))
        try:
            self._write_closed()
            self._check()
            if self.level is Level.SYNCED and self._synced < serial:
                self._pad()
        finally:
            self._writing.release()
        return self._sync_to(serial, timeout_s)

    def _pad(self) -> None:
        try:
            self._segment.pad()
        except OSError as error:
            self._fail(error)
            self._check()

    def _sync_to(self, serial: int, timeout_s: float) -> Position:
        if not self._syncing.acquire(timeout=timeout_s):
            msg = f"Expected a log on the disk within {timeout_s} s"
            raise TimedOutError(msg, path=str(self.path))
        try:
            self._check()
            if self._synced < serial:
                written, position = self._written, self._segment.position
                self._disk.sync(self._segment.fd)
                self._note_synced(written, position)
            return self._synced_to
        except OSError as error:
            self._fail(error)
            self._check()
            raise AssertionError from error  # _check raises
        finally:
            self._syncing.release()

    def _sync_on(self) -> None:
        """The thread that syncs every few seconds what was written since."""
        while not self._ended.wait(SYNC_S):
            if self._failure is None and self._synced < self._written:
                try:
                    self._sync_to(self._written, SYNC_S)
                except (LogError, TimedOutError):
                    continue

    # --- what others see

    @property
    def position(self) -> Position:
        """The end of what is written."""
        return self._segment.position

    def wait_room(self, size_bytes: int, timeout_s: float) -> bool:
        """Waits until so many bytes could be taken; False: the time was up, or the log failed."""
        until = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        while self._failure is None and not self._is_closing:
            turns = self._staging.turns
            if self._staging.has_room(size_bytes + c.BLOCK_BYTES):
                return True
            self._staging.flush()
            left = until - self._clock.monotonic_ns()
            if left <= 0:
                break
            self._staging.wait(turns, left / 1e9)
        return False

    def statistics(self) -> LogStatistics:
        """What it has taken and written so far."""
        staging = self._staging
        return LogStatistics(
            events=staging.events,
            bytes=staging.bytes,
            staged_bytes=staging.staged,
            lost=staging.lost,
            written_events=self._written_events,
            written_bytes=self._written_bytes,
            position=self._segment.position,
            synced=self._synced_to,
            segments=len(self._numbers),
            removed=self._removed,
            is_full=self._is_full,
            failure=self._failure,
        )

    def _check(self) -> None:
        if self._failure is not None:
            msg = f"{self._failure}: what was taken since the last sync may be lost"
            raise LogError(msg)
        if self._is_closing:
            msg = "Expected an open log, got a closed one"
            raise ClosedError(msg, path=str(self.path))

    # --- the end

    def close(self, timeout_s: float = 30.0) -> None:
        """Writes all that was taken, and ends the log. A second time it does nothing.

        Raises:
            LogError: the disk failed, now or before.
            TimedOutError: it took longer.
        """
        if self._is_closing:
            return
        self._is_closing = True
        with self._declaring:
            for stream in self._streams.values():
                stream.writer.close()
        self._staging.tell()
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout_s)
        if not self._writing.acquire(timeout=timeout_s):
            msg = f"Expected a log to be closed within {timeout_s} s"
            raise TimedOutError(msg, path=str(self.path))
        try:
            self._end()
        finally:
            self._is_closed = True
            self._disk.close(self._segment.fd)
            self._disk.close(self._lock)
            self._writing.release()
        if self._failure is not None:
            msg = f"{self._failure}: what was taken since the last sync may be lost"
            raise LogError(msg)

    def _end(self) -> None:
        self._write_closed()
        if self._failure is None:
            try:
                self._segment.seal()
                if self.level is not Level.VOLATILE:
                    self._disk.sync(self._segment.fd)
                    self._note_synced(self._written, self._segment.position)
            except OSError as error:
                self._fail(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _disk_error(error: OSError, path: Path) -> LogError:
    return LogError(f"The disk failed: {error.strerror or error}", path=str(path))
