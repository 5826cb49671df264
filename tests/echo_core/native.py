"""`event` as the tests of native record classes want it: `echo.event`, or what it is about to become."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import echo_core as echo
from echo_core.codegen.record_types import is_native, native_class
from echo_core.formats.declare import format_of
from echo_core.formats.hints import UnknownNameError


@echo.event
class _Probe:
    x: int


def native_event(cls: Any = None, /, **options: bool) -> Any:
    def decorate(plain: Any) -> Any:
        slotted: Any = dataclasses.dataclass(slots=True, **options)(plain)
        made = slotted
        with contextlib.suppress(UnknownNameError):
            format_of(slotted)
            made = native_class(slotted, plain)
            format_of(made)
        return made

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    from echo_core import event as event
else:
    event = echo.event if is_native(_Probe) else native_event
