"""The rules for every record, whether declared here or described by a peer.

Codecs, conversions and generated code rely on these checks. The caller names the error to raise, because the
same mistake is the caller's fault in a class and the peer's in metadata. Nested records are checked first, so
every check works on types of bounded depth.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from math import prod

from echo_core.errors import EchoError, unexpected
from echo_core.formats import limits
from echo_core.formats.leaves import Leaf, integer_range, unpack_default
from echo_core.formats.types import (
    SIZES_BY_KIND,
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
    Wrapper,
    innermost,
    required,
)

Fault = type[EchoError]

_POINTER_SIZES = (4, 8)
_ALIGNMENTS = tuple(1 << shift for shift in range(limits.MAX_ALIGNMENT.bit_length()))
_RESERVED = re.compile(r"__.*__")


def check_pointer_size(pointer_size: int, fault: Fault) -> None:
    """What the slots of a layout are made of."""
    if pointer_size not in _POINTER_SIZES:
        raise unexpected(fault, "pointers of 4 or 8 bytes", pointer_size)


def check_record(record: Record, pointer_size: int, fault: Fault) -> None:
    """Checks one record; nested records have been checked before. Raises `fault` with the field's path."""
    check_name(record.name, fault)
    path = record.name
    _check_former_names(record, fault)
    if record.alignment not in _ALIGNMENTS:
        raise unexpected(fault, f"an alignment of 1 to {limits.MAX_ALIGNMENT}", record.alignment, path=path)
    if not 1 <= record.size <= limits.MAX_RECORD_BYTES or record.size % record.alignment:
        known = f"1 to {limits.MAX_RECORD_BYTES} bytes, a multiple of its alignment {record.alignment}"
        raise unexpected(fault, f"a record of {known}", record.size, path=path)
    _at_most(record.leaves, limits.MAX_FIELDS, "fields", fault, path)
    _at_most(record.depth, limits.MAX_NESTING, "levels of nesting", fault, path)
    types = {field.name: field.type for field in record.fields}
    for field in record.fields:
        _check_field(field, record, types, pointer_size, fault)
    _check_names(record, fault)
    _check_places(record, fault)


def check_name(name: str, fault: Fault, path: str = "") -> None:
    """A name is an identifier in NFKC form, not too long, and no Python keyword or special method."""
    if (
        not name.isidentifier()
        or len(name.encode()) > limits.MAX_NAME_BYTES
        or keyword.iskeyword(name)
        or _RESERVED.fullmatch(name)
        or not unicodedata.is_normalized("NFKC", name)
    ):
        raise unexpected(
            fault,
            f"an identifier of at most {limits.MAX_NAME_BYTES} bytes",
            f"{name[:64]!r}",
            path=path,
            hint="names that Python gives a meaning to are not allowed",
        )


def _check_former_names(record: Record, fault: Fault) -> None:
    _at_most(len(record.aliases), limits.MAX_ALIASES, "aliases", fault, record.name)
    for name in record.aliases:
        check_name(name, fault, record.name)
    names = (record.name, *record.aliases)
    if len(set(names)) < len(names):
        raise unexpected(fault, "names and aliases that are given once", "one twice", path=record.name)
    if record.aliases and not record.is_named:
        raise unexpected(fault, "no aliases of what nobody has named", "some", path=record.name)


def check_enumeration(enumeration: Enumeration, fault: Fault) -> None:
    """Checks an enumeration: its size, and that no name and no number is given twice."""
    check_name(enumeration.name, fault)
    path = enumeration.name
    if enumeration.size not in SIZES_BY_KIND[Kind.INT]:
        raise unexpected(fault, "an enumeration of 1, 2, 4 or 8 bytes", enumeration.size, path=path)
    _at_most(len(enumeration.members), limits.MAX_ENUM_MEMBERS, "members", fault, path)
    low, high = integer_range(Kind.INT, enumeration.size)
    if not enumeration.members:
        raise unexpected(fault, "at least one member", "none", path=path)
    for name, number in enumeration.members:
        check_name(name, fault, path)
        private = name.startswith(f"_{enumeration.name}__")  # Enum would not make it a member
        if name == "mro" or private or (name.startswith("_") and name.endswith("_")):
            raise unexpected(fault, "a name that a member of an Enum can have", f"`{name}`", path=path)
        if not low <= number <= high:
            raise unexpected(fault, f"a number from {low} to {high} for `{name}`", number, path=path)
    for what, given in (
        ("names", {name for name, _ in enumeration.members}),
        ("numbers", {number for _, number in enumeration.members}),
    ):
        if len(given) != len(enumeration.members):
            raise unexpected(fault, f"members with different {what}", "one twice", path=path)


def _at_most(count: int, limit: int, what: str, fault: Fault, path: str) -> None:
    if count > limit:
        raise unexpected(fault, f"at most {limit} {what}", count, path=path)


def _check_field(
    field: Field, record: Record, types: dict[str, Type], pointer_size: int, fault: Fault
) -> None:
    path = f"{record.name}.{field.name}"
    check_name(field.name, fault, record.name)
    _check_type(field.type, types, pointer_size, fault, path)
    if field.offset < 0 or field.end > record.size:
        raise unexpected(
            fault,
            f"a field within the record's {record.size} bytes",
            f"{field.offset} to {field.end}",
            path=path,
        )
    if not field.unit.isprintable() or len(field.unit.encode()) > limits.MAX_NAME_BYTES:
        raise unexpected(
            fault,
            f"a printable unit of at most {limits.MAX_NAME_BYTES} bytes",
            f"{field.unit[:64]!r}",
            path=path,
        )
    _at_most(len(field.aliases), limits.MAX_ALIASES, "aliases", fault, path)
    _check_default(field, fault, path)


def _check_type(type_: Type, types: dict[str, Type], pointer_size: int, fault: Fault, path: str) -> None:
    leaf, _ = innermost(type_)  # first: the sizes of wrappers follow from it
    if isinstance(leaf, Scalar) and leaf.size not in SIZES_BY_KIND[leaf.kind]:
        kind = leaf.kind.name.lower()
        raise unexpected(fault, f"a size that `{kind}` has", f"{leaf.size} bytes", path=path)
    outermost = True
    while isinstance(type_, Wrapper):
        match type_:
            case StaticArray():
                _check_shape(type_.shape, fault, path)
                _at_most(prod(type_.shape), limits.MAX_RECORD_BYTES, "elements", fault, path)
            case Sequence():
                fixed = [n for n in type_.shape if isinstance(n, int)]
                _check_shape(fixed, fault, path)
                _at_most(
                    prod(fixed) * type_.element.size,
                    limits.MAX_RECORD_BYTES,
                    "bytes a step",
                    fault,
                    path,
                )
                _check_counts(type_, types, fault, path, outermost=outermost)
            case Nullable():
                if isinstance(type_.element, Nullable):
                    raise unexpected(fault, "a type that is optional once", "it twice", path=path)
        outermost = isinstance(type_, Nullable) and outermost
        type_ = type_.element
    if isinstance(type_, Text | Blob) and type_.pointer_size != pointer_size:
        raise unexpected(fault, f"pointers of {pointer_size} bytes", type_.pointer_size, path=path)


def _check_shape(shape: tuple[int, ...] | list[int], fault: Fault, path: str) -> None:
    _at_most(len(shape), limits.MAX_DIMENSIONS, "dimensions", fault, path)
    if any(not 1 <= n <= limits.MAX_RECORD_BYTES for n in shape):
        raise unexpected(fault, f"dimensions of 1 to {limits.MAX_RECORD_BYTES}", list(shape), path=path)


def _check_counts(
    sequence: Sequence, types: dict[str, Type], fault: Fault, path: str, *, outermost: bool
) -> None:
    _at_most(len(sequence.shape), limits.MAX_DIMENSIONS, "dimensions", fault, path)
    if all(isinstance(n, int) for n in sequence.shape):
        raise unexpected(
            fault, "a sequence with a dimension that varies", "none: it is a static array", path=path
        )
    for name in (n for n in sequence.shape if isinstance(n, str)):
        if not outermost:
            raise unexpected(
                fault,
                "a count of its own for a sequence inside another type",
                f"the field `{name}`",
                path=path,
            )
        count = types.get(name)
        if not isinstance(count, Scalar) or count.kind not in (Kind.INT, Kind.UINT):
            got = "none of that name" if count is None else f"`{count}`"
            raise unexpected(fault, f"an integer field `{name}` that counts the elements", got, path=path)


def _check_default(field: Field, fault: Fault, path: str) -> None:
    if field.default is None:
        return
    data, local = field.default.data, field.default.local
    if data is None:
        if not local and not isinstance(field.type, Nullable):
            raise unexpected(fault, f"a default for `{field.type}`", "None", path=path)
        return
    _at_most(len(data), limits.MAX_DEFAULT_BYTES, "bytes of default", fault, path)
    leaf = required(field.type)
    if local or not isinstance(leaf, Leaf):
        raise unexpected(fault, f"no default that travels for `{field.type}`", "one", path=path)
    plain = unpack_default(leaf, data, path)
    if isinstance(leaf, Enumeration) and plain not in leaf.numbers:
        raise unexpected(fault, f"a number of `{leaf}` as default", plain, path=path)
    if isinstance(plain, bool) and data not in (b"\0", b"\1"):
        raise unexpected(fault, "0 or 1 as default", data[0], path=path)


def _check_names(record: Record, fault: Fault) -> None:
    """Checks that all names and former names differ, so that a name identifies one field."""
    seen: set[str] = set()
    for field in record.fields:
        for name in (field.name, *field.aliases):
            check_name(name, fault, record.name)
            if name in seen:
                raise unexpected(
                    fault, "names and aliases that are given once", f"`{name}` twice", path=record.name
                )
            seen.add(name)


def _check_places(record: Record, fault: Fault) -> None:
    end, before = 0, ""
    for field in sorted(record.fields, key=lambda field: field.offset):
        if field.offset < end:
            raise unexpected(
                fault,
                "fields that do not overlap",
                f"one that begins inside `{before}`",
                path=f"{record.name}.{field.name}",
            )
        end, before = field.end, field.name
