"""Hosts: what means nothing on another one is not used there, and who cannot be reached is told of in words.

Two network namespaces stand for hosts.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Generator, Iterator, Sequence

import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from echo_core.transports.addresses import Address, crosses_hosts
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.networks import Cable, Host, give_ipv6, two_hosts
from tests.echo_core.processes import Actor

LIMIT_S = 60.0

_NODE = """
import logging, warnings
from queue import SimpleQueue
warnings.simplefilter("ignore", echo.PlaintextWarning)  # which is not about this
warned = []
class Warned(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())
logging.getLogger("echo_core").addHandler(Warned(logging.WARNING))
node = echo.Node(sys.argv[1], host=sys.argv[2])
"""

CREATOR = (
    _NODE
    + """
channel = node.create_channel("test", Plain)
sink = channel.sink(Plain)
say(channel.id)
hear()
say(channel.statistics().members, sink.get(LIMIT_S))
hear()
node.close(0.0)
"""
)

SENDER = (
    _NODE
    + """
with node.open_channel(sys.argv[3], timeout_s=LIMIT_S) as channel:
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    source.flush(LIMIT_S)
    say(node.statistics().links[0].wire)
    hear()
node.close(0.0)
"""
)

# Has a source or a sink, and waits until it is told that somebody cannot be linked to.
LONELY = (
    _NODE
    + """
told = SimpleQueue()
channel = node.open_channel(sys.argv[3], timeout_s=LIMIT_S)
channel.watch(told.put)
say(channel.id)
end = channel.source(Plain) if sys.argv[4] == "source" else channel.sink(Plain)
while not isinstance(notice := told.get(timeout=LIMIT_S), echo.Unlinked):
    pass
say(notice.peer, notice.reason)
say([line for line in warned if "no link to" in line])
hear()
node.close(0.0)
"""
)

# Somebody else, who listens at these addresses.
DECOY = """
import selectors
from echo_core.transports.addresses import parse_address
from echo_core.transports.wires import sockets
listeners = [sockets.listen(parse_address(text)) for text in sys.argv[1:]]
say("listening")
hear()
came = 0
for listener in listeners:
    with contextlib.suppress(BlockingIOError):
        listener.accept()[0].close()
        came += 1
    listener.close()
say(came)
hear()
"""

OPENER = (
    _NODE
    + """
try:
    node.open_channel(sys.argv[3], timeout_s=0.5)
except echo.LinkError as error:
    say(error)
node.close(0.0)
"""
)


@pytest.fixture
def cable() -> Iterator[Cable]:
    with two_hosts() as made:
        yield made


def demand_events(sender: Host, sender_host: str, creator: Host, creator_host: str) -> None:
    """A channel that is created on the one host can be opened on the other, and used."""
    with Actor(CREATOR, "creator", creator_host, namespace=creator.namespace) as first:
        id_ = first.hear()
        with Actor(SENDER, "sender", sender_host, id_, namespace=sender.namespace) as second:
            assert second.hear() == "socket"
            first.tell("how many")
            assert first.hear() == "1 Plain(id=1, x=2.0)"
            for actor in (first, second):
                actor.tell("end")
                actor.demand_quiet_end()


def test_a_channel_whose_creator_listens_on_its_loopback_alone_says_so_elsewhere(cable: Cable) -> None:
    left, right = cable.left, cable.right
    with Actor(CREATOR, "creator", "127.0.0.1", namespace=left.namespace) as creator:
        id_ = creator.hear()
        with Actor(OPENER, "opener", right.ipv4, id_, namespace=right.namespace) as opener:
            assert "its node needs an address that others can reach: Node(host=...)" in opener.hear()
            opener.demand_quiet_end()


@contextlib.contextmanager
def decoys(host: Host, addresses: Sequence[Address]) -> Generator[Actor]:
    """Another program of a host, which happens to listen at such addresses; counts who has connected."""
    local = [str(address) for address in addresses if not crosses_hosts(address)]
    with Actor(DECOY, *local, namespace=host.namespace) as decoy:
        assert decoy.hear() == "listening"
        yield decoy
        decoy.tell("how many")
        assert decoy.hear() == "0"
        decoy.tell("end")
        decoy.demand_quiet_end()


def test_addresses_of_an_id_that_mean_another_process_on_this_host_are_not_tried(cable: Cable) -> None:
    left, right = cable.left, cable.right
    with Actor(CREATOR, "creator", "127.0.0.1", namespace=left.namespace) as creator:
        id_ = creator.hear()
        with (
            decoys(right, ChannelId.parse(id_).addresses),
            Actor(OPENER, "opener", right.ipv4, id_, namespace=right.namespace) as opener,
        ):
            assert "Node(host=...)" in opener.hear()
            opener.demand_quiet_end()


def test_addresses_of_a_member_that_mean_another_process_on_this_host_are_not_tried(cable: Cable) -> None:
    """Neither those that its id names, nor what others tell of it."""
    left, right = cable.left, cable.right
    with (
        Actor(CREATOR, "creator", left.ipv4, namespace=left.namespace) as creator,
        Actor(LONELY, "here", "127.0.0.1", creator.hear(), "sink", namespace=left.namespace) as here,
    ):
        id_ = here.hear()
        with (
            decoys(right, ChannelId.parse(id_).addresses),
            Actor(LONELY, "there", "127.0.0.1", id_, "source", namespace=right.namespace) as there,
        ):
            there.hear()
            assert there.hear(LIMIT_S).startswith("here ")


def test_members_that_cannot_reach_each_other_are_told_of_at_both_ends(cable: Cable) -> None:
    """By a notice and a warning, once, with the way out; both are linked to the creator meanwhile."""
    left, right = cable.left, cable.right
    with Actor(CREATOR, "creator", left.ipv4, namespace=left.namespace) as creator:
        id_ = creator.hear()
        with (
            Actor(LONELY, "here", "127.0.0.1", id_, "sink", namespace=left.namespace) as here,
            Actor(LONELY, "there", "127.0.0.1", id_, "source", namespace=right.namespace) as there,
        ):
            for actor, other in ((here, "there"), (there, "here")):
                actor.hear()
                said, warned = actor.hear(LIMIT_S), actor.hear()
                assert said.startswith(f"{other} it has no address that this host can reach")
                assert "Node(host=...)" in said
                assert warned.count("no link to") == 1
                assert f"no link to `{other}`" in warned
            for actor in (here, there):
                actor.tell("end")
                actor.demand_quiet_end()


def test_hosts_reach_each_other_by_ipv4_and_ipv6(cable: Cable) -> None:
    left, right = cable.left, cable.right
    demand_events(left, left.ipv4, right, right.ipv4)
    give_ipv6(cable)
    demand_events(left, left.ipv6, right, right.ipv6)
    demand_events(left, left.ipv4, right, right.ipv6)


def test_hosts_reach_each_other_by_link_local_addresses(cable: Cable) -> None:
    """Where both call the network interface the same."""
    give_ipv6(cable)
    left, right = cable.left, cable.right
    demand_events(left, left.link_local, right, right.link_local)


@pytest.mark.parametrize("host", ["::1", "::"])
def test_a_node_listens_by_ipv6(make_node: MakeNode, host: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", echo.PlaintextWarning)
        creator = make_node(transports=["tcp"], host=host, advertised_host="::1")
    channel = creator.create_channel("test", Plain)
    assert creator.addresses[0].startswith("tcp://[::1]:")
    sink = channel.sink(Plain)
    with (
        make_node(transports=["tcp"], host="::1").open_channel(channel.id) as opened,
        opened.source(Plain) as source,
    ):
        source.wait_matched(1, LIMIT_S)
        source.submit(Plain(1, 2.0))
        assert sink.get(LIMIT_S) == Plain(1, 2.0)
