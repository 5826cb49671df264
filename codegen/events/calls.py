"""How a call of an event class makes an event: the `__init__` of its dataclass, as data that C code follows.

native/events/records/making.c does what the generated function would do. A class whose calls do anything
else (an `__init__`, `__new__` or `__setattr__` of its own, a metaclass, arguments that are no fields) keeps
running it.
"""

from __future__ import annotations

import dataclasses
from types import FunctionType
from typing import Any

# C code has room for so many (MAX_ARGUMENTS).
MAX_ARGUMENTS = 512

# An argument's name, and its default ("d") or what makes one ("f").
Argument = tuple[str, Any, str]


def how_to_make(
    cls: type[Any],
) -> tuple[FunctionType, tuple[Argument, ...], int, tuple[int, ...], str | None] | None:
    """What Shape.make_by wants to know of a class with a generated `__init__`; None where that has to run.

    The function itself, its arguments, how many of these may be given by position, which of them is set first
    and which next, and the name of a method to call in the end.
    """
    init = vars(cls).get("__init__")
    fields = dataclasses.fields(cls)
    if not isinstance(init, FunctionType) or _meddles(cls) or len(fields) > MAX_ARGUMENTS:
        return None
    by_position = [field for field in fields if not field.kw_only]
    ordered = [*by_position, *(field for field in fields if field.kw_only)]
    names = [field.name for field in ordered]
    if not all(field.init for field in fields) or names != _arguments_of(init):
        return None
    order = tuple(names.index(field.name) for field in fields)
    after = "__post_init__" if hasattr(cls, "__post_init__") else None
    return init, tuple(map(_argument, ordered)), len(by_position), order, after


def _meddles(cls: Any) -> bool:
    """Whether making an instance, or setting an attribute, is anything but Python's own."""
    plain: Any = object
    frozen: bool = cls.__dataclass_params__.frozen  # then attributes are set past `__setattr__`
    sets = frozen or cls.__setattr__ is plain.__setattr__
    return type(cls) is not type or cls.__new__ is not plain.__new__ or not sets


def _arguments_of(init: FunctionType) -> list[str]:
    """The names of all arguments but `self`."""
    code = init.__code__
    return list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def _argument(field: dataclasses.Field[Any]) -> Argument:
    if field.default_factory is not dataclasses.MISSING:
        return field.name, field.default_factory, "f"
    return field.name, field.default, "" if field.default is dataclasses.MISSING else "d"
