"""Derivations: channels that are derived from another one, as one node has both.

Whoever is on a channel is on all that are derived from it, as long as anybody takes what comes there, and
passes on what it hears of them: so sources that come later hear of them too. A node's sources have others
there, which are fed by branches (streams/branches.py); all else is that of an ordinary channel. Called with
the books open.
"""

from __future__ import annotations

import logging
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from echo_core.codegen.expressions.sorts import Value, pack_value, unpack_value
from echo_core.codegen.expressions.wire import Derivation, demand_bounded
from echo_core.codegen.machine.budgets import Budget, Payers
from echo_core.errors import ChannelError, ClosedError, EchoError, RefusedError, WireError, unexpected
from echo_core.formats.comparing.matching import is_called_alike
from echo_core.roster import presence, vouching
from echo_core.roster.attendance import LEAP
from echo_core.roster.together import mates_of
from echo_core.streams.branches import Branching
from echo_core.streams.origins import Origin
from echo_core.transports.limits import MAX_DERIVED, MAX_DERIVED_DEPTH, MAX_EPOCH
from echo_core.transports.protocol.messages import Adjust, Derive, Judged
from echo_core.values.notices import HERE

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership
    from echo_core.roster.peers import Peer

UNUSED_S = 10.0  # without anybody who takes it, a derived channel ends
_AGAIN_S = 2.0  # until who is not on a derived channel is told of it again

Epoch = tuple[int, bytes]
"""When parameters were set, and by which node: the higher one counts."""


@dataclass(slots=True, eq=False)
class Descent:
    """Of a derived channel: from which one, and how."""

    base: Membership
    told: Derive
    derivation: Derivation
    depth: int
    budget: Budget | None  # of the peer that has told of it; None: it was derived here
    values: tuple[Value, ...]
    epoch: Epoch = (0, bytes(16))
    used_at: float = field(default_factory=time.monotonic)
    told_at: float = field(default_factory=time.monotonic)
    branchings: list[Branching] = field(default_factory=list[Branching])
    underivable: dict[Origin, str] = field(default_factory=dict[Origin, str])  # sources that cannot, and why
    unreceivable: dict[Origin, str] = field(default_factory=dict[Origin, str])  # likewise on receipt

    def adjusted(self) -> Adjust | None:
        """What is to be told of its parameters; None: they are those of the derivation."""
        return None if self.epoch[0] == 0 else self.adjusting(self.epoch, self.values)

    def adjusting(self, epoch: Epoch, values: tuple[Value, ...]) -> Adjust:
        """What is to be told where they become others."""
        uid = self.base.id.derived(self.told.salt, self.told.derivation).uid
        return Adjust(0, uid, *epoch, packed(self.derivation, values))


# ---------------------------------------------------------------------------
# Channels


def depth_of(membership: Membership) -> int:
    """From how many channels in a row it is derived, for all that this node knows.

    Who has no more than the id of a derived channel takes it for one that is not.
    """
    return 0 if membership.descent is None else membership.descent.depth


def root_of(membership: Membership) -> Membership:
    """The channel behind it that is derived from none, for all that this node knows."""
    while membership.descent is not None:
        membership = membership.descent.base
    return membership


def derive(
    base: Membership,
    told: Derive,
    derivation: Derivation,
    budget: Budget | None = None,
    teller: Peer | None = None,
) -> Membership:
    """The derived channel, which this node is on from now on, and all others that are on its base.

    `base` is less than MAX_DERIVED_DEPTH deep, and the channel `is_settled`.
    `teller`: who has told of it, and need not be told.
    """
    id_ = base.id.derived(told.salt, told.derivation)
    child = base.derived.get(id_.uid)
    if child is not None:
        return child
    descent = Descent(base, told, derivation, 1 + depth_of(base), budget, derivation.values)
    types = base.types if derivation.output is None else (derivation.output,)
    child = base.home.memberships.get(id_.uid)  # which may have been opened by its id
    if child is None:
        child = base.join_derived(id_, told.name, types, descent)
    else:
        child.descent, child.handles = descent, child.handles + 1
    base.derived[id_.uid] = child
    presence.gather(child)
    for origin in base.origins:
        branch(child, origin)
    vouching.note_strangers(child, base)
    child.take_relayed()
    _pass_on(base, told, teller)
    for mate in _mates_to_derive(base, id_.uid):
        derive(mate, told, derivation, budget)
    return child


def is_settled(base: Membership, uid: bytes) -> bool:
    """Whether a channel can be derived: it is not one that this node is about to leave."""
    known = base.home.memberships.get(uid)
    return known is None or (known.handles > 0 and not known.is_closing)


def hear_of(base: Membership, peer: Peer, told: Derive) -> None:
    """A peer has a channel that is derived from one: it is shared with that peer, if it is not.

    What is too much is left out, and told of again by whoever takes it: an honest peer may know of fewer
    channels than there are, or take its base for one that is not derived.
    """
    derivation = peer.conversation.derivation_of(told.derivation)
    uid = base.id.derived(told.salt, told.derivation).uid
    if not is_settled(base, uid) or (uid not in base.derived and not _has_room(base)):
        return
    derive(base, told, derivation, peer.conversation.compiling, peer)
    if peer.conversation.protocol.channel(uid) is None:
        with suppress(ClosedError, RefusedError):  # the link is closing, or carries too many channels
            peer.join(uid)


def _has_room(base: Membership) -> bool:
    """For one more channel that a peer has told of; the log says where there is none."""
    if depth_of(base) >= MAX_DERIVED_DEPTH:
        most = f"channels that are derived {MAX_DERIVED_DEPTH} deep"
    elif len(base.derived) >= MAX_DERIVED:
        most = f"{MAX_DERIVED} channels that are derived from it"
    else:
        return True
    said = "channel `%s`: what is derived from it elsewhere is left out beyond %s"
    base.home.derived_beyond.say(logging.WARNING, said, base.shown, most)
    return False


def tell_all(base: Membership, peer: Peer) -> None:
    """A peer that is new on a channel is told what is derived from it, and taken by anybody.

    Of what is not, whoever takes it again tells (`tick`): else it would not end while members come and go.
    """
    for child in base.derived.values():
        if _is_used(child):
            _tell_of(child, peer)


def tell_who_is_missing(child: Membership) -> None:
    """Who has let go of a derived channel, as nobody took it there, is told that somebody does."""
    descent = child.descent
    assert descent is not None
    descent.told_at = time.monotonic()
    for peer in descent.base.peers:
        if peer.conversation.protocol.channel(child.id.uid) is None:
            _tell_of(child, peer)
    for mate in _mates_to_derive(descent.base, child.id.uid):
        adjust(derive(mate, descent.told, descent.derivation, descent.budget), descent.epoch, descent.values)


def _tell_of(child: Membership, peer: Peer) -> None:
    descent = child.descent
    assert descent is not None
    peer.tell_derived(descent.base.id.uid, descent.told)
    adjusted = descent.adjusted()
    if adjusted is not None:
        peer.tell_derived(descent.base.id.uid, adjusted)


def tick(base: Membership) -> None:
    """Lets go of what nobody takes any more, and tells of what has been filtered."""
    now = time.monotonic()
    for child in list(base.derived.values()):
        descent = child.descent
        assert descent is not None
        presence.stand(child)
        if _is_used(child):
            descent.used_at = now
            if now - descent.told_at > _AGAIN_S:
                tell_who_is_missing(child)
            for branching in descent.branchings:
                _tell_filtered(child, branching)
        elif now - descent.used_at > UNUSED_S:
            _let_go_of(child)


def _is_used(child: Membership) -> bool:
    """Whether anybody takes it, here or elsewhere, for all that is known."""
    return bool(child.handles > 1 or child.targets or child.derived or child.attendance.is_taken)


def let_go(base: Membership) -> None:
    """A channel is left: what is derived from it, and open by its own id, goes on without the sources here.

    Nor is it derived any longer itself, also where all of its handles have ended at once.
    """
    for child in list(base.derived.values()):
        _let_go_of(child)
    _end_descent(base)


def _let_go_of(child: Membership) -> None:
    _end_descent(child)
    child.let_go()


def _end_descent(child: Membership) -> None:
    descent = child.descent
    if descent is not None:
        for branching in descent.branchings:
            branching.end()
        child.end_relayed()
        descent.base.derived.pop(child.id.uid, None)
        child.descent = None


def _pass_on(base: Membership, said: Derive | Adjust, teller: Peer | None = None) -> None:
    for peer in base.peers:
        if peer is not teller:
            peer.tell_derived(base.id.uid, said)


def _mates(base: Membership) -> list[Membership]:
    return [mate for mate in mates_of(base) if mate is not base]


def _mates_to_derive(base: Membership, uid: bytes) -> list[Membership]:
    """Without those to which the base is as deep as it may be, which differs with what they know."""
    mates = _mates(base)
    return [mate for mate in mates if depth_of(mate) < MAX_DERIVED_DEPTH and is_settled(mate, uid)]


# ---------------------------------------------------------------------------
# Sources


def branch(child: Membership, origin: Origin) -> None:
    """A source of the base has another one on the derived channel, if it has what that asks for."""
    descent = child.descent
    assert descent is not None
    view = descent.derivation.tree.record
    is_done = any(each.base is origin for each in descent.branchings) or origin in descent.unreceivable
    if is_done or not is_called_alike(origin.format.record, view):
        return
    payers = Payers()
    payers.add(descent.budget)
    try:
        branching = Branching(origin, replace(descent.derivation, values=descent.values), payers)
    except EchoError as error:
        vouching.note_underivable(child, origin, error)
        return
    descent.branchings.append(branching)
    if origin.peer == HERE:
        child.add_origin(branching.origin)
    else:
        child.add_relayed(branching.origin)
    branching.begin()


def end_branches(base: Membership, origin: Origin) -> list[tuple[Membership, Branching]]:
    """A source of the base is closed: those that are derived from it, which are to be closed too."""
    ended: list[tuple[Membership, Branching]] = []
    for child in base.derived.values():
        assert child.descent is not None
        vouching.forget_underivable(child, origin)
        ended += [(child, each) for each in child.descent.branchings if each.base is origin]
    for _, branching in ended:
        branching.end()
    return ended


def forget_branch(child: Membership, branching: Branching) -> None:
    """Its source is closed; until then whoever closes that of the base again finds it here."""
    if child.descent is not None and branching in child.descent.branchings:
        child.descent.branchings.remove(branching)


def tell_judged(child: Membership, branching: Branching) -> None:
    """Tells all peers by what a source is judged, and what has been filtered."""
    for peer in child.peers:
        tell_judged_to(peer, child, branching)


def tell_judged_to(peer: Peer, child: Membership, branching: Branching) -> None:
    """Likewise one peer."""
    peer.tell_judged(child.id.uid, branching.origin, _judged(child, branching))


def _tell_filtered(child: Membership, branching: Branching) -> None:
    judged = _judged(child, branching)
    for peer in child.peers:
        peer.tell_filtered(child.id.uid, branching.origin, judged)


def _judged(child: Membership, branching: Branching) -> Judged:
    assert child.descent is not None
    return Judged(0, *child.descent.epoch, branching.first, branching.native.filtered)


def branching_of(child: Membership, origin: Origin) -> Branching | None:
    """How a source has come to be on a derived channel; None: it was put there."""
    branchings = [] if child.descent is None else child.descent.branchings
    return next((each for each in branchings if each.origin is origin), None)


# ---------------------------------------------------------------------------
# Parameters


def adjust(child: Membership, epoch: Epoch, values: tuple[Value, ...]) -> None:
    """From the next event of each source on, other parameters count, unless later ones do already."""
    descent = child.descent
    if descent is None or epoch <= descent.epoch:
        return
    said = descent.adjusting(epoch, values)
    descent.epoch, descent.values = epoch, values
    for branching in descent.branchings:
        branching.set(values)
        tell_judged(child, branching)
    _pass_on(descent.base, said)
    for mate in _mates(descent.base):
        if child.id.uid in mate.derived:
            adjust(mate.derived[child.id.uid], epoch, values)


def next_epoch(child: Membership, descent: Descent) -> Epoch:
    """Of parameters that this node is about to set."""
    last = descent.epoch[0]
    if last >= MAX_EPOCH:
        raise unexpected(ChannelError, f"parameters that were set less than {MAX_EPOCH} times", last)
    return last + 1, child.home.id


def hear_values(base: Membership, said: Adjust) -> None:
    """A peer tells of other parameters; of a channel that has ended here they mean nothing.

    Nor does an epoch so high that nobody can have come to it by setting: nothing could be set after it.
    """
    child = base.derived.get(said.uid)
    if child is None or child.descent is None:
        return
    values = unpacked(child.descent.derivation, said.values)
    if said.epoch < child.descent.epoch[0] + LEAP:
        adjust(child, (said.epoch, said.node_id), values)


def packed(derivation: Derivation, values: tuple[Value, ...]) -> bytes:
    """Parameters as they travel: a block for each."""
    sorts = derivation.tree.parameters
    packs = [pack_value(sort, value) for sort, value in zip(sorts, values, strict=True)]
    return b"".join(struct.pack("<I", len(each)) + each for each in packs)


def unpacked(derivation: Derivation, data: bytes) -> tuple[Value, ...]:
    """The reverse; WireError for what is not that."""
    values: list[Value] = []
    for sort in derivation.tree.parameters:
        size = int.from_bytes(data[:4], "little")
        value = unpack_value(sort, data[4 : 4 + size]) if len(data) >= 4 + size else None
        if value is None:
            raise unexpected(WireError, f"a parameter of `{sort}`", f"{data[:40]!r}")
        values.append(value)
        data = data[4 + size :]
    if data:
        raise unexpected(WireError, f"{len(values)} parameters", f"{len(data)} bytes more")
    demand_bounded(derivation.tree.parameters, values, WireError)
    return tuple(values)
