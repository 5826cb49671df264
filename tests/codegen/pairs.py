"""Random pairs of formats with a record of the sender's, and what has to become of it.

The suites of plans, of the interpreter and of compiled code share them. A receiver is the sender's format as
it may have evolved, or one that only consent makes a receiver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from echo_core.codegen.plain.records import read, write
from echo_core.codegen.plans.plan import Plan
from echo_core.codegen.plans.planner import plan
from echo_core.codegen.plans.verification import verification
from echo_core.errors import ConversionError
from echo_core.formats.abi import ABI_BY_NAME, Abi
from echo_core.formats.comparing.compare import compare
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout, place
from echo_core.formats.leaves import is_numeric
from echo_core.formats.types import (
    Blob,
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
from tests.codegen.plain_conversion import convert_record
from tests.codegen.test_convert import (
    _Evolution,  # pyright: ignore[reportPrivateUsage] - how a format evolves is told there, once
    lossy_kin,
)
from tests.formats.strategies import abis, comparable, layouts, plain_values

X86_64, I386, S390X, PPC = (ABI_BY_NAME[name] for name in ("x86_64", "i386", "s390x", "ppc"))
BOOL = Scalar(Kind.BOOL, 1)
INT8, INT16, INT32, INT64 = (Scalar(Kind.INT, size) for size in (1, 2, 4, 8))
UINT8, UINT16, UINT32, UINT64 = (Scalar(Kind.UINT, size) for size in (1, 2, 4, 8))
FLOAT16, FLOAT32, FLOAT64 = (Scalar(Kind.FLOAT, size) for size in (2, 4, 8))


def format_with(abi: Abi, *members: Field, name: str = "R") -> Format:
    """A format of these fields, in their order, placed as the ABI does."""
    return Format(Layout(abi.byte_order, abi.pointer_size, place(name, members, abi)))


def format_of_types(abi: Abi, **types: Type) -> Format:
    """The same of types by name."""
    return format_with(abi, *(Field(name, type_) for name, type_ in types.items()))


@dataclass(frozen=True)
class Pair:
    """A sender, a receiver that it reaches, and what leads from one to the other."""

    sender: Format
    receiver: Format

    @property
    def plan(self) -> Plan:
        return plan(self.sender.layout, self.receiver.layout)

    @property
    def verification(self) -> Plan:
        return verification(self.sender.layout)

    def message(self, plain: dict[str, Any]) -> bytes:
        """The sender's record of a plain value."""
        return write(plain, self.sender.layout)

    def expected(self, message: bytes) -> bytes | ConversionError:
        """The receiver's record by the code that knows no plans, or its error."""
        plain = read(message, self.sender.layout)
        try:
            converted = convert_record(plain, self.sender.record, self.receiver.record, self.receiver.name)
        except ConversionError as error:
            return error
        return write(converted, self.receiver.layout)

    def assert_agrees(self, got: bytes | None, message: bytes) -> None:
        """Whether a conversion did what it should; the bits of a NaN are free."""
        expected = self.expected(message)
        if got is None:
            assert isinstance(expected, ConversionError), "refused, though it converts"
        elif got != expected:
            assert isinstance(expected, bytes), "converted, though it does not fit"
            assert len(got) == len(expected)
            layout = self.receiver.layout
            assert comparable(read(got, layout)) == comparable(read(expected, layout))


def pair_from(data: st.DataObject, *, abi: Abi | None = None, is_lossy: bool | None = None) -> Pair:
    """A random sender and a receiver of any machine, or of the one given; some need consent."""
    sender = _with_float(data, data.draw(abis()))
    abi = abi or data.draw(abis())
    lossy = data.draw(st.booleans()) if is_lossy is None else is_lossy
    if not lossy:
        return Pair(sender, evolved(data, sender, abi)[0])
    record = _narrowed(data, sender.record, abi)
    assert isinstance(record, Record)
    receiver = Format(Layout(abi.byte_order, abi.pointer_size, record))
    assume(compare(sender, receiver, lossy=True).is_accepted)
    return Pair(sender, receiver)


def _with_float(data: st.DataObject, abi: Abi) -> Format:
    """A random format; to many a float is added, as half of these are of a size that casts do by hand."""
    layout = data.draw(layouts(abi, depth=2))
    if data.draw(st.booleans()):
        float_ = Field("float", data.draw(st.sampled_from((FLOAT16, FLOAT16, FLOAT32, FLOAT64))))
        record = place(layout.record.name, [*layout.record.fields, float_], abi)
        layout = replace(layout, record=record)
    return Format(layout)


def messages(pair: Pair) -> st.SearchStrategy[bytes]:
    """Records of the sender's."""
    return plain_values(pair.sender.layout).map(pair.message)


def evolved(data: st.DataObject, sender: Format, abi: Abi) -> tuple[Format, Callable[[dict[str, Any]], Any]]:
    """A receiver that the sender's format became, and what its values become, told without the product."""
    record = _Evolution(data, abi).record(sender.record, sender.name)
    assert isinstance(record.type, Record)
    return Format(Layout(abi.byte_order, abi.pointer_size, record.type)), record.rule


def _narrowed(data: st.DataObject, type_: Type, abi: Abi) -> Type:
    """A type of the same structure, with leaves, lengths and absences that may not fit."""
    match type_:
        case Record():
            members = [Field(field.name, _narrowed(data, field.type, abi)) for field in type_.fields]
            kept = data.draw(st.permutations(members))[: data.draw(st.sampled_from((1, 2, 9, 9, 9)))]
            return place(type_.name, _with_counts(data, kept), abi)
        case Nullable():
            inner = _narrowed(data, type_.element, abi)
            must = isinstance(inner, Nullable) or not data.draw(st.integers(0, 3))
            return inner if must else Nullable(inner)
        case StaticArray() | Sequence():
            return _narrowed_elements(data, type_, abi)
        case Text() | Blob() if data.draw(st.booleans()):
            return type(type_)(abi.pointer_size)
        case Scalar(kind=Kind.FLOAT | Kind.INT) if not data.draw(st.integers(0, 3)):
            return FLOAT16
        case _:
            is_kept = not isinstance(type_, Text | Blob) and data.draw(st.booleans())
            return type_ if is_kept else data.draw(lossy_kin(type_, abi))


def _narrowed_elements(data: st.DataObject, type_: StaticArray | Sequence, abi: Abi) -> Type:
    element = _narrowed(data, type_.element, abi)
    if isinstance(type_, StaticArray) and data.draw(st.booleans()):
        return StaticArray(element, type_.shape)
    # A list without elements says nothing of its other lengths, so what is known of them stays known.
    shape = [n if isinstance(n, int) and not is_numeric(type_.element) else None for n in type_.shape]
    for i, n in enumerate(shape):
        if n is None and not data.draw(st.integers(0, 5)):
            known = type_.shape[i]
            shape[i] = known if isinstance(known, int) else data.draw(st.integers(1, 3))
    if None in shape:
        return Sequence(element, tuple(shape), abi.pointer_size)
    return StaticArray(element, tuple(n or 1 for n in shape))


def _with_counts(data: st.DataObject, members: list[Field]) -> list[Field]:
    """The members, some sequences counted by one field that they share.

    None of lists of lists: where these have no elements, they say nothing of their other lengths.
    """
    counted: list[Field] = []
    for member in members:
        type_ = member.type.element if isinstance(member.type, Nullable) else member.type
        if _tells_lengths(type_) and data.draw(st.booleans()):
            assert isinstance(type_, Sequence)
            at = type_.shape.index(None)
            held = replace(type_, shape=(*type_.shape[:at], "total", *type_.shape[at + 1 :]))
            optional = isinstance(member.type, Nullable)
            counted.append(Field(member.name, Nullable(held) if optional else held))
        else:
            counted.append(member)
    if counted == members:
        return members
    return [*counted, Field("total", data.draw(st.sampled_from((UINT8, INT8, INT32, UINT32, INT64))))]


def _tells_lengths(type_: Type) -> bool:
    """Whether it is a sequence of varying length, whose every value has all its lengths."""
    if not isinstance(type_, Sequence) or None not in type_.shape:
        return False
    return len(type_.shape) == 1 or is_numeric(type_.element)
