"""How large the product is: statements of two commits, `python -m bench.statements REV [REV2]`.

Lines move with the formatter and comments; statements do not. Docstrings, comments and blank lines count for
nothing, and neither do Spark's application, tests, benchmarks and stubs.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from bench.against import checkouts

ROOMS = ("formats", "codegen", "transports", "native", "echo_core")
FEWER = 0.05
"""By so much they should have fallen."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXT = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_COMMENT_OR_TEXT = re.compile(f"{_TEXT.pattern}|{_COMMENT.pattern}", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_PARENTHESES = re.compile(r"\([^()]*\)")
# A declaration or an expression ends in a semicolon; a function or a type opens with a brace that follows its
# head, and so do control statements, with or without one.
_C_STATEMENT = re.compile(r";|\b(?:if|for|while|switch|else|do)\b|\)\s*\{")
_CONTROL_WITH_BRACE = re.compile(r"\b(if|for|while|switch)\s*\(\)\s*\{")


@dataclass(frozen=True, slots=True)
class Size:
    """Of one language in one room."""

    statements: int = 0
    lines: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.statements + other.statements, self.lines + other.lines)


def of_python(text: str) -> Size:
    """Nodes of the syntax tree that are statements, and the lines on which their tokens stand."""
    tree = ast.parse(text)
    docstrings = {id(statement) for statement in ast.walk(tree) if _is_text_alone(statement)}
    statements = [it for it in ast.walk(tree) if isinstance(it, ast.stmt) and id(it) not in docstrings]
    left_out: set[int] = set()
    for it in ast.walk(tree):
        if isinstance(it, ast.stmt) and id(it) in docstrings:
            left_out |= set(range(it.lineno, (it.end_lineno or it.lineno) + 1))
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in left_out
    ]
    return Size(len(statements), len(lines))


def _is_text_alone(node: ast.AST) -> bool:
    """A docstring, of a field or a constant too."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def of_c(text: str) -> Size:
    """Declarations, expressions, control statements, functions, directives; and the lines that hold them."""
    bare = _COMMENT_OR_TEXT.sub(lambda it: '""' if it[0][0] in "\"'" else " " * (it[0][1] == "*"), text)
    lines = sum(1 for line in bare.splitlines() if line.strip())
    directives = len(_DIRECTIVE.findall(bare))
    flat = _DIRECTIVE.sub("", bare)
    while flat != (flat := _PARENTHESES.sub("\0", flat)):  # the semicolons of a `for` are its own
        pass
    flat = flat.replace("\0", "()")
    flat = _CONTROL_WITH_BRACE.sub(r"\1 ", flat)
    return Size(len(_C_STATEMENT.findall(flat)) + directives, lines)


def measured(tree: str) -> dict[tuple[str, str], Size]:
    """By room and language."""
    sizes: dict[tuple[str, str], Size] = {}
    for path, content in checkouts.files(tree, *ROOMS).items():
        language = {"py": "Python", "c": "C", "h": "C"}.get(path.rpartition(".")[2])
        if language:
            key = path.partition("/")[0], language
            size = (of_c if language == "C" else of_python)(content.decode())
            sizes[key] = sizes.get(key, Size()) + size
    return sizes


def as_text(old_name: str, old: Mapping[tuple[str, str], Size], new: Mapping[tuple[str, str], Size]) -> str:
    """A table in Markdown, with the whole in its last line."""
    head = [f"| statements | {old_name} | now | | lines | now | |", "|---|---|---|---|---|---|---|"]
    keys = sorted(old.keys() | new.keys())
    rows = [_line(" ".join(key), old.get(key, Size()), new.get(key, Size())) for key in keys]
    return "\n".join([*head, *rows, _line("all", whole(old), whole(new))])


def whole(sizes: Mapping[tuple[str, str], Size]) -> Size:
    """Of all rooms and languages."""
    return sum(sizes.values(), Size())


def _line(what: str, old: Size, new: Size) -> str:
    statements = f"{old.statements} | {new.statements} | {_change(old.statements, new.statements)}"
    return f"| {what} | {statements} | {old.lines} | {new.lines} | {_change(old.lines, new.lines)} |"


def _change(old: int, new: int) -> str:
    return f"{100 * (new / old - 1):+.1f} %" if old else "new"


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 unless there are fewer by as much as was wanted."""
    parser = argparse.ArgumentParser(prog="python -m bench.statements", description=__doc__)
    parser.add_argument("old", metavar="REV")
    parser.add_argument("new", metavar="REV2", nargs="?", help="the working tree, unless it is given")
    given = parser.parse_args(arguments)
    old = measured(given.old)
    new = measured(given.new or checkouts.working_tree_id())
    print(as_text(given.old, old, new))
    return 0 if whole(new).statements <= (1 - FEWER) * whole(old).statements else 1


if __name__ == "__main__":
    sys.exit(main())
