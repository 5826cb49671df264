"""The words of errors: what was expected, and what came."""

from __future__ import annotations

from typing import TypeVar

from echo_core.errors import EchoError

Fault = TypeVar("Fault", bound=EchoError)


def unexpected(fault: type[Fault], expected: object, got: object, *, path: str = "", hint: str = "") -> Fault:
    """The error to raise where `got` came in place of `expected`."""
    return fault(f"Expected {expected}, got {got}", path=path, hint=hint)
