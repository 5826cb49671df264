"""`help()` of public names: examples that run, arguments that are named."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import echo_core as echo

FINDER = doctest.DocTestFinder(exclude_empty=True, recurse=True)
PUBLIC: dict[str, Any] = {name: getattr(echo, name) for name in dir(echo)}
NEEDS = {"arrow_decoder": "pyarrow"}  # what an example shows takes an extra
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}


@pytest.fixture(autouse=True)
def closed_default_node() -> Generator[None]:
    """Examples use it, and other tests are not to find its thread at work."""
    yield
    echo.default_node().close()


def examples_of(name: str) -> list[doctest.DocTest]:
    """The examples in a name's docstring, and in those of its methods."""
    found = FINDER.find(PUBLIC[name], name, globs={"echo": echo, "np": np})
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", [name for name in PUBLIC if examples_of(name)])
def test_example_in_a_docstring_says_what_comes_out(name: str) -> None:
    """Each as if it were typed into a fresh interpreter."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in examples_of(name):
        runner.run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstring_names_every_argument_and_gives_an_example(name: str) -> None:
    """Options that are gathered by `**` are named by the text as well."""
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    arguments = inspect.signature(FUNCTIONS[name]).parameters
    assert [argument for argument in arguments if argument not in text] == []
    assert ">>> " in text
