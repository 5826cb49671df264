"""Encoders and decoders as component code uses them: one class, one sender's format, whole events."""

import dataclasses
import enum
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.codecs import Codec
from echo_core.codegen.events.compiled import Ways
from echo_core.codegen.plain.records import write
from echo_core.errors import ConversionError, FormatError, IncompatibleError, WireError
from echo_core.formats.abi import ABI_BY_NAME, Abi
from tests.formats.strategies import examples, layouts, plain_values

ABIS = pytest.mark.parametrize("abi", ABI_BY_NAME)


# ---------------------------------------------------------------------------------------------------
# Three versions of one event


class Mode(enum.Enum):
    IDLE = "idle"
    BUSY = "busy"


class NewMode(enum.Enum):
    BROKEN = "broken"  # not last, so that numbers alone would mislead
    IDLE = "idle"
    BUSY = "busy"


@echo.event
class Cell:
    x: echo.Int16
    y: echo.Int16


@echo.event
class NewCell:
    y: echo.Int32
    x: echo.Int32
    label: str = "none"


@echo.event
class Version1:
    id: echo.Int32
    temp: echo.Float32
    name: echo.Chars[8]
    mode: Mode
    cells: list[Cell]


@echo.event
class Version2:
    """Reordered and widened; `note` is new, and `name` may be of any length."""

    cells: list[Cell]
    mode: Mode
    name: str
    id: int
    temp: float
    note: str | None = None


@echo.event
class Version3:
    """`temp` has a new name and is optional, `name` is gone, cells and modes have grown."""

    mode: NewMode
    id: int
    cells: tuple[NewCell, ...]
    temperature: float | None = echo.field(default=None, aliases=("temp",))
    tags: list[str] = echo.field(default_factory=lambda: ["new"])
    weight: float = 1.5


FIRST = Version1(7, 0.5, "name", Mode.BUSY, [Cell(1, 2)])
SECOND = Version2([Cell(1, 2)], Mode.BUSY, "name", 7, 0.5, "note")
THIRD = Version3(NewMode.BUSY, 7, (NewCell(2, 1, "c"),), 0.5, ["a"], 2.5)

FIRST_AS_SECOND = Version2([Cell(1, 2)], Mode.BUSY, "name", 7, 0.5, None)
OLDER_AS_THIRD = Version3(NewMode.BUSY, 7, (NewCell(2, 1, "none"),), 0.5, ["new"], 1.5)


@ABIS
@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (FIRST, FIRST),
        (FIRST, FIRST_AS_SECOND),
        (FIRST, OLDER_AS_THIRD),
        (SECOND, FIRST),
        (SECOND, SECOND),
        (SECOND, OLDER_AS_THIRD),
        (THIRD, THIRD),
    ],
    ids=lambda event: type(event).__name__,
)
def test_versions_understand_each_other(abi: str, sent: Any, seen: Any) -> None:
    """Whatever machine the sender is; narrower fields need consent."""
    theirs: Any = sent.__class__
    ours: Any = seen.__class__
    sender = echo.Format.from_metadata(echo.format_of(theirs, abi=abi).metadata)
    decode = echo.decoder(ours, sender=sender, lossy=ours is Version1)
    assert decode(echo.encoder(theirs, abi=abi)(sent)) == seen


@ABIS
def test_version_without_a_field_is_refused_by_name(abi: str) -> None:
    """Version 3 sends no name, and versions 1 and 2 have no default for it."""
    sender = echo.format_of(Version3, abi=abi)
    with pytest.raises(IncompatibleError, match=r"`Version1\.name`: the sender has no such field") as caught:
        echo.decoder(Version1, sender=sender, lossy=True)
    assert caught.value.path == "Version1.name"


@echo.event
class Patched:
    """Version 2 as it could be mended, to understand version 3."""

    id: int
    temp: float
    mode: Mode
    cells: list[Cell]
    name: str = "?"


def test_version_that_gives_a_default_understands_the_newest() -> None:
    """A former name works in both directions: here it is the sender that knows it."""
    encode = echo.encoder(Version3, abi="s390x")
    decode = echo.decoder(Patched, sender=echo.format_of(Version3, abi="s390x"), lossy=True)
    assert decode(encode(THIRD)) == Patched(7, 0.5, Mode.BUSY, [Cell(1, 2)], "?")


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (Version3(NewMode.IDLE, 7, (), None), "Patched.temp"),
        (Version3(NewMode.BROKEN, 7, (), 0.5), "Patched.mode"),
        (Version3(NewMode.IDLE, 7, (NewCell(2, 2**15),), 0.5), "Patched.cells[0].x"),
    ],
    ids=["None", "unknown member", "too large"],
)
def test_value_that_has_no_place_in_an_older_version_is_named(event: Version3, path: str) -> None:
    """The pair was consented to, the value is not: ConversionError, and the next event is fine."""
    encode = echo.encoder(Version3)
    decode = echo.decoder(Patched, sender=echo.format_of(Version3), lossy=True)
    with pytest.raises(ConversionError) as caught:
        decode(encode(event))
    assert caught.value.path == path
    assert decode(encode(THIRD)).id == 7


# ---------------------------------------------------------------------------------------------------
# Encoders and decoders


def test_encoder_writes_the_format_of_the_named_machine() -> None:
    """It is what a receiver has to be given."""
    assert echo.encoder(Cell, abi="s390x")(Cell(1, 2)) == b"\0\1\0\2"
    assert echo.encoder(Cell, abi="x86_64")(Cell(1, 2)) == b"\1\0\2\0"


def test_encoder_takes_an_abi_of_ones_own() -> None:
    """Not only those that have a name."""
    mine = Abi("mine", "big", 4, 4, max_alignment=1)
    sender = echo.format_of(Version1, abi=mine)
    assert sender.size_bytes == 4 + 4 + 8 + 4 + 8
    assert echo.decoder(Version1, sender=sender)(echo.encoder(Version1, abi=mine)(FIRST)) == FIRST


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_decoder_takes_any_bytes(kind: Any) -> None:
    """Whatever a transport has them in."""
    assert echo.decoder(Version1)(kind(echo.encoder(Version1)(FIRST))) == FIRST


@echo.event
class Samples:
    values: echo.Array[echo.Float64, ...]
    raw: bytes


def test_event_outlives_the_buffer_it_came_in() -> None:
    """A transport uses its buffers again."""
    buffer = bytearray(echo.encoder(Samples)(Samples(np.ones(3), b"abc")))
    event = echo.decoder(Samples)(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert (event.values.tolist(), event.raw) == ([1.0, 1.0, 1.0], b"abc")


def test_sender_that_cannot_be_understood_is_refused_before_any_of_its_bytes() -> None:
    """Every refusal is in the message."""
    with pytest.raises(IncompatibleError) as caught:
        echo.decoder(Cell, sender=echo.format_of(Samples))
    assert "`Cell.x`" in str(caught.value)
    assert "`Cell.y`" in str(caught.value)


def test_bytes_that_are_no_record_are_refused() -> None:
    """With the path, as for every other error."""
    with pytest.raises(WireError, match="Expected at least 4 bytes, got 3 - at `Cell`"):
        echo.decoder(Cell)(b"abc")


def test_decoder_of_nothing_is_refused() -> None:
    """A class or a format is needed."""
    decoder: Any = echo.decoder
    with pytest.raises(FormatError, match="got neither"):
        decoder(None)


# ---------------------------------------------------------------------------------------------------
# Events of strangers


@ABIS
def test_events_of_a_stranger_get_a_class_of_their_own(abi: str) -> None:
    """Reflection: the metadata is enough, at every depth."""
    sender = echo.Format.from_metadata(echo.format_of(Version2, abi=abi).metadata)
    event = echo.decoder(None, sender=sender)(echo.encoder(Version2, abi=abi)(SECOND))
    assert type(event).__name__ == "Version2"
    assert (event.id, event.temp, event.name, event.note) == (7, 0.5, "name", "note")
    assert event.mode.name == "BUSY"
    assert [(cell.x, cell.y) for cell in event.cells] == [(1, 2)]


def test_own_class_is_used_where_the_format_is_ones_own() -> None:
    """A format of a declared class knows the class."""
    event = echo.decoder(None, sender=echo.format_of(Cell))(echo.encoder(Cell)(Cell(1, 2)))
    assert event == Cell(1, 2)


@examples(100)
@given(st.data())
def test_any_events_of_a_stranger_can_be_sent_on(data: st.DataObject) -> None:
    """Random metadata, random values: decoded by a made class, encoded as this machine would, and decoded."""
    layout = data.draw(layouts())
    plain = data.draw(plain_values(layout))
    assume("NaT" not in repr(plain))  # which no sender may send
    sender = echo.Format.from_metadata(echo.Format(layout).metadata)
    event = echo.decoder(None, sender=sender)(write(plain, layout))
    cls: Any = event.__class__
    encode, decode = echo.encoder(cls), echo.decoder(cls)
    message = encode(event)
    assert encode(decode(message)) == message


# ---------------------------------------------------------------------------------------------------
# Defaults


@echo.event
class Nothing:
    pass


@echo.event
class OnlyCount:
    n: echo.Int32


@echo.event
class Counted:
    """A factory's default, and the field that counts its elements."""

    n: echo.Int32
    values: echo.Array[echo.Int16, "n"] = echo.field(default_factory=lambda: np.array([1, 2]))  # noqa: F821


def test_a_default_whose_count_the_sender_has_is_refused() -> None:
    """The sender's number was never of these elements, and would have to be replaced."""
    with pytest.raises(echo.IncompatibleError, match="decides its length by `n`"):
        echo.decoder(Counted, sender=echo.format_of(OnlyCount))


def test_count_agrees_with_a_default_that_is_made_here() -> None:
    """It comes with the elements that it counts."""
    event = echo.decoder(Counted, sender=echo.format_of(Nothing))(echo.encoder(Nothing)(Nothing()))
    assert (event.n, list(event.values)) == (2, [1, 2])
    assert echo.decoder(Counted)(echo.encoder(Counted)(event)).n == 2


def test_factory_makes_a_default_for_each_event() -> None:
    """Two events never share a list."""
    encode = echo.encoder(Version1)
    decode = echo.decoder(Version3, sender=echo.format_of(Version1))
    first, second = decode(encode(FIRST)), decode(encode(FIRST))
    first.tags.append("mine")
    assert second.tags == ["new"]


# ---------------------------------------------------------------------------------------------------
# Records that are ours already


@pytest.mark.parametrize("tier", ["auto", "compiled"])
def test_a_record_of_our_own_layout_goes_on_as_it_came(tier: Any) -> None:
    """The same bytes, with what their padding holds, until a field is given a value."""
    codec = echo.codec(Version1, tier=tier)
    data = codec.encode(Version1(1, 2.0, "abc", Mode.BUSY, [Cell(1, 2), Cell(3, 4)]))
    name = data.index(b"abc\0") + 4
    data = data[:name] + b"behind"[:4] + data[name + 4 :]
    event = codec.decode(data)
    assert codec.encode(event) == data
    assert tier == "auto" or codec.encode(event) is data
    assert event == codec.generic.decode(data)
    event.id = 7
    assert codec.encode(event) == codec.encode(Version1(7, 2.0, "abc", Mode.BUSY, [Cell(1, 2), Cell(3, 4)]))
    with pytest.raises(WireError):
        codec.decode(data[:-1])


def test_a_class_is_compared_with_itself_only_for_who_asks() -> None:
    """Each source has an encoder, and looks at no comparison."""

    @dataclasses.dataclass(slots=True)
    class Own:
        x: float

    codec = echo.codec(Own)
    assert codec.decode(codec.encode(Own(2.5))) == Own(2.5)
    own = codec.format
    generic = Codec(Own, own, own, lossy=False, tier="interpreted", ways=Ways.ENCODE).generic
    assert "report" not in vars(generic)
    assert generic.report.is_same
    assert codec.report.is_same
