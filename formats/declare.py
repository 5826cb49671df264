"""From a dataclass to a format: annotations become types, members get offsets."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import types
import typing
import uuid
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass
from inspect import isabstract
from typing import Annotated, Any, cast

import numpy as np

from echo_core.errors import EncodeError, FormatError, unexpected
from echo_core.formats import limits
from echo_core.formats.abi import Abi, abi_named
from echo_core.formats.annotations import OPTIONS_KEY, ArraySpec, FieldOptions, LongSpec, Names
from echo_core.formats.check import check_enumeration, check_record
from echo_core.formats.format import Format
from echo_core.formats.hints import evaluated, hints_of
from echo_core.formats.layout import Layout, place
from echo_core.formats.leaves import Leaf, integer_range, pack_default, to_plain
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
    innermost,
    required,
)

# A class's formats are stored as an attribute of the class. They refer to the class, so in a separate table,
# even one with weak keys, they would keep it alive.
_FORMATS = "__echo_formats__"


def format_of(cls: type[Any], *, abi: str | Abi = "native") -> Format:
    """The format of an event class: how its records lie in memory, on this machine or on another.

    It is made once for each class and machine. Names in annotations mean what they mean where they were
    written; see `formats/hints.py`.

    Arguments:
        cls: a class made by `@echo.event` or `@dataclass`.
        abi: the machine: `"native"`, a name such as `"x86_64"` or `"s390x"`, or an `Abi`.

    Raises:
        FormatError: `cls` is no dataclass, one of its fields has no layout, or `abi` is not known.

    >>> @echo.event
    ... class Reading:
    ...     id: int
    ...     volts: echo.Float32
    >>> print(echo.format_of(Reading, abi="s390x"))
    Reading: 16 bytes, big-endian, aligned to 8, pointers of 8
    offset  size  type     field
         0     8  int64    id
         8     4  float32  volts
    """
    try:
        formats: dict[str | Abi, Format] = vars(cls)[_FORMATS]
        known = formats[abi]
    except (KeyError, TypeError):
        return _declared(cls, abi)
    # `dataclass(slots=True)` makes a new class that begins with the old one's attributes, formats included.
    return known if known.record.python is cls else _declared(cls, abi)


def has_format(cls: type[Any]) -> bool:
    """Whether somebody has asked for a format of this very class."""
    return any(known.record.python is cls for known in vars(cls).get(_FORMATS, {}).values())


def _declared(cls: type[Any], key: str | Abi) -> Format:
    _check_class(cls)
    abi = abi_named(key)
    record = _Declaration(abi, ()).record(cls)
    format_ = Format(Layout(abi.byte_order, abi.pointer_size, record))
    if _metadata_bound(record) > limits.MAX_METADATA_BYTES:
        _ = format_.metadata  # raises if it is larger than peers accept
    kept = vars(cls).get(_FORMATS, {})  # not inherited: a subclass has more fields
    fresh = {name: known for name, known in kept.items() if known.record.python is cls}
    type.__setattr__(cls, _FORMATS, {**fresh, key: format_})
    return format_


def _check_class(cls: Any) -> None:
    if not (inspect.isclass(cls) and dataclasses.is_dataclass(cls)):
        got = getattr(cls, "__qualname__", None) or repr(cls)[:64]
        raise unexpected(
            FormatError,
            "an event class",
            f"`{got}`",
            hint="decorate the class with `@echo_core.event` or `@dataclass`",
        )
    if inspect.isabstract(cls) or issubclass(cls, _MADE_OTHERWISE):
        raise unexpected(
            FormatError,
            "a class whose instances hold their fields and no more",
            f"`{cls.__qualname__}`",
            hint="derive it from other event classes or from nothing",
        )


_MADE_OTHERWISE = (BaseException, dict, list, set, tuple, str, bytes, int, float, complex)


def _metadata_bound(record: Record) -> int:
    """An upper bound of the metadata's size, cheaper than making the metadata."""
    bytes_of_name = 4  # per character, at most
    bound = 24 + 10 + sum(1 + bytes_of_name * len(name) for name in (record.name, *record.aliases))
    for field in record.fields:
        default = (field.default and field.default.data) or b""
        inner, wrappers = innermost(field.type)
        bound += 16 + bytes_of_name * (len(field.name) + len(field.unit)) + len(default)
        bound += sum(1 + bytes_of_name * len(alias) for alias in field.aliases)
        bound += wrappers * (2 + 4 * limits.MAX_DIMENSIONS)
        match inner:
            case Record():
                bound += _metadata_bound(inner)
            case Enumeration():
                bound += (1 + len(inner.members)) * (9 + limits.MAX_NAME_BYTES)
            case _:
                pass
    return bound


@dataclass(frozen=True, slots=True)
class _Declaration:
    """One walk over classes and annotations. `outer` holds the classes around the current one."""

    abi: Abi
    outer: tuple[type[Any], ...]

    def record(self, cls: type[Any]) -> Record:
        inside = dataclasses.replace(self, outer=(*self.outer, cls))
        hints, names = hints_of(cls), Names.of(cls)
        members = [inside.field(member, hints, cls) for member in dataclasses.fields(cls)]
        record = place(names.name, members, self.abi, cls)
        record = dataclasses.replace(record, aliases=names.aliases, is_named=names.is_named)
        check_record(record, self.abi.pointer_size, FormatError)
        return record

    def field(self, member: dataclasses.Field[Any], hints: dict[str, Any], cls: type[Any]) -> Field:
        path = f"{cls.__name__}.{member.name}"
        options = member.metadata.get(OPTIONS_KEY, FieldOptions())
        type_ = self.type_of(hints[member.name], path)
        return Field(
            member.name,
            type_,
            default=_default(member, type_, path),
            aliases=options.aliases,
            unit=options.unit,
            doc=options.doc,
        )

    def type_of(self, annotation: Any, path: str) -> Type:
        """The laid-out type of an annotation."""
        if isinstance(annotation, str):  # an element in quotes, which typing leaves as text
            annotation = evaluated(annotation, self.outer[-1], path)
        plain = _PLAIN_TYPES.get(annotation) if isinstance(annotation, type) else None
        if plain is not None:
            return plain
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            return self._annotated(arguments, path)
        if origin in (typing.Union, types.UnionType):
            return self._union(annotation, arguments, path)
        if origin in (list, tuple):
            return self._sequence(annotation, origin, arguments, path)
        if origin is None and isinstance(annotation, type):
            return self._class(annotation, path)
        raise _no_layout(annotation, path)

    def _annotated(self, arguments: tuple[Any, ...], path: str) -> Type:
        for spec in reversed(_specs(arguments[1:])):
            match spec:
                case Scalar():
                    return spec
                case LongSpec():
                    return spec.scalar(self.abi)
                case ArraySpec():
                    return self._array(spec, path)
                case _:
                    pass
        return self.type_of(arguments[0], path)

    def _array(self, spec: ArraySpec, path: str) -> Type:
        element = self.type_of(spec.element, path)
        if all(isinstance(n, int) for n in spec.shape):
            return StaticArray(element, cast("tuple[int, ...]", spec.shape), np.ndarray)
        shape = tuple(None if n is ... else n for n in spec.shape)
        return Sequence(element, shape, self.abi.pointer_size, np.ndarray)

    def _union(self, annotation: Any, arguments: tuple[Any, ...], path: str) -> Type:
        chosen = [argument for argument in arguments if argument is not types.NoneType]
        if len(chosen) != 1:
            raise _no_layout(annotation, path)
        return Nullable(self.type_of(chosen[0], path))

    def _sequence(self, annotation: Any, container: type[Any], arguments: tuple[Any, ...], path: str) -> Type:
        if container is tuple and (len(arguments) != 2 or arguments[1] is not ...):
            raise _no_layout(annotation, path)
        return Sequence(self.type_of(arguments[0], path), (None,), self.abi.pointer_size, container)

    def _class(self, cls: type[Any], path: str) -> Type:
        if cls is str:
            return Text(self.abi.pointer_size)
        if cls is bytes:
            return Blob(self.abi.pointer_size)
        if issubclass(cls, enum.Enum) and not issubclass(cls, enum.Flag):
            return _enumeration(cls, path)
        if not dataclasses.is_dataclass(cls):
            raise _no_layout(cls, path)
        if cls in self.outer:
            raise unexpected(
                FormatError,
                "a class that does not contain itself",
                f"`{cls.__name__}` inside itself",
                path=path,
                hint="refer to other events by an id of your own",
            )
        if len(self.outer) >= limits.MAX_NESTING:
            raise unexpected(
                FormatError, f"at most {limits.MAX_NESTING} classes inside one another", "more", path=path
            )
        return self.record(cls)


_PLAIN_TYPES: dict[type[Any], Type] = {
    bool: Scalar(Kind.BOOL, 1),
    int: Scalar(Kind.INT, 8),
    float: Scalar(Kind.FLOAT, 8),
    complex: Scalar(Kind.COMPLEX, 16),
    dt.datetime: Scalar(Kind.TIMESTAMP, 8),
    dt.timedelta: Scalar(Kind.DURATION, 8),
    uuid.UUID: Scalar(Kind.UUID, 16),
}


def _specs(metadata: tuple[Any, ...]) -> list[Any]:
    """The metadata of an `Annotated`, with that of an `Annotated` inside it."""
    found: list[Any] = []
    for item in metadata:
        found += typing.get_args(item)[1:] if typing.get_origin(item) is Annotated else [item]
    return found


_WAYS_OUT: tuple[tuple[tuple[Any, ...], str], ...] = (
    ((dict, Mapping), "use a list of records with a key and a value"),
    ((set, frozenset), "use `list[T]`"),
    ((list, Iterable, AnySequence), "name the elements' type, as in `list[int]`"),
    ((tuple,), "use `tuple[T, ...]`, `echo_core.Array[T, n]` or a record"),
    ((np.ndarray,), "use `echo_core.Array[echo_core.Float64, ...]`"),
    ((np.generic,), "use `echo_core.Float32`, `echo_core.Int16` and the like"),
    ((bytearray, memoryview), "use `bytes`"),
    ((dt.date, dt.time), "use `datetime.datetime`"),
    ((enum.Flag,), "use `echo_core.UInt32` and combine the flags' values"),
    ((typing.Union, types.UnionType), "use one type, or one and None"),
)


def _no_layout(annotation: Any, path: str) -> FormatError:
    name = annotation.__qualname__ if type(annotation) is type else str(annotation)
    origin = typing.get_origin(annotation) or annotation
    hints = (
        hint
        for origins, hint in _WAYS_OUT
        if any(origin is o or (_is_class(origin, o) and not isabstract(o)) for o in origins)
    )
    hint = next(hints, "use a scalar, str, bytes, Enum, list, Array or a dataclass")
    return unexpected(FormatError, "a type with a native layout", f"`{name}`", path=path, hint=hint)


def _is_class(origin: Any, base: Any) -> bool:
    return isinstance(origin, type) and isinstance(base, type) and issubclass(origin, base)


def _enumeration(cls: type[enum.Enum], path: str) -> Enumeration:
    """Members are numbered by their values if all are integers, else by their positions."""
    values = [member.value for member in cls]
    if not all(type(value) is int for value in values):
        values = list(range(len(values)))
    members = tuple((member.name, value) for member, value in zip(cls, values, strict=True))
    low, high = integer_range(Kind.INT, 4)
    size = 4 if all(low <= value <= high for value in values) else 8
    enumeration = Enumeration(cls.__name__, size, members, cls)
    try:
        check_enumeration(enumeration, FormatError)
    except FormatError as error:
        raise FormatError(str(error), path=path) from None
    return enumeration


def _default(member: dataclasses.Field[Any], type_: Type, path: str) -> Default | None:
    """A default of one value travels in the metadata; factories and containers stay with the class."""
    if member.default_factory is not dataclasses.MISSING:
        return Default(local=True)
    if member.default is dataclasses.MISSING:
        return None
    leaf = required(type_)
    if isinstance(type_, Nullable) and member.default is None:
        return Default()
    if not isinstance(leaf, Leaf):
        return Default(local=True)
    try:
        data = pack_default(leaf, to_plain(leaf, member.default, ""))
    except EncodeError as error:
        msg = f"Expected a default that fits: {error}"
        raise FormatError(msg, path=path) from None
    return Default(data) if len(data) <= limits.MAX_DEFAULT_BYTES else Default(local=True)
