"""Backlogs: what can be asked for, and what becomes of events when a peer does not read."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import echo_core as echo
from echo_core._c import links
from echo_core.errors import ChannelError
from echo_core.values.backlog import WhenFull, nanoseconds


@pytest.mark.parametrize(
    "options",
    [
        {"events": 0},
        {"size_bytes": 0},
        {"when_full": "wait"},
        {"timeout_s": -1.0},
        {"timeout_s": float("nan")},
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ChannelError, match="Expected"):
        echo.Backlog(**options)  # type: ignore[arg-type]


def test_times_become_nanoseconds() -> None:
    """None is for ever, and so in effect is what is longer than thirty years."""
    assert [nanoseconds(s) for s in (None, 0, 1.5, float("inf"))] == [-1, 0, 1_500_000_000, 10**18]
    with pytest.raises(ChannelError):
        nanoseconds(-1)


@pytest.fixture
def silent() -> Iterator[tuple[links.Link, socket.socket]]:
    """A link whose other end reads nothing."""
    near, far = socket.socketpair()
    link = links.Link(
        links.SocketWire(near.detach()),
        lambda kind, payload: None,
        max_payload=1 << 20,
        control_bytes=1 << 20,
        delay_ns=0,
        stall_ns=60_000_000_000,
    )
    yield link, far
    link.shut()
    far.close()


def fill(link: links.Link, backlog: echo.Backlog, events: int) -> links.OutgoingStream:
    """Submits events of 1000 bytes to nobody."""
    outgoing = links.OutgoingStream(
        link,
        64,
        "a source",
        max_events=backlog.events,
        max_bytes=backlog.size_bytes,
        policy=backlog.policy,
        timeout_ns=backlog.timeout_ns,
    )
    outgoing.grant(1 << 62, 1 << 62)
    outlet = links.Outlet(None, bytes, record_size=1000)
    outlet.outgoing = (outgoing,)
    for _ in range(events):
        outlet.submit_records(bytes(1000))
    return outgoing


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
def test_what_is_dropped_is_counted(silent: tuple[links.Link, socket.socket], policy: WhenFull) -> None:
    outgoing = fill(silent[0], echo.Backlog(events=50, when_full=policy), 5000)
    assert outgoing.queued_events <= 50
    assert outgoing.dropped > 3000
    assert outgoing.queued_events + outgoing.dropped <= 5000


def test_an_error_is_raised_where_that_is_the_policy(silent: tuple[links.Link, socket.socket]) -> None:
    with pytest.raises(echo.BacklogError, match="at most 50 events"):
        fill(silent[0], echo.Backlog(events=50, when_full="error"), 5000)


def test_blocking_ends_in_an_error(silent: tuple[links.Link, socket.socket]) -> None:
    with pytest.raises(echo.BacklogError, match="was full for 50 ms"):
        fill(silent[0], echo.Backlog(events=50, when_full="block", timeout_s=0.05), 5000)


def test_bytes_are_bounded_too(silent: tuple[links.Link, socket.socket]) -> None:
    outgoing = fill(silent[0], echo.Backlog(size_bytes=100_000, when_full="drop_newest"), 5000)
    assert outgoing.queued_bytes <= 100_000
