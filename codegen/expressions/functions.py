"""The syntax of a Python function, from its source.

`inspect.getsource` gives whole lines, and cuts lambdas of several. So the file is compiled again (from
linecache, which also knows what IPython and doctest have run), the code object is found that *equals* the
function's, which refuses a file that was edited since, and then the syntax by the positions of its code.
Bytecode itself is not read: it changes with every version of Python.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from echo_core.codegen.expressions.carets import Source
from echo_core.errors import ExpressionError, unexpected

KEPT_FILES = 16  # whose syntax is remembered: 6,400 lines take 60 ms


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The one expression that a function returns, and the name of its parameter."""

    expression: ast.expr
    event: str
    source: Source
    outside: Callable[[str], object]


_NO_SOURCE = "write the expression as text"


def source_of(function: Callable[..., Any]) -> FunctionSource:
    """What a lambda or a function of one parameter computes; ExpressionError where that cannot be known."""
    if not isinstance(function, types.FunctionType):
        raise unexpected(
            ExpressionError,
            "text, a lambda or a function",
            f"`{type(function).__qualname__}`",
            hint=_NO_SOURCE,
        )
    lines, found = _found(function)
    source = Source(lines)
    return FunctionSource(_returned(found, source), _parameter(found, source), source, _outside(function))


def _found(function: types.FunctionType) -> tuple[tuple[str, ...], ast.Lambda | ast.FunctionDef]:
    code = function.__code__
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    if not lines:
        what = f"the source of `{function.__qualname__}`"
        raise unexpected(ExpressionError, what, f"none for {code.co_filename}", hint=_NO_SOURCE)
    tree, codes = _compiled("".join(lines), code.co_filename, _future(code))
    if code not in codes:
        what = f"the source of `{function.__qualname__}`"
        raise unexpected(
            ExpressionError, what, f"another text in {code.co_filename}", hint=f"was it edited? {_NO_SOURCE}"
        )
    candidates = [node for node in _functions(tree, code) if _begins(node, code)]
    if len(candidates) > 1:  # a lambda that returns another one holds the code of both: the inner one is last
        candidates = [node for node in candidates if _spans(node, code)][-1:]
    if len(candidates) != 1:
        what = f"one function at line {code.co_firstlineno} of {code.co_filename}"
        raise unexpected(ExpressionError, what, str(len(candidates)), hint=_NO_SOURCE)
    return tuple(line.rstrip("\n") for line in lines), candidates[0]


def _future(code: types.CodeType) -> int:
    """The flags of `from __future__` imports, which are part of code objects."""
    import __future__

    flags = 0
    for name in __future__.all_feature_names:
        flags |= code.co_flags & getattr(__future__, name).compiler_flag
    return flags


@functools.lru_cache(maxsize=KEPT_FILES)
def _compiled(text: str, filename: str, flags: int) -> tuple[ast.Module, frozenset[types.CodeType]]:
    try:
        tree = ast.parse(text, filename)
        top = compile(text, filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise unexpected(ExpressionError, f"Python in {filename}", str(error), hint=_NO_SOURCE) from None
    # pytest compiles with its own assertions in place; lambdas within are what they were.
    return tree, frozenset(_codes(top))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _functions(tree: ast.Module, code: types.CodeType) -> Iterator[ast.Lambda | ast.FunctionDef]:
    is_lambda = code.co_name == "<lambda>"
    for node in ast.walk(tree):
        is_named = isinstance(node, ast.FunctionDef) and node.name == code.co_name
        if isinstance(node, ast.Lambda | ast.FunctionDef) and (
            isinstance(node, ast.Lambda) if is_lambda else is_named
        ):
            yield node


def _begins(node: ast.Lambda | ast.FunctionDef, code: types.CodeType) -> bool:
    first = node.lineno
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        first = node.decorator_list[0].lineno
    return first == code.co_firstlineno


def _spans(node: ast.Lambda | ast.FunctionDef, code: types.CodeType) -> bool:
    """Whether the instructions of the code are those of this node's body."""
    body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    places = [place for place in code.co_positions() if None not in place and place[3]]
    inside = [place for place in places if place[0] != code.co_firstlineno or place[2] or place[3]]
    start, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    ends = [((place[0] or 0, place[2] or 0), (place[1] or 0, place[3] or 0)) for place in inside]
    return bool(ends) and all(start <= first and last <= end for first, last in ends)


def _returned(node: ast.Lambda | ast.FunctionDef, source: Source) -> ast.expr:
    if isinstance(node, ast.Lambda):
        return node.body
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        return body[0].value
    at = body[0] if body else node
    raise source.error(at, "Expected one `return` of an expression, got other statements")


def _parameter(node: ast.Lambda | ast.FunctionDef, source: Source) -> str:
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    others = [*arguments.kwonlyargs, *filter(None, (arguments.vararg, arguments.kwarg))]
    if len(plain) == 1 and not others and not arguments.defaults:
        return plain[0].arg
    what = "bind values by closure, or give them as parameters of an expression in text"
    raise source.error(node, "Expected a function of one parameter, got another", what)


def _outside(function: types.FunctionType) -> Callable[[str], object]:
    """What names mean in a function: KeyError for those that mean nothing."""
    variables = inspect.getclosurevars(function)
    by_name = {**vars(builtins), **variables.globals, **variables.nonlocals}

    def outside(name: str) -> object:
        first, *rest = name.split(".")
        it: object = by_name[first] if first in by_name else function.__globals__[first]
        for attribute in rest:
            if not hasattr(it, attribute):
                raise KeyError(name)
            it = getattr(it, attribute)
        return it

    return outside
