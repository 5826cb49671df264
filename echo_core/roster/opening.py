"""How a node comes to be on a channel: it creates it, finds it in this process, or joins its creator."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial

from echo_core.errors import ClosedError, RefusedError
from echo_core.formats.format import Format
from echo_core.roster.bookkeeping import books
from echo_core.roster.ids import ChannelId
from echo_core.roster.memberships import Home, Membership, here
from echo_core.roster.neighbours import Neighbours, has_gone
from echo_core.roster.places import Transport, reachable
from echo_core.transports.protocol.messages import Refusal, word_of


class Opening:
    """Of one node. Each membership that is returned has one handle more; opens the books itself."""

    def __init__(self, home: Home, neighbours: Neighbours) -> None:
        self._home = home
        self._neighbours = neighbours
        self._joining: dict[object, bytes] = {}  # the channel that each call of `open` is joining

    def create(self, name: str, types: tuple[Format, ...]) -> Membership:
        """A new channel."""
        with books.changing():
            self._demand_open()
            id_ = ChannelId.new(self._home.id, self._neighbours.listen())
            membership = Membership(self._home, id_, name, types)
            membership.is_proven = True
            return membership

    def open(self, id_: ChannelId, ways: Sequence[Transport], timeout_s: float) -> Membership:
        """The channel of that id. RefusedError: its creator says no. LinkError: it cannot be reached."""
        call = object()
        try:
            return self._find_or_claim(id_, ways, timeout_s, call) or self._join(id_, ways, timeout_s)
        finally:  # Ctrl-C can come behind a call, so none stands before `del`
            if call in self._joining:
                del self._joining[call]
            with books.changing():  # wakes who waits for that
                pass

    def _find_or_claim(
        self, id_: ChannelId, ways: Sequence[Transport], timeout_s: float, call: object
    ) -> Membership | None:
        """What is there, once no other thread is at it; None: it is this call's to join."""
        while True:
            with books.changing():
                self._demand_open()
                if self._is_settled(id_.uid):
                    found = self._find(id_, ways)
                    if found is None:
                        self._joining[call] = id_.uid
                    return found
            books.wait_for(partial(self._is_settled, id_.uid), timeout_s, lambda: f"{id_!r} to be opened")

    def _is_settled(self, uid: bytes) -> bool:
        """Whether no other thread is opening the channel, or closing its last handle."""
        known = self._home.memberships.get(uid)
        return uid not in self._joining.values() and (known is None or known.handles > 0)

    def _find(self, id_: ChannelId, ways: Sequence[Transport]) -> Membership | None:
        """What this process has already, unless it is to be joined again."""
        self._neighbours.listen()
        known = self._home.memberships.get(id_.uid)
        if known is not None:
            _demand_key(known, id_)
            if self._is_cut_off(known):
                return None
            known.handles += 1
            return known
        joined = self._join_in_process(id_, ways)
        if joined is None and id_.node == self._home.id:  # nobody else could be asked
            msg = f"this process refused the channel {id_!r}: it has created the channel, and closed it"
            raise RefusedError(msg, code=word_of(Refusal.UNKNOWN_CHANNEL))
        return joined

    def _is_cut_off(self, membership: Membership) -> bool:
        """Whether all others of a channel are gone, its creator too; they may be back, if by a link."""
        id_ = membership.id
        has_way = bool(reachable(id_.addresses, self._home.place.transports))
        return id_.node != self._home.id and has_way and not membership.acquaintances()

    def _join_in_process(self, id_: ChannelId, ways: Sequence[Transport]) -> Membership | None:
        """The channel of another node of this process, which events reach without a link."""
        others = [other for other in here(id_.uid) if other.home.joins_in_process and other.is_proven]
        if not (self._home.joins_in_process and "process" in ways and others):
            return None
        _demand_key(others[0], id_)
        membership = Membership(self._home, id_, others[0].name, others[0].types)
        membership.is_proven = True
        for other in others:
            self._neighbours.meet((membership, peer.node_id, peer.addresses) for peer in other.peers)
        return membership

    def _join(self, id_: ChannelId, ways: Sequence[Transport], timeout_s: float) -> Membership:
        with books.changing():
            membership = self._home.memberships.get(id_.uid)
            if membership is None:
                membership = Membership(self._home, id_, "", ())
            else:
                membership.handles += 1
        try:
            self._neighbours.join(membership, id_.node, id_.addresses, ways, timeout_s)
        except BaseException as error:
            if not (membership.is_proven and has_gone(error)):  # else the channel goes on without its creator
                membership.let_go()
                raise
        membership.is_proven = True
        return membership

    def _demand_open(self) -> None:
        if self._home.is_closed:
            msg = f"Expected node `{self._home.name}` to be open, it has been closed"
            raise ClosedError(msg, hint="after a fork, the child makes a node of its own")


def _demand_key(membership: Membership, id_: ChannelId) -> None:
    if not secrets.compare_digest(membership.id.key, id_.key):
        msg = f"this process refused the channel {id_!r}: the key is not that of the channel"
        raise RefusedError(msg, code="wrong_key")
