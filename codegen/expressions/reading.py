"""Text and functions to a tree: what a component writes, read against the fields of one record."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.analysis import Analyst
from echo_core.codegen.expressions.carets import Source
from echo_core.codegen.expressions.functions import FunctionSource, source_of
from echo_core.codegen.expressions.names import Given, Retyped
from echo_core.codegen.expressions.sorts import Sort, as_sort, value_of
from echo_core.codegen.expressions.tree import LimitRefusal, Tree
from echo_core.errors import ExpressionError, unexpected
from echo_core.formats.types import Record

Expression = str | Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """A tree with the nodes that the expressions are, and what it was read from."""

    tree: Tree
    roots: tuple[int, ...]
    values: tuple[Given, ...]  # of the tree's parameters, by number
    names: dict[str, int]  # of the parameters that have some
    spans: dict[int, tuple[Source, ast.AST]]


def read(expressions: list[Expression], record: Record, parameters: Mapping[str, object]) -> Reading:
    """One tree of several expressions; ExpressionError points at what is wrong."""
    parsed = [_parsed(expression) for expression in expressions]
    sorts: dict[str, Sort] = {}
    while True:
        try:
            return _read(parsed, record, parameters, sorts)
        except Retyped as retyped:  # at most twice for each parameter: sorts only widen
            sorts[retyped.name] = retyped.sort


def _read(
    parsed: list[FunctionSource],
    record: Record,
    parameters: Mapping[str, object],
    sorts: Mapping[str, Sort],
) -> Reading:
    given = {name: _given(name, value) for name, value in parameters.items() if not _is_set(value)}
    sets = {name: _members(value) for name, value in parameters.items() if _is_set(value)}
    analyst = Analyst(Tree(record), _Retyping(given, sorts), sets)
    roots: list[int] = []
    for one in parsed:
        analyst.event = one.event or None
        analyst.outside = one.outside if one.event else None
        roots.append(analyst.read(one.expression, one.source))
    _demand_bounded(analyst.tree)
    _demand_used(analyst, parameters)
    named = {name: it for name, it in analyst.given.items() if it.number < len(analyst.tree.parameters)}
    values = sorted([*named.values(), *analyst.literals], key=lambda it: it.number)
    names = {name: it.number for name, it in named.items()}
    return Reading(analyst.tree, tuple(roots), tuple(values), names, analyst.spans)


class _Retyping(dict[str, Given]):
    """Parameters by name; those that were found to be used as another sort are of that sort."""

    def __init__(self, given: Mapping[str, Given], sorts: Mapping[str, Sort]) -> None:
        super().__init__()
        self._sorts = sorts
        for name, it in given.items():
            self[name] = it

    def __setitem__(self, name: str, it: Given) -> None:
        sort = self._sorts.get(name, it.sort)
        value = it.value if sort is Sort.ENUM else as_sort(it.sort, it.value, sort)
        super().__setitem__(name, Given(sort, it.value if value is None else value))


def _parsed(expression: Expression) -> FunctionSource:
    if not isinstance(expression, str):
        return source_of(expression)
    if len(expression.encode(errors="replace")) > limits.MAX_TEXT_BYTES:
        what = f"an expression of at most {limits.MAX_TEXT_BYTES} bytes"
        raise unexpected(ExpressionError, what, str(len(expression.encode(errors="replace"))))
    text = expression.strip()
    source = Source.of(text)
    try:
        return FunctionSource(ast.parse(text, mode="eval").body, "", source, _nothing)
    except (MemoryError, RecursionError):
        raise unexpected(ExpressionError, "less nesting", "more than can be read") from None
    except (SyntaxError, ValueError) as error:
        at = ast.Constant(None)
        at.lineno = min(getattr(error, "lineno", 1) or 1, len(source.lines))
        at.col_offset = max(0, (getattr(error, "offset", 1) or 1) - 1)
        at.end_lineno, at.end_col_offset = at.lineno, at.col_offset + 1
        message = f"Expected an expression in Python's syntax, got {getattr(error, 'msg', error)}"
        raise source.error(at, message) from None


def _is_set(value: object) -> bool:
    return isinstance(value, tuple | list | set | frozenset)


def _members(value: Any) -> tuple[object, ...]:
    return tuple(value)


def _nothing(name: str) -> object:
    raise KeyError(name)


def _given(name: str, value: Any) -> Given:
    found = value_of(value.item() if hasattr(value, "item") else value)
    if found is None:
        expected = "a number of 64 bits, text, bytes, a time, a member or a set of these"
        raise unexpected(ExpressionError, f"{expected} as `{name}`", f"`{type(value).__qualname__}`")
    return Given(*found)


def _demand_bounded(tree: Tree) -> None:
    try:
        tree.check_cost()
    except LimitRefusal as refusal:
        raise ExpressionError(str(refusal)) from None


def _demand_used(analyst: Analyst, parameters: Mapping[str, object]) -> None:
    """A parameter that no expression names is misspelled in one of them."""
    for name in parameters:
        if name in analyst.given and analyst.given[name].number >= len(analyst.tree.parameters):
            raise unexpected(ExpressionError, "parameters that the expression names", f"`{name}`")
