"""pyarrow, which nobody needs to install who asks for nothing of it."""

from __future__ import annotations

import importlib
from typing import Any

from echo_core.errors import FormatError, unexpected


def optional(name: str, extra: str) -> Any:
    """A package of an extra; FormatError says which one to install. It comes without types."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise unexpected(
            FormatError, f"the package {name}", "none", hint=f"run `pip install 'echo-core[{extra}]'`"
        ) from None


def pyarrow() -> Any:
    """The package."""
    return optional("pyarrow", "arrow")


def compute() -> Any:
    """Its functions."""
    return optional("pyarrow.compute", "arrow")
