"""Many rows of one shape, an index of them, and several predicates at once, beside one at a time."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.expressions.tables import Fused, Index, Table, is_index
from echo_core.errors import CompileError, FormatError
from tests.codegen.expressions.particles import Hit, Kind, Particle


@echo.event
class Texts:
    name: str = ""
    tag: echo.Chars[4] = ""
    data: bytes = b""
    key: echo.Bytes[4] = bytes(4)


SHAPES = [
    ("temp > a", [300.0]),
    ("temp > a and id == b", [300.0, 1]),
    ("id * 2 + a > b or not temp < c", [1, 5, 300.0]),
    ("(a if id > b else id) == c", [1, 2, 3]),
    ("abs(temp - a) < b", [300.0, 5.0]),
    ("-a < id <= b", [1, 3]),
    ("max(temp, a) >= b and sqrt(a) < b", [4.0, 300.0]),
    ("id + a > 0 and a // 2 == 1", [1]),
    ("kind == a and id > 0", ["ion"]),
]


def derivation(cls: Any, text: str, values: list[Any]) -> Any:
    names = dict(zip("abc", values, strict=False))
    return echo.where(cls, text, tier="interpreted", **names).derivation


def values_of(made: Any, given: list[Any], old: list[Any]) -> list[Any]:
    """A row's values in the order of the derivation's parameters: those given, and literals as they are."""
    by_old = dict(zip(old, given, strict=False))
    return [by_old.get(value, value) for value in made.values]


@pytest.mark.parametrize(("text", "values"), SHAPES)
@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_a_table_finds_the_rows_that_pass(text: str, values: list[Any], tier: Any) -> None:
    """The same as each row's own predicate, whose parameters are any, extremes included."""
    random = Random(len(text))
    made = derivation(Hit, text, values)
    try:
        table = Table(made, echo.format_of(Hit), tier)
    except CompileError:
        table = Table(made, echo.format_of(Hit), "interpreted")
        assert "//" in text
    rows: dict[int, list[Any]] = {}
    for row in random.sample(range(300), 150):
        rows[row] = [_any(random, value) for value in made.values]
        table.put(row, rows[row])
    for row in list(rows)[:20]:
        table.remove(row)
        del rows[row]
    for event in (Hit(id=random.randint(-3, 3), temp=random.uniform(290, 310)) for _ in range(20)):
        record = echo.encoder(Hit)(event)
        wanted = [row for row, its in sorted(rows.items()) if _passes(made, its, record)]
        assert table.rows(record).tolist() == wanted


def _any(random: Random, value: Any) -> Any:
    if isinstance(value, str):
        return random.choice(list(Kind)).name
    if isinstance(value, float):
        return random.choice((0.0, 1.0, 300.0, float("nan"), float("inf"), random.uniform(290, 310)))
    return random.choice((0, 1, -1, 2, 3, 2**63 - 1, -(2**63)))


def _passes(made: Any, values: list[Any], record: bytes) -> bool:
    from echo_core.codegen.expressions.lowering import lower

    program = lower([(made.tree, made.conditions)], echo.format_of(Hit))
    (value,) = program.native().evaluate(record, program.snapshot(values))
    return value is True


def test_a_table_of_a_shape_that_vectors_lack_is_interpreted() -> None:
    """So is one with an error in some row, for that event."""
    with pytest.raises(CompileError):
        Table(derivation(Hit, "id // a > 1", [2]), echo.format_of(Hit), "compiled")
    table = Table(derivation(Hit, "id + a > 0", [2]), echo.format_of(Hit), "compiled")
    table.put(0, [1, 0])
    record = echo.encoder(Hit)(Hit(id=1))
    assert table.rows(record).tolist() == [0]
    assert table.interpreted == 0
    table.put(1, [2**63 - 1, 0])
    assert table.rows(record).tolist() == [0]
    assert table.interpreted == 1


def test_a_table_takes_conditions_on_numbers_alone() -> None:
    """Texts have no column, and what is remembered has no row."""
    with pytest.raises(ValueError, match="without states and texts"):
        Table(derivation(Hit, "tag == a", ["x"]), echo.format_of(Hit), "interpreted")
    changing = echo.where(Hit, on_change="id", tier="interpreted").derivation
    with pytest.raises(FormatError, match="a condition alone"):
        Table(changing, echo.format_of(Hit))


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_an_index_finds_equal_rows(tier: Any) -> None:
    """Among thousands, also after some have changed or gone."""
    made = derivation(Hit, "id == a", [0])
    assert is_index(made)
    assert not is_index(derivation(Hit, "id > a", [0]))
    index = Index(made, echo.format_of(Hit), tier)
    for row in range(4000):
        index.put(row, [row // 2])
    index.put(7, [100])
    index.remove(200)
    encode = echo.encoder(Hit)
    assert sorted(index.rows(encode(Hit(id=3))).tolist()) == [6]
    assert index.rows(encode(Hit(id=3))[:5]).tolist() == []
    assert sorted(index.rows(encode(Hit(id=100))).tolist()) == [7, 201]
    assert index.rows(encode(Hit(id=-1))).tolist() == []
    kinds = Index(derivation(Hit, "kind == a", ["ion"]), echo.format_of(Hit), tier)
    kinds.put(0, ["photon"])
    assert kinds.rows(encode(Hit(kind=Kind.photon))).tolist() == [0]
    with pytest.raises(FormatError, match="another shape"):
        Index(derivation(Hit, "id > a", [0]), echo.format_of(Hit))


TEXTS = ("", "a", "ab", "abc", "é", "数", "a" * 8, "a" * 9, "b" * 40)


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("field", ["name", "tag", "data", "key"])
@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_an_index_finds_rows_of_equal_texts(tier: Any, field: str, abi: str) -> None:
    """Of any length, of fixed size or none, and bytes: those whose own predicate the record passes."""
    format_ = echo.format_of(Texts, abi=abi)
    values: list[Any] = list(TEXTS)
    if field in ("data", "key"):
        values = [bytes(4), b"a\0\0\0", b"a\0b\0", b"abcd", *(text.encode() for text in TEXTS)]
    made = echo.where(format_, f"{field} == a", tier="interpreted", a=values[0]).derivation
    assert is_index(made)
    index, random = Index(made, format_, tier), Random(field)
    rows = {row: random.choice(values) for row in range(200)}
    for row, value in rows.items():
        index.put(row, [random.choice(values)])
        index.put(row, [value])
    for row in range(0, 200, 7):
        index.remove(row)
        del rows[row]
    each = {value: echo.where(format_, f"{field} == a", tier="interpreted", a=value) for value in values}
    sizes, found = {"tag": range(5), "key": range(4, 5)}.get(field, range(100)), 0
    for value in values:
        if len(value if isinstance(value, bytes) else value.encode()) not in sizes:
            continue
        record = echo.codec(Texts, abi=abi, tier="interpreted").encode(Texts(**{field: value}))
        wanted = [row for row, asked in rows.items() if each[asked].passes_record(record)]
        assert sorted(index.rows(record).tolist()) == wanted
        found += len(wanted)
    assert found > 20
    assert index.rows(record[:7]).tolist() == []


def test_an_index_of_texts_takes_parameters_that_hold_one() -> None:
    """What a row asks for lies in them."""
    made = echo.where(Texts, "name == a", tier="interpreted", a="x").derivation
    index = Index(made, echo.format_of(Texts), "interpreted").native
    for offset, size in ((16, 2), (17, 1), (2**63, 1), (0, 2**63), (18, 0)):
        with pytest.raises(ValueError, match="one parameter"):
            index.put(0, struct.pack("<QQ", offset, size) + b"x")
    index.put(0, struct.pack("<QQ", 17, 0) + b"x")
    assert index.rows(echo.encoder(Texts)(Texts()), bytearray(4 * index.room)) == 1


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_fused_predicates_answer_as_each_does(tier: Any) -> None:
    """One that fails answers no, and does not disturb the others."""
    texts = [
        "temp > 300",
        "temp > 300 and id == 1",
        "10 // id > 1",
        "tag.startswith('a')",
        "temp * 2 > 601.5",
    ]
    each = [echo.where(Hit, text, tier="interpreted") for text in texts]
    fused = Fused([it.derivation for it in each], echo.format_of(Hit), tier)
    for event in (Hit(), Hit(temp=1), Hit(id=0), Hit(temp=301, id=4, tag="x")):
        record = echo.encoder(Hit)(event)
        wanted = sum(it.passes_record(record) << i for i, it in enumerate(each))
        assert fused.mask(record) == wanted


def test_what_fused_predicates_share_is_computed_once() -> None:
    """Equal steps of several trees are one step."""
    texts = [f"sqrt(temp * temp + id * id) > {i}" for i in range(16)]
    made = [echo.where(Hit, text, tier="interpreted").derivation for text in texts]
    program = Fused(made, echo.format_of(Hit), "interpreted").program
    assert [step.op for step in program.steps].count("SQRT_F") == 1
    assert len(program.roots) == 16


def test_only_conditions_without_memory_are_fused() -> None:
    """What is remembered belongs to one derivation."""
    with pytest.raises(FormatError, match="remember nothing"):
        Fused([echo.where(Particle, "previous(id) is None").derivation], echo.format_of(Particle))
    with pytest.raises(FormatError, match="a condition alone"):
        Fused([echo.where(Particle, on_change="id").derivation], echo.format_of(Particle))
