"""One reading of a log by a view: block by block, what is taken of it and what is missing there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from echo_core.formats.format import Format
from echo_core.logs.blocks import Block, Extent
from echo_core.logs.described import Gap, StreamInfo
from echo_core.logs.views.batches import Batch, Failed
from echo_core.logs.views.decoders import Decoder
from echo_core.logs.views.judging import Judging
from echo_core.logs.views.marks import Mark, stream_id
from echo_core.logs.views.missing import Missing
from echo_core.logs.views.selections import Bounds, Rows, Selection
from echo_core.streams.receptions import Wanted

Piece = Batch | Gap


@dataclass(slots=True)
class _Stream:
    """What a run has of one stream. `next`: the number that is expected; `bounds`: of those that are
    taken.
    """

    decoder: Decoder
    judging: Judging | None
    bounds: Bounds


class Run:
    """Takes blocks in the order of the log.

    `missing` says what is known to be missing of them, `decoder` is from records of a format to what is
    wanted, and `failed` hears of events that cannot be decoded.
    """

    def __init__(
        self,
        wanted: Wanted,
        selection: Selection,
        missing: Callable[[], Missing],
        decoder: Callable[[Wanted, Format], Decoder],
        failed: Failed,
        since: Mark,
    ) -> None:
        self._missing = missing
        self._wanted = wanted
        self._selection = selection
        self._decoder = decoder
        self._failed = failed
        self._since = since
        self._streams: dict[int, _Stream] = {}
        self._judgings: dict[int, Judging] = {}
        self._next: dict[int, int] = {}  # the number that is expected of each stream
        self._looked_at: dict[int, int] = {}  # and behind the blocks that it was asked to choose from
        self._behind = since.position  # the last block that was taken as a whole
        self._at = since.position  # the one that is being taken, of which damage may have left several parts

    def wants(self, stream: StreamInfo) -> bool:
        """Whether anything of a stream may be taken."""
        return self._selection.takes(stream.key, stream.format) and self._wanted.knows(stream.format)

    def chooses(self, extent: Extent) -> bool:
        """Whether anything of a block may be taken, or of what is missing before it.

        It is asked of each block in the order of the log, and those that it does not choose are not read.
        """
        if not self.wants(extent.stream):
            return False
        number = extent.stream.number
        expected = self._next.get(number)
        if expected is None:
            expected = self._next[number] = self._begin_of(extent)
        bounds = self._bounds_of(extent.stream)
        is_between = min(expected, extent.first) <= bounds.last and extent.last >= bounds.first
        is_timely = self._selection.may_hold(extent.first_ns, extent.last_ns)
        behind = self._looked_at.get(number, expected)  # what is missing before it is told in any case
        self._looked_at[number] = max(behind, extent.last + 1)
        if is_between and is_timely and (behind < extent.first or self._may_pass(extent)):
            return True
        self._next[number] = max(expected, extent.last + 1)
        return False

    def _may_pass(self, extent: Extent) -> bool:
        """Whether conditions may hold for any of its events."""
        judging = self._judging_of(extent.stream)
        return judging is None or judging.may_pass(extent.ranges())

    def _begin_of(self, extent: Extent) -> int:
        """The number from which on a stream is looked at."""
        if self._is_since(extent.stream):
            return self._since.number + 1
        if self._selection.is_part:
            return extent.first
        return self._missing().begins(extent.stream.number, extent.first)

    def _is_since(self, info: StreamInfo) -> bool:
        """Whether some of a stream was given before the run began."""
        key, stream = info.key, self._since.stream
        return bool(stream) and stream == stream_id(key.channel, key.source, key.epoch)

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Piece]:
        """What is taken of blocks that were chosen, and what is missing before each."""
        for block in blocks:
            stream = self._streams.get(block.stream.number) or self._met(block.stream)
            yield from self._gaps_before(block, stream)
            self._next[block.stream.number] = max(self._next[block.stream.number], block.last_sequence + 1)
            if block.position != self._at:
                self._behind, self._at = self._at, block.position
            batch = Batch(block, self._rows(block, stream), stream.decoder, self._behind, self._failed)
            if len(batch):
                yield batch

    def rest(self, streams: Iterable[StreamInfo]) -> Iterator[Gap]:
        """What is missing behind the last block of each stream."""
        for stream in filter(self.wants, streams):
            first, last = self._bounds_of(stream)
            number = max(first, self._next.get(stream.number, first))
            for gap in self._missing().behind(stream.number, number):
                if gap.first <= last:
                    yield replace(gap, last=min(gap.last, last))

    def _met(self, info: StreamInfo) -> _Stream:
        """What is refused raises here: who asks for a class wants its events, and not a part of them."""
        decoder = self._decoder(self._wanted, info.format)
        stream = _Stream(decoder, self._judging_of(info), self._bounds_of(info))
        self._streams[info.number] = stream
        return stream

    def _judging_of(self, info: StreamInfo) -> Judging | None:
        conditions = self._selection.conditions
        if not conditions:
            return None
        judging = self._judgings.get(info.number)
        if judging is None:
            judging = self._judgings[info.number] = Judging(conditions, self._wanted.cls, info.format)
        return judging

    def _bounds_of(self, info: StreamInfo) -> Bounds:
        first, last = self._selection.bounds(info.key)
        if self._is_since(info):
            first = max(first, self._since.number + 1)
        return Bounds(first, last)

    def _gaps_before(self, block: Block, stream: _Stream) -> Iterator[Gap]:
        """Those whose numbers are taken, where the time of what follows is."""
        first = max(self._next[block.stream.number], stream.bounds.first)
        last = min(block.first_sequence - 1, stream.bounds.last)
        if first <= last and self._selection.may_hold(block.first_time_ns, block.first_time_ns):
            yield from self._missing().between(block.stream.number, first, last, block.position)

    def _rows(self, block: Block, stream: _Stream) -> Rows:
        rows = self._selection.rows(stream.bounds, block.sequences(), block.times_ns)
        return rows if stream.judging is None else stream.judging.rows(block, rows)

    def failures(self) -> list[str]:
        """What conditions met at run time."""
        found = [judging.failures() for judging in self._judgings.values()]
        return [failure for failure in found if failure]
