"""How many links two nodes make that start them at the same moment, in whatever order things happen."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from echo_core.roster.homes import Home
from echo_core.roster.link_table import LinkTable
from echo_core.roster.peers import Peer
from echo_core.roster.places import Limits, Place
from echo_core.transports.addresses import TcpAddress
from echo_core.transports.handshake.proofs import Role
from tests.echo_core.census import until

SMALL, LARGE = bytes([1] * 16), bytes([2] * 16)
FIRST, SECOND = b"a" * 16, b"b" * 16  # channels
STEPS = 6  # of an attempt, at most


@dataclass(eq=False)
class FakePeer:
    """What a link table asks of a link's other end."""

    node_id: bytes
    uid: bytes
    role: Role
    made_at: float = field(default_factory=time.monotonic)
    unused_s: float = 0.0
    conversation: Any = field(default_factory=lambda: SimpleNamespace(farewell=""))

    def has_proven(self, uid: bytes) -> bool:
        return uid == self.uid

    def shares(self, uid: bytes) -> bool:
        return uid == self.uid


def _table(node_id: bytes) -> LinkTable:
    place = Place(transports=("tcp",), listens_at=TcpAddress("127.0.0.1", 0), advertised_host="", spin_ns=0)
    return LinkTable(Home("test", place, Limits(), None, node_id))


def _attempt(
    near: LinkTable, near_id: bytes, far: LinkTable, far_id: bytes, uid: bytes, *, is_far_first: bool
) -> Iterator[None]:
    """A node starts a link to another one, with a pause where others may come between."""
    attempt = contextlib.ExitStack()
    attempt.enter_context(near.proving(attempt))
    if near.start_proving(attempt, far_id, uid) is not None:
        attempt.close()
        return
    yield  # PROOF is under way
    if far.admit(near_id, uid) is not None:
        yield  # REFUSED is
        attempt.close()
        return

    def add_here() -> None:
        near.add(cast("Peer", FakePeer(far_id, uid, Role.INITIATOR)))
        attempt.close()

    def add_there() -> None:
        far.end_admission(near_id, uid)
        far.add(cast("Peer", FakePeer(near_id, uid, Role.RESPONDER)))

    ends: list[Callable[[], None]] = [add_there, add_here] if is_far_first else [add_here, add_there]
    for end in ends:
        yield
        end()


def _schedules() -> Iterator[tuple[bool, ...]]:
    """All orders in which two attempts can take their steps."""
    for firsts in itertools.combinations(range(STEPS), STEPS // 2):
        yield tuple(step in firsts for step in range(STEPS))


@pytest.mark.parametrize("are_of_one_node", [False, True])
def test_two_nodes_that_start_links_for_two_channels_at_once_make_one(are_of_one_node: bool) -> None:
    """Whether each node starts one, or one of them starts both; of the refused one nothing is left."""
    for schedule in _schedules():
        for far_firsts in itertools.product((False, True), repeat=2):
            small, large = _table(SMALL), _table(LARGE)
            one = _attempt(small, SMALL, large, LARGE, FIRST, is_far_first=far_firsts[0])
            ends = (small, SMALL, large, LARGE) if are_of_one_node else (large, LARGE, small, SMALL)
            other = _attempt(*ends, SECOND, is_far_first=far_firsts[1])
            for is_one in (*schedule, *[True, False] * STEPS):
                next(one if is_one else other, None)
            assert (len(small), len(large)) == (1, 1), (schedule, far_firsts)


def test_who_has_taken_a_name_puts_its_owner_off_for_a_moment_only() -> None:
    """A link is being made for channel A to somebody of that name, again and again."""
    table = _table(SMALL)
    assert table.start_proving("first", LARGE, FIRST) is None
    assert table.admit(LARGE, SECOND) is not None
    until(lambda: table.admit(LARGE, SECOND) is None, "the owner of the name to be let in")
    assert table.start_proving("second", LARGE, FIRST) is not None  # it is still being made


def test_a_link_for_the_same_channel_is_refused_for_as_long_as_there_is_one() -> None:
    table = _table(LARGE)
    table.add(cast("Peer", FakePeer(SMALL, FIRST, Role.RESPONDER)))
    assert table.admit(SMALL, FIRST) is not None
    assert table.admit(SMALL, SECOND) is None
