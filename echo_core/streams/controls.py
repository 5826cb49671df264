"""Control of sources by those who take their events: the parameters that a source has, at either end.

`Controls` are a source's own, `Asking` what one receiver knows of another process's source and asks of it.
Both are called with the books open, and tell nobody: what is to be said is returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from echo_core.errors import ChannelError, WireError, unexpected
from echo_core.transports.limits import MAX_SOURCE_PARAMETERS
from echo_core.transports.protocol import messages
from echo_core.values.parameters import LEAST_INT, MOST_INT, ParameterType, Value

_TYPES: dict[int, type[Value]] = {1: bool, 2: int, 4: float, 5: str}  # the numbers are those of `Sort`
_NUMBERS = {type_: number for number, type_ in _TYPES.items()}


class Control:
    """One parameter of a source here."""

    __slots__ = ("_asked", "_on_change", "_told", "is_due", "type", "value")

    def __init__(self, type_: ParameterType, on_change: Callable[[Value], object] | None) -> None:
        self.type = type_
        self.value: Value = type_.default
        self._asked: dict[object, Value] = {}
        self._on_change = on_change
        self._told: Value = type_.default
        self.is_due = False  # somebody is about to be told of its value, whatever that is by then

    @property
    def is_requested(self) -> bool:
        return bool(self._asked)

    def ask(self, who: object, value: Value | None) -> bool:
        """What somebody asks for instead of what he has asked for; None: nothing. Whether that is news."""
        if self._asked.get(who) == value:
            return False
        if value is None:
            del self._asked[who]
        else:
            self._asked[who] = value
        self.value = self.type.merged(self._asked.values())
        return True

    @property
    def is_watched(self) -> bool:
        return self._on_change is not None

    def tell(self) -> None:
        """Calls who wants to know of changes, with the value of now. Not with the books open."""
        self.is_due = False  # before it looks: what comes from now on is told again
        value = self.value
        if value != self._told and self._on_change is not None:
            self._told = value
            self._on_change(value)


class Controls:
    """All parameters of one source here."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, Control] = {}

    @property
    def types(self) -> list[ParameterType]:
        return [control.type for control in self._by_name.values()]

    @property
    def requested(self) -> Mapping[str, Value]:
        """What somebody has asked for, merged."""
        requested = [control for control in self._by_name.values() if control.is_requested]
        return MappingProxyType({control.type.name: control.value for control in requested})

    def declare(self, type_: ParameterType, on_change: Callable[[Value], object] | None) -> Control:
        """ChannelError: there is one of that name, or there are too many."""
        if type_.name in self._by_name:
            raise unexpected(ChannelError, "a parameter that the source does not have", f"`{type_.name}`")
        if len(self._by_name) >= MAX_SOURCE_PARAMETERS:
            raise unexpected(ChannelError, f"at most {MAX_SOURCE_PARAMETERS} parameters of a source", "more")
        control = self._by_name[type_.name] = Control(type_, on_change)
        return control

    def ask(self, who: object, name: str, value: Value | None) -> list[Control]:
        """Those that have changed. Who asks is a receiver, for whom its last word counts."""
        control = self._by_name.get(name)
        return [control] if control is not None and control.ask(who, value) else []

    def heard(self, said: messages.Request) -> Value | None:
        """For what a peer asks; WireError: nobody may ask for that."""
        control = self._by_name.get(said.name)
        if control is None:
            known = ", ".join(self._by_name) or "none"
            raise unexpected(WireError, f"a request for one of the source's parameters, {known}", said.name)
        return value_of(control.type, said.value) if said.is_asked else None

    def forget(self, who: object) -> list[Control]:
        """A receiver is gone."""
        return [changed for name in self._by_name for changed in self.ask(who, name, None)]

    def let_go(self) -> None:
        """The source is closed: it keeps nothing of who asked."""
        self._by_name.clear()


class Asking:
    """What one receiver knows of the parameters of another process's source, and asks of them."""

    __slots__ = ("_asked", "answered", "number", "types")

    def __init__(self) -> None:
        self.types: dict[str, ParameterType] = {}
        self._asked: dict[str, Value] = {}
        self.number = self.answered = 0  # of the last request, and of the last one that was answered

    def hear(self, said: messages.Parameter) -> None:
        """The source has another one; WireError: it cannot."""
        type_ = type_of(said)
        if type_.name in self.types or len(self.types) >= MAX_SOURCE_PARAMETERS:
            expected = f"at most {MAX_SOURCE_PARAMETERS} parameters of a source, each once"
            raise unexpected(WireError, expected, f"`{type_.name}`")
        self.types[type_.name] = type_

    def hear_answer(self, number: int) -> None:
        """The source has followed the request of that number."""
        if not self.answered < number <= self.number:
            expected = f"an answer to a request from {self.answered + 1} to {self.number}"
            raise unexpected(WireError, expected, number)
        self.answered = number

    def ask(self, wanted: Callable[[ParameterType], Value | None]) -> Iterable[messages.Request]:
        """The requests that make what is asked what is wanted; they are taken for sent."""
        for name, type_ in self.types.items():
            value = wanted(type_)
            if value == self._asked.get(name):
                continue
            self.number += 1
            if value is None:
                del self._asked[name]
                yield messages.Request(0, is_asked=False, number=self.number, value=bytes(8), name=name)
            else:
                self._asked[name] = value
                word = word_of(type_, value)
                yield messages.Request(0, is_asked=True, number=self.number, value=word, name=name)


# ---------------------------------------------------------------------------
# As they travel: a value is a word of eight bytes, whichever type it has


def word_of(type_: ParameterType, value: Value) -> bytes:
    """A choice is its place among all."""
    if type_.type is float:
        return struct.pack("<d", value)
    return struct.pack("<q", type_.choices.index(value) if isinstance(value, str) else value)


def value_of(type_: ParameterType, word: bytes) -> Value:
    """The reverse; WireError for a value that the parameter cannot have."""
    value = _plain(type_.type, type_.choices, word)
    try:
        return type_.fitting(value)
    except ChannelError as error:
        raise WireError(str(error)) from None


def _plain(type_: type[Value], choices: tuple[str, ...], word: bytes) -> Value:
    if type_ is float:
        return float(struct.unpack("<d", word)[0])
    number = int.from_bytes(word, "little", signed=True)
    if type_ is int:
        return number
    if not 0 <= number < (2 if type_ is bool else len(choices)):
        raise unexpected(WireError, "a bool, or the number of a choice", number)
    return bool(number) if type_ is bool else choices[number]


def to_message(type_: ParameterType) -> messages.Parameter:
    """What a peer is told of one."""
    default, low, high = (word_of(type_, value) for value in (type_.default, type_.low, type_.high))
    said = _NUMBERS[type_.type], type_.is_least, default, low, high, type_.name, type_.choices
    return messages.Parameter(0, *said)


def type_of(said: messages.Parameter) -> ParameterType:
    """What a peer has told; WireError: it cannot be."""
    type_ = _TYPES.get(said.type)
    if type_ is None:
        raise unexpected(WireError, "the number of a type of parameters", said.type)
    default, low, high = (_plain(type_, said.choices, word) for word in (said.default, said.low, said.high))
    told = ParameterType(said.name, default, low, high, said.choices, said.is_least)
    try:
        told.demand_possible()
    except ChannelError as error:
        raise WireError(str(error), path="Parameter") from None
    return told


def bounds_of(type_: type[Value], choices: tuple[str, ...]) -> tuple[Value, Value]:
    """From what to what a parameter goes that was given no bounds."""
    if type_ is str:
        return (choices[0], choices[-1]) if choices else ("", "")
    if type_ is bool:
        return False, True
    return (LEAST_INT, MOST_INT) if type_ is int else (float("-inf"), float("inf"))
