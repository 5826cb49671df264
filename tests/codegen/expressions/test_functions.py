"""Lambdas and functions, read from their source: the forms that people write, and what is refused."""

# Lambdas have no place for types.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUndefinedVariable=false

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import echo_core as echo
from tests.codegen.expressions.particles import Hit, Kind

LIMIT = 300
WANTED = ("abc", "x")
Judge = Callable[[Any], Any]


def keep(function: Judge, other: object = None) -> Judge:
    """What a decorator or another call would do."""
    return function


def plain(hit: Any) -> Any:
    return hit.temp > LIMIT


def documented(hit: Any) -> Any:
    """With words."""
    return hit.temp > LIMIT and hit.id == 1


@keep
def decorated(hit: Any) -> Any:
    return hit.temp > LIMIT


def several_lines(hit: Any) -> Any:
    return (
        hit.temp > LIMIT
        and hit.kind == Kind.ion
    )  # fmt: skip


class Holder:
    """Of functions."""

    attribute = lambda hit: hit.temp > LIMIT  # noqa: E731

    @staticmethod
    def static(hit: Any) -> Any:
        return hit.temp > LIMIT


def made_with(limit: float) -> Judge:
    return lambda hit: hit.temp > limit


two = (lambda hit: hit.temp > 1000, lambda hit: hit.temp > LIMIT)
nested = [keep(lambda hit: hit.temp > LIMIT, lambda hit: hit.temp > 1000)]
by_name = {"hot": lambda hit: hit.temp > LIMIT, "cold": lambda hit: hit.temp < LIMIT}
within = (lambda: lambda hit: hit.temp > LIMIT)()
split = keep(
    lambda hit: (
        hit.temp
        > LIMIT
    )
)  # fmt: skip
default_of = lambda it=(lambda hit: hit.temp > LIMIT): it  # noqa: E731

# fmt: off
FORMS: list[Judge] = [
    lambda hit: hit.temp > LIMIT,
    plain,
    documented,
    decorated,
    several_lines,
    Holder.attribute,
    Holder.static,
    made_with(300),
    two[1],
    nested[0],
    by_name["hot"],
    within,
    split,
    default_of(),  # type: ignore[no-untyped-call]
    lambda hit: hit.tag in WANTED and hit.kind == Kind.ion,
    lambda hit: hit.kind in (Kind.ion, Kind.photon),
    lambda hit: math.sqrt(hit.at.x) > 1 and hit.at.x < math.pi and hit.id == 1,
    lambda hit: 0 < hit.id < 5 and hit.id != 2,
    lambda hit, /: hit.temp > LIMIT,
    [f for f in [lambda hit: hit.temp > LIMIT]][0],  # noqa: C416, RUF015
    (lambda hit: hit.temp > LIMIT) if LIMIT else (lambda hit: hit.temp < LIMIT),
    lambda hit: hit.temp > 1 if hit.id == 1 else abs(hit.temp) > LIMIT,
]
# fmt: on


@pytest.mark.parametrize("function", FORMS)
def test_a_function_is_read_from_its_source(function: Judge) -> None:
    """Whatever stands around it; it gives what it gives itself."""
    hot, cold = Hit(temp=301.0, id=1), Hit(temp=0.0, id=2, tag="q", kind=Kind.electron)
    predicate = echo.where(Hit, function, tier="interpreted")
    assert [predicate(hot), predicate(cold)] == [bool(function(hot)), bool(function(cold))] == [True, False]


def test_values_from_outside_are_parameters() -> None:
    """Of the closure, of the module: `set` changes them."""
    predicate = echo.where(Hit, made_with(299))
    assert predicate.parameters == {"limit": 299.0}
    predicate.set(limit=400.0)
    assert not predicate(Hit())


def test_equal_functions_and_texts_are_one_derivation() -> None:
    """The name of the event and of a parameter do not matter."""
    ids = {
        echo.where(Hit, "temp > limit", limit=7.0, tier="interpreted").id,
        echo.where(Hit, lambda event: event.temp > 7, tier="interpreted").id,
        echo.where(Hit, made_with(7), tier="interpreted").id,
    }
    assert len(ids) == 1


def bad_statement(hit: Any) -> Any:
    limit = 3
    return hit.temp > limit


def two_parameters(hit: Any, other: Any) -> Any:
    return hit.temp > other


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (bad_statement, "one `return` of an expression"),
        (two_parameters, "a function of one parameter"),
        (partial(plain), "text, a lambda or a function, got `partial`"),
        (math.sqrt, "text, a lambda or a function"),
        (lambda hit: hit.temp > sys, "got `module`"),
        (lambda hit: hit, "a field of the event"),
        (lambda hit: hit.temp > unknown, "got `unknown`"),  # type: ignore[name-defined]  # noqa: F821
        (lambda hit: hit.tempp > 1, "is `temp` meant?"),
    ],
)
def test_a_function_that_cannot_be_read_is_refused(function: Any, said: str) -> None:
    """With the way out."""
    with pytest.raises(echo.ExpressionError, match=said.replace("?", r"\?").replace("(", r"\(")):
        echo.where(Hit, function)


def test_a_function_without_source_is_refused() -> None:
    """As in `python -c`, or made by `exec`."""
    names: dict[str, Any] = {}
    exec("f = lambda hit: hit.temp > 1", names)
    with pytest.raises(echo.ExpressionError, match="write the expression as text"):
        echo.where(Hit, names["f"])


def test_a_file_that_was_edited_is_not_believed(tmp_path: Path) -> None:
    """The source of another function would be read in its place."""
    path = tmp_path / "module.py"
    path.write_text("f = lambda hit: hit.temp > 1\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("f = lambda hit: hit.temp > 2\n")
    with pytest.raises(echo.ExpressionError, match="was it edited"):
        echo.where(Hit, names["f"])
