"""Nodes: the default one, what they may be asked for, and how several meet."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster.bookkeeping import books
from echo_core.roster.ids import ChannelId, Member
from echo_core.roster.places import Transport
from echo_core.transports import limits
from echo_core.transports.addresses import TcpAddress, UnixAddress, parse_address
from echo_core.transports.wires import sockets
from tests.echo_core.census import left_behind, settled_census
from tests.echo_core.channel_events import Plain, Reading1
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector
from tests.echo_core.losses import links_lost


@pytest.fixture
def default_node() -> Iterator[echo.Node]:
    """The process's own, which would stay."""
    yield echo.default_node()
    echo.default_node().close()


@pytest.mark.usefixtures("default_node")
def test_a_component_needs_no_node() -> None:
    """Two that know nothing of each other but an id."""
    created = echo.create_channel("default", Plain)
    with created, echo.open_channel(created.id) as opened:
        collector = Collector()
        opened.sink(Plain, collector)
        created.source().submit(Plain(1, 2.0))
        assert collector.events == [Plain(1, 2.0)]
        assert opened.name == "default"


@pytest.mark.usefixtures("default_node")
def test_a_handle_that_is_closed_leaves_the_others_alone() -> None:
    created = echo.create_channel("default", Plain)
    first, second = echo.open_channel(created.id), echo.open_channel(created.id)
    gone, kept = Collector(), Collector()
    first.sink(Plain, gone)
    second.sink(Plain, kept)
    first.close()
    first.close()
    created.source().submit(Plain(1, 2.0))
    assert (gone.events, kept.events) == ([], [Plain(1, 2.0)])
    created.close()
    second.close()


@pytest.mark.parametrize("transports", [(), ("pigeon",), "tcp", ("tcp", "ipc")])
def test_transports_that_do_not_exist_are_refused(transports: Any) -> None:
    with pytest.raises(echo.ChannelError, match="process, shm, unix, tcp"):
        echo.Node(transports=transports)


def test_a_node_listens_where_its_transports_say(make_node: MakeNode) -> None:
    """On the loopback interface only, unless it is asked to."""
    expected: dict[str, list[type[Any]]] = {
        "tcp": [TcpAddress],
        "unix": [UnixAddress],
        "shm": [UnixAddress],
        "process": [],
    }
    for transport, kinds in expected.items():
        node = make_node(transports=[transport])
        assert not node.addresses
        node.create_channel("x")
        found = [parse_address(text) for text in node.addresses]
        assert [type(address) for address in found] == kinds
        assert all(address.is_loopback for address in found if isinstance(address, TcpAddress))


def test_a_port_that_is_taken_leaves_no_other_listener(make_node: MakeNode) -> None:
    """And the node may be tried again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        node = make_node(port=taken.getsockname()[1])
        before = settled_census()
        with pytest.raises(echo.LinkError, match="Expected to listen at tcp"):
            node.create_channel("x")
        assert left_behind(before) == ""
    assert len(node.create_channel("x").id) > 0


def test_listening_elsewhere_is_warned_of(make_node: MakeNode) -> None:
    with pytest.warns(echo.PlaintextWarning, match="plain text"):
        make_node(host="0.0.0.0", advertised_host="localhost")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_node(host="0.0.0.0", transports=["unix"])
        make_node(host="localhost")


def test_what_a_node_advertises_is_in_the_id(make_node: MakeNode) -> None:
    node = make_node(transports=["tcp"], advertised_host="localhost")
    channel = node.create_channel("x", Plain)
    assert node.addresses[0].startswith("tcp://localhost:")
    assert make_node(transports=["tcp"]).open_channel(channel.id).name == "x"


def test_a_node_that_cannot_be_reached_says_how_it_was_tried(make_node: MakeNode) -> None:
    channel = make_node(transports=["tcp"]).create_channel("x")
    with pytest.raises(echo.LinkError, match="no address that leads there from here by unix"):
        make_node(transports=["unix"]).open_channel(channel.id)
    with socket.socket() as deaf:  # it keeps the port from others
        deaf.bind(("127.0.0.1", 0))
        id_ = str(ChannelId.new(Member(bytes(16), (TcpAddress(*deaf.getsockname()),))))
        with pytest.raises(echo.LinkError, match="refused"):
            make_node(transports=["tcp"]).open_channel(id_, timeout_s=0.2)


def test_a_channel_that_was_closed_is_unknown(make_node: MakeNode) -> None:
    node = make_node(transports=["tcp"])
    channel = node.create_channel("x")
    channel.close()
    with pytest.raises(echo.RefusedError) as caught:
        make_node(transports=["tcp"]).open_channel(channel.id)
    assert caught.value.code == "unknown_channel"


def test_the_caller_may_choose_the_way(make_node: MakeNode) -> None:
    """One node can be reached in every way. Nodes that have joined before may be linked to as well."""
    channel = make_node(name="creator").create_channel("x", Plain)
    wires: dict[Transport, str] = {"tcp": "socket", "unix": "socket", "shm": "shm"}
    for transport, wire in wires.items():
        node = make_node(transports=["shm", "tcp"] if transport != "unix" else ["unix"])
        node.open_channel(channel.id, transport=transport)
        links = node.statistics().links
        assert [link.wire for link in links if link.peer.startswith("creator")] == [wire]


def test_events_do_not_pass_the_creator(make_node: MakeNode) -> None:
    """Who has joined is linked to all others, and goes on when the creator is gone."""
    creator, one, two = (make_node(transports=["tcp"]) for _ in range(3))
    channel = creator.create_channel("x", Plain)
    first, second = one.open_channel(channel.id), two.open_channel(channel.id)
    collector = Collector()
    first.sink(Plain, collector)
    source = second.source(Plain)
    source.wait_matched(1, LIMIT_S)
    creator.close()
    source.submit(Plain(1, 2.0))
    assert collector.wait(1) == [Plain(1, 2.0)]
    books.wait_for(lambda: len(one.statistics().links) == 1, LIMIT_S, lambda: "the end of the creator's link")


def test_nodes_of_one_process_meet_directly_and_others_too(make_node: MakeNode) -> None:
    """A third node, which only TCP leads to, gets what both of the process send, and the other way round."""
    creator, beside = make_node(transports=["process", "tcp"]), make_node(transports=["process", "tcp"])
    channel = creator.create_channel("x", Plain)
    far = make_node(transports=["tcp"]).open_channel(channel.id)
    near = beside.open_channel(channel.id)
    collectors = [Collector() for _ in range(3)]
    for handle, collector in zip((channel, near, far), collectors, strict=True):
        handle.sink(Plain, collector)
    for i, handle in enumerate((channel, near, far)):
        source = handle.source(Plain)
        source.wait_matched(3, LIMIT_S)
        source.submit(Plain(i, 0.0))
        source.flush(LIMIT_S)
    for collector in collectors:
        assert sorted(event.id for event in collector.wait(3)) == [0, 1, 2]


def test_both_may_start_a_link_at_once(make_node: MakeNode) -> None:
    """Each opens a channel of the other's: one link remains, and carries both."""
    for _ in range(10):
        nodes = [make_node(transports=["tcp"]) for _ in range(2)]
        ids = [node.create_channel("x", Plain).id for node in nodes]
        opened: list[echo.Channel[Any]] = []
        both = threading.Barrier(2)

        def open_other(
            node: echo.Node,
            id_: str,
            both: threading.Barrier = both,
            opened: list[echo.Channel[Any]] = opened,
        ) -> None:
            both.wait()
            opened.append(node.open_channel(id_))

        threads = [
            threading.Thread(target=open_other, args=(node, id_))
            for node, id_ in zip(nodes, reversed(ids), strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert len(opened) == 2
        assert [len(node.statistics().links) for node in nodes] == [1, 1]


def test_a_link_that_carries_nothing_any_more_is_ended(make_node: MakeNode) -> None:
    node, other = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    first, second = node.create_channel("1"), node.create_channel("2")
    with other.open_channel(first.id):
        with other.open_channel(second.id):
            assert len(other.statistics().links) == 1
        assert len(other.statistics().links) == 1
    books.wait_for(
        lambda: not node.statistics().links and not other.statistics().links, LIMIT_S, lambda: "no link"
    )


def test_a_handler_on_the_reading_thread_may_not_wait_for_it(make_node: MakeNode) -> None:
    """It would wait for itself; the error says what to do."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Reading1)
    other = here.create_channel("y", Reading1)
    errors: list[BaseException] = []

    def open_another(event: Reading1) -> None:
        try:
            there.open_channel(other.id)
        except echo.ChannelError as error:
            errors.append(error)

    there.open_channel(channel.id).sink(Reading1, open_another)
    source = channel.source()
    source.wait_matched()
    source.submit(Reading1(1, 1.0))
    source.flush(LIMIT_S)
    assert "own_thread=True" in str(errors[0])


def test_a_handler_on_the_reading_thread_may_not_wait_for_events_of_its_link(make_node: MakeNode) -> None:
    """Neither by `get`, with time or without, nor in a loop."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Reading1, Plain)
    opened = there.open_channel(channel.id)
    waiting, errors = opened.sink(Plain), list[BaseException]()
    waits: list[Callable[[], Plain]] = [
        waiting.get,
        lambda: waiting.get(LIMIT_S),
        lambda: next(iter(waiting)),
    ]

    def wait(event: Reading1) -> None:
        for call in waits:
            try:
                call()
            except echo.ChannelError as error:
                errors.append(error)

    opened.sink(Reading1, wait)
    source, other = channel.source(Reading1), channel.source(Plain)
    source.wait_matched()
    other.wait_matched()
    source.submit(Reading1(1, 1.0))
    source.flush(LIMIT_S)
    assert ["own_thread=True" in str(error) for error in errors] == [True] * 3
    other.submit(Plain(1, 1.0))
    assert waiting.get(LIMIT_S) == Plain(1, 1.0)


def test_members_are_linked_on_every_channel_that_they_share(make_node: MakeNode) -> None:
    """Also where one is told of on a channel while the link for another is being made."""
    creator, second, third = (make_node(transports=["tcp"]) for _ in range(3))
    ids = [creator.create_channel(f"x{i}", Plain).id for i in range(30)]
    for channel in (second.open_channel(id_) for id_ in ids):
        channel.source(Plain)
    opened = [third.open_channel(id_) for id_ in ids]
    for channel in opened:
        channel.sink(Plain)
    books.wait_for(
        lambda: all(channel.statistics().peers == 2 for channel in opened), LIMIT_S, lambda: "all members"
    )


def test_time_is_for_all_addresses_together(make_node: MakeNode) -> None:
    """Here are some that are listened at by somebody who says nothing."""
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(8)]
        addresses = tuple(TcpAddress("127.0.0.1", listener.getsockname()[1]) for listener in silent)
        began = time.monotonic()
        with pytest.raises(echo.LinkError, match=r"timed out|in time|no time is left"):
            make_node().open_channel(str(ChannelId.new(Member(bytes(16), addresses))), timeout_s=1.0)
        assert time.monotonic() - began < 7.9  # each for itself: 8.0


def test_strangers_that_say_nothing_keep_nobody_out(make_node: MakeNode) -> None:
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Plain)
    address = parse_address(here.addresses[0])
    with contextlib.ExitStack() as stack:
        for _ in range(limits.MAX_HALF_OPEN + 8):
            stack.enter_context(sockets.connect(address, LIMIT_S))
        assert there.open_channel(channel.id, timeout_s=LIMIT_S).statistics().peers == 1


def test_a_channel_whose_key_is_not_proven_yet_is_met_by_no_other_node(make_node: MakeNode) -> None:
    """Two nodes of one process have an id with a wrong key; whom it leads to takes its time to say so."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = TcpAddress("127.0.0.1", silent.getsockname()[1])
        id_ = str(ChannelId.new(Member(bytes(16), (address,))))
        first = threading.Thread(target=_demand_link_error, args=(make_node(), id_, 1.0))
        first.start()
        connection, _ = silent.accept()
        with connection:
            _demand_link_error(make_node(), id_, 0.2)
        first.join()


def _demand_link_error(node: echo.Node, id_: str, timeout_s: float) -> None:
    with pytest.raises(echo.LinkError):
        node.open_channel(id_, timeout_s=timeout_s)


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_a_channel_is_reached_by_the_transport_that_was_asked_for(
    make_node: MakeNode, transport: Transport
) -> None:
    channel, node = make_node().create_channel("x", Plain), make_node()
    with node.open_channel(channel.id, transport=transport):
        [link] = node.statistics().links
        assert link.wire == ("shm" if transport == "shm" else "socket")
        assert ("process" in link.peer) == (transport != "tcp")


def test_a_plain_socket_is_no_shared_memory(make_node: MakeNode) -> None:
    channel = make_node(transports=["unix"]).create_channel("x", Plain)
    with pytest.raises(echo.LinkError, match="shares memory"):
        make_node().open_channel(channel.id, transport="shm", timeout_s=0.2)


def test_a_channel_that_has_lost_all_others_is_joined_again_when_it_is_opened(make_node: MakeNode) -> None:
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Plain)
    first = there.open_channel(channel.id)
    source = first.source(Plain)
    with links_lost(here, there):
        assert (here.statistics().links, there.statistics().links) == ((), ())
        there.open_channel(channel.id).close()
    sink = channel.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 0.0))
    assert sink.get(LIMIT_S) == Plain(1, 0.0)
