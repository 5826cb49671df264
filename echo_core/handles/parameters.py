"""Source control as components hold it: a source's parameter, and what `Channel.request` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from echo_core._c import links
from echo_core.errors import ChannelError, TimedOutError, unexpected
from echo_core.roster import requests
from echo_core.roster.bookkeeping import books
from echo_core.roster.requests import Known, Requester
from echo_core.streams.controls import Control, bounds_of
from echo_core.values.parameters import MOST_INT, ParameterType, Value, plain_of
from echo_core.values.waits import Wait, Waits

V = TypeVar("V", bool, int, float, str)

_NEW_S = 0.5  # until sources that are there have said what they have, and nobody is said to have a name
_LINKING_S = 5.0  # until sources of members that are not linked yet are known
_RESERVED = frozenset({"timeout_s"})  # which `Channel.request` has itself


class Parameter(Generic[V]):
    """A parameter of a source, which those who take its events may request values for.

    Made by `Source.parameter`.
    """

    __slots__ = ("_control",)

    def __init__(self, control: Control) -> None:
        self._control = control

    @property
    def value(self) -> V:
        """What all requests come to together; the default where there is none."""
        return cast("V", self._control.value)

    @property
    def name(self) -> str:
        """What receivers call it."""
        return self._control.type.name

    @property
    def default(self) -> V:
        """Its value where nobody requests one."""
        return cast("V", self._control.type.default)

    @property
    def is_requested(self) -> bool:
        """Whether anybody requests a value."""
        return self._control.is_requested

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.value!r})"


def type_of_parameter(
    name: str,
    default: Any,
    low: Any,
    high: Any,
    choices: Any,
    merge: object,
) -> ParameterType:
    """As a source declares it; ChannelError for what none can be."""
    if type(name) is not str or name in _RESERVED:
        raise unexpected(ChannelError, "the name of a parameter", f"{name!r}")
    value = _plain_default(name, default)
    if merge not in (max, min):
        hint = "sources merge in whichever order requests come"
        raise unexpected(ChannelError, f"max or min as the merge of `{name}`", f"{merge!r}", hint=hint)
    if isinstance(choices, str) or not all(isinstance(each, str) for each in choices):
        raise unexpected(ChannelError, f"a tuple of texts as the choices of `{name}`", f"{choices!r}")
    least, most = bounds_of(type(value), choices)
    bounds = [_bound(name, value, given, end) for given, end in ((low, least), (high, most))]
    made = ParameterType(name, value, bounds[0], bounds[1], tuple(choices), merge is min)
    made.demand_possible()
    return made


def _plain_default(name: str, given: object) -> Value:
    """Of a derived type nothing would come back from other processes."""
    default = plain_of(given)
    for type_ in (bool, int, float, str):
        if type(default) is type_:
            return default
    expected = f"a bool, int, float or str as the default of `{name}`"
    raise unexpected(ChannelError, expected, f"{given!r}")


def _bound(name: str, default: Value, end_given: Any, end: Value) -> Value:
    given = plain_of(end_given)
    if given is None:
        return end
    if isinstance(default, float) and type(given) is int and abs(given) <= MOST_INT:
        given = float(given)
    if type(given) is not type(default) or not isinstance(default, int | float) or isinstance(default, bool):
        got = f"{given!r}"
        raise unexpected(ChannelError, f"bounds of `{name}` that are numbers, as its default is", got)
    return given


def requested(requester: Requester, values: Mapping[str, object], timeout_s: float | None) -> list[str]:
    """See `Channel.request`. Opens the books itself."""
    waiting = _Requesting(requester, values)
    began_s = time.monotonic()
    with requests.coming(requester):
        if any(value is not None for value in values.values()):
            waiting.await_sources(timeout_s)
        waiting.await_who_knows(_left(timeout_s, began_s))
        books.wait_for_all(waiting.asking(), _left(timeout_s, began_s), asked_s=timeout_s)
    with books.changing():  # some may have gone meanwhile, without an answer
        known = {source.id.hex() for source in requests.known_sources(requester.membership)}
    return [source for source in waiting.sources if source in known]


def _left(timeout_s: float | None, began_s: float) -> float | None:
    return None if timeout_s is None else max(0.0, timeout_s - (time.monotonic() - began_s))


class _Requesting:
    """One call of `request`."""

    def __init__(self, requester: Requester, values: Mapping[str, object]) -> None:
        self._membership = requester.membership
        self._requester = requester
        self._values = values
        self.sources: list[str] = []  # that have any of what is requested

    def await_sources(self, timeout_s: float | None) -> None:
        """Of members that are about to be linked, as somebody asks their sources now."""
        if links.is_dispatching():  # what is known has to do
            return
        patience_s = _LINKING_S if timeout_s is None else min(_LINKING_S, timeout_s)
        with suppress(TimedOutError):
            books.wait_for(
                lambda: not requests.are_sources_coming(self._membership), patience_s, lambda: "sources"
            )

    def await_who_knows(self, timeout_s: float | None) -> None:
        """Sources that have just come need a moment. ChannelError: some are there, and none has a name."""
        with books.changing():
            if not self._unknown():
                return
        try:
            patience_s = _NEW_S if timeout_s is None else min(_NEW_S, timeout_s)
            books.wait_for(lambda: not self._unknown(), patience_s, lambda: "a source")
        except TimedOutError:
            with books.changing():
                unknown, sources = self._unknown(), requests.known_sources(self._membership)
            if unknown and sources:
                raise ChannelError(requests.none_has(unknown[0], sources)) from None

    def _unknown(self) -> list[str]:
        """Names that no source has. What is withdrawn may be unknown. Called with the books open."""
        sources = requests.known_sources(self._membership)
        known = {name for source in sources for name in requests.names_of(source)}
        return [name for name, value in self._values.items() if value is not None and name not in known]

    def asking(self) -> Waits:
        with books.changing():
            self._membership.demand_open()
            sources = requests.known_sources(self._membership)
            values = {name: self._fitting(name, value, sources) for name, value in self._values.items()}
            if requests.have_elsewhere(self._membership, values):
                books.demand_thread_that_waits(lambda: "answers of sources")
            requests.request(self._requester, values)
            unanswered = requests.unanswered(self._membership, values)
            having = [it for it in sources if not values.keys().isdisjoint(requests.names_of(it))]
            self.sources = [source.id.hex() for source in having]
        yield Wait(lambda: not unanswered(), lambda: _awaited(unanswered))

    @staticmethod
    def _fitting(name: str, value: object, sources: list[Known]) -> Value | None:
        """ChannelError: one of the sources that have it cannot have that value."""
        if value is None:
            return None
        for source, type_ in _having(name, sources):
            try:
                value = type_.fitting(value)
            except ChannelError as error:
                msg = f"{error}, for {source}"
                raise ChannelError(msg) from None
        if not isinstance(value, bool | int | float | str):
            raise unexpected(ChannelError, f"a bool, int, float or str as `{name}`", f"{value!r}")
        return value


def _having(name: str, sources: list[Known]) -> Iterator[tuple[Known, ParameterType]]:
    return ((source, type_) for source in sources for type_ in source.types if type_.name == name)


def _awaited(unanswered: Callable[[], list[Any]]) -> str:
    return "an answer from " + ", ".join(f"`{each.name}` of {each.peer}" for each in unanswered())
