"""Whole nodes in a simulated world: every seed ends in agreement, whatever was lost on the way."""

from __future__ import annotations

import random

import pytest

from echo_core.transports import limits
from tests.transports.samples import is_shared
from tests.transports.simulation import Endpoint, Named, World, identifier, is_ordinary

CHANNELS = [identifier("one"), identifier("two")]
NAMES: list[Named] = [(channel, name) for channel in CHANNELS for name in "xy"]


# What happens how often: enough of each kind, and long enough without a loss that events flow.
WEIGHTS = {
    "open": 10,
    "close": 4,
    "add_source": 8,
    "close_source": 3,
    "set_sinks": 8,
    "submit": 40,
    "drop": 4,
    "flush": 2,
    "connect": 3,
    "disturb": 1,
}


def act(world: World, rng: random.Random) -> None:
    """One thing that a user or the network does."""
    node, other = rng.sample(world.nodes, 2)
    channel, named = rng.choice(CHANNELS), rng.choice(NAMES)
    match rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]:
        case "open":
            node.open(channel)
        case "close":
            node.close(channel)
        case "add_source":
            node.add_source(named)
        case "close_source":
            node.close_source(named)
        case "set_sinks":
            node.set_sinks(channel, rng.randrange(3))
        case "submit":
            node.submit(named)
        case "drop":
            node.submit(named, is_dropped=True)
        case "flush":
            node.flush()
        case "connect":
            world.connect(node, other, channel)
        case _ if world.endpoints:
            disturb(rng.choice(world.endpoints), rng)
        case _:
            pass


def disturb(endpoint: Endpoint, rng: random.Random) -> None:
    """A connection breaks, a process hangs, or a node ends its links."""
    match rng.randrange(4):
        case 0 | 1:
            endpoint.cut()
        case 2 if endpoint.handshake is not None:
            endpoint.is_mute = True
        case _:
            endpoint.node.say_bye()


def live(seed: int, names: str, steps: int) -> None:
    """A life of some nodes, in which only what is allowed goes wrong, and in the end all agree."""
    world = World(seed, names)
    rng = world.random
    ended: list[Endpoint] = []
    for node in world.nodes:
        for channel in CHANNELS:
            node.open(channel)
            node.set_sinks(channel, 1)
        node.add_source(rng.choice(NAMES))
    world.connect(world.nodes[0], world.nodes[1], CHANNELS[0])
    for _ in range(steps):
        act(world, rng)
        ended += [e for e in world.endpoints if e.is_over]
        for _ in range(rng.choice((0, 1, 5, 30))):
            world.deliver()
    world.settle()
    world.check()
    assert all(is_ordinary(endpoint.error) for endpoint in ended)


@pytest.mark.parametrize("block", range(10))
def test_two_nodes_agree_in_the_end(block: int) -> None:
    """Links break at any byte, both start, one hangs, channels come and go."""
    for seed in range(150 * block, 150 * (block + 1)):
        live(seed, "ab", 60)


@pytest.mark.parametrize("block", range(10))
def test_three_nodes_agree_in_the_end(block: int) -> None:
    """The same with a third."""
    for seed in range(50 * block, 50 * (block + 1)):
        live(10_000 + seed, "abc", 100)


def script(world: World, *, budgets: tuple[int, int] = (-1, -1)) -> tuple[Endpoint, Endpoint]:
    """Some life on one link; each side may send so many bytes before it breaks."""
    a, b = world.nodes
    for node in (a, b):
        node.open(CHANNELS[0])
    near = world.connect(a, b, CHANNELS[0])
    assert near is not None
    far = near.other
    near.budget, far.budget = budgets
    world.run_dry()
    a.add_source(NAMES[0])
    b.set_sinks(CHANNELS[0], 2)
    world.run_dry()
    a.submit(NAMES[0])
    b.flush()
    a.close(CHANNELS[0])
    a.open(CHANNELS[0])
    b.add_source(NAMES[1])
    world.run_dry()
    return near, far


def test_a_link_lost_at_every_byte_ends_in_agreement_on_the_next() -> None:
    """Whatever was said by then: no error but a lost link, and a new one takes all up again."""
    near, far = script(World(0))
    for side, sent in ((0, near.sent), (1, far.sent)):
        for budget in range(sent):
            world = World(budget)
            budgets = (budget, -1) if side == 0 else (-1, budget)
            ends = script(world, budgets=budgets)
            assert all(end.is_over and is_ordinary(end.error) for end in ends)
            world.settle()
            world.check()


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_both_start_and_one_link_remains(first: str, second: str) -> None:
    """In every order in which the bytes of two attempts can arrive."""
    for seed in range(200):
        world = World(seed, first + second)
        a, b = world.nodes
        for node in world.nodes:
            node.open(CHANNELS[0])
        world.connect(a, b, CHANNELS[0])
        world.connect(b, a, CHANNELS[0])
        world.run_dry()
        assert len(a.links) == len(b.links) == 1
        world.check()


@pytest.mark.parametrize("is_initiator", [True, False])
def test_nobody_waits_for_ever_for_a_silent_peer(is_initiator: bool) -> None:
    """Whoever says nothing more loses the connection when the handshake's time is up."""
    for seed in range(50):
        world = World(seed)
        a, b = world.nodes
        a.open(CHANNELS[0])
        b.open(CHANNELS[0])
        near = world.connect(a, b, CHANNELS[0])
        assert near is not None
        for _ in range(seed):
            world.deliver()
        silent = near if is_initiator else near.other
        if near.handshake is None or near.other.handshake is None:
            continue
        silent.is_mute = True
        world.run_dry()
        assert near.is_over
        assert near.other.is_over
        assert world.now_s <= limits.HANDSHAKE_TIMEOUT_S


def test_nodes_without_a_common_channel_are_not_linked() -> None:
    """The key of a channel that one does not know opens nothing."""
    world = World(1)
    a, b = world.nodes
    a.open(CHANNELS[0])
    b.open(CHANNELS[1])
    world.connect(a, b, CHANNELS[0])
    world.run_dry()
    assert not a.links
    assert not b.links


def test_a_channel_of_the_same_id_and_another_key_is_not_shared() -> None:
    """Neither in a handshake nor on a link that another channel has opened."""
    world = World(1)
    a, b = world.nodes
    for node, key in ((a, b"k" * 16), (b, b"x" * 16)):
        node.open(CHANNELS[0])
        node.open(CHANNELS[1], key=key)
    world.connect(a, b, CHANNELS[1])
    world.run_dry()
    assert not a.links
    world.connect(a, b, CHANNELS[0])
    world.run_dry()
    protocols = [endpoint.protocol for node in (a, b) for endpoint in node.links.values()]
    assert len(protocols) == 2
    for protocol in protocols:
        assert protocol is not None
        assert is_shared(protocol, CHANNELS[0])
        assert not is_shared(protocol, CHANNELS[1])
