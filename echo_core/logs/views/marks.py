"""Where a reader of a log is, and where an event in it is from."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from echo_core.errors import FormatError, unexpected
from echo_core.logs.described import Position
from echo_core.values.event_info import EventInfo


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a log from which reading goes on: all before it has been given, and nothing behind it.

    `segment` and `offset`: the end of the last block that was given as a whole. Of the blocks behind it,
    events of the stream `stream` up to the number `number` have been given as well. `str` writes a mark as
    text, and `Mark.of` reads it again.
    """

    segment: int
    offset: int
    stream: str = ""
    number: int = 0

    @staticmethod
    def of(given: Mark | Position | str) -> Mark:
        """The mark itself, the place behind a block, or what `str` has made of a mark."""
        if isinstance(given, Mark):
            return given
        if isinstance(given, Position):
            return Mark(given.segment, given.offset)
        try:
            segment, offset, stream, number = given.split(":")
            return Mark(int(segment), int(offset), stream, int(number))
        except (AttributeError, ValueError):
            raise unexpected(FormatError, "a mark as `str(mark)` writes it", f"{given!r}") from None

    @property
    def position(self) -> Position:
        """The end of the last block that was given as a whole."""
        return Position(self.segment, self.offset)

    def __str__(self) -> str:
        return f"{self.segment}:{self.offset}:{self.stream}:{self.number}"


START = Mark(0, 0)


def stream_id(channel: bytes, source: bytes, epoch: int) -> str:
    """By which a stream is known in all marks: its number in a log may differ between two readers of it."""
    data = channel + source + epoch.to_bytes(8, "little")
    return blake2b(data, digest_size=8, person=b"echo log mark").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedInfo(EventInfo):
    """Where an event of a log is from: what `EventInfo` says, and more.

    `peer` says which process the source was in, and `submitted_ns` is the time of the record. `channel` is
    the channel's name, `channel_id` 32 hexadecimal digits that tell channels of one name apart. `epoch`
    differs where a source's numbers began anew. `behind` is the end of the block before the event's.
    """

    channel: str
    channel_id: str
    epoch: int
    behind: Position

    @property
    def mark(self) -> Mark:
        """The place behind the event, from which `follow` goes on."""
        stream = stream_id(bytes.fromhex(self.channel_id), bytes.fromhex(self.source_id), self.epoch)
        return Mark(self.behind.segment, self.behind.offset, stream, self.number)
