"""Source control: receivers on a channel request values of its sources' parameters, wherever these are.

A node asks each source for what all of its handles have requested, merged as the parameter says; a source
that comes, or whose link comes back, is asked when it says what it has. Called with the books open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from echo_core.errors import ChannelError
from echo_core.roster import presence
from echo_core.roster.bookkeeping import books
from echo_core.roster.together import mates_of
from echo_core.streams.controls import Control, to_message
from echo_core.streams.incoming import IncomingStream
from echo_core.streams.origins import Origin
from echo_core.streams.outgoing import OutgoingStream
from echo_core.transports.protocol.messages import Parameter, Request, Requested
from echo_core.transports.threads import log
from echo_core.values.notices import HERE
from echo_core.values.parameters import ParameterType, Value

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership
    from echo_core.roster.peers import Peer

_NOBODY_HAS, _NOT_FITTING = "no source has it", "a source cannot have what is requested"
PATIENCE_S = 2.0  # until it is logged that no source has what is requested


class Requester:
    """What one handle has requested of the sources of a channel: the values that it wants, by name."""

    __slots__ = ("asked_at", "is_told", "membership", "values")

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.values: dict[str, Value] = {}
        self.asked_at = 0.0
        self.is_told: set[tuple[str, str]] = set()  # names, and what the log has said of them


class Known(NamedTuple):
    """A source, as who requests knows it."""

    name: str
    peer: str
    id: bytes
    types: list[ParameterType]

    def __str__(self) -> str:
        return f"`{self.name}` of {self.peer}"


# ---------------------------------------------------------------------------
# Receivers


def request(requester: Requester, values: dict[str, Value | None]) -> None:
    """A handle wants these from now on; of names with None it wants nothing any more."""
    membership = requester.membership
    for name, value in values.items():
        requester.values.pop(name, None)
        requester.is_told -= {(name, what) for what in (_NOBODY_HAS, _NOT_FITTING)}
        if value is not None:
            requester.values[name] = value
    requester.asked_at = time.monotonic()
    if requester in membership.requesters:
        membership.requesters.remove(requester)
    if requester.values:
        membership.requesters.append(requester)
    presence.stand(membership)
    renew(membership)


@contextmanager
def coming(requester: Requester) -> Generator[None]:
    """While a handle is about to request something: sources have to be linked to who has them asked.

    What is requested may then turn out to be impossible. Opens the books itself.
    """
    membership = requester.membership
    with books.changing():
        membership.demand_open()
        if requester not in membership.requesters:
            membership.requesters.append(requester)
            presence.stand(membership)
    try:
        yield
    finally:
        with books.changing():
            if not requester.values and requester in membership.requesters:
                membership.requesters.remove(requester)
                presence.stand(membership)


def are_sources_coming(membership: Membership) -> bool:
    """Whether members have sources that are not known here yet, and may well be in a moment."""
    linked = {peer.node_id: peer.link for peer in membership.peers}
    told = {stream.link for stream in membership.incoming}
    return any(linked.get(node_id) not in told for node_id in membership.attendance.expected_senders())


def have_elsewhere(membership: Membership, names: Iterable[str]) -> bool:
    """Whether sources elsewhere have any parameters of these names."""
    asked = [stream.asking for stream in membership.incoming if stream.asking is not None]
    return any(not asking.types.keys().isdisjoint(names) for asking in asked)


def withdraw(requester: Requester) -> None:
    """A handle is closed."""
    if requester in requester.membership.requesters:
        request(requester, dict.fromkeys(requester.values))


def renew(membership: Membership) -> None:
    """All sources are asked for what is wanted now."""
    for stream in membership.incoming:
        _ask(membership, stream)
    for origin in _near(membership):
        ask_here(membership, origin)


def ask_here(membership: Membership, origin: Origin) -> None:
    """Likewise a source of this process."""
    changed: list[Control] = []
    for type_ in origin.controls.types:
        changed += origin.controls.ask(membership, type_.name, _wanted(membership, type_))
    _follow(origin, changed)


def _ask(membership: Membership, stream: IncomingStream) -> None:
    conversation, asking = stream.conversation, stream.asking
    if asking is not None:
        for said in asking.ask(partial(_wanted, membership)):
            conversation.command(partial(conversation.protocol.request, stream.told, said))


def _wanted(membership: Membership, type_: ParameterType) -> Value | None:
    """Of what all handles of this node want that which it can have: who comes may have other bounds."""
    found: list[Value] = []
    for requester in membership.requesters:
        if type_.name not in requester.values:
            continue
        try:
            found.append(type_.fitting(requester.values[type_.name]))
        except ChannelError as error:
            said = f"{_NOT_FITTING}: {error}"
            _tell_once(membership, requester, type_.name, _NOT_FITTING, said)
    return type_.merged(found) if found else None


def known_sources(membership: Membership) -> list[Known]:
    """All sources that can be asked, here and elsewhere."""
    near = [Known(it.name, HERE, it.id, it.controls.types) for it in _near(membership)]
    return near + [Known(it.name, it.peer, it.told.source_id, it.parameters) for it in membership.incoming]


def unanswered(membership: Membership, names: Iterable[str]) -> Callable[[], list[IncomingStream]]:
    """Says of which sources elsewhere no answer has come to what was requested by now."""
    asked = [
        (stream, stream.asking, stream.asking.number)
        for stream in membership.incoming
        if stream.asking is not None and not stream.asking.types.keys().isdisjoint(names)
    ]
    return lambda: [
        stream
        for stream, asking, number in asked
        if asking.answered < number and stream in membership.incoming
    ]


def tick(membership: Membership) -> None:
    """The log says where sources are there, and none has what was requested some time ago."""
    for requester in membership.requesters:
        if time.monotonic() - requester.asked_at < PATIENCE_S:
            continue
        sources = known_sources(membership)
        for name in requester.values if sources else ():
            if all(name not in names_of(source) for source in sources):
                _tell_once(membership, requester, name, _NOBODY_HAS, none_has(name, sources))


def names_of(source: Known) -> list[str]:
    """Of the parameters that a source has."""
    return [type_.name for type_ in source.types]


def none_has(name: str, sources: list[Known]) -> str:
    """What to say to who requests what no source has."""
    there = sorted({known for source in sources for known in names_of(source)})
    who = ", ".join(map(str, sources[:4])) + (", ..." if len(sources) > 4 else "")
    return (
        f"Expected a parameter of its sources, {', '.join(there) or 'none'}, got `{name}`, unknown to {who}"
    )


def _tell_once(membership: Membership, requester: Requester, name: str, what: str, said: str) -> None:
    """A source that has just come may have yet to say what it has, which is then told as well."""
    if (name, what) not in requester.is_told:
        requester.is_told.add((name, what))
        log.warning("channel `%s`: request of `%s`: %s", membership.shown, name, said)


def let_go(membership: Membership) -> None:
    """The channel is left, which sources elsewhere hear: those here are asked no longer."""
    membership.requesters.clear()
    for origin in _near(membership):
        forget(origin, membership)


def _near(membership: Membership) -> list[Origin]:
    return [origin for mate in mates_of(membership) for origin in mate.origins]


# ---------------------------------------------------------------------------
# Sources


def declare(
    membership: Membership,
    origin: Origin,
    type_: ParameterType,
    on_change: Callable[[Value], object] | None,
) -> Control:
    """A source here has a parameter, of which all hear; what was requested before counts at once."""
    control = origin.controls.declare(type_, on_change)
    for peer in membership.peers:
        peer.tell_of_source(membership.id.uid, origin, to_message(type_))
    for mate in mates_of(membership):
        ask_here(mate, origin)
    return control


def tell_all(membership: Membership, peer: Peer, origin: Origin) -> None:
    """A peer that is offered a source hears which parameters it has."""
    for type_ in origin.controls.types:
        peer.tell_of_source(membership.id.uid, origin, to_message(type_))


def hear_parameter(membership: Membership, stream: IncomingStream, said: Parameter) -> None:
    """A source elsewhere has a parameter, which may be wanted already."""
    stream.hear_parameter(said)
    _ask(membership, stream)


def hear_request(peer: Peer, stream: OutgoingStream, said: Request) -> None:
    """A peer wants something of a source here."""
    origin = stream.origin
    value = origin.controls.heard(said)
    _follow(origin, origin.controls.ask(stream, said.name, value))
    peer.tell_of_source(stream.told.channel.uid, origin, Requested(0, said.number))


def forget(origin: Origin, who: object) -> None:
    """A receiver is gone, and with it what it has requested."""
    _follow(origin, origin.controls.forget(who))


def _follow(origin: Origin, changed: list[Control]) -> None:
    if changed:
        origin.reconsider()
        if not origin.is_closed:
            for control in changed:
                if control.is_watched and not control.is_due:  # a receiver may change its mind all the time
                    control.is_due = books.tell_later(control.tell)
