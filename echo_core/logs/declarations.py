"""What each segment has to declare, so that it can be read alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.formats.format import Format
from echo_core.logs import layout, limits
from echo_core.logs.described import StreamKey
from echo_core.logs.layout import Flag, Kind
from echo_core.logs.ranges import packed, ranged_fields
from echo_core.logs.segments import Clock, Declared


class StreamWriter(c.Stage):
    """The way of one stream's events into a log. `append` and `append_batch` say whether there was room."""

    key: StreamKey
    format: Format

    @property
    def taker(self) -> StreamWriter:
        """What a Delivery hands records to: native/logs/taking.h."""
        return self


@dataclass(slots=True)
class _Stream:
    writer: StreamWriter
    declared: Declared
    closed_at: int | None = None
    """The serial of the last block that can be its, once it is closed."""


class Declarations:
    """Those of one writer. What is new is put behind what is staged, so before all that needs it."""

    def __init__(self, staging: c.Staging, clock: Clock, has_written: Callable[[int], bool]) -> None:
        """`has_written`: whether the block of a serial is in a file."""
        self._staging = staging
        self._clock = clock
        self._has_written = has_written
        self._lock = threading.Lock()
        self._formats: dict[bytes, Declared] = {}
        self._streams: dict[tuple[StreamKey, bytes], _Stream] = {}
        self._by_number: dict[int, _Stream] = {}
        self._acknowledged: dict[str, dict[StreamKey, int]] = {}
        self._next_stream = 1
        self._next_format = 1

    def stream(self, key: StreamKey, format_: Format) -> StreamWriter:
        """The same again where it is open. LogError: more than a segment may declare."""
        identity = key, format_.metadata
        with self._lock:
            known = self._streams.get(identity)
            if known is not None and known.closed_at is None:
                return known.writer
            self._check(len(self._by_number), limits.MAX_STREAMS, "streams")
            of_format = self._format(format_).format
            number, self._next_stream = self._next_stream, self._next_stream + 1
            size = format_.size_bytes if format_.is_fixed else 0
            writer = StreamWriter(self._staging, number, of_format, size, packed(format_))
            writer.key, writer.format = key, format_
            declared = Declared(Kind.STREAM, layout.stream_payload(key), stream=number, format=of_format)
            self._put(declared)  # before it is known, so that nothing that interrupts leaves it undeclared
            self._streams[identity] = self._by_number[number] = _Stream(writer, declared)
            return writer

    def ranged(self) -> dict[int, tuple[int, ...]]:
        """By the number of a format, where in a record the fields are that have ranges."""
        with self._lock:
            streams = list(self._by_number.values())
        formats = {stream.declared.format: stream.writer.format for stream in streams}
        return {
            number: tuple(field.offset for field in ranged_fields(format_))
            for number, format_ in formats.items()
        }

    def format_of(self, number: int) -> Format:
        """That of a stream by its number."""
        return self._by_number[number].writer.format

    def _format(self, format_: Format) -> Declared:
        declared = self._formats.get(format_.metadata)
        if declared is None:
            self._check(len(self._formats), limits.MAX_FORMATS, "formats")
            declared = Declared(Kind.FORMAT, format_.metadata, format=self._next_format)
            self._next_format += 1
            self._put(declared)
            self._formats[format_.metadata] = declared
        return declared

    def _check(self, count: int, most: int, what: str) -> None:
        if count >= most:
            msg = f"Expected at most {most} {what} in a segment of a log, got one more"
            raise LogError(msg, hint="those of closed streams go with the segment that has them")

    def _put(self, declared: Declared) -> None:
        for _ in range(2):  # as in `all`
            self._staging.put(
                declared.kind, declared.payload, stream=declared.stream, format_number=declared.format
            )

    def close(self, writer: StreamWriter) -> None:
        """Nothing more comes of it; later segments do not declare it."""
        with self._lock:
            stream = self._by_number.get(writer.stream)
            writer.close()
            if stream is not None and stream.closed_at is None:
                stream.closed_at = self._staging.closed

    def close_all(self) -> None:
        """Of all streams."""
        with self._lock:
            streams = list(self._by_number.values())
        for stream in streams:
            self.close(stream.writer)

    def acknowledge(self, consumer: str, watermarks: Mapping[StreamKey, int]) -> None:
        """LogError: one of them is no stream of this writer."""
        with self._lock:
            known = {key for key, _ in self._streams}
            for key in watermarks:
                if key not in known:
                    msg = f"Expected a stream of this log, got {key}"
                    raise LogError(msg)
            self._acknowledged.setdefault(consumer, {}).update(watermarks)
            declared = self._acknowledgement(consumer)
        self._staging.put(declared.kind, declared.payload, time=declared.time, flags=Flag.SKIPPABLE)

    def _acknowledgement(self, consumer: str) -> Declared:
        numbers = {key: stream.declared.stream for (key, _), stream in self._streams.items()}
        marks = {numbers[key]: mark for key, mark in self._acknowledged[consumer].items() if key in numbers}
        payload = layout.acknowledgement_payload(consumer, marks)
        return Declared(Kind.ACK, payload, time=self._clock.wall_ns(), flags=Flag.SKIPPABLE)

    def all(self) -> list[Declared]:
        """What a segment begins with. Twice, so that no flip makes its records unreadable."""
        with self._lock:
            self._forget_closed()
            streams = [stream.declared for stream in self._by_number.values()]
            declared = [each for each in [*self._formats.values(), *streams] for _ in range(2)]
            return declared + [self._acknowledgement(consumer) for consumer in self._acknowledged]

    def _forget_closed(self) -> None:
        gone = {
            number
            for number, stream in self._by_number.items()
            if stream.closed_at is not None and self._has_written(stream.closed_at)
        }
        self._by_number = {number: it for number, it in self._by_number.items() if number not in gone}
        self._streams = {
            identity: it for identity, it in self._streams.items() if it.declared.stream not in gone
        }
        used = {stream.declared.format for stream in self._by_number.values()}
        self._formats = {metadata: it for metadata, it in self._formats.items() if it.format in used}
