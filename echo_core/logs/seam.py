"""The seam: a log is read up to where a sink has events live, and then these; none is missing, none twice.

The sink is there first, so what comes is queued meanwhile. Each source's events have numbers: those below the
one that came next when the sink began are the log's, and what both have is given once. Where the log is
behind, as its recorder writes now and then, it is waited for.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping

from echo_core.errors import EchoError
from echo_core.formats.format import Format
from echo_core.logs.blocks import Block
from echo_core.logs.described import Position, StreamInfo
from echo_core.logs.reading import LogReader
from echo_core.transports.threads import log
from echo_core.values.event_info import EventInfo

_LOOK_S = 0.05  # how long to wait for live events before another look at the log

Pair = tuple[object, EventInfo]
Decode = Callable[[memoryview], object]


class Seam:
    """Of one sink and one log."""

    def __init__(
        self,
        reader: LogReader,
        channel: bytes,
        decoder: Callable[[StreamInfo], Decode | None],
        refused: Callable[[Format, EchoError], object],
        next_numbers: Mapping[bytes, int],
        *,
        since_ns: int | None,
        timeout_s: float,
    ) -> None:
        """`channel`: its id. `decoder`: of a stream's records; None: the sink does not take them.

        `refused`: called with what one record cannot become. `next_numbers`: by the ids of the sources that
        there are, what comes next of each. `timeout_s`: how long the log may be behind.
        """
        self._reader = reader
        self._channel = channel
        self._decoder = decoder
        self._refused = refused
        self._since_ns = since_ns
        self._timeout_s = timeout_s
        self._limit = time.monotonic() + timeout_s
        self._awaited = dict(next_numbers)  # sources of which the log still has to have what is below
        self._next: dict[bytes, int] = {}  # by source, the number behind the last that was given
        self._position: Position | None = None  # up to which the log was read
        self._decoders: dict[int, Decode | None] = {}  # by stream
        self.missing = 0  # events that neither has

    def pairs(self, get: Callable[[float | None], Pair | None]) -> Iterator[Pair]:
        """`get`: the next live event within so many seconds; None: time is up. ClosedError ends it."""
        yield from self._from_log()
        while self._awaited:
            pair = get(_LOOK_S)
            if pair is None:
                yield from self._from_log()
            elif not self._is_had(pair[1]):
                yield from self._joined(pair)
            if time.monotonic() >= self._limit:
                self._give_up(list(self._awaited))
        self._reader.close()
        while True:
            pair = get(None)
            if pair is not None and not self._is_had(pair[1]):
                yield pair

    # -----------------------------------------------------------------------
    # The log

    def _from_log(self) -> Iterator[Pair]:
        """What it has by now, and has not been given."""
        self._reader.refresh()
        until = self._reader.end
        for block in self._reader.blocks(since=self._position, until=until):
            if block.stream.key.channel == self._channel:
                yield from self._of_block(block)
        self._position = until
        self._note_joined()

    def _of_block(self, block: Block) -> Iterator[Pair]:
        source, decode = block.stream.key.source, self._decoder_of(block.stream)
        first = max(block.first_sequence, self._next.get(source, 0))
        self._next[source] = max(first, block.last_sequence + 1)
        if decode is None or (self._since_ns is not None and block.last_time_ns < self._since_ns):
            return
        times = block.times_ns().tolist()
        for number in range(first, block.last_sequence + 1):
            index = number - block.first_sequence
            if self._since_ns is not None and times[index] < self._since_ns:
                continue
            try:
                event = decode(block.record(index))
            except EchoError as error:
                self._refused(block.format, error)
            else:
                yield event, _info_of(block.stream, number, times[index])

    def _decoder_of(self, stream: StreamInfo) -> Decode | None:
        if stream.number not in self._decoders:
            self._decoders[stream.number] = self._decoder(stream)
        return self._decoders[stream.number]

    # -----------------------------------------------------------------------
    # Where both meet

    def _is_had(self, info: EventInfo) -> bool:
        return info.number < self._next.get(bytes.fromhex(info.source_id), 0)

    def _note_joined(self) -> None:
        """Sources of which the log has all that came before the sink; gaps in it are its own."""
        keys = [stream.key for stream in self._reader.streams]
        for gap in self._reader.gaps:
            key = keys[gap.stream]
            if key.channel == self._channel and gap.first <= self._next.get(key.source, 0):
                self._next[key.source] = max(self._next.get(key.source, 0), gap.last + 1)
        for source, number in list(self._awaited.items()):
            if self._next.get(source, 0) >= number:
                del self._awaited[source]

    def _joined(self, pair: Pair) -> Iterator[Pair]:
        """A live event, behind what the log has before it."""
        _, info = pair
        source = bytes.fromhex(info.source_id)
        if source in self._awaited:
            self._awaited[source] = min(self._awaited[source], info.number)
            while source in self._awaited and time.monotonic() < self._limit:
                yield from self._from_log()
                if source in self._awaited:
                    self._reader.wait(_LOOK_S)
            self._give_up([source] if source in self._awaited else [])
        if not self._is_had(info):
            self._next[source] = info.number + 1
            yield pair

    def _give_up(self, sources: list[bytes]) -> None:
        """The log does not have what came before the sink."""
        for source in sources:
            events = self._awaited.pop(source) - self._next.get(source, 0)
            self.missing += events
            said = "log `%s`: it has not got the last %d events of source %s from before the sink was there"
            log.log(logging.WARNING, said, self._reader.path, events, source.hex())


def _info_of(stream: StreamInfo, number: int, time_ns: int) -> EventInfo:
    key = stream.key
    return EventInfo(key.source_name, key.source.hex(), key.node, number, is_kept=True, submitted_ns=time_ns)
