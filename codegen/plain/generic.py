"""The codec that walks layouts: slow but complete. Faster codecs leave to it what they do not handle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Generic, TypeVar, cast

from echo_core.codegen.plain.counting import MostObjects
from echo_core.codegen.plain.defaults import without_local_defaults
from echo_core.codegen.plain.objects import plain_of, value_of
from echo_core.codegen.plain.records import Plain, read, write
from echo_core.codegen.plans import interpreter
from echo_core.codegen.plans.plan import Plan
from echo_core.codegen.plans.planner import plan
from echo_core.codegen.plans.verification import verification
from echo_core.errors import FormatError, WireError, unexpected
from echo_core.formats.comparing.compare import Report, compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout

T = TypeVar("T")

Data = bytes | bytearray | memoryview


class GenericCodec(Generic[T]):
    """Encodes events of a class to `format`, and decodes a sender's records to events."""

    def __init__(
        self,
        cls: type[T],
        format_: Format,
        sender: Format,
        *,
        lossy: bool,
        report: Report | None = None,
        most: MostObjects | None = None,
    ) -> None:
        """`report`: the comparison of the sender with the class, where it is known already. `most`: objects
        that an event may become.

        The class's own format is not compared with itself before somebody asks: a source never does.
        """
        self.cls = cls
        self.format = format_
        self.sender = sender
        self.receiver = format_of(cls)
        self.lossy = lossy
        self.most = most
        if report is not None:
            self.report = report
        if sender is not self.receiver:
            self.report.raise_if_refused()

    @cached_property
    def report(self) -> Report:
        """What becomes of the sender's fields."""
        return compare(self.sender, self.receiver, lossy=self.lossy)

    def encode(self, event: T) -> bytes:
        """The event's record; EncodeError with the field's path where a value does not fit its field."""
        record = self.format.record
        return write(plain_of(record, event, record.name), self.format.layout)

    def encode_many(self, events: Iterable[T]) -> bytes:
        """The records of many events, one after another."""
        _demand_fixed(self.format)
        return b"".join(self.encode(event) for event in events)

    def decode(self, data: Data) -> T:
        """The event; WireError for bytes that are no record of the sender's format."""
        receiver = self.receiver.record
        return cast("T", value_of(receiver, self._plain(_bytes_of(data)), receiver.name))

    def _plain(self, record: bytes) -> dict[str, Plain]:
        """The receiver's plain value, without the fields that only its class can fill."""
        if self.report.is_same:
            return self._read(record, self.sender.layout)
        check, convert, layout = self._conversion
        interpreter.verify(check, record)
        return self._read(interpreter.convert(convert, record), layout)

    def _read(self, record: bytes, layout: Layout) -> dict[str, Plain]:
        self.demand_few(record, layout)
        return read(record, layout)

    def demand_few(self, record: bytes, layout: Layout) -> None:
        """LimitError for a record that would become too many objects."""
        if self.most is not None:
            self.most.demand(record, layout)

    @cached_property
    def _conversion(self) -> tuple[Plan, Plan, Layout]:
        """How the sender's records are verified and converted, and the layout that they are converted to."""
        sender, receiver = self.sender.layout, self.receiver.layout
        layout = replace(receiver, record=without_local_defaults(sender.record, receiver.record))
        return verification(sender), plan(sender, layout), layout

    def decode_many(self, data: Data) -> list[T]:
        """The events of many records, one after another."""
        _demand_fixed(self.sender)
        view, size = _bytes_of(data), self.sender.size_bytes
        if len(view) % size:
            raise unexpected(
                WireError, f"records of {size} bytes each", f"{len(view)} bytes", path=self.sender.name
            )
        return [self.decode(view[i : i + size]) for i in range(0, len(view), size)]


def _bytes_of(data: Data) -> bytes:
    """The bytes of any contiguous buffer; those that cannot change are not copied."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data).cast("B"))
    except TypeError:
        raise unexpected(FormatError, "a contiguous buffer", f"`{type(data).__qualname__}`") from None


def _demand_fixed(format_: Format) -> None:
    if not format_.is_fixed:
        raise unexpected(
            FormatError,
            "records of one size",
            f"`{format_.name}`, which has variable parts",
            hint="take them one by one",
        )
