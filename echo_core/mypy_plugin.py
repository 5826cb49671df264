"""What mypy sees for annotations that it has no spelling for.

Without this plugin `Chars[16]`, `Bytes[4]` and `Array[Float32, ...]` are Any to mypy, which allows no number
between the brackets of a type; with it they are str, bytes and a numpy array. In pyproject.toml:

    [tool.mypy]
    plugins = ["echo_core.mypy_plugin"]

pyright needs nothing of the kind. Only mypy imports this module; echo_core itself never does.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import AnyType, Type, TypeOfAny

_MODULE = "echo_core.formats.unchecked."


class EchoPlugin(Plugin):
    """Gives the three names that take numbers the types that their fields hold."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """The hook for one of the three names; mypy asks for every name in an annotation."""
        return _HOOKS.get(fullname)


def _text(context: AnalyzeTypeContext) -> Type:
    return context.api.named_type("builtins.str", [])


def _bytes(context: AnalyzeTypeContext) -> Type:
    return context.api.named_type("builtins.bytes", [])


def _array(context: AnalyzeTypeContext) -> Type:
    anything = AnyType(TypeOfAny.explicit)
    dtype = context.api.named_type("numpy.dtype", [anything])
    return context.api.named_type("numpy.ndarray", [anything, dtype])


_HOOKS: dict[str, Callable[[AnalyzeTypeContext], Type]] = {
    _MODULE + "Chars": _text,
    _MODULE + "Bytes": _bytes,
    _MODULE + "Array": _array,
}


def plugin(version: str) -> type[Plugin]:
    """Where mypy enters."""
    return EchoPlugin
