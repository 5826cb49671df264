"""LogWriter: a log's folder, open for writing by one process.

Records are copied into memory (`Stage`, in C) by whoever has them. One thread writes what is closed there,
and whoever waits for `sync` does so in person; but not the main thread, which has it done (errands.py). Two
locks order them: `_writing` is held while blocks are written, `_syncing` while a file is synced, and who
needs both takes them in this order. In a fork of the process the log is closed: it is the parent's.

A failure of the disk is never tried again: the kernel may have dropped what it could not write, and say that
all is well the second time. The log has failed then, and all that comes is counted as lost. A full disk is no
failure: nothing of what was written is lost, so it is tried until there is room.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from echo_core._c import logs as c
from echo_core.errors import ClosedError, LogError, TimedOutError, unexpected
from echo_core.formats.format import Format
from echo_core.logs import layout, limits
from echo_core.logs.compression import BlockCompressor, codec_of
from echo_core.logs.declarations import Declarations, StreamWriter
from echo_core.logs.described import Level, LogStatistics, Position, Retain, Rotate, StreamKey
from echo_core.logs.disk import Disk, RealDisk
from echo_core.logs.errands import Errands
from echo_core.logs.folders import LOCK, demand_log_or_nothing
from echo_core.logs.layout import Flag, Kind, Previous
from echo_core.logs.resuming import Found, found_in
from echo_core.logs.room import FULL, Room
from echo_core.logs.segments import Clock, Segment, SystemClock, new_header

FLUSH_SHARE = 0.3  # of what may be staged: when open chunks have so much, they are written
FLUSH_S = 5.0  # no event that is buffered waits longer
SYNC_S = 5.0
# What is written is synced earlier once it is so much: a segment ends with a sync, while which all that comes
# waits in memory. At 1 GB/s 256 MiB took 170 ms.
SYNC_BYTES = 8 * 1024 * 1024
_TURN_S = 0.5  # how long the thread sleeps at most; so it begins to write that much earlier than FLUSH_S

_ROTATE = Rotate()
_RETAIN = Retain()


class LogWriter:
    """Writes a log. Threads may share it.

    Arguments:
        path: the folder, by convention named `*.echolog`. It is made where there is none, and continued where
            there is one: what is there stays as it is.
        level: what is promised of events that are taken.
        compress: `"lz4"` or `"zstd"`, of the extra `logs`.
        rotate: where a segment ends.
        retain: what is kept.
        max_staged_bytes: of memory for events that are not written yet.
        disk: what does all to files.
        clock: what time it is.

    Raises:
        LogError: somebody else writes to it, it is a folder of other files, or the disk failed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        level: Level | str = Level.BUFFERED,
        compress: str | None = None,
        rotate: Rotate = _ROTATE,
        retain: Retain = _RETAIN,
        max_staged_bytes: int = limits.MAX_STAGED_BYTES,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        if max_staged_bytes < limits.MIN_STAGED_BYTES:
            msg = f"Expected at least {limits.MIN_STAGED_BYTES} bytes, got {max_staged_bytes}"
            raise LogError(msg, path="max_staged_bytes")
        self.path = Path(path)
        self.level = _level_of(level)
        codec = codec_of(compress)
        self._rotate = rotate
        self._retain = retain
        self._disk = disk or RealDisk()
        self._clock = clock or SystemClock()
        flush = 0 if self.level is Level.VOLATILE else int(max_staged_bytes * FLUSH_SHARE)
        self._staging = c.Staging(max_staged_bytes, flush)
        self._declarations = Declarations(self._staging, self._clock, lambda serial: serial <= self._written)
        self._compress = BlockCompressor(codec, self._declarations.format_of) if codec else None
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._closing = threading.Lock()  # held by who closes it
        self._errands = Errands()
        self._written = self._synced = 0  # serials
        self._written_events = self._untold_members = 0
        self._written_bytes = self._synced_bytes = 0
        self._failure: str | None = None
        self._is_closing = self._is_closed = False
        self._begin()
        self._sync_is_due = threading.Event()
        self._writer = self._thread(self._write_on, "log")
        self._syncer = self._thread(self._sync_on, "log sync")
        _open.add(self)

    def _thread(self, target: Callable[[], None], what: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"{what} {self.path.name}", daemon=True)
        thread.start()
        return thread

    # --- beginning

    def _begin(self) -> None:
        try:
            self._disk.make_folder(self.path)
            demand_log_or_nothing(self._disk.names(self.path), self.path)
            self._lock = self._disk.lock(self.path / LOCK)
        except OSError as error:
            raise _disk_error(error, self.path) from error
        try:
            self._continue(found_in(self._disk, self.path))
        except BaseException as error:
            self._disk.close(self._lock)
            if isinstance(error, OSError):
                raise _disk_error(error, self.path) from error
            raise
        self._synced_to = self._segment.position

    def _continue(self, found: Found) -> None:
        """Behind what is there, nothing of which is changed."""
        self._log_id = found.log_id or secrets.token_bytes(16)
        self._next_number = found.ends[-1].number + 1 if found.ends else 1
        self._epoch = secrets.randbits(64)
        self._room = Room(self._disk, self.path, self._retain, self._clock, found.ends)
        self._segment = self._new_segment(found.previous)

    def _new_segment(self, previous: Previous) -> Segment:
        header = new_header(
            self._clock, log_id=self._log_id, number=self._next_number, epoch=self._epoch, previous=previous
        )
        segment = Segment(self._disk, self.path, header, self._declarations.all())
        if self.level is not Level.VOLATILE:
            segment.settle()
        self._next_number += 1
        return segment

    # --- what is written

    def stream(self, key: StreamKey, format_: Format) -> StreamWriter:
        """The way of a stream's events into this log. The same again where it is open.

        Raises:
            LogError: more formats or streams than a segment may declare.
        """
        self._check()
        return self._declarations.stream(key, format_)

    def close_stream(self, writer: StreamWriter) -> None:
        """Nothing more comes of it. What it had is written, and later segments do not declare it."""
        self._declarations.close(writer)

    def member(self, channel: bytes, member: bytes, activity: str, name: str, *, time_ns: int = 0) -> None:
        """Tells what a member of a channel did: "joined", "left". Where there is no room it is counted."""
        self._check()
        payload = layout.member_payload(channel, member, activity, name)
        if not self._staging.has_room(len(payload)):
            self._untold_members += 1
            return
        time_ns = time_ns or self._clock.wall_ns()
        self._staging.put(Kind.MEMBER, payload, flags=Flag.SKIPPABLE, time=time_ns)

    def acknowledge(self, consumer: str, watermarks: Mapping[StreamKey, int]) -> None:
        """A consumer has done with the events of these streams up to these numbers.

        Raises:
            LogError: one of them is no stream of this writer.
        """
        self._check()
        self._declarations.acknowledge(consumer, watermarks)

    # --- writing

    def _write_on(self) -> None:
        """The thread that writes."""
        while not self._is_closing:
            turns = self._staging.turns
            self._flush_old()
            with self._writing, suppress(LogError):  # who waits for a sync is told
                self._write_closed()
            self._staging.wait(turns, _TURN_S)

    def _flush_old(self) -> None:
        oldest = self._staging.oldest_tick
        if self.level is Level.VOLATILE or oldest == 0:
            return
        if self._clock.monotonic_ns() - oldest >= (FLUSH_S - _TURN_S) * 1e9:
            self._staging.flush()

    def _write_closed(self) -> None:
        """All that is closed, or up to where the disk fails or is full. `_writing` is held."""
        try:
            while self._failure is None and not self._is_closed and self._room.is_there(self._segment.offset):
                self._rotate_if_due()
                if self._compress is not None:
                    self._staging.compress(self._compress)
                batch = self._segment.batch(self._staging, self._rotate.bytes)
                if batch is not None:
                    self._write_batch(batch)
                elif self._staging.has_closed:
                    self._begin_next()
                else:
                    break
        except OSError as error:
            self._take_error(error)

    def _write_batch(self, batch: c.Batch) -> None:
        try:
            self._segment.write(batch)
        except OSError:
            batch.give_back()
            raise
        self._written = batch.last
        self._written_events += batch.events
        self._written_bytes += batch.size
        if self._written_bytes - self._synced_bytes >= SYNC_BYTES and not self._sync_is_due.is_set():
            self._sync_is_due.set()
            self._errands.wake()
        batch.done()
        self._room.tell_written()

    def _rotate_if_due(self) -> None:
        segment = self._segment
        age_ns = self._clock.monotonic_ns() - segment.header.monotonic_ns
        is_old = age_ns >= self._rotate.seconds * 1e9 and segment.has_records
        if is_old or not segment.has_room_for_blocks():
            self._begin_next()

    def _begin_next(self) -> None:
        """That the next segment exists ends this one for readers, so this one's end is synced first."""
        before = self._segment
        self._seal(before)
        with self._syncing:
            if self.level is not Level.VOLATILE:
                self._sync_file(before)
            self._segment = self._new_segment(before.as_previous())
            before.close()
            self._synced, self._synced_to = self._written, self._segment.position
        self._room.ended(before.header.number, before.offset, self._segment.offset)

    def _seal(self, segment: Segment) -> None:
        try:
            segment.seal(self._declarations.ranged())
        except OSError as error:
            if error.errno not in FULL:
                raise  # without a seal it is as good

    def _sync_file(self, segment: Segment) -> None:
        """Where that fails for whatever reason, some of what was written may be lost."""
        try:
            self._disk.sync(segment.fd)
        except OSError as error:
            self._fail(error)
            self._check_disk()

    def _take_error(self, error: OSError) -> None:
        if error.errno not in FULL:
            self._fail(error)
        elif self._room.make():
            self._staging.tell()  # and the thread tries again
        else:
            self._room.run_out()

    def _fail(self, error: OSError) -> None:
        if self._failure is None:
            self._failure = str(_disk_error(error, self.path))
        self._staging.fail()

    # --- syncing

    def flush(self) -> None:
        """Has all that was taken written soon, so that readers see it; waits for nothing."""
        self._check()
        self._staging.flush()

    def sync(self, timeout_s: float = 30.0) -> Position:
        """Waits until all that was taken is on the disk; one sync serves all who wait. Returns the end of it.

        Raises:
            LogError: the disk failed, and what was taken since the last sync may be lost.
            NoRoomError: the disk is full.
            TimedOutError: it took longer.
        """
        self._check()
        serial = self._staging.flush()
        return self._errands.run(lambda: self._sync(serial, timeout_s))

    def _sync(self, serial: int, timeout_s: float) -> Position:
        if not self._writing.acquire(timeout=timeout_s):
            raise self._late(timeout_s)
        try:
            self._write_up_to(serial)
            if self.level is Level.SYNCED and self._synced < serial:
                self._segment.pad()
        except OSError as error:
            self._take_error(error)
            self._check_disk()
        finally:
            self._writing.release()
        return self._sync_up_to(serial, timeout_s)

    def _write_up_to(self, serial: int) -> None:
        self._room.look_again()  # who asks for it may have made room
        self._write_closed()
        while self._written < serial:
            self._check_disk()
            self._check_open(is_closed=self._is_closed)
            self._write_closed()

    def _sync_up_to(self, serial: int, timeout_s: float) -> Position:
        if not self._syncing.acquire(timeout=timeout_s):
            raise self._late(timeout_s)
        try:
            self._check_disk()
            if self._synced < serial:
                self._check_open(is_closed=self._is_closed)
                written, position = self._written, self._segment.position
                self._sync_file(self._segment)
                self._synced, self._synced_to = written, position
            return self._synced_to
        finally:
            self._syncing.release()

    def _late(self, timeout_s: float) -> TimedOutError:
        msg = f"Expected a log on the disk within {timeout_s} s, got none"
        return TimedOutError(msg, path=str(self.path))

    def _sync_on(self) -> None:
        """The thread that syncs every few seconds what was written since, or when that is much; and does
        errands."""
        while not self._is_closed:
            has_done_one = self._errands.do_one(SYNC_S)
            if self.level is Level.VOLATILE or (has_done_one and not self._sync_is_due.is_set()):
                continue
            self._sync_is_due.clear()
            if self._failure is None and self._synced < self._written:
                self._synced_bytes = self._written_bytes
                with suppress(LogError, TimedOutError, ClosedError):  # who waits for a sync is told
                    self._sync_up_to(self._written, SYNC_S)
        self._errands.end()

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
            segments=self._room.segments + 1,
            removed=self._room.removed,
            untold_members=self._untold_members,
            is_full=self._room.is_full,
            failure=self._failure,
        )

    def _check(self) -> None:
        self._check_open(is_closed=self._is_closing)
        if self._failure is not None:
            self._check_disk()

    def _check_open(self, *, is_closed: bool) -> None:
        if is_closed:
            msg = "Expected an open log, got a closed one"
            raise ClosedError(msg, path=str(self.path))

    def _check_disk(self) -> None:
        if self._failure is not None:
            msg = f"{self._failure}: what was taken since the last sync may be lost"
            raise LogError(msg)
        if self._room.is_full:
            raise self._room.error()

    # --- the end

    def abandon(self) -> None:
        """In a forked child: the log is the parent's, and so is its lock, which is to end with the parent."""
        if not self._is_closed:
            self._is_closing = True
            self._let_go()

    def close(self, timeout_s: float = 30.0) -> None:
        """Writes all that was taken, and ends the log. A second time it waits until that is done.

        Raises:
            LogError: the disk failed, now or before, or is full.
            TimedOutError: it took longer.
        """
        self._is_closing = True
        if not self._is_closed:
            self._errands.run(lambda: self._close(timeout_s))
        self._errands.wake()
        self._syncer.join(timeout_s)

    def _close(self, timeout_s: float) -> None:
        if not self._closing.acquire(timeout=timeout_s):
            raise self._late(timeout_s)
        try:
            if not self._is_closed:
                self._declarations.close_all()
                self._staging.tell()
                self._writer.join(timeout_s)
                self._end_within(timeout_s)
        finally:
            self._closing.release()

    def _end_within(self, timeout_s: float) -> None:
        if not self._writing.acquire(timeout=timeout_s):
            raise self._late(timeout_s)
        try:
            self._end()
        finally:
            with self._syncing:
                self._let_go()
            self._writing.release()

    def _let_go(self) -> None:
        """Of the files, whatever was written."""
        self._is_closed = True
        self._segment.close()
        self._disk.close(self._lock)

    def _end(self) -> None:
        try:
            self._write_up_to(self._staging.closed)
            self._check_disk()
            self._seal(self._segment)
            if self.level is not Level.VOLATILE:
                self._sync_file(self._segment)
                self._synced, self._synced_to = self._written, self._segment.position
        except OSError as error:
            self._take_error(error)
            self._check_disk()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_open: weakref.WeakSet[LogWriter] = weakref.WeakSet()


def _abandon_all() -> None:
    """Also those that no recorder has."""
    for writer in list(_open):
        writer.abandon()


os.register_at_fork(after_in_child=_abandon_all)


def _level_of(level: Level | str) -> Level:
    if level not in set(Level):
        msg = f"Expected {', '.join(Level)}, got {level!r}"
        raise LogError(msg, path="level")
    return Level(level)


def _disk_error(error: OSError, path: Path) -> LogError:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return unexpected(LogError, "a folder", "a file", path=str(path))
    return LogError(f"The disk failed: {error.strerror or error}", path=str(path))
