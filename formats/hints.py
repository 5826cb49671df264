"""A class's annotations with every name resolved.

A name is looked up where the annotation was written: in the module of the class that has the annotation,
not of a subclass. For a class inside a function the function's local variables count too, and the function
must still be running then. The class keeps the result, so that later calls need neither.
"""

from __future__ import annotations

import builtins
import inspect
import sys
import types
import typing
from typing import Any

from echo_core.errors import FormatError, unexpected

if sys.version_info >= (3, 14):
    from annotationlib import Format, get_annotations

    def _annotations_of(cls: type[Any]) -> dict[str, Any]:
        """The annotations of one class: as they are, or as text where they cannot be evaluated yet.

        Python evaluates them here, and before 3.14 in the class body. As text they may also name what else an
        annotation may, such as a field for a dimension, and the error says what is missing.
        """
        try:
            return get_annotations(cls)
        except (NameError, AttributeError, TypeError):
            return dict(get_annotations(cls, format=Format.STRING))

else:
    _annotations_of = inspect.get_annotations

_HINTS = "__echo_hints__"
_LOCALS = ".<locals>."


class UnknownNameError(FormatError):
    """An annotation refers to a name that is not defined, or not yet."""


def hints_of(cls: type[Any]) -> dict[str, Any]:
    """The annotations of a class and its parents, by name."""
    if _HINTS not in vars(cls):  # a parent's annotations are not all of a subclass's
        type.__setattr__(cls, _HINTS, _resolved(cls))
    hints: dict[str, Any] = vars(cls)[_HINTS]
    return hints


def evaluated(text: str, cls: type[Any], path: str) -> Any:
    """Resolves an annotation of `cls` that is text inside another annotation."""
    try:
        return _resolved_alone(cls, {"it": text})["it"]
    except FormatError as error:
        raise type(error)(str(error).partition(" - at ")[0], path=path) from None


def _resolved(cls: type[Any]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for parent in reversed(cls.__mro__):
        annotations = _annotations_of(parent)
        if annotations:
            hints.update(_resolved_alone(parent, annotations))
    return hints


def _resolved_alone(cls: type[Any], annotations: dict[str, Any]) -> dict[str, Any]:
    """The annotations of one class without its parents', resolved."""
    alone = types.new_class(cls.__name__, (), {}, lambda body: body.update(__annotations__=annotations))
    alone.__module__ = cls.__module__
    known = {**vars(builtins), **vars(sys.modules.get(cls.__module__, builtins))}
    # A field's name as text, because a dimension may be one; other meanings of a name win.
    fields = {name: name for name in annotations if name not in known}
    # What the class body defines, without the fields: their defaults are no types.
    others = {name: value for name, value in vars(cls).items() if name not in annotations}
    names = {**fields, **_locals_around(cls), **others}
    try:
        return typing.get_type_hints(alone, localns=names, include_extras=True)
    except NameError as error:
        raise unexpected(
            UnknownNameError,
            "names that can be resolved",
            f"`{error.name}` in an annotation",
            path=cls.__name__,
            hint="import it, or define it before the class is used",
        ) from None
    except (SyntaxError, TypeError, AttributeError) as error:
        raise unexpected(
            FormatError, "annotations that can be evaluated", f"one that cannot: {error}", path=cls.__name__
        ) from error


def _locals_around(cls: type[Any]) -> dict[str, Any]:
    """The local variables of the running functions in which a class was defined, the innermost first."""
    names: dict[str, Any] = {}
    frame = inspect.currentframe() if _LOCALS in cls.__qualname__ else None
    while frame is not None:
        is_around = cls.__qualname__.startswith(frame.f_code.co_qualname + _LOCALS)
        if is_around and frame.f_globals.get("__name__") == cls.__module__:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names
