"""Players: what was recorded flows again, from sources as those that it was recorded of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from queue import Empty, SimpleQueue
from typing import Any

from echo_core.codegen.conversion import converter
from echo_core.codegen.plans.verification import verification
from echo_core.errors import (
    ClosedError,
    ConversionError,
    IncompatibleError,
    LogError,
    TimedOutError,
    WireError,
    unexpected,
)
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.handles.channels import Channel, record_source
from echo_core.handles.closing import Closing
from echo_core.handles.sources import Source
from echo_core.logs.blocks import Block
from echo_core.logs.described import StreamInfo
from echo_core.logs.pacing import End, Playback, Wait
from echo_core.logs.reading import LogReader
from echo_core.logs.running_order import Run, RunningOrder
from echo_core.logs.views.log import Log
from echo_core.transports import threads
from echo_core.transports.fields import shown
from echo_core.transports.threads import OwnThread, is_failure
from echo_core.values.backlog import Backlog
from echo_core.values.statistics import PlayerStatistics
from echo_core.values.waits import DEFAULT_WAIT_S

_NS_PER_S = 1_000_000_000
_PATIENT = Backlog(when_full="block", timeout_s=1e9)  # nothing that is played is dropped


class Player(Closing):
    """A log that is played into a channel, by a thread of its own. Made by `echo.play`."""

    __slots__ = (
        "__weakref__",
        "_commands",
        "_error",
        "_finished",
        "_is_closing",
        "_parts",
        "_playback",
        "_reader",
        "_thread",
        "_wanted_sinks",
    )

    def __init__(self, reader: LogReader, playback: Playback, parts: dict[int, _Part], sinks: int) -> None:
        self._reader = reader
        self._playback = playback
        self._parts = parts
        self._wanted_sinks = sinks
        self._commands: SimpleQueue[Callable[[int], object]] = SimpleQueue()  # for the thread; given the time
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._is_closing = False
        self._thread = OwnThread(self._run, "echo-player")
        self._thread.start()

    # -----------------------------------------------------------------------
    # What components call

    def pause(self) -> None:
        """Nothing more is played until `resume`."""
        self._commands.put(self._playback.pause)

    def resume(self) -> None:
        """It goes on where it was, as if no time had passed."""
        self._commands.put(self._playback.resume)

    def seek(self, time_s: float) -> None:
        """What is played next is the first event that was recorded then, or later.

        Arguments:
            time_s: seconds since 1970, as `time.time()` has them.

        Raises:
            ClosedError: all has been played, or the player is closed.
        """
        if self._finished.is_set():
            msg = "Expected a player that is at work, this one has ended"
            raise ClosedError(msg)
        self._commands.put(lambda _now_ns: self._playback.seek(int(time_s * _NS_PER_S)))

    def wait(self, timeout_s: float | None = DEFAULT_WAIT_S) -> None:
        """Blocks until all has been played, and every sink has it.

        Arguments:
            timeout_s: how long; None is without limit.

        Raises:
            TimedOutError: there is more to play when the time is up.
            EchoError: what has ended it before: the channel was closed, say, or the log cannot be read.

            player.wait(timeout_s=None)
        """
        if not self._finished.wait(timeout_s):
            msg = f"Expected all of `{self._reader.path}` to be played within {timeout_s} s"
            raise TimedOutError(msg)
        if self._error is not None:
            raise self._error

    @property
    def is_closed(self) -> bool:
        """Whether it plays no more: all was played, or it was closed."""
        return self._finished.is_set()

    def statistics(self) -> PlayerStatistics:
        """What it has counted so far."""
        parts, playback = self._parts.values(), self._playback
        sources = [part.source.statistics() for part in parts]
        time_ns = playback.time_ns
        return PlayerStatistics(
            events=sum(part.events for part in parts),
            size_bytes=sum(part.size_bytes for part in parts),
            late=playback.late,
            most_late_s=playback.most_late_ns / _NS_PER_S,
            lost=sum(each.dropped + each.dropped_at_sinks for each in sources),
            missing=sum(gap.last + 1 - gap.first for gap in self._reader.gaps if gap.stream in self._parts),
            damaged=sum(part.damaged for part in parts),
            rounds=playback.rounds,
            time_s=None if time_ns is None else time_ns / _NS_PER_S,
            is_paused=playback.is_paused,
        )

    def close(self) -> None:
        """Ends it, and its sources; what sinks have not taken by now may not arrive."""
        self._is_closing = True
        self._commands.put(lambda _now_ns: None)
        for part in self._parts.values():
            part.source.close(0.0)
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._reader.close()

    def __repr__(self) -> str:
        return f"Player({len(self._parts)} streams of `{self._reader.path}`)"

    # -----------------------------------------------------------------------
    # The thread

    def _run(self) -> None:
        try:
            for part in self._parts.values():
                if self._wanted_sinks:
                    part.source.wait_matched(self._wanted_sinks, None)
            self._play()
            for part in self._parts.values():
                part.source.flush(None)
        except BaseException as error:
            if not self._is_closing:
                self._error = error
                if not is_failure(error):
                    raise
                threads.log.error("what was recorded in `%s` is played no more: %s", self._reader.path, error)
        finally:
            self._tell_losses()
            self._finished.set()

    def _play(self) -> None:
        while not self._is_closing:
            self._obey()
            step = self._playback.step(time.monotonic_ns())
            if isinstance(step, End):
                return
            if isinstance(step, Wait):
                self._sleep(step.until_ns)
            else:
                self._parts[step.block.stream.number].play(step)

    def _obey(self) -> None:
        while not self._commands.empty():
            self._commands.get()(time.monotonic_ns())

    def _sleep(self, until_ns: int | None) -> None:
        """Until something is due, or the next command."""
        timeout_s = None if until_ns is None else max(0, until_ns - time.monotonic_ns()) / _NS_PER_S
        try:
            command = self._commands.get(timeout=timeout_s)
        except Empty:
            return
        command(time.monotonic_ns())

    def _tell_losses(self) -> None:
        counted = self.statistics()
        if counted.missing or counted.damaged or counted.lost:
            said = "of `%s` %d events were played; %d were not recorded, %d are damaged, %d were dropped"
            told = counted.events, counted.missing, counted.damaged, counted.lost
            threads.log.warning(said, self._reader.path, *told)


class _Part:
    """One recorded stream, and the source that it is played by."""

    __slots__ = ("_check", "_size", "damaged", "events", "size_bytes", "source")

    def __init__(self, source: Source[Any], format_: Format) -> None:
        self.source = source
        self.events = self.size_bytes = self.damaged = 0
        self._size = format_.size_bytes if format_.is_fixed else 0
        # Who receives takes what breaks the rules for the fault of this process, and ends the link.
        self._check = converter(format_, format_) if verification(format_.layout).operations else None

    def play(self, run: Run) -> None:
        """Blocks while sinks have no room."""
        if self._size and self._play_all(run):
            return
        for index in range(run.first, run.last):
            self._play_one(run.block.record(index))

    def _play_all(self, run: Run) -> bool:
        """Whether none of them is damaged."""
        records = run.block.records[run.first * self._size : run.last * self._size]
        if not self._is_whole(records):
            return False
        self.source.submit_records(records)
        self.events += run.events
        self.size_bytes += len(records)
        return True

    def _play_one(self, record: memoryview) -> None:
        if not self._is_whole(record):
            self.damaged += 1
            return
        if self._size:
            self.source.submit_records(record)
        else:
            self.source.submit(record)
        self.events += 1
        self.size_bytes += len(record)

    def _is_whole(self, records: memoryview) -> bool:
        if self._check is None:
            return True
        try:
            self._check(records)
        except (ConversionError, WireError):
            return False
        return True


def play(
    log: str | PathLike[str] | Log,
    /,
    into: Channel[Any],
    *,
    speed: float = 1.0,
    streams: Iterable[StreamInfo] | None = None,
    types: Iterable[type[Any] | Format | str] | None = None,
    since_s: float | None = None,
    until_s: float | None = None,
    loop: bool = False,
    wait_matched: int = 0,
) -> Player:
    """Has what was recorded flow again: for each stream of a log there is a source of its name and format.

    Nothing is dropped for want of room: sinks elsewhere hold the player up, whose own events then leave late.

    Arguments:
        log: its folder, or what `echo.open_log` gives; what is added to it meanwhile is not played.
        into: where it is played; sources are on this channel until the player is closed.
        speed: 2.0 is twice as fast as it was recorded; 0 plays as fast as sinks take it.
        streams: those that are played; by default all.
        types: event classes, formats or their names that are played; by default all.
        since_s, until_s: events recorded from the one time to the other, in seconds since 1970.
        loop: plays it again when it has ended, until the player is closed.
        wait_matched: so many sinks take each source's events before anything is played.

    Raises:
        LogError: there is no log, or an argument is wrong.
        IncompatibleError: what is to be played does not fit the channel's types, which `types` leaves out;
            or one of `types` is not in the log.
        ClosedError: the channel is closed.

    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> import tempfile
    >>> path = tempfile.mkdtemp(suffix=".echolog")
    >>> with echo.create_channel("points", Point) as channel, channel.record(path):
    ...     channel.source().submit(Point(1.5))
    >>> with echo.create_channel("again", Point) as again:
    ...     sink = again.sink(Point)
    ...     with echo.play(path, into=again, speed=0) as player:
    ...         player.wait()
    ...     sink.get(timeout_s=10).x
    1.5
    """
    reader = LogReader(log if isinstance(log, str | PathLike) else log.path)
    chosen = _chosen(reader, streams, types)
    open_ = partial(_opened, reader, chosen, _nanoseconds(since_s), _nanoseconds(until_s))
    playback = Playback(open_, speed, loop=loop)
    parts: dict[int, _Part] = {}
    try:
        for stream in chosen:
            source = record_source(into, stream.format, name=stream.key.source_name, backlog=_PATIENT)
            parts[stream.number] = _Part(source, stream.format)
        return Player(reader, playback, parts, wait_matched)
    except BaseException:
        for part in parts.values():
            part.source.close(0.0)
        raise


def _opened(
    reader: LogReader,
    streams: Sequence[StreamInfo],
    since_ns: int | None,
    until_ns: int | None,
    at_ns: int | None,
) -> RunningOrder:
    if at_ns is not None:
        since_ns = at_ns if since_ns is None else max(at_ns, since_ns)
    return RunningOrder(
        [_blocks(reader, stream, since_ns) for stream in streams], since_ns=since_ns, until_ns=until_ns
    )


def _blocks(reader: LogReader, stream: StreamInfo, since_ns: int | None) -> Iterator[Block]:
    """What ends before is not read."""
    for block in reader.blocks(streams=[stream.number]):
        if since_ns is None or block.last_time_ns >= since_ns:
            yield block


def _chosen(
    reader: LogReader,
    streams: Iterable[StreamInfo] | None,
    types: Iterable[type[Any] | Format | str] | None,
) -> list[StreamInfo]:
    numbers = None if streams is None else {_number_of(stream) for stream in streams}
    names = None if types is None else {_name_of(type_) for type_ in types}
    there = dict.fromkeys(stream.format.name for stream in reader.streams)
    for name in sorted((names or set()) - there.keys()):
        listed = ", ".join(f"`{shown(each)}`" for each in there) or "nothing"
        raise unexpected(IncompatibleError, f"a log of `{name}`", f"one with {listed}", path=str(reader.path))
    return [
        stream
        for stream in reader.streams
        if (numbers is None or stream.number in numbers) and (names is None or stream.format.name in names)
    ]


def _number_of(stream: StreamInfo) -> int:
    if not isinstance(stream, StreamInfo):  # pyright: ignore[reportUnnecessaryIsInstance]
        hint = "`log.streams` has them: `[it for it in log.streams if it.key.source_name == ...]`"
        raise unexpected(LogError, "streams of the log", f"{stream!r}", path="streams", hint=hint)
    return stream.number


def _name_of(type_: type[Any] | Format | str) -> str:
    if isinstance(type_, str):
        return type_
    return type_.name if isinstance(type_, Format) else format_of(type_).name


def _nanoseconds(time_s: float | None) -> int | None:
    return None if time_s is None else int(time_s * _NS_PER_S)
