"""What a user reads: some of a log's events, as objects, arrays or columns."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from echo_core.codegen.arrow.package import optional
from echo_core.codegen.batches.memory import Spare
from echo_core.codegen.expressions.predicates import Expression
from echo_core.errors import FormatError, IncompatibleError, unexpected
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.logs.described import Gap, Position
from echo_core.logs.views.batches import Batch
from echo_core.logs.views.decoders import Array_
from echo_core.logs.views.frames import schema_of, table_of
from echo_core.logs.views.marks import LoggedInfo, Mark
from echo_core.logs.views.runs import Run
from echo_core.logs.views.selections import Condition, Numbers, Selection, Time
from echo_core.streams.receptions import Wanted

if TYPE_CHECKING:
    from echo_core.logs.views.following import Follow
    from echo_core.logs.views.log import Log

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoggedBlock:
    """Where some events of one source lie in a log: behind `before`, up to `end`."""

    before: Position
    end: Position
    events: int
    bytes: int
    """Of their records."""
    source_id: str
    first_number: int
    first_time_ns: int
    """The least of their times."""
    last_time_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class View(Generic[T]):
    """Some of a log's events, in the order in which they were recorded. `Log.__getitem__` makes one.

    It reads nothing before it is asked to, and never changes: each method that narrows it returns another
    view. It can be read any number of times, by several threads at once. A view takes what the log held when
    it was opened, or refreshed last; `follow` goes on beyond that.

    What the log has lost is not silent: `with_gaps` shows it in its place, `Log.gaps` and `Log.damage` list
    it, and the first view that comes across any of it says so once by a warning in the log `echo_core`.
    """

    log: Log
    wanted: Wanted
    selection: Selection
    shows_gaps: bool = False

    # -----------------------------------------------------------------------
    # Narrowing

    def between(self, start: Time | None, stop: Time | None) -> View[T]:
        """Events from one time on and before another, each None for no bound.

        A time is a datetime with a time zone, a `numpy.datetime64`, or ns since the epoch. It is compared
        with the times of the records: when their sources submitted them, where these said so, else when they
        were recorded.
        """
        return self._narrowed(self.selection.between(start, stop))

    def sequences(self, source: str, start: int, stop: int | None = None) -> View[T]:
        """Events of one source from one number on and before another, which may be None.

        `source` is a name or an id, as in `source`.
        """
        if start < 0:
            raise unexpected(FormatError, "a number from 0 on", start)
        numbers = Numbers(source, start, 2**64 if stop is None else stop)
        return self._narrowed(replace(self.selection, numbers=(*self.selection.numbers, numbers)))

    def source(self, name: str) -> View[T]:
        """Events of the sources of that name, or of the one with that id (32 hexadecimal digits)."""
        return self._narrowed(replace(self.selection, sources=(*self.selection.sources, name)))

    def types(self, *types: str | Format) -> View[T]:
        """Events that are called so, in all their versions, or that were recorded in these formats."""
        if not types:
            raise unexpected(FormatError, "names or formats of events", "none")
        group = frozenset(each.metadata if isinstance(each, Format) else each for each in types)
        return self._narrowed(replace(self.selection, types=(*self.selection.types, group)))

    def channel(self, name: str) -> View[T]:
        """Events of the channels of that name, or of the one with that id (32 hexadecimal digits)."""
        return self._narrowed(replace(self.selection, channels=(*self.selection.channels, name)))

    def where(self, condition: Expression, /, **parameters: object) -> View[T]:
        """Events for which an expression holds, as `echo.where` has it; records are judged as they lie.

        It is typed by the view's class, or by each format where classes are made. What an expression
        remembers of earlier events it remembers of each source. An event for which it fails does not pass; a
        warning in the log `echo_core` says so in the end.
        """
        conditions = (*self.selection.conditions, Condition(condition, parameters))
        return self._narrowed(replace(self.selection, conditions=conditions))

    def within(self, since: Mark | Position | str | None, until: Mark | Position | str | None) -> View[T]:
        """Events of the blocks behind one place of the log and up to another, each None for no bound.

        What lies between two places stays the same, whatever is added to the log. Of a part no gap is known.
        """
        first = None if since is None else Mark.of(since).position
        last = None if until is None else Mark.of(until).position
        return self._narrowed(replace(self.selection, since=first, until=last))

    def with_gaps(self) -> View[Any]:
        """The same events, and a `Gap` in the place of those that are missing."""
        return replace(self, shows_gaps=True)

    def _narrowed(self, selection: Selection) -> View[T]:
        return replace(self, selection=selection)

    # -----------------------------------------------------------------------
    # Events

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(self._lists())

    def _lists(self) -> Iterator[list[Any]]:
        for piece in self.pieces():
            if isinstance(piece, Batch):
                yield from piece.lists()
            elif self.shows_gaps:
                yield [piece]

    def with_info(self) -> Iterator[tuple[T, LoggedInfo]]:
        """Each event with where it is from; with a `Gap` that is shown there is None."""
        for piece in self.pieces():
            if isinstance(piece, Batch):
                yield from piece.with_infos()
            elif self.shows_gaps:
                gap: Any = piece
                nothing: Any = None
                yield gap, nothing

    def __len__(self) -> int:
        """How many events there are. It does not decode them, but reads them where times or conditions
        matter.
        """
        if self.selection.takes_whole_streams:
            wants = self._run().wants
            return sum(stream.events for stream in self.log.streams if wants(stream))
        return sum(map(len, self.batches()))

    def __bool__(self) -> bool:
        """Whether there is any."""
        return next(self.batches(), None) is not None

    # -----------------------------------------------------------------------
    # Arrays and columns

    def batches(self) -> Iterator[Batch]:
        """The events as they lie in the log: runs of one source and format, each of about a MiB."""
        return (piece for piece in self.pieces() if isinstance(piece, Batch))

    def blocks(self) -> Iterator[LoggedBlock]:
        """Where the events lie that may be taken, by the headers of the log's blocks: no record is read."""
        run, selection = self._run(), self.selection
        for extent in self.log.reader.extents(since=selection.since, until=selection.until):
            if run.chooses(extent):
                yield LoggedBlock(
                    extent.begin,
                    extent.end,
                    extent.last - extent.first + 1,
                    extent.bytes,
                    extent.stream.key.source.hex(),
                    extent.first,
                    extent.first_ns,
                    extent.last_ns,
                )

    def arrays(self) -> Iterator[Array_]:
        """A structured array for each batch, which nobody may write to.

        It is the log's own memory, not a copy, where the records lie there as the class has them; else it is
        converted. FormatError for records with variable parts.
        """
        return (batch.array() for batch in self.batches())

    def array(self) -> Array_:
        """All records in one new array: it takes as much memory as they do."""
        dtype = self.event_format.dtype
        opaque = np.dtype(f"V{dtype.itemsize}")  # which numpy copies with its padding, where fields leave it
        room, end = Spare().empty(len(self), opaque), 0
        for array in self.arrays():
            first, end = end, end + len(array)
            room[first:end] = array.view(opaque)
        return room[:end].view(dtype)

    def columns(self, names: Sequence[str] | None = None) -> dict[str, Array_]:
        """An array for each field, or for each one that is named: it takes the memory of all these columns.

        `cell.x` is a field of a nested record. Of records with variable parts name fields that have none.
        `batches` has columns by the MiB.
        """
        wanted = replace(self.wanted, cls=self._demand_one_class())
        dtypes = self.log.decoder(wanted, self.event_format).columns(names).dtypes
        count, end = len(self), 0
        room = {name: Spare().empty(count, dtype) for name, dtype in dtypes.items()}  # on huge pages
        for batch in self.batches():
            batch.columns_into(room, names, end)
            end += len(batch)
        return {name: column[:end] for name, column in room.items()}

    def arrow_batches(self, *, info: bool = False) -> Iterator[Any]:
        """A `pyarrow.RecordBatch` for each batch, all of one schema. `info` is as in `arrow`."""
        self._demand_one_class()
        return (batch.arrow(info=info) for batch in self.batches())

    def arrow(self, *, info: bool = False) -> Any:
        """All of it as a `pyarrow.Table`: it takes the memory of all columns.

        `info` adds columns that say where each event is from: `_time`, `_sequence`, `_source`, `_source_id`,
        `_epoch`, `_channel`. pyarrow is in the extra `arrow`.
        """
        return table_of(self.arrow_schema(info=info), self.arrow_batches(info=info))

    def arrow_schema(self, *, info: bool = False) -> Any:
        """That of `arrow`."""
        return schema_of(self.event_format, info=info)

    def pandas(self, *, info: bool = False) -> Any:
        """All of it as a `pandas.DataFrame`; otherwise as `arrow`. pandas is in the extra `pandas`."""
        optional("pandas", "pandas")
        return self.arrow(info=info).to_pandas()

    def polars(self, *, info: bool = False) -> Any:
        """All of it as a `polars.DataFrame`; otherwise as `arrow`. polars is in the extra `polars`."""
        return optional("polars", "polars").from_arrow(self.arrow(info=info))

    @property
    def formats(self) -> tuple[Format, ...]:
        """Those that its events were recorded in, in the order in which they came."""
        wants = self._run().wants
        return tuple(dict.fromkeys(stream.format for stream in self.log.streams if wants(stream)))

    @property
    def event_format(self) -> Format:
        """Of what the events become: the class's, on this machine. FormatError where there are several."""
        return format_of(self._demand_one_class())

    def _demand_one_class(self) -> type[Any]:
        if self.wanted.cls is not None:
            return self.wanted.cls
        wants, class_for = self._run().wants, self.wanted.class_for
        classes = {class_for(stream.format) for stream in self.log.streams if wants(stream)}
        if len(classes) != 1:
            names = ", ".join(sorted(f"`{cls.__name__}`" for cls in classes)) or "nothing"
            raise unexpected(
                FormatError,
                "events of one class",
                f"{len(classes)}: {names}",
                hint="take `log[Class]`, to which all versions are converted, or `log['name']`",
            )
        return classes.pop()

    # -----------------------------------------------------------------------
    # Files

    def export(self, path: str | os.PathLike[str], *, info: bool = True) -> int:
        """Writes all of it to a file, and says how many events that were.

        Arguments:
            path: its suffix says what it becomes: `.parquet`, `.arrow`, `.csv`, `.jsonl` or `.mcap`. A file
                that is there is replaced once all is written.
            info: whether to write where each event is from: columns as in `arrow`. `.mcap` always has it.

        All but `.jsonl` and `.mcap` have events of one class. `.mcap` has ROS 2 messages, one topic for each
        source, which viewers show; records whose numbers lie as CDR has them are written as they are.

        Raises:
            FormatError: the suffix is none of these, there are several formats, or a package is missing.
        """
        from echo_core.logs.exports.files import export

        return export(self, path, info=info)

    # -----------------------------------------------------------------------
    # Following

    def follow(self, since: Mark | Position | str | None = None, timeout_s: float | None = None) -> Follow[T]:
        """The events that are there, and those that come, as `Log.follow` has it."""
        from echo_core.logs.views.following import Follow

        return Follow(self, since, timeout_s)

    # -----------------------------------------------------------------------

    def pieces(self) -> Iterator[Batch | Gap]:
        """Batches, and what is missing before each."""
        run = self._run()
        self._demand_known(run)
        log, part = self.log, self.selection
        blocks = log.reader.blocks(
            since=part.since, until=part.until, chosen=run.chooses, verify=log.verifies
        )
        rest = () if part.is_part else run.rest(log.streams)
        for piece in itertools.chain(run.pieces(blocks), rest):
            if isinstance(piece, Gap):
                log.tell_missing(piece, log.reader)
            yield piece
        log.tell_failures(run.failures())

    def _run(self) -> Run:
        return self.log.run(self.wanted, self.selection)

    def _demand_known(self, run: Run) -> None:
        """A name that nothing has is a mistake, and not a view of nothing."""
        streams = self.log.streams
        if not streams or any(map(run.wants, streams)):
            return
        kinds = sorted({f"`{stream.format.name}`" for stream in streams})
        if not any(self.wanted.knows(stream.format) for stream in streams):
            wanted = f"events of `{format_of(self.wanted.cls).name}`" if self.wanted.cls else "events"
            raise unexpected(
                IncompatibleError,
                wanted,
                f"a log with {', '.join(kinds)}",
                path=str(self.log.path),
                hint="give the class the name that they have, `@echo.event(name=..., aliases=...)`",
            )
        if not any(self.selection.is_of_types(stream.format) for stream in streams):
            raise unexpected(
                IncompatibleError,
                f"events of {self.selection.types_in_words}",
                f"a log with {', '.join(kinds)}",
                path=str(self.log.path),
            )
        channels = sorted({f"`{stream.key.channel_name}`" for stream in streams})
        sources = sorted({f"`{stream.key.source_name}`" for stream in streams})
        raise unexpected(
            FormatError,
            "a channel and a source that the log has",
            f"others than the channels {', '.join(channels)} with the sources {', '.join(sources)}",
            path=str(self.log.path),
        )

    def __repr__(self) -> str:
        cls = self.wanted.cls
        return f"View({self.log.path.name}, {'any' if cls is None else cls.__qualname__}){self.selection}"
