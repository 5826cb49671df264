"""What other nodes have used of this one's processor is remembered, in bounds."""

from __future__ import annotations

import pytest

from echo_core.streams.allowances import KnownNodes
from echo_core.transports.limits import HEARING_S, HEARING_SHARE, MAX_KNOWN_NODES, NEWCOMERS

NODE, OTHER, CHANNEL, SECOND = (bytes([number]) * 16 for number in range(4))


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(clock: Clock) -> KnownNodes:
    return KnownNodes(clock)


def numbered(number: int) -> bytes:
    return (number + 1).to_bytes(16, "little")


def test_a_node_that_comes_again_has_what_it_has_left(known: KnownNodes, clock: Clock) -> None:
    """And what has come back meanwhile."""
    known.allowances(NODE, CHANNEL).hearing.charge(HEARING_S + 1.0)
    again = known.allowances(NODE, CHANNEL)
    assert again.hearing.wait_s() == pytest.approx(1.0 / HEARING_SHARE)
    assert again.compiling.is_whole
    clock.now_s = 0.5 / HEARING_SHARE
    assert known.allowances(NODE, CHANNEL).hearing.wait_s() == pytest.approx(0.5 / HEARING_SHARE)


def test_who_proves_another_channel_under_the_same_name_has_its_own(known: KnownNodes) -> None:
    """A node id is a name that anybody can take."""
    known.allowances(NODE, CHANNEL).hearing.charge(1000.0)
    assert known.allowances(NODE, SECOND).hearing.is_whole
    assert known.allowances(OTHER, SECOND).hearing.is_whole


def test_two_links_of_one_node_share_what_it_has(known: KnownNodes, clock: Clock) -> None:
    """Also where it has all of it again."""
    first = known.allowances(NODE, CHANNEL)
    clock.now_s = 1e6
    assert known.allowances(NODE, CHANNEL) is first


def test_new_names_are_of_little_use(known: KnownNodes) -> None:
    """All newcomers of a channel together have what a few nodes have; who is known keeps its own."""
    honest = known.allowances(OTHER, CHANNEL)
    used_s = 0.0
    for number in range(100):
        hearing = known.allowances(numbered(number), CHANNEL).hearing
        while hearing.left_s > 0.0:
            hearing.charge(0.125)
            used_s += 0.125
    assert used_s == NEWCOMERS * HEARING_S
    assert honest.hearing.is_whole
    assert known.allowances(OTHER, CHANNEL) is honest
    assert known.allowances(numbered(100), SECOND).hearing.is_whole


def test_who_was_made_to_wait_is_told_of_again_once_it_has_all_again(known: KnownNodes, clock: Clock) -> None:
    slow = known.allowances(NODE, CHANNEL)
    slow.hearing.charge(HEARING_S + 1.0)
    slow.has_rested = True
    assert known.allowances(NODE, CHANNEL).has_rested
    clock.now_s = 1e6
    assert not known.allowances(NODE, CHANNEL).has_rested


@pytest.mark.parametrize(("others", "is_known"), [(MAX_KNOWN_NODES - 2, True), (MAX_KNOWN_NODES - 1, False)])
def test_so_many_nodes_are_known_and_the_one_that_came_last_is_forgotten_last(
    known: KnownNodes, others: int, *, is_known: bool
) -> None:
    """Those of all newcomers count as one."""
    first = known.allowances(NODE, CHANNEL)
    for number in range(others):
        known.allowances(numbered(number), CHANNEL)
    assert (known.allowances(NODE, CHANNEL) is first) == is_known
