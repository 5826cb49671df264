"""Recorders: what flows on channels is kept in a log."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from typing import Any, Literal, get_args

from echo_core._c.logs import Lookback
from echo_core.codegen.expressions.reading import Expression
from echo_core.errors import ChannelError, EchoError, ExpressionError, unexpected
from echo_core.handles.channels import Channel, take_all
from echo_core.handles.closing import Closing
from echo_core.handles.default_node import open_channel
from echo_core.logs.described import Retain, Rotate
from echo_core.logs.disk import Disk
from echo_core.logs.known import known_of
from echo_core.logs.recording import Recording
from echo_core.logs.writing import LogWriter
from echo_core.roster import ending
from echo_core.transports.threads import log
from echo_core.values.backlog import nanoseconds
from echo_core.values.statistics import RecorderStatistics
from echo_core.values.waits import DEFAULT_WAIT_S

OnFull = Literal["drop", "block"]
LevelName = Literal["volatile", "buffered", "synced"]
Compression = Literal["lz4", "zstd"]

_LOOKBACK_BYTES = 64 * 1024 * 1024


class Recorder(Closing):
    """What flows on channels is kept in a log, until this is closed, or all of them.

    Made by `Channel.record` and `echo.record`, whose arguments say how.
    """

    __slots__ = ("__weakref__", "_opened", "_path", "_recording")

    def __init__(self, path: str, recording: Recording, opened: list[Channel[Any]]) -> None:
        """`opened`: channels that are closed with it."""
        self._path = path
        self._recording = recording
        self._opened = opened

    @property
    def path(self) -> str:
        """The log's folder."""
        return self._path

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is recorded."""
        return self._recording.is_closed

    def sync(self, timeout_s: float = DEFAULT_WAIT_S) -> None:
        """Blocks until all that has come by now is on the disk; a power failure takes none of it.

        What sources elsewhere have submitted has come once their `flush` has returned.

        Arguments:
            timeout_s: how long.

        Raises:
            LogError: the disk has failed.
            TimedOutError: it has taken longer.
            ClosedError: the recorder is closed.

            source.flush()
            recorder.sync(timeout_s=2)
        """
        self._recording.sync(timeout_s)

    def trigger(self, timeout_s: float = DEFAULT_WAIT_S) -> None:
        """Records what has been kept of the last `before_s` seconds, and from now on all that comes.

        Arguments:
            timeout_s: how long what is kept may take to find room.

        Raises:
            ChannelError: the recorder was made without `before_s`.
            TimedOutError: it has taken longer, or the disk has failed.

            if particle.temperature > 1000.0:
                recorder.trigger()
        """
        self._recording.trigger(timeout_s)

    def statistics(self) -> RecorderStatistics:
        """What it has counted so far, and what waits now."""
        return self._recording.statistics()

    def close(self, timeout_s: float = DEFAULT_WAIT_S) -> None:
        """Writes all that has come, and ends the log.

        Arguments:
            timeout_s: how long.

        Raises:
            LogError: the disk has failed, now or before.
            TimedOutError: it has taken longer.

            recorder.close(timeout_s=2)
        """
        self._recording.is_ending = True
        try:
            for membership, target in self._recording.targets:
                target.is_leaving = True
                ending.stop(membership, target)
            self._recording.close(timeout_s)
        finally:
            for channel in self._opened:
                channel.close(0.0)

    def __repr__(self) -> str:
        return f"Recorder({self._path!r}, {len(self._recording.targets)} channels)"


def record(
    channels: Iterable[Channel[Any] | str] | Channel[Any] | str,
    path: str | PathLike[str],
    *,
    level: LevelName = "buffered",
    compress: Compression | None = None,
    where: Expression | None = None,
    on_full: OnFull = "drop",
    rotate: Rotate | None = None,
    retain: Retain | None = None,
    before_s: float | None = None,
    disk: Disk | None = None,
) -> Recorder:
    """Keeps what flows on channels in one log, of whatever types, until the recorder is closed.

    Arguments:
        channels: channels, or ids of some that are opened for it.
        path: a folder, by convention `NAME.echolog`; a log that is there is continued.
        level: "volatile", "buffered" or "synced": what can be lost, as docs/logs.md says.
        compress: "lz4" or "zstd", of the extra `logs`; by default records are kept as they lie.
        where: a condition in text or a function, as in `echo.where`; only events that pass are recorded, by
            numbers of their own, and only of types that have its fields.
        on_full: what becomes of events that the disk does not keep up with: "drop" counts them as a gap,
            "block" has their sources wait.
        rotate: how large and old one file of it may become.
        retain: how much is kept; by default all.
        before_s: keeps so much of what came last in memory, 64 MiB at most, until `Recorder.trigger`.
        disk: what does all to files, for tests.

    Raises:
        LogError: the log cannot be written, is by another recorder, or is a folder of other files.
        ChannelError: an argument is wrong.
        ExpressionError: no type of a channel has what `where` reads.
        ClosedError: a channel is closed.

    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> import tempfile
    >>> path = tempfile.mkdtemp(suffix=".echolog")
    >>> with echo.create_channel("points", Point) as channel, echo.record(channel, path) as recorder:
    ...     channel.source().submit(Point(1.5))
    ...     recorder.statistics().events
    1
    """
    if level not in get_args(LevelName):
        raise unexpected(ChannelError, f"one of {', '.join(get_args(LevelName))} as level", f"{level!r}")
    if on_full not in get_args(OnFull):
        raise unexpected(ChannelError, f"one of {', '.join(get_args(OnFull))} as on_full", f"{on_full!r}")
    opened: list[Channel[Any]] = []
    try:
        recorded = _recorded(channels, where, opened)
        if not recorded:
            raise unexpected(ChannelError, "at least one channel to record", "none")
        lookback = None if before_s is None else Lookback(nanoseconds(before_s), _LOOKBACK_BYTES)
        known = known_of(path)
        writer = LogWriter(
            path,
            level=level,
            compress=compress,
            rotate=rotate or Rotate(),
            retain=retain or Retain(),
            disk=disk,
        )
        recording = Recording(writer, known, holds_up=on_full == "block", lookback=lookback)
        recorder = Recorder(str(writer.path), recording, opened)
    except BaseException:
        for channel in opened:
            channel.close(0.0)
        raise
    try:
        for channel in recorded:
            take_all(channel, recording.put_on)
    except BaseException:
        with suppress(EchoError):  # what was wrong with the channel says more
            recorder.close()
        raise
    return recorder


def _recorded(
    channels: Iterable[Channel[Any] | str] | Channel[Any] | str,
    where: Expression | None,
    opened: list[Channel[Any]],
) -> list[Channel[Any]]:
    """What is recorded: the channels, or what is derived from them; `opened`: what is to be closed again."""
    recorded: list[Channel[Any]] = []
    for each in [channels] if isinstance(channels, (Channel, str)) else channels:
        channel = each
        if isinstance(channel, str):
            channel = open_channel(channel)
            opened.append(channel)
        found = [channel] if where is None else _derived(channel, where)
        recorded += found
        opened += found if where is not None else []
    return recorded


def _derived(channel: Channel[Any], where: Expression) -> list[Channel[Any]]:
    """Of each type that has what is read; the others are told."""
    types = channel.types
    if not types:
        raise unexpected(
            ChannelError,
            "a channel that was declared with a type, for `where`",
            f"`{channel.name}`, which has none",
            hint="record a channel that is derived by a class: `channel.derive(Class, where=...)`",
        )
    if len(types) < 2:
        return [channel.derive(where=where)]
    found: list[Channel[Any]] = []
    refused: list[tuple[str, ExpressionError]] = []
    for type_ in types:
        try:
            found.append(channel.derive(type_, where=where))
        except ExpressionError as error:
            refused.append((type_.name, error))
    if not found:
        raise refused[0][1]
    for name, why in refused:
        log.warning("channel `%s`: nothing of `%s` is recorded: %s", channel.name, name, why)
    return found
