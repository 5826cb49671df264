"""Presence: what one node says of itself and others on a channel, and what it makes of what they say.

Whom it has to be linked to follows from that (attendance.py). Called with the books open.
"""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from echo_core.roster.attendance import EPOCH, HOLDS, SENDS, TAKES, Attendance, place_of, usable
from echo_core.roster.ids import MAX_NAMED, ChannelId, Member
from echo_core.roster.together import mates_of
from echo_core.transports.addresses import known_addresses
from echo_core.transports.protocol import messages

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership

_epochs = itertools.count(1)  # each above all that a node of this process has said of itself


def attend(membership: Membership) -> Attendance:
    """Who is on the channel, for all that its id says."""
    home = membership.home
    epoch = next(_epochs) * EPOCH
    own = messages.Member(0, home.id, epoch, standing_of(membership), home.host_id, home.name, home.addresses)
    attendance = Attendance(own, forget_s=home.limits.forget_s, chance=random.Random())
    for member in membership.id.members:
        attendance.name(member.node, tuple(map(str, member.addresses)), member.host)
    if home.place.is_local and membership.descent is None:  # nobody holds what is derived
        attendance.name(membership.id.uid, (str(membership.id.seat),), home.host_id)
    return attendance


def gather(membership: Membership) -> None:
    """Meets the other nodes of this process that are on the channel."""
    now = time.monotonic()
    for mate in mates_of(membership):
        if mate is not membership:
            membership.attendance.meet(mate.attendance.own, now, is_here=True)
            mate.attendance.meet(membership.attendance.own, now, is_here=True)
            converse(mate)
    converse(membership)


def hear_of(membership: Membership, teller: bytes, member: messages.Member) -> None:
    """Another node tells of itself, or of a third one."""
    membership.attendance.hear(teller, member, time.monotonic())
    rival = membership.attendance.rival(teller)
    if rival is not None:
        _settle_with(membership, rival)
    converse(membership)


def _settle_with(membership: Membership, rival: messages.Member) -> None:
    """Two hold the channel: the first in the order of all members goes on holding it.

    The other one keeps the seat of another host, so that who asks there for the channel is led to it.
    """
    own = membership.attendance.own
    gives_way = place_of(rival) < place_of(own)
    if gives_way:
        membership.id = replace(membership.id, members=(_named(rival),))
        if membership.seat is not None and rival.host_id == own.host_id:
            membership.seat.give_up()
            membership.seat = None
        stand(membership)
    membership.announcements.tell_held_twice(membership.shown, own, rival, gives_way=gives_way)


def converse(membership: Membership) -> None:
    """Says what is to be said of members, to whom it is to be said."""
    peers = {peer.node_id: peer for peer in membership.peers}
    mates = {mate.home.id: mate for mate in mates_of(membership)}
    for node_id, member in membership.attendance.take_words():
        if (peer := peers.get(node_id)) is not None:
            peer.tell_member(membership.id.uid, replace(member, addresses=usable(member, peer.host_id)))
        elif (mate := mates.get(node_id)) is not None:
            hear_of(mate, membership.home.id, member)
    if membership.attendance.is_due(time.monotonic()):
        membership.home.wake()


def stand(membership: Membership) -> None:
    """Says what there is here, where that has changed."""
    before, now = membership.attendance.own.standing, standing_of(membership)
    membership.attendance.stand(now)
    converse(membership)
    if now != before and membership.descent is not None:
        stand(membership.descent.base)


def standing_of(membership: Membership) -> int:
    """What this node has on the channel. Whoever has a derived one open takes it: else it would end.

    So does who requests something of its sources or watches all of them, which have to be linked for that;
    and who has sources that have nothing there sends all the same: that has to be told.
    """
    keeps = membership.descent is not None and membership.handles > 1
    takes = membership.targets or membership.requesters or membership.onlookers or keeps
    takes = takes or _takes_derived(membership)
    sends = membership.origins or (membership.descent is not None and membership.descent.underivable)
    what = ((HOLDS, membership.is_creator), (SENDS, sends), (TAKES, takes))
    return sum(standing for standing, is_so in what if is_so)


def _takes_derived(base: Membership) -> bool:
    """Whether anybody here takes what is derived: sources whose processes do not know of that are judged
    here, and no others have to be linked for it than those that are on what is derived.
    """
    return any(child.attendance.own.standing & TAKES for child in base.derived.values())


def invitation(membership: Membership) -> ChannelId:
    """An id by which others can join now: its creator if it is there, this node, others, who was."""
    living = [membership.attendance.own, *membership.attendance.present()]
    named = {member.node_id: _named(member) for member in living}
    gone = [member for member in membership.id.members if member.node not in named]
    creator = [named.pop(member.node) for member in membership.id.members[:1] if member.node in named]
    return replace(membership.id, members=(*creator, *named.values(), *gone)[:MAX_NAMED])


def _named(member: messages.Member) -> Member:
    """As an id names it."""
    return Member(member.node_id, tuple(known_addresses(member.addresses)), member.host_id)
