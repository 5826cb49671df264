"""Together: the nodes of this process that are on one channel.

They connect their sources and sinks directly, unless one of them does not join in process. Called with the
books open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership

_memberships_by_uid: dict[bytes, list[Membership]] = {}


def here(uid: bytes) -> list[Membership]:
    """The nodes of this process that are on a channel."""
    return _memberships_by_uid.get(uid, [])


def begin(uid: bytes) -> list[Membership]:
    """Likewise, where another one is to come."""
    return _memberships_by_uid.setdefault(uid, [])


def end(uid: bytes) -> None:
    """One has gone."""
    if not here(uid):
        _memberships_by_uid.pop(uid, None)


def forget_all() -> None:
    """In a forked child: the parent's nodes are not here."""
    _memberships_by_uid.clear()


def mates_of(membership: Membership) -> list[Membership]:
    """This node's, and those of other nodes in the process that it meets directly."""
    if not membership.home.joins_in_process:
        return [membership]
    return [other for other in here(membership.id.uid) if other is membership or other.home.joins_in_process]


def are_together(membership: Membership, node_id: bytes) -> bool:
    """Whether events reach a node without a link; over one they would come a second time."""
    return any(other.home.id == node_id for other in mates_of(membership))
