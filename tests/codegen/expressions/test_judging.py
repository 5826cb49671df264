"""Predicates over events, records and arrays: objects, what is remembered, rates, other layouts."""

from __future__ import annotations

import ctypes
import dataclasses
import datetime as dt
import enum
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen.expressions.emit import IN_LOOP
from echo_core.codegen.expressions.wire import from_bytes
from echo_core.codegen.machine import background
from echo_core.errors import FormatError, IncompatibleError
from tests.codegen.expressions.particles import Hit, Kept, Kind, Particle, Point

TEXT = "temp > limit and kind == 'ion' and tag.startswith('a') and id > 0"


@pytest.mark.parametrize("cls", [Hit, Kept])
def test_an_object_is_judged_as_its_record_is(cls: Any) -> None:
    """Without being encoded."""
    predicate = echo.where(cls, TEXT, tier="compiled", limit=300.1)
    encode = echo.encoder(cls)
    events = [cls(), cls(temp=300.1), cls(temp=1), cls(kind=Kind.photon), cls(tag="x"), cls(id=-1)]
    for event in events:
        assert predicate(event) is predicate.passes_record(encode(event))
    assert [predicate(event) for event in events] == [True, True, False, False, False, False]
    assert predicate.statistics().encoded == 0


def test_a_field_of_a_field_is_judged_in_its_slot() -> None:
    """Where both classes have slots."""
    predicate = echo.where(Hit, "at.x > 1 and at.y == 2.5")
    assert predicate(Hit())
    assert not predicate(Hit(at=Point(0.0, 2.5)))
    assert predicate.statistics().encoded == 0


def test_a_time_and_a_small_float_are_judged_in_their_slots() -> None:
    """As their record has them."""
    fields: list[Any] = [("at", dt.datetime), ("took", dt.timedelta), ("share", echo.Float16)]
    cls: Any = dataclasses.make_dataclass("Timed", fields, slots=True)
    event = cls(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.timedelta(microseconds=7), 0.1)
    since = dt.datetime(2025, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
    predicate = echo.where(
        cls, "at > since and took < most and share < 0.1", since=since, most=dt.timedelta(seconds=1)
    )
    assert predicate(event) is predicate.passes_record(echo.encoder(cls)(event)) is True


def test_an_object_with_unusual_values_is_encoded_first() -> None:
    """A subclass of the class or of a value's type, and variable parts."""

    class More(Hit):
        pass

    class Number(float):
        pass

    predicate = echo.where(Hit, "temp > 300")
    assert predicate(More())
    assert predicate(Hit(temp=Number(301.0)))
    assert predicate.statistics().encoded == 2
    variable = echo.where(Particle, "len(parts) == 3")
    assert variable(Particle())
    assert variable.statistics().encoded == 1


def test_a_value_that_cannot_be_encoded_is_an_error_where_it_is_read() -> None:
    """And goes unnoticed where it is not."""
    wrong = Hit(temp="hot", id=5)  # type: ignore[arg-type]
    assert echo.where(Hit, "id == 5")(wrong)
    with pytest.raises(echo.EncodeTypeError, match=r"Hit\.temp"):
        echo.where(Hit, "temp > 1")(wrong)
    with pytest.raises(echo.EncodeTypeError):
        echo.where(Hit, "id == 5")("no hit")


def test_an_event_with_an_array_is_judged_by_its_record() -> None:
    """Which is inline in one of `@echo.event`, also after somebody has written to the array."""

    @echo.event
    class Row:
        n: int
        values: echo.Array[echo.Float64, 3]

    predicate = echo.where(Row, "values[1] > 2 or sum(values) > 10", tier="compiled")
    row = Row(1, np.array([1.0, 3.0, 0.0]))
    assert predicate(row)
    row.values[1] = 0.0
    assert not predicate(row)


# ---------------------------------------------------------------------------
# Arrays


def rows(count: int) -> np.ndarray[Any, Any]:
    """Records of hits, of any numbers."""
    made = np.zeros(count, echo.format_of(Hit).dtype)
    random = np.random.default_rng(count)
    made["id"] = random.integers(-5, 5, count)
    made["temp"] = random.normal(300, 10, count)
    return made


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000])
def test_an_array_is_filtered(count: int, tier: Any) -> None:
    """Survivors in their order, in an array of their own."""
    predicate = echo.where(Hit, "temp > 300 and id % 2 == 0", tier=tier)
    source = rows(count)
    chosen = (source["temp"] > 300) & (source["id"] % 2 == 0)
    assert predicate.filter(source).tolist() == source[chosen].tolist()
    assert predicate.indices(source).tolist() == np.flatnonzero(chosen).tolist()
    assert predicate.statistics().judged == 2 * count


def test_rows_that_fail_are_left_out_and_counted() -> None:
    """The others of their block are judged all the same."""
    predicate = echo.where(Hit, "10 // id > 1", tier="compiled")
    source = rows(600)
    wanted = [i for i, number in enumerate(source["id"].tolist()) if number != 0 and 10 // number > 1]
    assert predicate.indices(source).tolist() == wanted
    assert predicate.statistics().failed == np.count_nonzero(source["id"] == 0)
    assert "division by zero" in predicate.failure


def test_an_array_of_another_dtype_is_refused() -> None:
    """Also one of records with variable parts."""
    predicate = echo.where(Hit, "id > 1")
    with pytest.raises(FormatError, match="an array of `Hit` of one dimension"):
        predicate.filter(np.zeros(3))
    with pytest.raises(FormatError):
        predicate.filter([1])  # type: ignore[arg-type]
    with pytest.raises(FormatError):
        echo.where(Particle, "id > 1").filter(rows(1))


# ---------------------------------------------------------------------------
# State and rates


def passing(predicate: echo.Predicate, ids: list[int]) -> list[int]:
    return [number for number in ids if predicate(Hit(id=number))]


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("previous(id) is None or id > previous(id)", [1, 4, 9]),
        ("last(id) is None or abs(id - last(id)) >= 3", [1, 4, 9, 2]),
        ("count() % 2 == 1", [4, 9]),
        ("mean(id) is not None and id > mean(id)", [4, 3, 9]),
        ("ewma(id, 0.5) is not None and id > ewma(id, 0.5)", [4, 3, 9]),
    ],
)
def test_what_was_before_is_remembered(text: str, wanted: list[int], tier: Any) -> None:
    """Of every event, but `last` of those that passed; a value that fails leaves it as it is."""
    predicate = echo.where(Hit, text, tier=tier)
    assert passing(predicate, [1, 4, 3, 9, 2]) == wanted
    predicate.forget()
    assert passing(predicate, [1]) == ([1] if 1 in wanted else [])


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_a_value_that_fails_is_not_remembered(tier: Any) -> None:
    """What was there before stays."""
    predicate = echo.where(Hit, "previous(12 // id) is not None and previous(12 // id) == 4", tier=tier)
    assert passing(predicate, [3, 0, 5, 6]) == [0, 5]


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_the_order_is_where_on_change_every_min_interval(tier: Any) -> None:
    """What `on_change` compares with is the last that was selected."""
    predicate = echo.where(Hit, "id > 0", on_change="id", every=2, min_interval_s=1.0, tier=tier)
    passed = [
        (number, second)
        for second, number in enumerate([1, 1, 2, -5, 2, 3, 1, 2, 4, 4])
        if predicate.passes_at(Hit(id=number), second * 400_000_000)
    ]
    # Changes: 1, 2, 3, 1, 2, 4; every second of them: 1, 3, 2; 1.0 s apart: 1 (0 s), 3 (2 s), not 2 (2.8 s).
    assert passed == [(1, 0), (3, 5)]


def test_without_a_clock_the_time_of_the_call_counts() -> None:
    """Two events at once are too close."""
    predicate = echo.where(Hit, "id > 0", min_interval_s=3600)
    assert [predicate(Hit()), predicate(Hit())] == [True, False]


def test_a_member_or_a_bool_can_change() -> None:
    """In either tier."""
    predicate = echo.where(Hit, on_change="kind", tier="compiled")
    kinds = [Kind.ion, Kind.ion, Kind.photon, Kind.ion]
    assert [predicate(Hit(kind=kind)) for kind in kinds] == [True, False, True, True]


# ---------------------------------------------------------------------------
# Other layouts and versions


@pytest.mark.parametrize("abi", ["i386", "s390x", "sparc"])
@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_records_of_another_machine_are_judged_as_they_lie(abi: str, tier: Any) -> None:
    """With texts, sequences and what is None."""
    text = "temp > 300 and 'll' in name and any(p.x > 4 for p in points) and origin is None and kind == 'ion'"
    sender = echo.format_of(Particle, abi=abi)
    predicate = echo.where(Particle, text, tier=tier).on(sender)
    encode = echo.codec(Particle, abi=abi).encode
    assert predicate.passes_record(encode(Particle()))
    assert not predicate.passes_record(encode(Particle(origin=Point(1.0))))


def test_another_version_is_judged_by_former_names_defaults_and_wider_types() -> None:
    """And a member by its name, whatever its number."""
    made: Any = enum.Enum  # of two versions
    before, now = made("State", {"off": 0, "on": 5}), made("State", {"on": 1, "off": 2})
    old_fields: list[Any] = [("id", echo.Int16), ("temp", echo.Float32), ("state", before)]
    old = dataclasses.make_dataclass("Sensor", old_fields, slots=True)
    new_fields: list[Any] = [
        ("id", int),
        ("celsius", float, echo.field(aliases=("temp",))),
        ("state", now),
        ("serial", str),
        ("unit", echo.Chars[4], "C"),
    ]
    new = dataclasses.make_dataclass("Sensor", new_fields, slots=True, kw_only=True)
    text = "celsius > 20 and id == 7 and unit == 'C' and state == 'on'"
    predicate = echo.where(new, text, tier="compiled").on(echo.format_of(old))
    assert predicate.passes_record(echo.encoder(old)(old(7, 21.5, before["on"])))
    assert not predicate.passes_record(echo.encoder(old)(old(7, 21.5, before["off"])))
    with pytest.raises(IncompatibleError, match="serial"):
        echo.where(new, "serial == 'x'").on(echo.format_of(old))


def test_a_damaged_record_is_no_harm() -> None:
    """Whatever its slots say: nothing outside is read, and the event does not pass."""
    predicate = echo.where(Particle, "any(p.x > 4 for p in points) or 'q' in name or raw == b'q'")
    record = echo.encoder(Particle)(Particle())
    for size in range(0, len(record), 7):
        predicate.passes_record(record[:size])
    for at in range(len(record)):
        predicate.passes_record(record[:at] + b"\xff" + record[at + 1 :])


# ---------------------------------------------------------------------------
# The rest


def test_compiled_code_comes_in_the_background() -> None:
    """The first event is judged at once, and all give the same."""
    predicate = echo.where(Hit, "temp > 123.25 and id < 77")
    first = predicate(Hit())
    assert background.drain(60.0)
    assert predicate.is_compiled
    assert predicate(Hit()) is first is True


def test_a_predicate_goes_with_its_class() -> None:
    """The cycle through the class and its encoder is found."""
    cls = dataclasses.make_dataclass("Gone", [("id", int)], slots=True)
    predicate = echo.where(cls, "id > 1", tier="interpreted")
    assert predicate(cls(2))
    known = weakref.ref(cls)
    assert background.drain(60.0)  # its codec is compiled meanwhile
    del cls, predicate
    for _ in range(3):
        gc.collect()
    assert known() is None


class _RawJudge(ctypes.Structure):
    _fields_ = [
        (
            "record",
            ctypes.PYFUNCTYPE(
                ctypes.c_int, ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_int64
            ),
        ),
        ("object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int64)),
        (
            "rows",
            ctypes.PYFUNCTYPE(
                ctypes.c_ssize_t,
                ctypes.py_object,
                ctypes.c_void_p,
                ctypes.c_ssize_t,
                ctypes.c_void_p,
                ctypes.c_int64,
            ),
        ),
    ]


def test_c_code_asks_by_the_capsule() -> None:
    """As native/raw_judge.h has it: a record, an object, rows."""
    predicate = echo.where(Hit, "temp > 300", tier="compiled")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.POINTER(_RawJudge)
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    raw: Any = pointer(predicate.judge.__echo_raw_judge_3__, b"__echo_raw_judge_3__").contents
    record = echo.encoder(Hit)(Hit(temp=1.0))
    assert raw.record(predicate.judge, record, len(record), 0) == 0
    assert raw.object(predicate.judge, Hit(), 0) == 1
    with pytest.raises(echo.EncodeTypeError):
        raw.object(predicate.judge, "no hit", 0)
    source, found = rows(100), np.zeros(100, np.uint32)
    count = raw.rows(predicate.judge, source.ctypes.data, 100, found.ctypes.data, 0)
    assert found[:count].tolist() == np.flatnonzero(source["temp"] > 300).tolist()


def test_rows_are_judged_alike_by_a_loop_of_steps_and_a_loop_of_calls() -> None:
    """On both sides of the size from which on they are calls, also where a row fails."""
    for count in (4, 25):
        terms = [f"(10 + id) // (id - {i}) > temp" for i in range(count)]
        text = " or ".join(f"({' or '.join(terms[i : i + 6])})" for i in range(0, count, 6))
        fast, slow = (echo.where(Hit, text, tier=tier) for tier in ("compiled", "interpreted"))
        assert (len(slow._judging.program.steps) > IN_LOOP) is (count == 25)  # pyright: ignore[reportPrivateUsage]
        some = rows(1000)
        for first in (0, 100):  # with what fails, and without
            some["id"] = np.arange(first, first + 1000)
            assert fast.indices(some).tolist() == slow.indices(some).tolist()


def test_a_derivation_from_a_peer_judges_as_the_deriver_does() -> None:
    """What has travelled is the same tree."""
    from echo_core.codegen.expressions.deriving import Derived
    from echo_core.codegen.expressions.predicates import Predicate

    mine = echo.where(Hit, "temp > limit and kind != 'photon'", limit=299.0)
    travelled = from_bytes(mine.derivation.to_bytes())
    theirs = Predicate(Derived(travelled, {}, {}), echo.format_of(Hit), Hit, "compiled")
    for event in (Hit(), Hit(temp=1), Hit(kind=Kind.photon)):
        assert mine(event) is theirs(event)
    assert theirs.id == mine.id
