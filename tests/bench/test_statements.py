"""What counts as a statement, and what does not."""

from __future__ import annotations

import pytest

from bench.statements import Size, as_text, of_c, of_python

PYTHON = '''"""A docstring."""

# A comment.
import os


class A:
    """Another."""

    x: int = 1
    """And of a field."""

    def f(self) -> str:
        """And another."""
        if self.x:
            return "text"
        return ("two "
                "lines")
'''

C = """/* A comment; with a semicolon,
   of two lines. */
#include <x.h>
#define TWICE(x) \\
    ((x) + (x))

struct a {
    int b;  // c;
    const char *text;
};

static int f(int a)
{
    for (int i = 0; i < 3; i++) {
        g(";  // no comment", '"');
    }
    if (a)
        return 1;
    return 0;
}
"""


def test_docstrings_and_comments_are_no_python_statements() -> None:
    """An import, a class, a field, a function, an `if` and two returns."""
    assert of_python(PYTHON) == Size(7, 8)


def test_c_statements_are_counted_whatever_they_look_like() -> None:
    """Two directives, a struct and its fields, a function, a loop, a call, an `if`, two returns."""
    assert of_c(C) == Size(2 + 3 + 1 + 1 + 1 + 1 + 2, 16)


@pytest.mark.parametrize(
    "text", ["if (a) { b(); }", "if (a)\n{\n  b();\n}", "if (a)\n  b();", "if ((a) && f(c)) b(); // d;"]
)
def test_braces_and_line_breaks_change_nothing_in_c(text: str) -> None:
    """A condition and what it guards."""
    assert of_c(text).statements == 2


def test_two_trees_stand_side_by_side() -> None:
    """A room that is new has no change, and the whole is in the last line."""
    text = as_text(
        "old", {("a", "C"): Size(200, 300)}, {("a", "C"): Size(150, 330), ("b", "C"): Size(40, 50)}
    )
    lines = text.splitlines()[2:]
    assert lines[0] == "| a C | 200 | 150 | -25.0 % | 300 | 330 | +10.0 % |"
    assert lines[1] == "| b C | 0 | 40 | new | 0 | 50 | new |"
    assert lines[2] == "| all | 200 | 190 | -5.0 % | 300 | 380 | +26.7 % |"
