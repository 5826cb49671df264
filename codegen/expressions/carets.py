"""The text that an expression was written as, and messages that point into it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from echo_core.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Source:
    """Lines of Python; the places of syntax trees are in these."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Source:
        return cls(tuple(text.splitlines()) or ("",))

    def marked(self, at: ast.AST) -> str:
        """The line of this part, and a caret under each character of it."""
        line = self.lines[min(getattr(at, "lineno", 1), len(self.lines)) - 1]
        data = line.encode()
        start = len(data[: getattr(at, "col_offset", 0)].decode(errors="ignore"))
        is_one_line = getattr(at, "end_lineno", 1) == getattr(at, "lineno", 1)
        end_bytes = getattr(at, "end_col_offset", None) if is_one_line else None
        end = len(data[:end_bytes].decode(errors="ignore"))
        indent = len(line) - len(line.lstrip())
        return f"\n  {line[indent:].rstrip()}\n  {' ' * (start - indent)}{'^' * max(1, end - start)}"

    def error(self, at: ast.AST | None, message: str, hint: str = "") -> ExpressionError:
        """The error that says so of this part."""
        said = f"{message}: {hint}" if hint else message
        return ExpressionError(said + (self.marked(at) if at is not None else ""))
