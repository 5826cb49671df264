"""What an expression is worth, by Python itself: the slow answer that others are compared with.

It knows nothing of trees and programs. It walks Python's syntax, computes with Python's operators on Python's
values, and adds what the language adds to these: integers have 64 bits, and two documented differences.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any


class Failure(Exception):  # noqa: N818 - a result like any other
    """A run-time error."""


class UInt(int):
    """A value of a `uint64` field; what is computed with it is one as well."""


def _is_in(a: Any, b: Any) -> bool:
    return any(a == it for it in list(b)) if isinstance(b, tuple) else a in b  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _compared(op: ast.cmpop, a: Any, b: Any) -> bool:
    match op:
        case ast.Eq():
            return bool(a == b)
        case ast.NotEq():
            return bool(a != b)
        case ast.Lt():
            return bool(a < b)
        case ast.LtE():
            return bool(a <= b)
        case ast.Gt():
            return bool(a > b)
        case ast.GtE():
            return bool(a >= b)
        case ast.In():
            return _is_in(a, b)
        case ast.NotIn():
            return not _is_in(a, b)
        case ast.Is():
            return a is b
        case _:
            return a is not b


def _computed(op: ast.operator, a: Any, b: Any) -> Any:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return a // b
        case ast.Mod():
            return a % b
        case ast.Pow():
            return a**b
        case ast.BitAnd():
            return a & b
        case ast.BitOr():
            return a | b
        case _:
            return a ^ b


_EMPTY_SUM = "the sum of nothing"  # among the names; no field's, as it is no identifier


def evaluate(text: str, names: Mapping[str, Any], empty_sum: float = 0) -> Any:
    """The value; Failure where Python raises, or 64 bits do not do.

    `empty_sum`: to Python always the integer 0; in the language it has the type of what there was not.
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, {**names, _EMPTY_SUM: empty_sum})
    except (ArithmeticError, ValueError, IndexError) as error:
        raise Failure(str(error)) from None


def _bounded(value: Any, *operands: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    is_unsigned = any(isinstance(it, UInt) for it in operands)
    if value not in (range(2**64) if is_unsigned else range(-(2**63), 2**63)):
        raise Failure
    return UInt(value) if is_unsigned else int(value)


def _value(at: ast.expr, names: dict[str, Any]) -> Any:
    match at:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=inner, attr=name):
            return getattr(_value(inner, names), name)
        case ast.UnaryOp(op=op, operand=operand):
            return _unary(op, _value(operand, names))
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, names), _value(right, names))
        case ast.BoolOp(op=op, values=values):
            parts = (_value(each, names) for each in values)
            return all(parts) if isinstance(op, ast.And) else any(parts)
        case ast.Compare():
            return _compare(at, names)
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, names) else other, names)
        case ast.Tuple(elts=elements):
            return tuple(_value(each, names) for each in elements)
        case ast.Subscript(value=inner, slice=ast.Slice(lower=lower, upper=upper)):
            bounds = [None if each is None else _value(each, names) for each in (lower, upper)]
            return _value(inner, names)[slice(*bounds)]
        case ast.Subscript(value=inner, slice=index):
            return _value(inner, names)[_value(index, names)]
        case ast.Call():
            return _call(at, names)
        case _:
            raise AssertionError(ast.dump(at))


def _unary(op: ast.unaryop, value: Any) -> Any:
    match op:
        case ast.USub():
            return _bounded(-value, value)
        case ast.Not():
            return not value
        case ast.Invert():
            return _bounded(~value)
        case _:
            return value


def _binary(op: ast.operator, a: Any, b: Any) -> Any:
    if isinstance(op, ast.Div):
        return float(a) / float(b)
    if isinstance(op, ast.LShift | ast.RShift):
        if not 0 <= b < 64:
            raise Failure
        return _bounded(a << b if isinstance(op, ast.LShift) else a >> b, a)
    if isinstance(a, float) != isinstance(b, float):
        a, b = float(a), float(b) if not isinstance(op, ast.Pow) else b
    return _bounded(_computed(op, a, b), a, b)


def _compare(at: ast.Compare, names: dict[str, Any]) -> bool:
    left = _value(at.left, names)
    for op, each in zip(at.ops, at.comparators, strict=True):
        right = _value(each, names)
        if not _compared(op, left, right):
            return False
        left = right
    return True


def _call(at: ast.Call, names: dict[str, Any]) -> Any:
    if isinstance(at.func, ast.Attribute):
        method = getattr(_value(at.func.value, names), at.func.attr)
        return method(*(_value(each, names) for each in at.args))
    assert isinstance(at.func, ast.Name)
    if len(at.args) == 1 and isinstance(at.args[0], ast.GeneratorExp):
        return _reduce(at.func.id, _elements(at.args[0], names), names[_EMPTY_SUM])
    values = [_value(each, names) for each in at.args]
    if at.func.id in ("sum", "any", "all") or (at.func.id in ("min", "max") and len(values) == 1):
        return _reduce(at.func.id, values[0], names[_EMPTY_SUM])
    return _FUNCTIONS[at.func.id](*values)


def _elements(generator: ast.GeneratorExp, names: dict[str, Any]) -> Any:
    (loop,) = generator.generators
    assert isinstance(loop.target, ast.Name)
    for element in _value(loop.iter, names):
        inner = {**names, loop.target.id: element}
        if all(_value(each, inner) for each in loop.ifs):
            yield _value(generator.elt, inner)


def _reduce(name: str, values: Any, empty_sum: float) -> Any:
    if name == "sum":  # Python's own compensates from 3.12 on
        total: Any = None
        for value in values:
            before = 0 if total is None else total
            total = _bounded(before + value, before, value)
        return empty_sum if total is None else total
    reductions: dict[str, Callable[[Any], Any]] = {"any": any, "all": all, "min": min, "max": max}
    return reductions[name](values)


def _to_int(value: Any) -> int:
    return int(_bounded(int(value)))


def _magnitude(value: Any) -> Any:
    return _bounded(abs(value), value)


def _floor(value: float) -> Any:
    return _bounded(math.floor(value))


def _ceil(value: float) -> Any:
    return _bounded(math.ceil(value))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _magnitude,
    "sqrt": math.sqrt,
    "floor": _floor,
    "ceil": _ceil,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "int": _to_int,
    "float": float,
    "len": len,
    "min": min,
    "max": max,
}
