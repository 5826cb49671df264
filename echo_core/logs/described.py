"""What writers and readers of logs speak of: values, without files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from echo_core.errors import LogError
from echo_core.formats.format import Format
from echo_core.logs import limits


class Level(StrEnum):
    """What a log promises of events that it has taken."""

    VOLATILE = "volatile"
    """They are written when a block is full, and at the end. A process that is killed loses what was not."""
    BUFFERED = "buffered"
    """They are written within seconds, and synced every few seconds."""
    SYNCED = "synced"
    """Who waits for `sync` knows them on the disk."""


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Whose events these are: one source on one channel, in one run of it."""

    channel: bytes
    """16 bytes, by which the channel is known everywhere."""
    channel_name: str
    node: str
    source: bytes
    """16 bytes, by which the source is known everywhere."""
    source_name: str
    epoch: int
    """Which run of the source it is. Numbers of events begin anew with each."""

    def __post_init__(self) -> None:
        for name in ("channel", "source"):
            value = getattr(self, name)
            if len(value) != 16:
                msg = f"Expected 16 bytes, got {len(value)}"
                raise LogError(msg, path=f"StreamKey.{name}")
        if not 0 <= self.epoch < 1 << 64:
            msg = f"Expected 64 bits, got {self.epoch}"
            raise LogError(msg, path="StreamKey.epoch")
        for name in ("channel_name", "node", "source_name"):
            size = len(getattr(self, name).encode())
            if size > limits.MAX_NAME_BYTES:
                msg = f"Expected at most {limits.MAX_NAME_BYTES} bytes, got {size}"
                raise LogError(msg, path=f"StreamKey.{name}")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The end of a block in a log. Positions of one log are in the order in which it was written."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Rotate:
    """Where a segment ends and the next one begins: whichever of both comes first.

    Arguments:
        bytes: the size that a segment does not exceed, except by one large event, or by what it declares.
        seconds: how long a segment is written to.
    """

    bytes: int = limits.SEGMENT_BYTES
    seconds: float = 3600.0

    def __post_init__(self) -> None:
        least, most = limits.MIN_SEGMENT_BYTES, limits.MAX_ROTATE_BYTES
        if not least <= self.bytes <= most:
            msg = f"Expected {least} to {most} bytes, got {self.bytes}"
            raise LogError(msg, path="Rotate.bytes")
        if not self.seconds > 0:
            msg = f"Expected more than 0 seconds, got {self.seconds}"
            raise LogError(msg, path="Rotate.seconds")


@dataclass(frozen=True, slots=True)
class Retain:
    """What of a log is kept. Whole segments go, oldest first, and never the one that is written to.

    Arguments:
        bytes: what the log takes on the disk, at most. None: any number.
        seconds: how old its events may become. None: any age.
        min_free: the bytes that the disk keeps free. With `bytes` or `seconds` the oldest segments make room;
            without them nothing is removed, and what comes is lost until there is room again.
    """

    bytes: int | None = None
    seconds: float | None = None
    min_free: int = 1 << 30

    def __post_init__(self) -> None:
        for name in ("bytes", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                msg = f"Expected more than 0, got {value}"
                raise LogError(msg, path=f"Retain.{name}")
        if self.min_free < 0:
            msg = f"Expected at least 0 bytes, got {self.min_free}"
            raise LogError(msg, path="Retain.min_free")

    @property
    def may_remove(self) -> bool:
        """Whether the oldest segments may be removed at all."""
        return self.bytes is not None or self.seconds is not None


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """What a writer has taken and written so far."""

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
    untold_members: int
    """What members did, and was not told for want of room."""
    is_full: bool
    """The disk has no room, and what comes is lost when memory is used up."""
    failure: str | None
    """What the disk said when it failed."""


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream as a log has it; counts and bounds are those of what has been read so far."""

    number: int
    """Of this reader's: the same stream has the same in all segments."""
    key: StreamKey
    format: Format
    first: int | None
    """The lowest number of an event that is there; None: there is none."""
    last: int | None
    events: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Events of a stream that are not in the log, and why: those numbered `first` to `last`."""

    stream: int
    """`StreamInfo.number`."""
    first: int
    last: int
    cause: str
    position: Position


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that are not what was written."""

    segment: int
    start: int
    end: int
    """Where the bytes are in the segment's file."""
    what: str
    stream: int | None = None
    """`StreamInfo.number`, where it is known."""
    missing: tuple[int, int] | None = None
    """The first and the last number of the events that were lost with them, where they are known."""


@dataclass(frozen=True, slots=True)
class Member:
    """Something that a member of a channel did: joined, left, was lost."""

    channel: bytes
    member: bytes
    """16 bytes each."""
    activity: str
    name: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Up to which number a consumer has done with the events of each stream."""

    consumer: str
    watermarks: tuple[tuple[StreamKey, int], ...]
    time_ns: int
