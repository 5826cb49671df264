"""ROS 2 messages of events: their definitions, and which records lie in memory as CDR has them.

    bool, integers, float32, float64    the same
    float16                             float32
    complex                             float32[2], float64[2]
    timestamp, duration                 int64, nanoseconds
    an enum                             its integer, with a constant for each member
    uuid, bytes[n]                      uint8[n]
    chars[n]                            string; uint8[n] where records are taken as they lie
    text, bytes                         string, uint8[]
    arrays                              T[n], the last dimension running fastest
    lists                               T[]; of several dimensions with a field `..._shape` before it
    T | None                            T[<=1]
    what is itself a list, in a list    a message with the field `items`
    an event, a nested record           a message

CDR aligns each number to its size, and nested messages not at all. Where a record does so too, and has none
of what varies, it is CDR as it lies. Names that ROS 2 does not take are changed as little as needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from echo_core.formats.format import Format
from echo_core.formats.types import (
    Blob,
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
    innermost,
    round_up,
)

PACKAGE = "echo"
_RULE = "=" * 80
_KEPT_AS = {Kind.BOOL: "bool", Kind.INT: "int{bits}", Kind.UINT: "uint{bits}", Kind.FLOAT: "float{bits}"}
_PERIOD = 9  # elements of an array after which alignments repeat, as none is above 8


@dataclass(frozen=True, slots=True)
class Definition:
    """A message's type, such as `echo/msg/Particle`, and the text that defines it and all within it."""

    name: str
    text: str
    is_record: bool  # the message is the record as it lies, without what pads its end


def definition_of(format_: Format) -> Definition:
    """The message of a format's records."""
    is_record = lies_as_cdr(format_.record)
    writer = _Definitions(is_chars_text=not is_record)
    name = writer.name_of(format_.record)
    return Definition(f"{PACKAGE}/msg/{name}", writer.text(), is_record)


def names_of(fields: Iterable[Field]) -> dict[str, str]:
    """What each field is called in a message: in small letters."""
    names: dict[str, str] = {}
    for field in fields:
        apart = re.sub("([a-z0-9])([A-Z])", r"\1_\2", field.name)
        names[field.name] = _unique(_identifier(apart, "field_").lower(), set(names.values()))
    return names


class _Definitions:
    """The messages within one, each defined once."""

    def __init__(self, *, is_chars_text: bool) -> None:
        self._is_chars_text = is_chars_text
        self._name_by_record: dict[Record, str] = {}
        self._lines_by_name: dict[str, list[str]] = {}

    def text(self) -> str:
        """The outermost first, as it was asked for."""
        (_, first), *others = self._lines_by_name.items()
        parts = ["\n".join(first)]
        parts += ["\n".join([_RULE, f"MSG: {PACKAGE}/{name}", *lines]) for name, lines in others]
        return "\n".join(parts) + "\n"

    def name_of(self, record: Record) -> str:
        """What a record's message is called; it is defined."""
        if record not in self._name_by_record:
            name = _identifier(record.name, "Type").replace("_", "")
            name = _unique(name[:1].upper() + name[1:], set(self._lines_by_name))
            self._name_by_record[record] = name
            self._lines_by_name[name] = []
            self._lines_by_name[name] += self._lines(record)
        return self._name_by_record[record]

    def _lines(self, record: Record) -> Iterator[str]:
        names = names_of(record.fields)
        for field in record.fields:
            yield from self._member(field.type, names[field.name], field.unit)
        if not record.fields:
            yield "uint8 structure_needs_at_least_one_member"

    def _member(self, type_: Type, name: str, unit: str = "") -> Iterator[str]:
        inner = innermost(type_)[0]
        if isinstance(inner, Enumeration):
            for member, number in inner.members:
                yield f"{_integer(inner)} {name.upper()}_{_identifier(member, 'M').upper()}={number}"
        if isinstance(type_, Sequence) and len(type_.shape) > 1:
            yield f"uint32[{len(type_.shape)}] {name}_shape"
        said = _comment(inner, unit)
        yield f"{self._type(type_)} {name}{said and f' # {said}'}"

    def _type(self, type_: Type) -> str:
        match type_:
            case Nullable():
                return f"{self._element(type_.element)}[<=1]"
            case StaticArray():
                return f"{self._element(type_.element)}[{prod(type_.shape)}]"
            case Sequence():
                return f"{self._element(type_.element)}[]"
            case Record():
                return f"{PACKAGE}/{self.name_of(type_)}"
            case Enumeration():
                return _integer(type_)
            case Text():
                return "string"
            case Blob():
                return "uint8[]"
            case Scalar():
                return self._scalar(type_)

    def _element(self, type_: Type) -> str:
        """Of a list. Messages have no lists of lists; a message adds no bytes to what it holds."""
        name = self._type(type_)
        if not name.endswith("]"):
            return name
        return f"{PACKAGE}/{self._name_of_items(type_)}"

    def _name_of_items(self, type_: Type) -> str:
        lines = list(self._member(type_, "items"))
        for name, others in self._lines_by_name.items():
            if others == lines:
                return name
        name = _unique("Items", set(self._lines_by_name))
        self._lines_by_name[name] = lines
        return name

    def _scalar(self, scalar: Scalar) -> str:
        match scalar.kind:
            case Kind.COMPLEX:
                return f"float{scalar.size * 4}[2]"
            case Kind.TIMESTAMP | Kind.DURATION:
                return "int64"
            case Kind.CHARS if self._is_chars_text:
                return "string"
            case Kind.CHARS | Kind.BYTES | Kind.UUID:
                return f"uint8[{scalar.size}]"
            case Kind.FLOAT if scalar.size == 2:
                return "float32"
            case kind:
                return _KEPT_AS[kind].format(bits=8 * scalar.size)


def _integer(enumeration: Enumeration) -> str:
    return f"int{8 * enumeration.size}"


def _comment(leaf: Type, unit: str) -> str:
    """What a number means, on one line."""
    is_time = isinstance(leaf, Scalar) and leaf.kind in (Kind.TIMESTAMP, Kind.DURATION)
    since = " since 1970-01-01 UTC" if isinstance(leaf, Scalar) and leaf.kind is Kind.TIMESTAMP else ""
    said = f"ns{since}" if is_time else " ".join(unit.split())
    return said if said.isprintable() else ""


def _identifier(name: str, prefix: str) -> str:
    """Letters of ASCII, digits and single underscores, the first a letter."""
    made = re.sub("_+", "_", re.sub("[^A-Za-z0-9]", "_", name)).strip("_")
    return made if made[:1].isalpha() else prefix + made


def _unique(name: str, taken: set[str]) -> str:
    made, number = name, 2
    while made in taken:
        made, number = f"{name}{number}", number + 1
    return made


# ---------------------------------------------------------------------------
# Records that are CDR as they lie


def lies_as_cdr(record: Record) -> bool:
    """Whether each number of a record is where CDR has it, counted from the message's start."""
    return bool(record.fields) and _end_of(record, 0, 0) is not None


def cdr_size(record: Record) -> int:
    """The size of such a record as a message: what pads its end is left out."""
    end = _end_of(record, 0, 0)
    assert end is not None
    return end


def _end_of(type_: Type, at: int, end: int) -> int | None:
    """Where a value ends that lies at `at`, and CDR has it behind `end`; None: CDR has it elsewhere."""
    match type_:
        case Record() if type_.fields:
            after: int | None = end
            for field in type_.fields:
                after = None if after is None else _end_of(field.type, at + field.offset, after)
            return after
        case StaticArray():
            return _end_of_array(type_, at, end)
        case Scalar() | Enumeration() if not _is_half(type_):
            return at + type_.size if at == round_up(end, type_.alignment) else None
        case _:
            return None


def _end_of_array(array: StaticArray, at: int, end: int) -> int | None:
    step, number = array.element.size, prod(array.shape)
    after: int | None = end
    for i in range(min(number, _PERIOD)):
        after = None if after is None else _end_of(array.element, at + i * step, after)
    return None if after is None else after + max(0, number - _PERIOD) * step


def _is_half(type_: Scalar | Enumeration) -> bool:
    return type_.kind is Kind.FLOAT and type_.size == 2
