"""Native records as they come: read, changed, sent on; and what they keep alive."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.errors import EncodeError, WireError
from tests.echo_core.events.native_events import (
    Fixed,
    Point,
    Varied,
    Version,
    codec,
    generic,
    received,
    varied,
)

# ---------------------------------------------------------------------------
# Received


def test_received_event_has_the_values_that_were_sent() -> None:
    """Also after it was read once, and sent on."""
    event = varied()
    for _ in range(2):
        again = received(event)
        for name in ("id", "text", "blob", "note", "tags", "pair"):
            assert getattr(again, name) == getattr(event, name)
        assert again.values.tolist() == [0.0, 1.0, 2.0]
        assert again.position.tolist() == [1, 2]
        assert again.point == Point(0.0)
        event = again


def test_untouched_event_is_sent_on_as_it_came() -> None:
    """The same bytes, without a look at them; reading what cannot change is no touch."""
    data = generic(Varied).encode(varied())
    event = codec(Varied).decode(data)
    assert event.text == "größe"
    assert event.values.sum() == 3.0
    assert codec(Varied).encode(event) is data


def append(event: Varied) -> None:
    event.tags.append("c")


def assign_element(event: Varied) -> None:
    event.position[0] = 5


def assign_nested(event: Varied) -> None:
    event.point.y = 5.0


def assign_fixed(event: Varied) -> None:
    event.id = 8


def assign_text(event: Varied) -> None:
    event.text = "x"


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        (assign_fixed, "id", 8),
        (assign_text, "text", "x"),
        (append, "tags", ["a", "b", "c"]),
        (assign_element, "position", [5, 2]),
        (assign_nested, "point", Point(0.0, 5.0)),
    ],
)
def test_touched_event_is_encoded_anew(change: Any, name: str, value: Any) -> None:
    """Whether a field was assigned, or something in one was changed; what was not read yet is still there."""
    data = generic(Varied).encode(varied())
    event = codec(Varied).decode(data)
    change(event)
    again = received(event)
    found = getattr(again, name)
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == value
    assert again.blob == b"\0\1"


def test_received_array_is_a_read_only_view() -> None:
    """Of the record's own bytes."""
    event = received(varied())
    with pytest.raises(ValueError, match="read-only"):
        event.values[0] = 1.0
    event.values = event.values * 2
    assert received(event).values.tolist() == [0.0, 2.0, 4.0]


def test_hostile_lengths_are_refused() -> None:
    """With the words of the generic codec."""
    data = codec(Fixed).encode(Fixed())
    for wrong in (b"", data[:-1], data + b"\0", data * 2):
        with pytest.raises(WireError):
            codec(Fixed).decode(wrong)
    decode_many = codec(Fixed).decode_many
    assert decode_many is not None
    assert decode_many(b"") == []
    with pytest.raises(WireError):
        decode_many(data + b"\0")
    others: list[Any] = [5, None, "text"]
    for other in others:
        with pytest.raises((TypeError, echo.EchoError)):
            codec(Fixed).decode(other)
    for length in range(echo.format_of(Varied).size_bytes):
        with pytest.raises(WireError):
            codec(Varied).decode(bytes(length))


def test_hostile_values_are_refused_when_they_arrive() -> None:
    """Numbers that are no member's, and text that is no UTF-8, so that reading a field never fails."""
    good = bytearray(codec(Fixed).encode(Fixed(tag="ä")))
    fields = {field.name: field for field in echo.format_of(Fixed).fields}
    for name, wrong in (("tag", b"\xc3\x28"), ("color", b"\x09"), ("names", b"\xff"), ("level", b"\x04")):
        data = bytearray(good)
        at = fields[name].offset
        data[at : at + len(wrong)] = wrong
        with pytest.raises(WireError, match=rf"Fixed\.{name}"):
            codec(Fixed).decode(data)


def test_foreign_truth_is_made_ours() -> None:
    """A true may be any number but 0 where it comes from; here it is 1."""

    @echo.event
    class Flags:
        a: bool
        b: int | None = None

    data = bytearray(codec(Flags).encode(Flags(True, 5)))
    at = {field.name: field.offset for field in echo.format_of(Flags).fields}
    data[at["a"]], data[at["b"] + 8] = 200, 7
    assert codec(Flags).decode(data) == Flags(True, 5)
    assert codec(Flags).encode(codec(Flags).decode(data)) == codec(Flags).encode(Flags(True, 5))


def test_mangled_parts_read_as_something_or_raise() -> None:
    """A caller that does not verify gets wrong values, never memory that is not the record's."""
    data = generic(Varied).encode(varied())
    for at in range(echo.format_of(Varied).size_bytes):
        for byte in (0, 0x7F, 0xFF):
            event = codec(Varied).decode(data[:at] + bytes([byte]) + data[at + 1 :])
            for name in ("text", "blob", "note", "tags", "values", "pair"):
                try:
                    getattr(event, name)
                except (WireError, ValueError):
                    continue


def as_array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, as_array])
def test_any_buffer_is_decoded(wrap: Any) -> None:
    """Whatever shows its bytes."""
    assert codec(Point).decode(wrap(codec(Point).encode(Point(1.5)))) == Point(1.5)
    assert codec(Varied).decode(wrap(generic(Varied).encode(varied()))).text == "größe"


def test_many_events_are_one_row_of_records() -> None:
    """From a list, any iterable, and back; others than exactly of the class go the slow way."""
    functions = codec(Point)
    assert functions.encode_many is not None
    assert functions.decode_many is not None
    points = [Point(float(i)) for i in range(5)]
    data = functions.encode_many(points)
    assert data == b"".join(functions.encode(point) for point in points)
    assert functions.encode_many(iter(points)) == functions.encode_many(tuple(points)) == data
    assert functions.decode_many(memoryview(data)) == points
    assert functions.encode_many([]) == b""

    class Sub(Point):
        pass

    assert functions.encode_many([*points[:4], Sub(4.0)]) == data
    with pytest.raises(EncodeError, match="Expected `Point`"):
        functions.encode_many([*points, Version(1)])
    with pytest.raises(TypeError):
        functions.encode_many(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_records_with_parts_come_one_by_one() -> None:
    """Nothing says where one ends and the next begins."""
    assert (codec(Varied).encode_many, codec(Varied).decode_many) == (None, None)


# ---------------------------------------------------------------------------
# What is kept alive


class Batch(bytearray):
    """A buffer whose end can be seen."""


def test_event_does_not_keep_the_batch_it_came_in() -> None:
    """It holds its own bytes, and so does what is read from it."""
    data = generic(Varied).encode(varied())
    batch = Batch(data + bytes(1 << 20))
    gone = weakref.ref(batch)
    event = codec(Varied).decode(memoryview(batch)[: len(data)])
    fixed = codec(Point).decode(memoryview(batch)[:16])
    kept = event.values, event.text, fixed
    del batch
    gc.collect()
    assert gone() is None
    assert kept[1] == "größe"


def test_values_keep_no_record_alive_but_arrays_do() -> None:
    """An array of the record's memory keeps that one record; a text, a number or a list keeps nothing."""

    class Weak:
        __slots__ = ("__weakref__",)

    @echo.event
    class Kept(Weak):
        x: float
        tag: echo.Chars[4]
        position: echo.Array[echo.Float64, 2]

    event = Kept(1.0, "a", np.ones(2))
    gone = weakref.ref(event)
    values = event.x, event.tag
    position = event.position
    del event
    assert gone() is not None
    position[0] = 5.0
    assert position.tolist() == [5.0, 1.0]
    del position
    assert gone() is None
    assert values == (1.0, "a")


def test_received_array_keeps_one_record() -> None:
    """Its base is the bytes of that record."""
    event = received(varied())
    values = event.values
    del event
    gc.collect()
    assert isinstance(values.base, bytes)
    assert len(values.base) == len(generic(Varied).encode(varied()))


def test_cycle_through_a_kept_value_is_collected() -> None:
    """An event that holds a list that holds the event."""

    class Weak:
        __slots__ = ("__weakref__",)

    @echo.event
    class Cyclic(Weak):
        many: list[str] = dataclasses.field(default_factory=list[str])

    event: Any = Cyclic()
    event.many.append(event)
    gone = weakref.ref(event)
    del event
    gc.collect()
    assert gone() is None


def test_class_is_collected_with_its_codec() -> None:
    """A class made at run time leaves nothing behind."""

    def made() -> weakref.ref[type[Any]]:
        @echo.event
        class Passing:
            x: int
            names: list[str] = dataclasses.field(default_factory=list[str])
            point: Point = dataclasses.field(default_factory=lambda: Point(1.0))

        assert received(Passing(1)).x == 1
        return weakref.ref(Passing)

    gone = made()
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------------------
# Records with variable parts, held


@echo.event
class Held:
    """Parts of every kind."""

    id: int
    name: str
    xs: echo.Array[echo.Float64, ...]
    tags: list[str]
    note: str | None = None


HELD = Held(1, "hello", np.arange(3.0), ["a", "b"])


@pytest.mark.parametrize("abi", ["native", "s390x", "i386"])
@pytest.mark.parametrize("tier", ["compiled", "auto", "interpreted"])
def test_an_event_with_variable_parts_arrives_whole(abi: str, tier: Any) -> None:
    """From any machine, verified and converted at once, and read when a field is."""
    decode = echo.decoder(Held, sender=echo.format_of(Held, abi=abi), tier=tier)
    data = echo.encoder(Held, abi=abi)(HELD)
    assert decode(data) == HELD
    assert decode(bytearray(data)) == HELD
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(echo.WireError):
            decode(wrong)


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("abi", ["x86_64", "s390x"])
def test_text_that_is_no_utf8_is_refused_when_it_comes(abi: str, tier: Any) -> None:
    """Whoever holds an event may pass it on unread."""
    data = echo.encoder(Held, abi=abi)(HELD).replace(b"hello", b"\xff\xff\xff\xff\xff")
    decode = echo.decoder(Held, sender=echo.format_of(Held, abi=abi), tier=tier)
    with pytest.raises(echo.WireError, match=r"UTF-8.* - at `Held\.name`"):
        decode(data)


def test_a_held_record_does_not_change_with_its_buffer() -> None:
    """It is the event's own copy."""
    room = bytearray(echo.encoder(Held)(HELD))
    event = echo.decoder(Held, tier="compiled")(room)
    room[:] = bytes(len(room))
    assert event == HELD
