"""Derivations as bytes: the same for equal ones, and nothing but a valid one for any bytes from a peer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.deriving import derive
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.wire import Derivation, from_bytes
from echo_core.errors import CompileError, EchoError, WireError
from echo_core.formats.abi import ABI_BY_NAME
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout, place
from tests.codegen.expressions.particles import Particle
from tests.formats.strategies import examples

RECORD = format_of(Particle).record

TEXTS = (
    "temp > 300 and kind in ('ion', 'photon')",
    "any(p.x > limit for p in points if p.y != 0) or sum(parts[1:]) / len(parts) > 2",
    "previous(id) is None or id - previous(id) > 1 or ewma(temp, 0.5) is None",
    "origin is not None and origin.x > 1 or name.startswith('h') or grid[1][2] == 5",
    "(id if hot else cell) ** 2 > 9 and time > since",
)


def derivation(text: str, **options: object) -> Derivation:
    """Of particles, with whatever parameters the texts above name."""
    from datetime import UTC, datetime

    known = {"limit": 3.0, "since": datetime(2026, 1, 1, tzinfo=UTC)}
    parameters = {name: value for name, value in known.items() if name in text}
    return derive(RECORD, where=text, parameters=parameters, **options).derivation  # type: ignore[arg-type]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_written_is_read_again(text: str) -> None:
    """With its ids."""
    made = derivation(
        text, every=3, min_interval_s=0.5, select={"id": "id", "twice": "temp * 2"}, name="Twice"
    )
    again = from_bytes(made.to_bytes())
    assert (again.to_bytes(), again.id, again.shape_id) == (made.to_bytes(), made.id, made.shape_id)
    assert (again.every, again.min_interval_ns) == (3, 500_000_000)
    assert again.output == made.output


def test_only_the_fields_that_are_read_travel() -> None:
    """With what the deriver knows them by."""
    view = derivation("any(p.x > 1 for p in points) and at.y > 0").tree.record
    assert [field.name for field in view.fields] == ["at", "points"]
    assert b"energy" not in derivation("temp > 1").to_bytes()


def test_equal_derivations_have_equal_ids_wherever_they_were_made() -> None:
    """Whitespace, names of parameters and the deriver's machine make no difference."""

    @echo.event
    class Other:
        more: str
        temp: echo.Float32
        id: int

    texts = ("temp > 3 and id == 1", "(temp)>3.0  and id==1")
    ids = {derivation(text).id for text in texts}
    other = format_of(Other, abi="s390x").record
    made = derive(other, where="temp > x and id == y", parameters={"x": 3.0, "y": 1}).derivation
    assert len(ids) == 1
    # The view has the fields in their class's order, and the record its name.
    assert [field.name for field in made.tree.record.fields] == ["temp", "id"]


def test_the_shape_leaves_out_values_that_are_compared_with_and_rates() -> None:
    """But no index, no exponent, no set."""
    assert derivation("temp > 3").shape_id == derivation("temp > 4", every=2).shape_id
    assert derivation("temp > 3").id != derivation("temp > 4").id
    assert derivation("temp > 3").id != derivation("temp > 3", every=2).id
    for one, other in (
        ("parts[0] > 1", "parts[1] > 1"),
        ("id ** 2 > 1", "id ** 3 > 1"),
        ("id in (1, 2)", "id in (1, 3)"),
        ("temp > 3", "temp >= 3"),
        ("temp > 3", "energy > 3"),
        ("temp + 1 > 3", "temp + 2 > 3"),
    ):
        assert derivation(one).shape_id != derivation(other).shape_id


@pytest.mark.parametrize("text", TEXTS)
def test_a_derivation_that_is_cut_off_is_refused(text: str) -> None:
    """At every byte; so is one with more behind it."""
    data = derivation(text).to_bytes()
    for size in range(len(data)):
        with pytest.raises(WireError):
            from_bytes(data[:size])
    with pytest.raises(WireError, match=f"{len(data)} bytes"):
        from_bytes(data + b"\0")


@pytest.mark.parametrize("text", TEXTS)
def test_a_derivation_with_a_changed_byte_is_valid_or_refused(text: str) -> None:
    """Every byte, by some bits: a named error, or a tree that can be judged by."""
    data = derivation(text).to_bytes()
    for at in range(len(data)):
        for bits in (1, 0x80, 0xFF):
            demand_harmless(data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :])


def demand_harmless(data: bytes) -> None:
    """Refused with WireError, or bounded, canonical, and of no harm to whoever judges a record by it."""
    try:
        found = from_bytes(data)
    except WireError:
        return
    assert found.to_bytes() == data
    assert len(found.tree.nodes) <= limits.MAX_NODES
    try:
        sender = format_of(Particle)
        program = lower([(found.tree, found.conditions)], sender)
        record = echo.encoder(Particle)(Particle())
        program.native().evaluate(record, program.snapshot(found.values))
    except (EchoError, CompileError):
        return


@examples(300)
@given(st.binary(max_size=200), st.integers(0, 4), st.data())
def test_random_bytes_are_refused(noise: bytes, which: int, data: st.DataObject) -> None:
    """Alone, and in the place of a part of a derivation."""
    good = derivation(TEXTS[which]).to_bytes()
    start = data.draw(st.integers(0, len(good)))
    stop = data.draw(st.integers(start, len(good)))
    demand_harmless(noise)
    demand_harmless(good[:start] + noise + good[stop:])


@examples(500)
@given(st.lists(st.tuples(st.integers(0, 95), *[st.sampled_from((0, 1, 2, 3, 5, 0xFFFF))] * 3), max_size=12))
def test_random_entries_are_refused(entries: list[tuple[int, int, int, int]]) -> None:
    """With each sort that could be meant, as long as one is."""
    good = derivation("any(p.x > 1 for p in points) and temp > 2")
    head = good.to_bytes()
    at = head.index(struct.pack("<BBHHH", *_entry(good, 0)))
    body = b"".join(struct.pack("<BBHHH", op, 4, a, b, c) for op, a, b, c in entries)
    size = 8 * len(good.tree.nodes)
    demand_harmless(head[:2] + struct.pack("<H", len(entries)) + head[4:at] + body + head[at + size :])


def _entry(it: Derivation, number: int) -> tuple[int, int, int, int, int]:
    node = it.tree.nodes[number]
    return node.op, node.sort, node.a, node.b, node.c


HEADS: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: b"\2" + data[1:], "version 1 of derivations, got 2"),
    (lambda data: data[:1] + b"\10" + data[2:], "flags and rates"),
    (lambda data: data[:2] + b"\1\1" + data[4:], "at most 256 entries, got 257"),
    (lambda data: data[:4] + b"\41\0" + data[6:], "at most 32 parameters, got 33"),
    (lambda data: data[:8] + b"\101\0" + data[10:], "at most 64 outputs, got 65"),
    (lambda data: data + bytes(limits.MAX_TREE_BYTES), "at most"),
]


@pytest.mark.parametrize(("change", "said"), HEADS)
def test_a_head_beyond_a_limit_is_refused(change: Callable[[bytes], bytes], said: str) -> None:
    """Before anything is read that it announces."""
    with pytest.raises(WireError, match=said):
        from_bytes(change(derivation("temp > 1").to_bytes()))


def test_another_form_of_a_derivation_is_refused() -> None:
    """An entry that nothing uses, or entries in another order."""
    data = derivation("temp > 1").to_bytes()
    made = from_bytes(data)
    entries = [struct.pack("<BBHHH", *_entry(made, i)) for i in range(3)]
    at = data.index(entries[0])
    swapped = struct.pack("<BBHHH", *_entry(made, 1)) + struct.pack("<BBHHH", *_entry(made, 0))
    last = struct.pack("<BBHHH", made.tree.nodes[2].op, made.tree.nodes[2].sort, 1, 0, 0xFFFF)
    with pytest.raises(WireError, match="canonical form"):
        from_bytes(data[:at] + swapped + last + data[at + 24 :])


def test_an_output_that_is_not_what_is_computed_is_refused() -> None:
    """Another number of fields, or another type."""
    made = derivation("temp > 1", select={"twice": "temp * 2", "id": "id"}, name="Twice")
    data = made.to_bytes()
    assert made.output is not None
    for other in ({"twice": "id * 2", "id": "id"}, {"twice": "temp * 2"}):
        output = derivation("temp > 1", select=other, name="Twice").output
        assert output is not None
        old, new = made.output.metadata, output.metadata
        changed = data.replace(struct.pack("<I", len(old)) + old, struct.pack("<I", len(new)) + new)
        with pytest.raises(WireError, match=r"the type of|fields of the output"):
            from_bytes(changed)


@pytest.mark.parametrize(("size", "alignment", "offset"), [(1 << 24, 8, 0), (16, 16, 0), (24, 8, 8)])
def test_an_output_with_room_that_no_field_needs_is_refused(size: int, alignment: int, offset: int) -> None:
    """Its source would make records of it for every event."""
    made = derivation("temp > 1", select={"twice": "temp * 2"}, name="Twice")
    assert made.output is not None
    record = made.output.record
    fields = (replace(record.fields[0], offset=offset),)
    padded = replace(record, size=size, alignment=alignment, fields=fields)
    output = Format(replace(made.output.layout, record=padded))
    with pytest.raises(WireError, match="as close as they can lie"):
        from_bytes(replace(made, output=output).to_bytes())


@pytest.mark.parametrize("abi", ["x86_64", "i386", "s390x", "m68k"])
def test_an_output_may_lie_as_any_machine_has_it(abi: str) -> None:
    """Its deriver need not be of the source's kind."""
    made = derivation("temp > 1", select={"hot": "temp > 2", "twice": "temp * 2", "at": "at"}, name="Twice")
    assert made.output is not None
    here = ABI_BY_NAME[abi]
    placed = replace(place("Twice", made.output.fields, here), is_named=True)
    output = Format(Layout(here.byte_order, here.pointer_size, placed))
    assert from_bytes(replace(made, output=output).to_bytes()).output == output
