"""A typed binary event transport: declare events as dataclasses, send them as they lie in memory.

Components import `echo_core` and nothing below it. The public names are listed once, in `__init__.pyi`: type
checkers read that file, and so does this module, which imports each name when it is first used.
`ARCHITECTURE.md` takes you round the house.
"""

import ast
import importlib
import pkgutil
from typing import Any

__version__ = "0.1.0"  # setuptools reads it here


def _modules_by_name() -> dict[str, str]:
    """The module that defines each public name: the stub's lines are `from module import name as name`."""
    stub = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
    imports = (line for line in stub.body if isinstance(line, ast.ImportFrom))
    return {alias.name: line.module for line in imports for alias in line.names if line.module}


_MODULE_BY_NAME = _modules_by_name()
__all__ = sorted(_MODULE_BY_NAME)  # pyright: ignore[reportUnsupportedDunderAll] - it reads the stub


def __getattr__(name: str) -> Any:
    """A public name on first use; later uses find it in the module itself."""
    if name not in _MODULE_BY_NAME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
