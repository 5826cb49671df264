"""The annotations that say how a dataclass field is laid out in memory.

Scalar names are `Annotated` aliases: a type checker sees int, float or complex. `Chars`, `Bytes` and
`Array` take numbers, which no type expression may; what checkers see instead is at the end of this module.
"""

# mypy and pyright see different branches of this module.
# mypy: disable-error-code="unreachable"

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np

from echo_core.errors import FormatError, unexpected
from echo_core.formats.abi import Abi
from echo_core.formats.types import Kind, Scalar


@dataclass(frozen=True, slots=True)
class LongSpec:
    """The integer that C calls `long`: as wide as the machine says."""

    kind: Literal[Kind.INT, Kind.UINT]

    def scalar(self, abi: Abi) -> Scalar:
        return Scalar(self.kind, abi.long_size)


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array of a type not yet laid out; a dimension is a number, `...` or the name of a field."""

    element: Any
    shape: tuple[int | str | EllipsisType, ...]


OPTIONS_KEY = "echo_core"


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """What a dataclass field says beyond its type and default, under OPTIONS_KEY of its metadata."""

    aliases: tuple[str, ...] = ()
    unit: str = ""
    doc: str = ""


NAMES_KEY = "__echo_names__"


@dataclass(frozen=True, slots=True)
class Names:
    """What events of a class are called, as an attribute NAMES_KEY of the class; `Record` explains them."""

    name: str
    aliases: tuple[str, ...] = ()
    is_named: bool = True

    @classmethod
    def of(cls, event_class: type[Any]) -> Names:
        """The class's own, which its subclasses do not inherit; by default its unqualified name."""
        given: Names | None = vars(event_class).get(NAMES_KEY)
        return given or Names(event_class.__name__)


Int8 = Annotated[int, Scalar(Kind.INT, 1)]
Int16 = Annotated[int, Scalar(Kind.INT, 2)]
Int32 = Annotated[int, Scalar(Kind.INT, 4)]
Int64 = Annotated[int, Scalar(Kind.INT, 8)]
UInt8 = Annotated[int, Scalar(Kind.UINT, 1)]
UInt16 = Annotated[int, Scalar(Kind.UINT, 2)]
UInt32 = Annotated[int, Scalar(Kind.UINT, 4)]
UInt64 = Annotated[int, Scalar(Kind.UINT, 8)]
Long = Annotated[int, LongSpec(Kind.INT)]
ULong = Annotated[int, LongSpec(Kind.UINT)]
Float16 = Annotated[float, Scalar(Kind.FLOAT, 2)]
Float32 = Annotated[float, Scalar(Kind.FLOAT, 4)]
Float64 = Annotated[float, Scalar(Kind.FLOAT, 8)]
Complex64 = Annotated[complex, Scalar(Kind.COMPLEX, 8)]
Complex128 = Annotated[complex, Scalar(Kind.COMPLEX, 16)]

# mypy treats a constant of this name as true; every other tool reads the value.
MYPY: Literal[False] = False

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    if MYPY:
        # mypy allows no number between the brackets of a class. So it sees Any, or the exact types with
        # the plugin `echo_core.mypy_plugin`.
        # They are imported because pyright would take declarations here for those of its own branch.
        from echo_core.formats.unchecked import Array as Array
        from echo_core.formats.unchecked import Bytes as Bytes
        from echo_core.formats.unchecked import Chars as Chars
    else:
        # pyright accepts anything in brackets where `__class_getitem__` is defined, and takes a field's
        # type from the descriptor methods.
        class Chars:
            def __class_getitem__(cls, size: int) -> type[Self]: ...
            def __get__(self, instance: object, owner: object) -> str: ...
            def __set__(self, instance: object, value: str) -> None: ...

        class Bytes:
            def __class_getitem__(cls, size: int) -> type[Self]: ...
            def __get__(self, instance: object, owner: object) -> bytes: ...
            def __set__(self, instance: object, value: bytes) -> None: ...

        class Array:
            def __class_getitem__(cls, element_and_shape: Any) -> type[Self]: ...
            def __get__(self, instance: object, owner: object) -> NDArray[Any]: ...
            def __set__(self, instance: object, value: ArrayLike) -> None: ...

else:

    class Chars:
        """`Chars[n]`: text of at most n bytes, held in the record itself."""

        def __class_getitem__(cls, size):
            return Annotated[str, Scalar(Kind.CHARS, _size(size, "Chars"))]

    class Bytes:
        """`Bytes[n]`: exactly n bytes, held in the record itself."""

        def __class_getitem__(cls, size):
            return Annotated[bytes, Scalar(Kind.BYTES, _size(size, "Bytes"))]

    class Array:
        """`Array[T, n, m]`: inside the record. `Array[T, ...]`: among its variable parts.

        A dimension may also be the name of an integer field of the same class, which then holds its length.
        """

        def __class_getitem__(cls, element_and_shape):
            if not isinstance(element_and_shape, tuple) or len(element_and_shape) < 2:
                raise unexpected(
                    FormatError, "`Array[type, dimension, ...]`", f"`Array[{element_and_shape!r}]`"
                )
            element, *shape = element_and_shape
            for n in shape:
                if n is not ... and not (isinstance(n, str) or (type(n) is int and n > 0)):
                    raise unexpected(
                        FormatError, "a positive number, `...` or a field's name as dimension", f"{n!r}"
                    )
            return Annotated[np.ndarray, ArraySpec(element, tuple(shape))]


def _size(size: object, name: str) -> int:
    if isinstance(size, int) and not isinstance(size, bool) and 1 <= size < 65536:
        return size
    raise unexpected(FormatError, f"`{name}[n]` with n from 1 to 65535", f"`{name}[{size!r}]`")
