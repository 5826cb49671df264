"""What is said of many records by the ranges of their fields is right for each of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.expressions.bounds import Ends
from echo_core.codegen.expressions.predicates import Predicate, where
from echo_core.errors import ExpressionError
from echo_core.formats.format import Format
from echo_core.logs.ranges import numbers_of
from tests.codegen.expressions.random_expressions import Kind, Writer, a_shape, an_event
from tests.formats.strategies import examples

_CODES = {"i": "bhiq", "u": "BHIQ", "f": " efd"}


def ranges_of(format_: Format, records: Sequence[bytes]) -> dict[int, Ends]:
    """The slow way: of each number, from its bytes."""
    order = "<" if format_.byte_order == "little" else ">"
    found: dict[int, Ends] = {}
    for offset, field in numbers_of(format_).items():
        code = _CODES[field.kind][field.size.bit_length() - 1]
        values = [struct.unpack_from(order + code, record, offset)[0] for record in records]
        is_nan = any(math.isnan(value) for value in values)
        found[offset] = (math.nan, math.nan) if is_nan else (min(values), max(values))
    return found


def predicate(cls: type[Any], text: str, format_: Format) -> Predicate | None:
    """None: the text is refused."""
    try:
        return where(cls, text, tier="interpreted").on(format_)
    except ExpressionError:
        return None


@examples(60)
@given(seed=st.integers(0, 2**32))
def test_what_passes_is_within_bounds_that_may_pass(seed: int) -> None:
    """Any expression over any records of any machine."""
    random = Random(seed)
    shape = a_shape(random)
    abi = random.choice(("native", "native", "i386", "s390x", "sparc"))
    format_, encode = echo.format_of(shape.cls, abi=abi), echo.encoder(shape.cls, abi=abi)
    records = [encode(an_event(random, shape)[0]) for _ in range(random.choice((1, 1, 2, 5)))]
    ranges = ranges_of(format_, records)
    writer = Writer(random, shape)
    for _ in range(20):
        text = writer.write("bool", random.randint(1, 4))
        judge = predicate(shape.cls, text, format_) if text else None
        if judge is not None and any(judge.passes_record(record) for record in records):
            assert judge.may_pass(ranges), text


@echo.event
class Reading:
    id: int
    big: echo.UInt64
    kelvin: echo.Float32
    kind: Kind
    is_alarm: bool
    note: str = ""


RANGES = dict(
    zip(
        numbers_of(echo.format_of(Reading)),
        [(10, 20), (5, 2**64 - 1), (0.5, 1.5), (1, 1), (0, 0)],
        strict=True,
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id > 20", False),
        ("id >= 20", True),
        ("id < 10", False),
        ("9 < id", True),
        ("id == 21", False),
        ("id == 15", True),
        ("id != 15", True),
        ("id in (1, 2, 30)", False),
        ("id in (1, 12)", True),
        ("not (id <= 20)", False),
        ("id > 20 or kelvin > 1.0", True),
        ("id > 20 or kelvin > 2", False),
        ("id > 15 and kelvin > 2", False),
        ("id > limit", False),
        ("id > 20.5", False),
        ("big > 18446744073709551614", True),
        ("big < 5", False),
        ("big == 18446744073709551615", True),
        ("kind == 'ion'", True),
        ("kind == 'photon'", False),
        ("is_alarm", False),
        ("not is_alarm", True),
        ("note == 'a' and id > 20", False),
        ("len(note) > 3", True),
        ("id + 1 > 100", True),
        ("id > 20 and previous(id) is None", True),
        ("id > 20 if is_alarm else True", True),
    ],
)
def test_ranges_say_whether_any_may_pass(text: str, expected: bool) -> None:
    """What is computed, and what is remembered, may be anything."""
    parameters: dict[str, Any] = {"limit": 20} if "limit" in text else {}
    assert where(Reading, text, **parameters).may_pass(RANGES) is expected


def test_nothing_is_said_of_fields_without_a_range() -> None:
    """Nor of those of which one is no number."""
    judge = where(Reading, "kelvin > 2")
    offset = next(field.offset for field in echo.format_of(Reading).fields if field.name == "kelvin")
    assert judge.may_pass({})
    assert judge.may_pass({offset: (math.nan, math.nan)})
    assert not judge.may_pass({offset: (0.0, 1.0)})
