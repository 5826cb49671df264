"""What becomes of a sender's record: the rule by which fields match, and the report."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import echo_core as echo
from echo_core.errors import ConversionError, IncompatibleError
from echo_core.formats.abi import abi_named
from echo_core.formats.comparing.compare import Entry, Report, Verdict, compare
from echo_core.formats.comparing.matching import counted_by, match
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import (
    Blob,
    Default,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)
from tests.formats.strategies import layouts

DOCUMENT = Path(__file__).parents[3] / "docs" / "evolution.md"
X86 = abi_named("x86_64")

BYTE, SHORT, INT, LONG = (Scalar(Kind.INT, size) for size in (1, 2, 4, 8))
FLOAT, DOUBLE = Scalar(Kind.FLOAT, 4), Scalar(Kind.FLOAT, 8)
COLOR = Enumeration("Color", 4, (("RED", 0), ("BLUE", 1)))
FEWER = Enumeration("Color", 4, (("RED", 0),))
OTHER_NUMBERS = Enumeration("Color", 4, (("RED", 1), ("BLUE", 0)))


def format_of(*fields: Field, abi: str = "x86_64", name: str = "R") -> echo.Format:
    known = abi_named(abi)
    return echo.Format(Layout(known.byte_order, known.pointer_size, place(name, fields, known)))


def listed(*shape: int | str | None, element: Type = INT, pointer_size: int = 8) -> Sequence:
    return Sequence(element, shape, pointer_size)


def entry(sender: Type | None, receiver: Type | None, *, lossy: bool = False, abi: str = "x86_64") -> Entry:
    """What becomes of a field `x` between these types."""
    theirs = format_of(*([Field("x", sender)] if sender else []), abi=abi)
    ours = format_of(*([Field("x", receiver)] if receiver else []))
    return compare(theirs, ours, lossy=lossy).entries[0]


# ---------------------------------------------------------------------------------------------------
# Which field is which


def matched(sender: list[Field], receiver: list[Field]) -> dict[str, str]:
    found = match(place("S", sender, X86), place("R", receiver, X86))
    return {name: field.name for name, field in found.items()}


MATCHES: list[tuple[str, list[Field], list[Field], dict[str, str]]] = [
    ("name", [Field("a", INT), Field("b", INT)], [Field("b", INT)], {"b": "b"}),
    ("former name", [Field("old", INT)], [Field("new", INT, aliases=("old",))], {"new": "old"}),
    ("later name", [Field("new", INT, aliases=("old",))], [Field("old", INT)], {"old": "new"}),
    (
        "name before former name",
        [Field("old", INT), Field("new", INT)],
        [Field("new", INT, aliases=("old",))],
        {"new": "new"},
    ),
    (
        "name before another's former name",
        [Field("a", INT)],
        [Field("b", INT, aliases=("a",)), Field("a", INT)],
        {"a": "a"},
    ),
    (
        "claimed once",
        [Field("old", INT)],
        [Field("x", INT, aliases=("old",)), Field("y", INT, aliases=("older",))],
        {"x": "old"},
    ),
    (
        "first of several former names",
        [Field("older", INT), Field("old", INT)],
        [Field("new", INT, aliases=("old", "older"))],
        {"new": "old"},
    ),
    (
        "own former names before the sender's",
        [Field("p", INT, aliases=("new",)), Field("old", INT)],
        [Field("new", INT, aliases=("old",))],
        {"new": "old"},
    ),
    ("former names alone do not meet", [Field("a", INT, aliases=("old",))],
        [Field("b", INT, aliases=("old",))], {}),
    (
        "names exchanged",
        [Field("a", INT), Field("b", INT)],
        [Field("b", INT, aliases=("a",)), Field("a", INT, aliases=("b2",))],
        {"a": "a", "b": "b"},
    ),
    ("nothing", [], [Field("a", INT)], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sender", "receiver", "expected"),
    [case[1:] for case in MATCHES],
    ids=[case[0] for case in MATCHES],
)
def test_fields_match_by_name_and_then_by_former_names(
    sender: list[Field], receiver: list[Field], expected: dict[str, str]
) -> None:
    """Exact names go first, aliases count in both directions, and no field is claimed twice."""
    assert matched(sender, receiver) == expected


def test_counts_are_known_by_their_sequences() -> None:
    """Inside an optional as well."""
    record = place(
        "R",
        [Field("n", INT), Field("m", INT), Field("x", listed("n")), Field("y", Nullable(listed(3, "m")))],
        X86,
    )
    assert counted_by(record) == {"n": "x", "m": "y"}


# ---------------------------------------------------------------------------------------------------
# Verdicts

VERDICTS: list[tuple[Type | None, Type | None, Verdict, str]] = [
    (INT, INT, Verdict.SAME, ""),
    (INT, None, Verdict.IGNORED, "the receiver has no such field"),
    (None, INT, Verdict.REFUSED, "the sender has no such field, and it has no default"),
    (INT, LONG, Verdict.WIDENED, "`int32` to `int64`"),
    (LONG, INT, Verdict.REFUSED, "`int32` does not hold every `int64`: consent with `lossy=True`"),
    (FLOAT, DOUBLE, Verdict.WIDENED, "`float32` to `float64`"),
    (INT, DOUBLE, Verdict.REFUSED, "`float64` does not hold every `int32`: consent with `lossy=True`"),
    (INT, Text(8), Verdict.REFUSED, "`int32` is not `str`"),
    (Scalar(Kind.CHARS, 4), Text(8), Verdict.WIDENED, "`char[4]` to `str`"),
    (COLOR, COLOR, Verdict.SAME, ""),
    (FEWER, COLOR, Verdict.SAME, ""),
    (OTHER_NUMBERS, COLOR, Verdict.WIDENED, "other numbers for the same names"),
    (COLOR, FEWER, Verdict.REFUSED, "`enum Color` has no `BLUE`: consent"),
    (INT, Nullable(INT), Verdict.WIDENED, "always present at the sender"),
    (Nullable(INT), INT, Verdict.REFUSED, "None has no place here: consent with `lossy=True`"),
    (Nullable(INT), Nullable(LONG), Verdict.WIDENED, "`int32` to `int64`"),
    (StaticArray(INT, (2,)), StaticArray(INT, (2,)), Verdict.SAME, ""),
    (StaticArray(INT, (2,)), StaticArray(INT, (3,)), Verdict.REFUSED, "2 elements are not 3"),
    (StaticArray(INT, (2,)), StaticArray(INT, (2, 1)), Verdict.REFUSED, "1 dimensions are not 2"),
    (StaticArray(INT, (2,)), StaticArray(LONG, (2,)), Verdict.WIDENED, "`int32` to `int64`"),
    (StaticArray(INT, (2,)), listed(None), Verdict.WIDENED, "the length `2` is `...`"),
    (listed(None), StaticArray(INT, (2,)), Verdict.REFUSED, "the length may not be 2: consent"),
    (listed(None), listed(None, element=LONG), Verdict.WIDENED, "`int32` to `int64`"),
    (listed(None), listed(None, element=SHORT), Verdict.REFUSED, "does not hold every `int32`"),
    (listed(None), INT, Verdict.REFUSED, "`int32[...]` is not `int32`"),
    (INT, StaticArray(INT, (1,)), Verdict.REFUSED, "`int32` is not `int32[1]`"),
    (place("P", [Field("i", INT)], X86), INT, Verdict.REFUSED, "`P` is not `int32`"),
]


@pytest.mark.parametrize(("sender", "receiver", "verdict", "reason"), VERDICTS, ids=str)
def test_types_have_their_verdict(
    sender: Type | None, receiver: Type | None, verdict: Verdict, reason: str
) -> None:
    """Between two types on one machine, without consent to losses."""
    found = entry(sender, receiver)
    assert found.verdict is verdict
    assert reason in found.reason
    assert (found.reason == "") is (reason == "")
    assert (found.sender, found.receiver) == (str(sender or ""), str(receiver or ""))
    assert found.path == "R.x"


CONSENTED: list[tuple[Type, Type, str]] = [
    (LONG, INT, "`int32` does not hold every `int64`: checked for every value"),
    (INT, DOUBLE, "`float64` does not hold every `int32`: checked for every value"),
    (COLOR, FEWER, "`enum Color` has no `BLUE`: checked for every value"),
    (Nullable(INT), INT, "None has no place here: checked for every value"),
    (listed(None), StaticArray(INT, (2,)), "the length may not be 2: checked for every value"),
    (Text(8), Scalar(Kind.CHARS, 4), "`char[4]` does not hold every `str`: checked for every value"),
    (Blob(8), Scalar(Kind.BYTES, 4), "`byte[4]` does not hold every `bytes`: checked for every value"),
]


@pytest.mark.parametrize(("sender", "receiver", "reason"), CONSENTED, ids=str)
def test_loss_needs_consent(sender: Type, receiver: Type, reason: str) -> None:
    """With it the field is narrowed, without it refused."""
    assert entry(sender, receiver).verdict is Verdict.REFUSED
    consented = entry(sender, receiver, lossy=True)
    assert consented.verdict is Verdict.NARROWED
    assert reason in consented.reason


def test_consent_does_not_make_everything_possible() -> None:
    """Types with nothing in common stay refused."""
    assert entry(INT, Text(8), lossy=True).verdict is Verdict.REFUSED
    assert entry(StaticArray(INT, (2,)), StaticArray(INT, (3,)), lossy=True).verdict is Verdict.REFUSED


SWAPPED: list[tuple[Type, Verdict]] = [
    (INT, Verdict.SWAPPED),
    (BYTE, Verdict.SAME),
    (Scalar(Kind.CHARS, 8), Verdict.SAME),
    (Scalar(Kind.UUID, 16), Verdict.SAME),
    (Scalar(Kind.COMPLEX, 8), Verdict.SWAPPED),
    (COLOR, Verdict.SWAPPED),
    (Enumeration("Tiny", 1, (("A", 0),)), Verdict.SAME),
    (Text(8), Verdict.SWAPPED),
    (StaticArray(INT, (2,)), Verdict.SWAPPED),
    (listed(None, element=BYTE), Verdict.SWAPPED),
    (Nullable(BYTE), Verdict.SAME),
]


@pytest.mark.parametrize(("type_", "verdict"), SWAPPED, ids=str)
def test_byte_order_matters_where_there_is_one(type_: Type, verdict: Verdict) -> None:
    """From a big-endian machine with the same widths."""
    assert entry(type_, type_, abi="s390x").verdict is verdict


def test_pointer_width_moves_a_reference() -> None:
    """A 32-bit sender's offsets are read as what they are."""
    found = entry(Text(4), Text(8), abi="i386")
    assert found.verdict is Verdict.MOVED
    assert found.reason == "offsets of 4 bytes, not 8"


def test_field_in_another_place_is_moved() -> None:
    """The same bytes elsewhere."""
    report = compare(format_of(Field("a", LONG), Field("x", INT)), format_of(Field("x", INT)))
    assert [(e.path, e.verdict, e.reason) for e in report.entries] == [
        ("R.x", Verdict.MOVED, "from 8 to 0"),
        ("R.a", Verdict.IGNORED, "the receiver has no such field"),
    ]


def test_former_name_is_renamed() -> None:
    """The reason has the sender's name."""
    report = compare(format_of(Field("old", INT)), format_of(Field("x", INT, aliases=("old",))))
    assert report.entries[0].verdict is Verdict.RENAMED
    assert report.entries[0].reason == "`old` at the sender"
    assert not report.is_same


DEFAULTS = [Default(b"\1\0\0\0"), Default(local=True)]


@pytest.mark.parametrize("default", DEFAULTS, ids=str)
def test_missing_field_takes_its_default(default: Default) -> None:
    """Whether it travels or is made here."""
    report = compare(format_of(), format_of(Field("x", INT, default=default)))
    assert report.entries[0].verdict is Verdict.DEFAULTED
    assert report.is_accepted


def test_missing_count_is_found_by_its_sequence() -> None:
    """A count needs no default: the elements are counted."""
    sender = format_of(Field("x", listed(None)))
    receiver = format_of(Field("n", INT), Field("x", listed("n")))
    report = compare(sender, receiver)
    assert (report.entries[0].verdict, report.entries[0].reason) == (Verdict.DEFAULTED, "counts `x`")
    assert report.is_accepted


def test_other_unit_is_said_and_nothing_more() -> None:
    """Units are for people: no value is converted, so the verdict stays."""
    report = compare(format_of(Field("x", INT, unit="K")), format_of(Field("x", INT, unit="°C")))
    assert report.entries[0].verdict is Verdict.SAME
    assert report.entries[0].reason == "in `K`, not `°C`"


def test_strongest_verdict_stands_with_all_reasons() -> None:
    """A field may be renamed, widened, swapped and moved at once."""
    sender = format_of(Field("a", LONG), Field("old", INT), abi="s390x")
    report = compare(sender, format_of(Field("x", LONG, aliases=("old",))))
    assert report.entries[0].verdict is Verdict.RENAMED
    assert report.entries[0].reason == ("big-endian; `int32` to `int64`; from 8 to 0; `old` at the sender")


def test_verdicts_are_ordered_from_nothing_to_refusal() -> None:
    """The order decides which one of several stands."""
    assert [verdict.value for verdict in Verdict] == [
        "same", "ignored", "defaulted", "moved", "swapped", "widened", "renamed", "narrowed", "refused",
    ]  # fmt: skip


DEPTHS: list[tuple[str, Callable[[Record], Type]]] = [
    ("record", lambda record: record),
    ("array", lambda record: StaticArray(record, (2,))),
    ("sequence", lambda record: Sequence(record, (None,), 8)),
    ("optional", Nullable),
    ("optional in a list in an array", lambda r: StaticArray(Sequence(Nullable(r), (None,), 8), (2,))),
    ("record in a record", lambda r: place("Middle", [Field("in", BYTE), Field("y", r)], X86)),
]


@pytest.mark.parametrize("wrapped", [case[1] for case in DEPTHS], ids=[case[0] for case in DEPTHS])
def test_nested_fields_have_entries_at_every_depth(wrapped: Callable[[Record], Type]) -> None:
    """Same, widened, renamed, ignored, defaulted and refused, inside whatever holds the record."""
    theirs = place("P", [Field("a", INT), Field("b", INT), Field("old", INT), Field("gone", INT)], X86)
    ours = place(
        "P",
        [
            Field("a", INT),
            Field("b", LONG),
            Field("new", INT, aliases=("old",)),
            Field("extra", INT, default=Default(b"\0" * 4)),
            Field("must", INT),
        ],
        X86,
    )
    report = compare(format_of(Field("x", wrapped(theirs))), format_of(Field("x", wrapped(ours))))
    found = {e.path.rpartition(".")[2]: e.verdict for e in report.entries}
    found.pop("x")
    found.pop("in", None)
    found.pop("y", None)
    assert found == {
        "a": Verdict.SAME,
        "b": Verdict.WIDENED,
        "new": Verdict.RENAMED,
        "extra": Verdict.DEFAULTED,
        "must": Verdict.REFUSED,
        "gone": Verdict.IGNORED,
    }
    assert not report.is_accepted


def test_records_of_other_sizes_are_moved() -> None:
    """Elements stand further apart although every field is the same."""
    theirs = Record("P", 8, 4, (Field("a", INT),))
    ours = Record("P", 4, 4, (Field("a", INT),))
    report = compare(
        format_of(Field("x", Sequence(theirs, (None,), 8))),
        format_of(Field("x", Sequence(ours, (None,), 8))),
    )
    assert report.entries[0].reason == "records of 8 bytes, not 4"
    assert not report.is_same


# ---------------------------------------------------------------------------------------------------
# Nothing in common

ALL_DEFAULTED = [
    Field("level", INT, default=Default(b"\0" * 4)),
    Field("text", Text(8), default=Default(b"")),
]


def test_records_without_a_common_field_are_refused() -> None:
    """Although each field of the receiver has a default: else events of one type would be empty ones of another."""
    report = compare(format_of(Field("speed", DOUBLE), name="Motor"), format_of(*ALL_DEFAULTED, name="Alarm"))
    assert [(e.path, e.sender, e.receiver, e.reason) for e in report.refused] == [
        ("Alarm", "Motor", "Alarm", "no field of one is a field of the other")
    ]
    with pytest.raises(IncompatibleError, match="`Motor` with `Alarm`: no field of one"):
        report.raise_if_refused()


@pytest.mark.parametrize("wrapped", [case[1] for case in DEPTHS], ids=[case[0] for case in DEPTHS])
def test_nested_records_without_a_common_field_are_refused(wrapped: Callable[[Record], Type]) -> None:
    """The field that holds them says which."""
    theirs, ours = (place("P", fields, X86) for fields in ([Field("speed", DOUBLE)], ALL_DEFAULTED))
    report = compare(format_of(Field("x", wrapped(theirs))), format_of(Field("x", wrapped(ours))))
    assert [e.reason for e in report.refused] == ["no field of one is a field of the other"]


def test_nested_records_are_matched_by_their_field_and_not_by_their_names() -> None:
    theirs, ours = (place(name, [Field("a", INT)], X86) for name in ("Was", "Is"))
    report = compare(format_of(Field("x", theirs)), format_of(Field("x", ours)))
    assert report.is_same


def test_one_common_field_is_enough() -> None:
    receiver = format_of(*ALL_DEFAULTED, Field("speed", DOUBLE, default=Default(b"\0" * 8)))
    assert compare(format_of(Field("speed", DOUBLE)), receiver).is_accepted


@pytest.mark.parametrize("former", ["sender", "receiver"])
def test_former_name_is_a_common_field(former: str) -> None:
    theirs = Field("v", DOUBLE, aliases=("speed",) if former == "sender" else ())
    ours = Field("speed", DOUBLE, aliases=("v",) if former == "receiver" else (), default=Default(b"\0" * 8))
    assert compare(format_of(theirs), format_of(ours)).is_accepted


def test_record_without_fields_has_nothing_that_could_be_common() -> None:
    """A signal that has got its first field, and one that has lost its last."""
    assert compare(format_of(), format_of(*ALL_DEFAULTED)).is_accepted
    assert compare(format_of(*ALL_DEFAULTED), format_of()).is_accepted
    assert compare(format_of(), format_of()).is_same


# ---------------------------------------------------------------------------------------------------
# Fields that look alike


MISSPELLED = (
    format_of(Field("id", INT), Field("temprature", FLOAT)),
    format_of(Field("id", INT), Field("temperature", DOUBLE, default=Default(b"\0" * 8))),
)


def test_defaulted_field_says_that_an_ignored_one_looks_like_it() -> None:
    """Both names are in the report."""
    report = compare(*MISSPELLED)
    assert report.is_accepted
    assert [(e.path, e.verdict, e.lookalike, e.reason) for e in report.lookalikes] == [
        (
            "R.temperature",
            Verdict.DEFAULTED,
            "temprature",
            "the sender has no such field; it has `temprature`, which is ignored",
        )
    ]


def test_strict_comparison_refuses_fields_that_look_alike() -> None:
    report = compare(*MISSPELLED, strict=True)
    assert [(e.path, e.lookalike) for e in report.refused] == [("R.temperature", "temprature")]
    with pytest.raises(IncompatibleError, match=r"`R\.temperature`: .*`temprature`, which is ignored"):
        report.raise_if_refused()


def test_strict_comparison_accepts_defaults_that_nothing_looks_like() -> None:
    receiver = format_of(Field("id", INT), Field("note", INT, default=Default(b"\0" * 4)))
    assert compare(MISSPELLED[0], receiver, strict=True).is_accepted


def test_field_of_a_type_that_does_not_convert_is_no_lookalike() -> None:
    sender = format_of(Field("id", INT), Field("temprature", Text(8)))
    assert not compare(sender, MISSPELLED[1]).lookalikes


def test_field_that_is_matched_is_no_lookalike() -> None:
    """The receiver has both of them."""
    receiver = format_of(*MISSPELLED[1].fields, Field("temprature", FLOAT, default=Default(b"\0" * 4)))
    assert not compare(MISSPELLED[0], receiver).lookalikes


def test_count_of_a_list_that_is_there_is_no_lookalike() -> None:
    sender = format_of(Field("x", listed(None)), Field("counts", INT))
    receiver = format_of(Field("count", INT), Field("x", listed("count")))
    assert not compare(sender, receiver).lookalikes


def test_refusal_of_a_required_field_says_what_looks_like_it() -> None:
    sender, receiver = (
        format_of(Field("id", INT), Field("temp_c", INT)),
        format_of(Field("id", INT), Field("temp", INT)),
    )
    assert compare(sender, receiver).refused[0].reason == (
        "the sender has no such field, and it has no default; it has `temp_c`, which is ignored"
    )


@pytest.mark.parametrize("wrapped", [case[1] for case in DEPTHS], ids=[case[0] for case in DEPTHS])
def test_lookalikes_are_found_at_every_depth(wrapped: Callable[[Record], Type]) -> None:
    theirs, ours = (format_.record for format_ in MISSPELLED)
    report = compare(format_of(Field("x", wrapped(theirs))), format_of(Field("x", wrapped(ours))))
    assert [e.lookalike for e in report.lookalikes] == ["temprature"]


def test_as_many_lookalikes_as_there_can_be_are_found_in_little_time() -> None:
    """Names come from peers; 1,024 fields that all look alike take about as long as any."""
    names = [
        f"{'a' * 56}{chr(97 + i // 26 // 26)}{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}" for i in range(1022)
    ]
    theirs = format_of(Field("id", BYTE), *(Field(name + "x", BYTE) for name in names))
    ours = format_of(Field("id", BYTE), *(Field(name + "y", BYTE, default=Default(b"\0")) for name in names))
    started = time.process_time()
    report = compare(theirs, ours)
    assert time.process_time() - started < 2
    assert len(report.lookalikes) == len(names)


# ---------------------------------------------------------------------------------------------------
# Enumerations


def test_refusal_of_an_enumeration_names_the_members_that_it_lacks() -> None:
    sender = Enumeration("Mode", 4, (("RUN", 0), ("PAUSE", 1), ("STOP", 2)))
    receiver = Enumeration("Mode", 4, (("RUN", 0),))
    assert entry(sender, receiver).reason == "`enum Mode` has no `PAUSE`, `STOP`: consent with `lossy=True`"


def test_refusal_of_an_enumeration_names_some_of_many_members() -> None:
    sender = Enumeration("Mode", 4, tuple((f"M{i}", i) for i in range(1000)))
    receiver = Enumeration("Mode", 4, (("M0", 0),))
    assert entry(sender, receiver).reason == (
        "`enum Mode` has no `M1`, `M2`, `M3`, `M4`, `M5`, `M6`, `M7`, `M8` and 991 more: consent with `lossy=True`"
    )


# ---------------------------------------------------------------------------------------------------
# The report as a whole


@given(layouts())
def test_format_is_the_same_as_itself(layout: Layout) -> None:
    """Any random layout, at every depth."""
    format_ = echo.Format(layout)
    report = compare(format_, format_)
    assert report.is_same
    assert report.is_accepted
    assert {e.verdict for e in report.entries} <= {Verdict.SAME}


def test_tail_that_the_receiver_lacks_is_no_reason_to_be_the_same() -> None:
    """A shorter record of the same fields must be cut out of the longer one."""
    short = echo.Format(Layout("little", 8, Record("R", 4, 4, (Field("x", INT),))))
    long = echo.Format(Layout("little", 8, Record("R", 8, 4, (Field("x", INT),))))
    report = compare(long, short)
    assert report.entries[0].verdict is Verdict.SAME
    assert not report.is_same


def test_ignored_field_is_no_reason_to_be_the_same() -> None:
    """The receiver would see bytes that it does not know."""
    report = compare(format_of(Field("x", INT), Field("y", INT)), format_of(Field("x", INT)))
    assert report.is_accepted
    assert not report.is_same


@dataclasses.dataclass
class Position:
    x: float
    y: float


@dataclasses.dataclass
class OldReading:
    id: echo.Int32
    temp: echo.Float32
    where: Position
    old: int


@dataclasses.dataclass(kw_only=True)
class NewReading:
    id: int
    temperature: float = echo.field(aliases=("temp",), unit="K")
    where: Position
    note: str | None = None
    must: bool


# ruff: noqa: E501 - the report is as wide as it is
GOLDEN = """\
OldReading -> NewReading: refused
field                   verdict    sender    receiver    reason
NewReading.id           widened    int32     int64       big-endian; `int32` to `int64`
NewReading.temperature  renamed    float32   float64     big-endian; `float32` to `float64`; from 4 to 8; `temp` at the sender
NewReading.where        moved      Position  Position    from 8 to 16
NewReading.where.x      swapped    float64   float64     big-endian
NewReading.where.y      swapped    float64   float64     big-endian
NewReading.note         defaulted            str | None  the sender has no such field
NewReading.must         refused              bool        the sender has no such field, and it has no default
NewReading.old          ignored    int64                 the receiver has no such field"""


def report_of_readings() -> Report:
    return compare(echo.format_of(OldReading, abi="s390x"), echo.format_of(NewReading, abi="x86_64"))


def test_report_prints_as_a_table() -> None:
    """The receiver's fields in their order, what it ignores last."""
    assert str(report_of_readings()) == GOLDEN


def test_report_is_a_table_in_a_notebook() -> None:
    """With every cell escaped."""
    shown = report_of_readings()._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.startswith("<table><caption>OldReading -&gt; NewReading: refused</caption>")
    assert shown.count("<tr>") == len(report_of_readings().entries) + 1
    array = compare(format_of(Field("x", INT)), format_of(Field("y<", INT)))
    assert "y&lt;" in array._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_refusal_lists_every_reason() -> None:
    """The error names both formats, each refused field and its reason; its path is the first one's."""
    report = compare(
        format_of(Field("a", LONG), name="Theirs"),
        format_of(Field("a", INT), Field("b", INT), name="Ours"),
    )
    assert [e.path for e in report.refused] == ["Ours.a", "Ours.b"]
    with pytest.raises(IncompatibleError) as caught:
        report.raise_if_refused()
    assert str(caught.value) == (
        "Expected a sender of `Ours`, got `Theirs` with `Ours.a`: `int32` does not hold every `int64`: "
        "consent with `lossy=True`; `Ours.b`: the sender has no such field, and it has no default"
        " - at `Ours.a`"
    )
    assert caught.value.path == "Ours.a"


def test_accepted_report_raises_nothing() -> None:
    """`raise_if_refused` is silent where nothing is."""
    compare(format_of(Field("a", INT)), format_of(Field("a", INT))).raise_if_refused()


def test_consent_reaches_decoders() -> None:
    """What is narrowed by consent is checked for every value."""
    wide: Any = dataclasses.make_dataclass("R", [("x", int)])
    narrow: Any = dataclasses.make_dataclass("R", [("x", echo.Int8)])
    encode, sender = echo.encoder(wide), echo.format_of(wide)
    with pytest.raises(IncompatibleError, match="lossy=True"):
        echo.decoder(narrow, sender=sender)
    decode = echo.decoder(narrow, sender=sender, lossy=True)
    assert decode(encode(wide(5))).x == 5
    with pytest.raises(ConversionError, match=r"`R\.x`"):
        decode(encode(wide(500)))


def test_example_of_the_document_runs() -> None:
    """Every block of Python in docs/evolution.md, one after the other, as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {"__name__": "evolution"}
    for block in blocks:
        exec(compile(block, str(DOCUMENT), "exec", dont_inherit=True), names)
