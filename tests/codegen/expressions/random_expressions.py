"""Random records, random values for them, and random expressions that fit, as text."""

from __future__ import annotations

import dataclasses
import enum
import math
import struct
import types
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import echo_core as echo
from tests.codegen.expressions.oracle import UInt


class Kind(enum.Enum):
    """Of members with numbers apart."""

    ion = 1
    electron = -7
    photon = 100


_INTS: dict[Any, int] = {echo.Int8: 8, echo.Int16: 16, echo.Int32: 32, int: 64}
_UINTS: dict[Any, int] = {echo.UInt8: 8, echo.UInt16: 16, echo.UInt32: 32}
_FLOATS: dict[Any, str] = {echo.Float16: "e", echo.Float32: "f", float: "d"}
_SORTS: dict[Any, str] = {
    **dict.fromkeys([*_INTS, *_UINTS], "int"),
    echo.UInt64: "uint",
    **dict.fromkeys(_FLOATS, "float"),
    bool: "bool",
    str: "text",
    echo.Chars[5]: "text",
    Kind: "enum",
}
_ODD_FLOATS = (0.0, -0.0, 1.0, -1.5, 0.1, math.inf, -math.inf, math.nan, 2.0**53 + 2, 1e300, 5e-324, 2.0**63)
ARRAY: Any = echo.Array
_TEXTS = ("", "a", "ab", "abc", "é", "zz", "b", "数")
_LITERALS = (0, 1, 2, 3, 5, -1, -3, 7, 64, 1000, 2**31, 2**53 + 1, -(2**63), 2**63 - 1)


def a_float(random: Random, code: str = "d") -> float:
    """As a float of that code has it."""
    pick = random.random()
    if pick < 0.4:
        number = random.choice(_ODD_FLOATS)
    elif pick < 0.7:
        number = float(random.randint(-5, 5))
    else:
        number = random.uniform(-1000.0, 1000.0)
    try:
        return float(struct.unpack(code, struct.pack(code, number))[0])
    except OverflowError:
        return 0.5


def an_int(random: Random, low: int, high: int) -> int:
    """The ends of the range, small ones, any."""
    pick = random.random()
    if pick < 0.25:
        return random.choice((low, high, low + 1, high - 1, 0))
    return random.randint(max(low, -9), min(high, 9)) if pick < 0.8 else random.randint(low, high)


@dataclass
class Shape:
    """A class of records, and where in expressions its values are, by their sorts."""

    cls: type[Any]
    types: dict[str, Any]
    scalars: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    optionals: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    arrays: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    records: list[str] = field(default_factory=list[str])  # sequences of `inner`
    inner: type[Any] | None = None
    inner_types: dict[str, Any] = field(default_factory=dict[str, Any])


def _list_of(element: Any) -> Any:
    return types.GenericAlias(list, (element,))


def a_shape(random: Random) -> Shape:
    """A class with a field of most kinds."""
    leaves = list(_SORTS)
    inner_types = {f"i{n}": random.choice(leaves) for n in range(random.randint(1, 3))}
    inner: Any = dataclasses.make_dataclass("Inner", list(inner_types.items()), slots=True)
    fields: dict[str, Any] = {f"f{n}": random.choice(leaves) for n in range(random.randint(2, 6))}
    element = random.choice([float, echo.Int32, echo.Float32, echo.UInt8])
    forms: list[tuple[str, Any]] = [
        ("opt", random.choice(leaves) | None),
        ("rec", inner),
        ("maybe", inner | None),
        ("seq", _list_of(random.choice([float, int, echo.Float32, echo.Int16]))),
        ("recs", _list_of(inner)),
        ("arr", ARRAY[element, random.randint(1, 4)]),
    ]
    fields.update(random.sample(forms, random.randint(0, len(forms))))
    cls = dataclasses.make_dataclass("Event", list(fields.items()), slots=True)
    shape = Shape(cls, fields, inner=inner, inner_types=inner_types)
    _find(shape)
    return shape


def _find(shape: Shape) -> None:
    for name, type_ in shape.types.items():
        if name == "opt":
            (leaf,) = (it for it in _arguments(type_) if it is not type(None))
            shape.optionals.setdefault(_SORTS[leaf], []).append(name)
        elif name == "rec":
            for inner, leaf in shape.inner_types.items():
                shape.scalars.setdefault(_SORTS[leaf], []).append(f"rec.{inner}")
        elif name == "recs":
            shape.records.append(name)
        elif name in ("seq", "arr"):
            shape.arrays.setdefault(_element_sort(shape, name), []).append(name)
        elif name != "maybe":
            shape.scalars.setdefault(_SORTS[type_], []).append(name)


def _arguments(type_: Any) -> tuple[Any, ...]:
    import typing

    return typing.get_args(
        type_,
    ) or (type_,)


def _element_sort(shape: Shape, name: str) -> str:
    from echo_core.formats.types import Kind as ScalarKind
    from echo_core.formats.types import innermost

    found = next(it for it in echo.format_of(shape.cls).fields if it.name == name)
    scalar: Any = innermost(found.type)[0]
    return "float" if scalar.kind is ScalarKind.FLOAT else "int"


# ---------------------------------------------------------------------------
# Values


def an_event(random: Random, shape: Shape) -> tuple[Any, dict[str, Any]]:
    """An event, and what the names in expressions are to the oracle."""
    values = {name: _field(random, shape, name, type_) for name, type_ in shape.types.items()}
    return shape.cls(**values), {name: _seen(shape, name, it) for name, it in values.items()}


def _field(random: Random, shape: Shape, name: str, type_: Any) -> Any:
    match name:
        case "opt":
            (leaf,) = (it for it in _arguments(type_) if it is not type(None))
            return None if random.random() < 0.4 else _leaf(random, leaf)
        case "maybe":
            return None if random.random() < 0.4 else _inner(random, shape)
        case "rec":
            return _inner(random, shape)
        case "recs":
            return [_inner(random, shape) for _ in range(random.choice((0, 1, 2, 3)))]
        case "seq":
            (leaf,) = _arguments(type_)
            return [_leaf(random, leaf) for _ in range(random.choice((0, 1, 2, 5)))]
        case "arr":
            dtype: Any = next(it for it in echo.format_of(shape.cls).fields if it.name == name).type
            element: Any = dtype.element
            code = {"float64": "d", "float32": "f"}.get(str(element))
            low, high = (-(2**31), 2**31 - 1) if str(element) == "int32" else (0, 255)
            make = [
                a_float(random, code) if code else an_int(random, low, high) for _ in range(dtype.shape[0])
            ]
            return np.array(make, dtype=str(element))
        case _:
            return _leaf(random, type_)


def _inner(random: Random, shape: Shape) -> Any:
    assert shape.inner is not None
    return shape.inner(*(_leaf(random, type_) for type_ in shape.inner_types.values()))


def _leaf(random: Random, type_: Any) -> Any:
    if type_ in _INTS:
        return an_int(random, -(2 ** (_INTS[type_] - 1)), 2 ** (_INTS[type_] - 1) - 1)
    if type_ in _UINTS:
        return an_int(random, 0, 2 ** _UINTS[type_] - 1)
    if type_ is echo.UInt64:
        return an_int(random, 0, 2**64 - 1)
    if type_ in _FLOATS:
        return a_float(random, _FLOATS[type_])
    if type_ is bool:
        return random.random() < 0.5
    if type_ is Kind:
        return random.choice(list(Kind))
    return random.choice(_TEXTS)


class _Record:
    """A record of the oracle's."""


def _seen(shape: Shape, name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_seen(shape, name, it) for it in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, enum.Enum):
        return value.name
    if shape.inner is not None and isinstance(value, shape.inner):
        record = _Record()
        for inner, type_ in shape.inner_types.items():
            setattr(record, inner, _as(type_, getattr(value, inner)))
        return record
    type_ = shape.types[name]
    return (
        _as(type_, value)
        if name != "opt"
        else _as(echo.UInt64 if echo.UInt64 in _arguments(type_) else 0, value)
    )


def _as(type_: Any, value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name
    return UInt(value) if type_ is echo.UInt64 and value is not None else value


# ---------------------------------------------------------------------------
# Expressions


@dataclass
class Writer:
    """Writes expressions of a sort."""

    random: Random
    shape: Shape
    variables: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    loops: int = 0

    def write(self, sort: str, depth: int) -> str:
        """An expression of that sort: int, uint, float, bool, text or enum."""
        if depth <= 0 or self.random.random() < 0.15:
            return self._leaf(sort)
        makers: dict[str, Any] = {
            "int": self._int,
            "uint": self._uint,
            "float": self._float,
            "bool": self._bool,
        }
        maker = makers.get(sort)
        return maker(depth - 1) if maker is not None else self._leaf(sort)

    def _names(self, sort: str) -> list[str]:
        return self.shape.scalars.get(sort, []) + self.variables.get(sort, [])

    def _leaf(self, sort: str) -> str:
        names = self._names(sort)
        optionals = self.shape.optionals.get(sort, [])
        if names and self.random.random() < 0.75:
            return self.random.choice(names)
        if optionals and sort != "uint" and self.random.random() < 0.6:  # a literal there is an int to Python
            name = self.random.choice(optionals)
            return (
                f"({name} if {name} is not None else {self._literal(sort)})"
                if sort != "enum" or names
                else name
            )
        if sort in ("enum", "uint"):  # which no literal is by itself
            return self.random.choice(names) if names else ""
        return self._literal(sort)

    def _literal(self, sort: str) -> str:
        match sort:
            case "int":
                return f"({self.random.choice(_LITERALS)})"
            case "uint":
                return str(abs(self.random.choice(_LITERALS)))
            case "float":
                number = a_float(self.random)
                return f"({number!r})" if math.isfinite(number) else "0.5"
            case "bool":
                return self.random.choice(("True", "False"))
            case "enum":
                return repr(self.random.choice(list(Kind)).name)
            case _:
                return repr(self.random.choice(_TEXTS))

    def _two(self, sort: str, depth: int) -> tuple[str, str]:
        return self.write(sort, depth), self.write(sort, depth)

    def _choice(self, sort: str, depth: int) -> str:
        a, b = self._two(sort, depth)
        return f"({a} if {self.write('bool', depth)} else {b})"

    def _int(self, depth: int) -> str:
        a, b = self._two("int", depth)
        pick = self.random.randrange(14)
        array = self._array("int")
        match pick:
            case 0 | 1 | 2 | 3 | 4 | 5:
                return (
                    f"({a} {self.random.choice(('+', '-', '*', '//', '%', '&', '|', '^', '<<', '>>'))} {b})"
                )
            case 6:
                return f"({self.random.choice(('-', '~', '+'))}{a})"
            case 7:
                return f"abs({a})" if depth % 2 else f"({a} ** {self.random.randint(0, 4)})"
            case 8:
                return f"{self.random.choice(('min', 'max'))}({a}, {b})"
            case 9:
                return f"{self.random.choice(('int', 'floor', 'ceil'))}({self.write('float', depth)})"
            case 10:
                return f"len({self.write('text', 0)})"
            case 11 if array:
                return f"{array}[{self.write('int', 0)}]"
            case 12 if array:
                return self._reduction(array, "int", depth)
            case _:
                return self._choice("int", depth)

    def _uint(self, depth: int) -> str:
        if not self._names("uint"):
            return ""
        a, b = self._two("uint", depth)
        if not (a and b):
            return a or b
        match self.random.randrange(4):
            case 0:
                return f"({a} {self.random.choice(('+', '-', '*', '//', '%', '&', '|', '^'))} {b})"
            case 1:
                return f"({a} {self.random.choice(('+', '-', '*', '//', '%'))} {self.random.randint(0, 9)})"
            case 2:
                return f"({a} {self.random.choice(('<<', '>>'))} {self.write('int', 0)})"
            case _:
                return f"max({a}, {b})"

    def _float(self, depth: int) -> str:
        a, b = self._two("float", depth)
        array = self._array("float")
        match self.random.randrange(13):
            case 0 | 1 | 2 | 3:
                return f"({a} {self.random.choice(('+', '-', '*', '/', '//', '%'))} {b})"
            case 4:
                return f"({a} {self.random.choice(('+', '*', '/', '%'))} {self.write('int', depth)})"
            case 5:
                return f"({self.write('int', depth)} / {self.write('int', depth)})"
            case 6:
                return f"(-{a})" if depth % 2 else f"({a} ** {self.random.randint(0, 4)})"
            case 7:
                return f"{self.random.choice(('abs', 'sqrt'))}({a})"
            case 8:
                return f"{self.random.choice(('min', 'max'))}({a}, {b}, {self.write('float', depth)})"
            case 9:
                return f"float({self.write('int', depth)})"
            case 10 if array:
                return f"{array}[{self.write('int', 0)}]"
            case 11 if array:
                return self._reduction(array, "float", depth)
            case _:
                return self._choice("float", depth)

    def _array(self, sort: str) -> str:
        names = self.shape.arrays.get(sort, [])
        if not names or self.loops >= 2:
            return ""
        name = self.random.choice(names)
        return (
            name
            if self.random.random() < 0.7
            else f"{name}[{self.random.choice(('1:', ':2', '-2:', '1:-1', ':'))}]"
        )

    def _reduction(self, array: str, sort: str, depth: int) -> str:
        name = self.random.choice(("sum", "min", "max"))
        if self.random.random() < 0.4:
            return f"{name}({array})"
        return f"{name}({self._generator(array, sort, sort, depth)})"

    def _generator(self, array: str, element: str, result: str, depth: int) -> str:
        if self.loops:  # a loop within another is over parts of its elements
            return f"{self._literal(result)} for _q in {array}"
        variable = f"v{self.loops}"
        self.loops += 2
        self.variables.setdefault(element, []).append(variable)
        body = self.write(result, min(depth, 2))
        condition = f" if {self.write('bool', 1)}" if self.random.random() < 0.5 else ""
        self.variables[element].remove(variable)
        self.loops -= 2
        return f"{body} for {variable} in {array}{condition}"

    def _records(self, depth: int) -> str:
        if not self.shape.records or self.loops:
            return "True"
        self.loops += 2
        for name, type_ in self.shape.inner_types.items():
            self.variables.setdefault(_SORTS[type_], []).append(f"r.{name}")
        body = self.write("bool", min(depth, 2))
        condition = f" if {self.write('bool', 1)}" if self.random.random() < 0.5 else ""
        for name, type_ in self.shape.inner_types.items():
            self.variables[_SORTS[type_]].remove(f"r.{name}")
        self.loops -= 2
        return f"{self.random.choice(('any', 'all'))}({body} for r in {self.shape.records[0]}{condition})"

    def _bool(self, depth: int) -> str:
        a, b = self._two("bool", depth)
        match self.random.randrange(14):
            case 0 | 1:
                return f"({a} and {b})"
            case 2 | 3:
                return f"({a} or {b})"
            case 4:
                return f"(not {a})"
            case 5 | 6 | 7 | 8:
                return self._comparison(depth)
            case 9:
                return f"{self.random.choice(('isnan', 'isinf', 'isfinite'))}({self.write('float', depth)})"
            case 10:
                return self._none()
            case 11:
                return self._records(depth)
            case 12:
                return self._membership(depth)
            case _:
                return self._choice("bool", depth)

    def _comparison(self, depth: int) -> str:
        operator = self.random.choice(("==", "!=", "<", "<=", ">", ">="))
        pick = self.random.randrange(8)
        if pick == 0 and (names := self._names("enum")):
            other = self.random.choice([*names, self._literal("enum")])
            return f"({self.random.choice(names)} {self.random.choice(('==', '!='))} {other})"
        if pick == 1:
            a, b = self._two("text", 0)
            return f"({a} {operator} {b})"
        numbers = ["int", "float", *(["uint"] if self._names("uint") else [])]
        kinds = [self.random.choice(numbers) for _ in range(3)]
        a, b, c = (self.write(kind, depth) or "1" for kind in kinds)
        return f"({a} {operator} {b})" if pick < 6 else f"({a} < {b} {operator} {c})"

    def _none(self) -> str:
        every = [name for names in self.shape.optionals.values() for name in names]
        if "maybe" in self.shape.types and self.random.random() < 0.5:
            name, type_ = self.random.choice(list(self.shape.inner_types.items()))
            sort = _SORTS[type_]
            if sort in ("int", "float"):
                return f"(maybe is not None and maybe.{name} > {self._literal(sort)})"
            return "(maybe is None)"
        if not every:
            return "True"
        return f"({self.random.choice(every)} is {self.random.choice(('None', 'not None'))})"

    def _membership(self, depth: int) -> str:
        match self.random.randrange(3):
            case 0:
                members = ", ".join(str(it) for it in self.random.sample(_LITERALS, 3))
                return f"({self.write(self.random.choice(('int', 'float')), depth)} in ({members}))"
            case 1 if names := self._names("enum"):
                return f"({self.random.choice(names)} not in ('ion', 'photon'))"
            case _:
                a, b = self._two("text", 0)
                form = self.random.choice(("({b} in {a})", "{a}.startswith({b})", "{a}.endswith({b})"))
                return form.format(a=a, b=b)
