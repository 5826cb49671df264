"""A log that is open for reading: what is in it, and the views of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, get_args, overload

from echo_core.codegen.plain.counting import MostObjects
from echo_core.errors import ClosedError, EchoError, FormatError, IncompatibleError, unexpected
from echo_core.formats.format import Format
from echo_core.formats.tables import as_lines
from echo_core.logs.described import Damage, Gap, Member, Position, StreamInfo
from echo_core.logs.reading import LogReader
from echo_core.logs.views.batches import Batch
from echo_core.logs.views.copying import copy_view, merge
from echo_core.logs.views.decoders import DECODERS, Decoder, new_budget
from echo_core.logs.views.following import Follow
from echo_core.logs.views.marks import START, Mark
from echo_core.logs.views.missing import Missing, MissingIn
from echo_core.logs.views.runs import Run
from echo_core.logs.views.selections import Selection
from echo_core.logs.views.verifying import Verification, verify
from echo_core.logs.views.views import View
from echo_core.streams.receptions import Wanted
from echo_core.transports.fields import shown
from echo_core.transports.limits import DEFAULT_EVENT_OBJECTS
from echo_core.transports.threads import log as _log

T = TypeVar("T")
_MOST_TOLD = 64  # different things that are told of one log; it may hold anything
OnDamage = Literal["report", "raise"]


@dataclass(frozen=True, slots=True)
class LoggedChannel:
    """A channel of a log. `id` is 32 hexadecimal digits, which tell channels of one name apart."""

    name: str
    id: str
    types: tuple[str, ...]
    sources: tuple[str, ...]
    events: int


@dataclass(frozen=True, slots=True)
class LogSummary:
    """What a log holds. `missing` counts the events that are known to be missing."""

    events: int
    bytes: int
    channels: int
    streams: int
    formats: int
    gaps: int
    missing: int
    damaged_bytes: int


class Log:
    """An event log that is open for reading; `echo.open_log` opens one. Use it as a context manager.

    `log[Class]` is a `View` of all events of a class: it takes what is called so, in whatever version and
    from whatever machine, as a sink on a channel does. `log[None]` takes all events, each of a class that is
    made for its format, and `log["name"]` those that are called so, as the last of these formats has them.

    A writer may be at work meanwhile. What it has added is there after `refresh`, and `follow` waits for it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        on_damage: OnDamage,
        max_objects: int | None,
        verify: bool = True,
    ) -> None:
        self.path = Path(path)
        self.on_damage: OnDamage = on_damage
        self.verifies = verify
        self.max_objects = max_objects
        self._most = None if max_objects is None else MostObjects(max_objects, "max_objects")
        self._reader = LogReader(path, on_damage=on_damage)
        self._missing = MissingIn(self._reader)
        self._budget = new_budget()
        self._told: set[str] = set()
        self._is_closed = False

    # -----------------------------------------------------------------------
    # What is in it

    @property
    def id(self) -> str:
        """32 digits, which it keeps when it is continued; a log that is put in its place has others."""
        return self.reader.log_id.hex()

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        """One for each source and run of it, with how many events are there."""
        return self.reader.streams

    @property
    def formats(self) -> tuple[Format, ...]:
        """Of all events, in the order in which they came."""
        return self.reader.formats

    @property
    def begin(self) -> Position:
        """Where it begins: before the first event that is still there."""
        return Position(self.reader.first_segment, 0)

    def settled(self, place: Position) -> Position:
        """The same place, or the end of its segment where that has ended and no event lies in between.

        What is read up to there is known to be, also when retention has removed the segment.
        """
        return self.reader.settled(place)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Events that are not in the log, and why."""
        return tuple(self.reader.gaps)

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Bytes that are not what was written, and what was lost with them."""
        return tuple(self.reader.damage)

    @property
    def members(self) -> tuple[Member, ...]:
        """Who joined and left the channels."""
        return tuple(self.reader.members)

    @property
    def end(self) -> Position:
        """Of what has been read of it: `follow` from there takes what is added alone."""
        return self.reader.end

    @property
    def channels(self) -> tuple[LoggedChannel, ...]:
        """Each with its sources, and what their events are called."""
        by_id: dict[bytes, list[StreamInfo]] = {}
        for stream in self.streams:
            by_id.setdefault(stream.key.channel, []).append(stream)
        return tuple(
            LoggedChannel(
                streams[-1].key.channel_name,
                identity.hex(),
                tuple(dict.fromkeys(stream.format.name for stream in streams)),
                tuple(dict.fromkeys(stream.key.source_name for stream in streams)),
                sum(stream.events for stream in streams),
            )
            for identity, streams in by_id.items()
        )

    def summary(self) -> LogSummary:
        """Counts of what has been read of it."""
        damage = self.damage
        return LogSummary(
            events=sum(stream.events for stream in self.streams),
            bytes=sum(file.stat().st_size for file in self.path.glob("*.seg")),
            channels=len(self.channels),
            streams=len(self.streams),
            formats=len(self.formats),
            gaps=len(self.gaps),
            missing=sum(gap.last - gap.first + 1 for gap in self.missing.all()),
            damaged_bytes=sum(each.end - each.start for each in damage),
        )

    # -----------------------------------------------------------------------
    # Views

    @overload
    def __getitem__(self, wanted: type[T]) -> View[T]: ...

    @overload
    def __getitem__(self, wanted: str | None) -> View[Any]: ...

    def __getitem__(self, wanted: type[Any] | str | None) -> View[Any]:
        """All events of a class, of a name, or any (None)."""
        return self.view(wanted)

    @overload
    def view(self, wanted: type[T], *, by_shape: bool = False, lossy: bool = False) -> View[T]: ...

    @overload
    def view(self, wanted: str | None, *, by_shape: bool = False, lossy: bool = False) -> View[Any]: ...

    def view(
        self, wanted: type[Any] | str | None, *, by_shape: bool = False, lossy: bool = False
    ) -> View[Any]:
        """As `log[wanted]`, and with what a sink can say of events.

        Arguments:
            wanted: an event class, what events are called, or None for any.
            by_shape: whether events of all names are taken for those of the class.
            lossy: whether to consent to conversions that may lose, as in `echo.codec`.
        """
        cls = self._class_called(wanted) if isinstance(wanted, str) else wanted
        return View(self, Wanted(cls, is_array=False, is_lossy=lossy, by_shape=by_shape), Selection())

    def _class_called(self, name: str) -> type[Any]:
        for format_ in reversed(self.formats):
            if format_.name == name:
                return Format.from_metadata(format_.metadata).record_class()
        known = ", ".join(sorted({f"`{format_.name}`" for format_ in self.formats})) or "no events"
        raise unexpected(IncompatibleError, f"a log of `{name}`", f"one with {known}", path=str(self.path))

    def follow(
        self,
        wanted: type[T] | str | None,
        *,
        since: Mark | Position | str | None = None,
        timeout_s: float | None = None,
    ) -> Follow[T]:
        """Events as they are added, after those that are there: an iterator, also an asynchronous one.

        Arguments:
            wanted: as in `view`; `View.follow` follows a part of a log.
            since: where to go on: the mark of an event that was given, or the end of a block. By default all
                that the log has comes first.
            timeout_s: ends when nothing has come for so long; None: it waits until it is closed.
        """
        view: View[Any] = self.view(wanted)
        return view.follow(since, timeout_s)

    def export(
        self, path: str | os.PathLike[str], wanted: type[Any] | str | None = None, *, info: bool = True
    ) -> int:
        """Writes all events of a class, of a name or any to a file, as `View.export` has it."""
        return self.view(wanted).export(path, info=info)

    def verify(self) -> Verification:
        """Reads all of it, and says whether it is as it was written."""
        return verify(self.reader, self.summary().bytes)

    # -----------------------------------------------------------------------
    # What views ask of it

    @property
    def reader(self) -> LogReader:
        """The files. ClosedError after `close`."""
        if self._is_closed:
            raise unexpected(ClosedError, "an open log", "a closed one", path=str(self.path))
        return self._reader

    @property
    def missing(self) -> Missing:
        """What is known to be missing."""
        return self._missing()

    def run(
        self, wanted: Wanted, selection: Selection, reader: LogReader | None = None, since: Mark = START
    ) -> Run:
        """One reading of it, or by another reader of the same log."""
        missing = self._missing if reader is None else MissingIn(reader)
        return Run(wanted, selection, missing, self.decoder, self.tell_failed, since)

    def decoder(self, wanted: Wanted, format_: Format) -> Decoder:
        """From records of a format to what is wanted."""
        decoder = DECODERS.of(wanted, format_, self._most, self._budget)
        for entry in decoder.report.lookalikes:
            self._warn_once(
                f"lookalike {entry.path} {entry.lookalike}",
                f"`{entry.path}` takes its default: what was recorded has `{entry.lookalike}` instead,"
                " which is ignored",
            )
        return decoder

    def tell_missing(self, gap: Gap, reader: LogReader) -> None:
        """Once: `gaps` has the rest. `reader`: whose streams the gap's number is of."""
        if "missing" in self._told:
            return
        source = next(stream.key.source_name for stream in reader.streams if stream.number == gap.stream)
        self._warn_once(
            "missing",
            f"the events {gap.first} to {gap.last} of source `{shown(source)}` are missing"
            f" ({shown(gap.cause)}); `gaps` and `damage` have all that is",
        )

    def tell_failed(self, batch: Batch, row: int, error: EchoError) -> None:
        """An event that cannot be decoded: left out, or raised where damage is."""
        number = int(batch.sequences[row])
        where = f"event {number} of source `{shown(batch.source)}`"
        if self.on_damage == "raise":
            msg = f"{error} ({where})"
            raise type(error)(msg) from None
        self._warn_once(f"failed {batch.source_id}", f"{where} cannot be decoded, and is left out: {error}")

    def tell_failures(self, failures: Sequence[str]) -> None:
        """Of conditions."""
        for failure in failures:
            self._warn_once(failure, f"a condition failed for {failure}")

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(what)
            _log.warning("log `%s`: %s", shown(str(self.path)), message)

    # -----------------------------------------------------------------------

    def refresh(self) -> bool:
        """Looks for what was added since; whether anything was."""
        return self.reader.refresh()

    def close(self) -> None:
        """Gives the files back. Arrays that are in use keep their memory."""
        self._is_closed = True
        self._budget.end()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._is_closed:
            return f"Log({self.path.name}, closed)"
        it = self.summary()
        counts = (it.events, "event"), (it.channels, "channel"), (it.streams, "stream")
        said = ", ".join(f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts)
        if it.missing:
            said += f", {it.missing:,} missing"
        if it.damaged_bytes:
            said += f", {it.damaged_bytes:,} bytes damaged"
        return f"Log({self.path.name}, {said})"

    def __str__(self) -> str:
        """A table with a line for each stream."""
        rows = [
            (
                f"{stream.events:,}",
                shown(stream.format.name),
                shown(stream.key.channel_name),
                shown(stream.key.source_name),
                "" if stream.first is None else f"{stream.first} to {stream.last}",
            )
            for stream in self.streams
        ]
        header = "events", "type", "channel", "source", "numbers"
        return "\n".join([repr(self), *as_lines(header, rows, right=1)])


def open_log(
    path: str | os.PathLike[str],
    *,
    on_damage: OnDamage = "report",
    max_objects: int | None = DEFAULT_EVENT_OBJECTS,
    verify: bool = True,
) -> Log:
    """Opens an event log for reading, be it that it is being written to.

    Arguments:
        path: the folder, such as `run.echolog`.
        on_damage: "report" gives all that can be read, and tells of the rest by `Log.damage` and a warning in
            the log `echo_core`; "raise" raises LogError instead. What a crash left unfinished at the end of a
            log is no damage.
        max_objects: how many Python objects an event may become, as in `codec`; None for any number.
        verify: whether to look at the checksums of records before they are given.

    Raises:
        LogError: there is no folder, no log in it, or none that can be read.
        FormatError: `on_damage` or `max_objects` is none.

    >>> echo.open_log("/nowhere/run.echolog")
    Traceback (most recent call last):
    echo_core.errors.LogError: Expected a log, got No such file or directory - at `/nowhere/run.echolog`
    """
    if on_damage not in get_args(OnDamage):
        raise unexpected(FormatError, f"on_damage of {', '.join(get_args(OnDamage))}", f"{on_damage!r}")
    if max_objects is not None and max_objects < 0:
        raise unexpected(FormatError, "max_objects from 0 on", max_objects)
    return Log(path, on_damage, max_objects, verify)


def recover_log(damaged: str | os.PathLike[str], path: str | os.PathLike[str]) -> Verification:
    """Copies all that can be read of a damaged log to a new one, and says what that was.

    Arguments:
        damaged: the log's folder, which stays as it is.
        path: that of the new log, where nothing may be. What is missing is told there as gaps.

    Raises:
        LogError: there is no log, or something is at `path`, or it cannot be written.

    >>> echo.recover_log("/nowhere/run.echolog", "/nowhere/recovered.echolog")
    Traceback (most recent call last):
    echo_core.errors.LogError: Expected a log, got No such file or directory - at `/nowhere/run.echolog`
    """
    with open_log(damaged) as log:
        copy_view(log[None], path)
        return log.verify()


def merge_logs(logs: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str]) -> int:
    """Copies several logs to a new one, in the order of their times, and says how many events that were.

    Arguments:
        logs: their folders. What several of them have of one source is taken once.
        path: that of the new log, where nothing may be.

    Raises:
        LogError: one of them is no log, or something is at `path`, or it cannot be written.

    >>> echo.merge_logs(["/nowhere/run.echolog"], "/nowhere/all.echolog")
    Traceback (most recent call last):
    echo_core.errors.LogError: Expected a log, got No such file or directory - at `/nowhere/run.echolog`
    """
    with contextlib.ExitStack() as stack:
        return merge([stack.enter_context(open_log(each)) for each in logs], path)
