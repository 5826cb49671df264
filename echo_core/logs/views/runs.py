"""One reading of a log by a view: block by block, what is taken of it and what is missing there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from echo_core.formats.format import Format
from echo_core.logs.blocks import Block
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
    next: int


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
        self._behind = since.position  # the last block that was taken as a whole
        self._at = since.position  # the one that is being taken, of which damage may have left several parts

    def wants(self, stream: StreamInfo) -> bool:
        """Whether anything of a stream may be taken."""
        return self._selection.takes(stream.key) and self._wanted.knows(stream.format)

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Piece]:
        """What is taken of these blocks, and what is missing before each."""
        for block in blocks:
            if self.wants(block.stream):
                yield from self._pieces_of(block)

    def rest(self, streams: Iterable[StreamInfo]) -> Iterator[Gap]:
        """What is missing behind the last block of each stream."""
        for stream in filter(self.wants, streams):
            met = self._streams.get(stream.number)
            first, last = self._bounds_of(stream) if met is None else met.bounds
            number = first if met is None else max(first, met.next)
            for gap in self._missing().behind(stream.number, number):
                if gap.first <= last:
                    yield replace(gap, last=min(gap.last, last))

    def _pieces_of(self, block: Block) -> Iterator[Piece]:
        stream = self._streams.get(block.stream.number) or self._met(block)
        yield from self._gaps_before(block, stream)
        stream.next = max(stream.next, block.first_sequence + block.count)
        if block.position != self._at:
            self._behind, self._at = self._at, block.position
        batch = Batch(block, self._rows(block, stream), stream.decoder, self._behind, self._failed)
        if len(batch):
            yield batch

    def _met(self, block: Block) -> _Stream:
        """What is refused raises here: who asks for a class wants its events, and not a part of them."""
        info = block.stream
        decoder = self._decoder(self._wanted, info.format)
        conditions = self._selection.conditions
        judging = Judging(conditions, self._wanted.cls, info.format) if conditions else None
        begins = self._missing().begins(info.number, block.first_sequence)
        stream = _Stream(decoder, judging, self._bounds_of(info), begins)
        self._streams[info.number] = stream
        return stream

    def _bounds_of(self, info: StreamInfo) -> Bounds:
        first, last = self._selection.bounds(info.key)
        if self._since.stream == stream_id(info.key):
            first = max(first, self._since.number + 1)
        return Bounds(first, last)

    def _gaps_before(self, block: Block, stream: _Stream) -> Iterator[Gap]:
        """Those whose numbers are taken, where the time of what follows is."""
        first = max(stream.next, stream.bounds.first)
        last = min(block.first_sequence - 1, stream.bounds.last)
        if first <= last and self._selection.may_hold(block.first_time_ns, block.first_time_ns):
            yield from self._missing().between(block.stream.number, first, last, block.position)

    def _rows(self, block: Block, stream: _Stream) -> Rows:
        if not self._selection.may_hold(block.first_time_ns, block.last_time_ns):
            return slice(0, 0)
        rows = self._selection.rows(stream.bounds, block.sequences(), block.times_ns)
        return rows if stream.judging is None else stream.judging.rows(block, rows)

    def failures(self) -> list[str]:
        """What conditions met at run time."""
        found = [stream.judging.failures() for stream in self._streams.values() if stream.judging]
        return [failure for failure in found if failure]
