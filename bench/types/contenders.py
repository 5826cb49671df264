"""The three classes of a case, and what each of them is timed at.

The garbage collector is off while anything is timed, for everybody; Structs and dataclasses are tracked by it
as they are by default.
"""

from __future__ import annotations

import dataclasses
import importlib
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import echo_core as echo
from bench.available import made_by
from bench.types import records, scalars, sequences
from bench.types.case import Case, Spelling, check

ID = 1_234_567
"""No small integer, which CPython keeps."""

EVENT, DATACLASS, STRUCT = "event", "dataclass", "Struct"


@dataclass(frozen=True, slots=True)
class Contender:
    """A class with its codec."""

    spelling: Spelling
    cls: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[Any], Any]

    def check(self, expected: Any) -> bytes:
        """Every value comes back. The bytes that are decoded."""
        it = self._evaluated(f"cls(id_, {self.spelling.arguments})")
        data = self.encode(it)
        back = self.decode(data)
        assert back.id == ID
        check(expected, self._evaluated(self.spelling.read, it=back))
        return data

    def timers(self, data: bytes) -> dict[str, timeit.Timer]:
        """By what each does."""
        made = f"cls(id_, {self.spelling.arguments})"
        names = self._names() | {"data": data, "made": self._evaluated(made)}
        statements = {
            "construct": made,
            "construct and encode": f"encode({made})",
            "encode": "encode(made)",
            "decode": "decode(data)",
            "decode and read": f"it = decode(data); it.id; {self.spelling.read}",
        }
        return {what: timeit.Timer(text, globals=names) for what, text in statements.items()}

    def whole_life(self) -> Callable[[int], object]:
        """A loop of so many events: made, encoded, decoded, read and let go."""
        made, read = f"cls(id_, {self.spelling.arguments})", self.spelling.read
        text = f"it = decode(encode({made})); it.id; {read}; del it"
        return timeit.Timer(text, globals=self._names()).timeit

    def _names(self) -> dict[str, Any]:
        spelling = self.spelling
        ours = {"cls": self.cls, "encode": self.encode, "decode": self.decode, "id_": ID}
        return {**ours, "value": spelling.value, **spelling.names}

    def _evaluated(self, expression: str, **names: Any) -> Any:
        return eval(expression, self._names() | names)


def all_cases() -> list[Case]:
    """Without msgspec its classes of records are dataclasses, which nobody measures."""
    (declare,) = made_by({"msgspec": lambda: [_msgspec().defstruct]}) or [dataclasses.make_dataclass]
    return [*scalars.cases(), *sequences.cases(), *records.cases(declare)]


def contenders(case: Case) -> dict[str, Contender]:
    """Ours, and the peer's if it is installed."""
    made = {EVENT: _event(case.event), DATACLASS: _dataclass(case.dataclass)}
    return made | dict(made_by({"msgspec": lambda: [(STRUCT, _struct(case.struct))]}))


def _event(spelling: Spelling) -> Contender:
    namespace = {"__annotations__": dict(spelling.fields), "__module__": __name__}
    return _ours(spelling, echo.event(type("Event", (), namespace)))


def _dataclass(spelling: Spelling) -> Contender:
    return _ours(spelling, dataclasses.make_dataclass("Slots", spelling.fields, slots=True))


def _ours(spelling: Spelling, cls: Any) -> Contender:
    """With compiled code, where there can be some for the class: it is there after an event or two."""
    try:
        codec = echo.codec(cls, tier="compiled")
    except echo.CompileError:
        codec = echo.codec(cls, tier="interpreted")
    return Contender(spelling, cls, codec.encode, codec.decode)


def _struct(spelling: Spelling) -> Contender:
    msgspec = _msgspec()
    cls = msgspec.defstruct("Struct", spelling.fields)
    return Contender(spelling, cls, msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(cls).decode)


def _msgspec() -> Any:
    return importlib.import_module("msgspec")


def checked_timers(case: Case) -> Mapping[tuple[str, str], timeit.Timer]:
    """By contender and what it does, once everybody has shown that every value comes back."""
    timers: dict[tuple[str, str], timeit.Timer] = {}
    for name, contender in contenders(case).items():
        data = contender.check(case.expected)
        timers |= {(name, what): timer for what, timer in contender.timers(data).items()}
    return timers
