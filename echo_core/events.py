"""Declaring events: `@event` makes an event class, `named` and `field` say more about it and its fields."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform, overload

from echo_core.errors import FormatError
from echo_core.formats.annotations import NAMES_KEY, OPTIONS_KEY, FieldOptions, Names
from echo_core.formats.check import check_name
from echo_core.formats.declare import format_of, has_format
from echo_core.formats.hints import UnknownNameError
from echo_core.formats.record_class import equal_records, holds_arrays

T = TypeVar("T")
_MISSING: Any = dataclasses.MISSING


def field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    aliases: tuple[str, ...] = (),
    unit: str = "",
    doc: str = "",
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the name that dataclasses.field has
    compare: bool = True,
    hash: bool | None = None,  # noqa: A002 - likewise
    kw_only: bool | Any = _MISSING,
) -> Any:
    """A dataclass field that also knows its former names, its unit and what it means.

    Arguments:
        aliases: the field's former names. A sender that still uses one is understood, and a receiver that
            still uses one understands this sender. They travel with the format.
        unit: a unit such as `"m/s"`. It travels with the format; a comparison notes where two differ.
        doc: what the field means, for people. It is shown by `describe()` and `to_c()` and never sent.
        default, default_factory, init, repr, compare, hash, kw_only: as in `dataclasses.field`.

    Raises:
        FormatError: `aliases` is no tuple of names, or `unit` or `doc` is no text.

    >>> @echo.event
    ... class Particle:
    ...     temperature: float = echo.field(default=300.0, aliases=("temp",), unit="K")
    >>> echo.format_of(Particle).fields[0].aliases
    ('temp',)
    """
    _demand_texts(aliases, unit=unit, doc=doc)
    return dataclasses.field(
        default=default,
        default_factory=default_factory,
        init=init,
        repr=repr,
        compare=compare,
        hash=hash,
        kw_only=kw_only,
        metadata={OPTIONS_KEY: FieldOptions(tuple(aliases), unit, doc)},
    )


def _demand_texts(aliases: tuple[str, ...], **texts: str) -> None:
    if isinstance(cast("object", aliases), str):
        msg = f"Expected a tuple of names as aliases, got the text {aliases!r}"
        raise FormatError(msg, hint=f"write `aliases=({aliases!r},)`")
    for what, text in (*texts.items(), *(("alias", alias) for alias in aliases)):
        if not isinstance(cast("object", text), str):
            msg = f"Expected text as {what}, got `{type(text).__qualname__}`"
            raise FormatError(msg)


def named(name: str = "", *, aliases: tuple[str, ...] = ()) -> Callable[[type[T]], type[T]]:
    """Says what the events of a dataclass are called; `@echo.event(name=..., aliases=...)` does so itself.

    On a channel a sink takes what is called as its class is. Subclasses have names of their own.

    Arguments:
        name: by default the class's, unqualified.
        aliases: former names. Who still uses one is understood, and understands these events.

    Raises:
        FormatError: a name is no identifier, is given twice, or comes after the class's format is known.

    >>> import dataclasses
    >>> @echo.named(aliases=("Thermometer",))
    ... @dataclasses.dataclass
    ... class Sensor:
    ...     celsius: float
    >>> echo.format_of(Sensor).record.aliases
    ('Thermometer',)
    """
    _demand_texts(aliases, name=name)

    def decorate(cls: type[T]) -> type[T]:
        names = Names(name or cls.__name__, tuple(aliases))
        for each in (names.name, *names.aliases):
            check_name(each, FormatError)
        if has_format(cls):
            msg = f"Expected a class whose format nobody knows yet, got `{cls.__qualname__}`"
            raise FormatError(msg, hint="name an event class by `@echo.event(name=..., aliases=...)`")
        type.__setattr__(cls, NAMES_KEY, names)
        return cls

    return decorate


@overload
def event(cls: type[T], /) -> type[T]: ...


@overload
def event(
    *,
    name: str = "",
    aliases: tuple[str, ...] = (),
    frozen: bool = False,
    order: bool = False,
    eq: bool = True,
    kw_only: bool = False,
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(field, dataclasses.field))
def event(
    cls: type[T] | None = None, /, *, name: str = "", aliases: tuple[str, ...] = (), **options: bool
) -> type[T] | Callable[[type[T]], type[T]]:
    """A dataclass whose instances hold their record as it lies in memory.

    Use it as `@echo.event` or `@echo.event(frozen=True)`. The class's layout is checked here, and values are
    checked when they are assigned. A class with an annotation that names a class which is not defined yet is
    checked on first use, and is a plain dataclass with slots.

    Arguments:
        cls: the class with annotated fields, given by `@echo.event` itself.
        name: what others call these events, by default the class's name.
        aliases: their former names, as `echo.named` has them.
        options: `frozen`, `order`, `eq` and `kw_only`, as in `dataclasses.dataclass`.

    Raises:
        FormatError: a field's type has no layout, where the message names the field and what to use
            instead; or `name` or `aliases` are none.

    >>> @echo.event
    ... class Point:
    ...     x: float
    ...     y: echo.Float32 = 0.0
    >>> point = Point(1.5)
    >>> point.y = "far"
    Traceback (most recent call last):
    echo_core.errors.EncodeTypeError: Expected `float32`, got `str` - at `Point.y`
    """

    from echo_core.codegen.events.record_types import (
        native_class,  # with half of codegen: for who declares events
    )

    def decorate(plain: type[T]) -> type[T]:
        has_own_init = "__init__" in vars(plain)
        has_own_equality = "__eq__" in vars(plain) or not options.get("eq", True)
        called = named(name, aliases=aliases)(plain) if name or aliases else plain
        slotted = dataclasses.dataclass(slots=True, **options)(called)
        made: type[T] = slotted
        with contextlib.suppress(UnknownNameError):
            if holds_arrays(format_of(slotted).record) and not has_own_equality:
                type.__setattr__(slotted, "__eq__", equal_records)
            made = native_class(slotted, plain, has_own_init=has_own_init)
            format_of(made)
        return made

    return decorate if cls is None else decorate(cls)
