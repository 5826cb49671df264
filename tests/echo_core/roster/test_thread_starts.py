"""Threads that do not start, or whose start is interrupted: nothing is kept that nobody looks after."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S
from tests.echo_core.processes import Actor

# Where it FAILS, no thread that reads links starts until it is told.
_CREATES = """
start = threading.Thread.start
def start_others(thread):
    if thread.name == "echo-standby":
        raise RuntimeError("can't start new thread")
    start(thread)
node = echo.Node(transports=sys.argv[1:])
say(node.create_channel("test", Plain).id)
if FAILS:
    threading.Thread.start = start_others
hear()
threading.Thread.start = start
while node.statistics().links:
    time.sleep(0.01)
say(len(node.statistics().links))
hear()
"""

Start = Callable[[threading.Thread], None]
_start = threading.Thread.start


def _fail(_: threading.Thread) -> None:
    msg = "can't start new thread"
    raise RuntimeError(msg)


def _interrupt_before(_: threading.Thread) -> None:
    raise KeyboardInterrupt


def _interrupt_behind(thread: threading.Thread) -> None:
    _start(thread)
    raise KeyboardInterrupt


class _Late:
    """An interrupt in the start's own wait: the thread begins when its owner has given it up."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def __call__(self, thread: threading.Thread) -> None:
        self.threads.append(thread)
        raise KeyboardInterrupt

    def begin(self) -> None:
        for thread in self.threads:
            _start(thread)


@pytest.fixture
def late() -> _Late:
    return _Late()


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Start], None]:
    """The first thread whose name begins so is started in a way of its own."""

    def set_start(name: str, way: Start) -> None:
        waiting = [way]

        def start(thread: threading.Thread) -> None:
            its_way = waiting.pop() if waiting and thread.name.startswith(name) else _start
            its_way(thread)

        monkeypatch.setattr(threading.Thread, "start", start)

    return set_start


@pytest.mark.parametrize("without_thread", ["initiator", "responder"])
def test_a_link_that_no_thread_can_read_is_not_kept(
    make_node: MakeNode,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    without_thread: str,
) -> None:
    """Whose process that is hears so at once, and the other one tries again for as long as it was told to."""
    caplog.set_level(logging.CRITICAL)
    with Actor(_CREATES.replace("FAILS", str(without_thread == "responder")), "shm") as responder:
        id_ = responder.hear()
        there = make_node(transports=["shm"], name="initiator")

        def start_others(thread: threading.Thread) -> None:
            is_for_links = thread.name == "echo-standby" and without_thread == "initiator"
            (_fail if is_for_links else _start)(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start_others)
            with pytest.raises((echo.LinkError, echo.TimedOutError)) as caught:
                there.open_channel(id_, timeout_s=2.0)
        assert without_thread == "responder" or "thread" in str(caught.value)
        until(lambda: not there.statistics().links)
        responder.tell("start threads")
        assert responder.hear() == "0"
        assert there.open_channel(id_).statistics().peers == 1


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("when", ["before", "behind", "late"])
def test_a_link_whose_start_is_interrupted_is_not_kept(
    make_node: MakeNode,
    caplog: pytest.LogCaptureFixture,
    starting: Callable[[str, Start], None],
    late: _Late,
    transport: str,
    when: str,
) -> None:
    """Ctrl-C in `open_channel`: the next one finds no link that nobody reads.

    The other side is another process, which has a thread of its own that stands by.
    """
    caplog.set_level(logging.CRITICAL)  # the other side is told goodbye, or sees the link end
    with Actor(_CREATES.replace("FAILS", "False"), transport) as responder:
        id_ = responder.hear()
        there = make_node(transports=[transport], name="initiator")
        ways: dict[str, Start] = {"before": _interrupt_before, "behind": _interrupt_behind, "late": late}
        starting("echo-standby", ways[when])
        with pytest.raises(KeyboardInterrupt):
            there.open_channel(id_)
        until(lambda: not there.statistics().links)
        assert there.open_channel(id_).statistics().peers == 1
        late.begin()
        assert len(there.statistics().links) == 1


def test_a_link_outlives_a_member_that_no_thread_can_link_to(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture, starting: Callable[[str, Start], None]
) -> None:
    """The member that was told of waits for the next thread."""
    here, there, third = (make_node(transports=["tcp"], name=name) for name in ("here", "there", "third"))
    channel, other = here.create_channel("test", Plain), here.create_channel("other", Plain)
    second = there.open_channel(channel.id)
    there.open_channel(other.id)
    second.source(Plain)
    starting("echo-meet-", _fail)
    member = third.open_channel(channel.id)
    member.sink(Plain)
    until(lambda: "can't start new thread" in caplog.text)
    assert third.statistics().links_lost == 0
    assert member.statistics().peers >= 1  # the member may have linked to this one by itself
    third.open_channel(other.id)
    until(lambda: member.statistics().peers == second.statistics().peers == 2)


@pytest.mark.parametrize("when", ["never", "before", "behind", "late"])
def test_a_door_whose_start_fails_is_not_kept(
    make_node: MakeNode, starting: Callable[[str, Start], None], late: _Late, when: str
) -> None:
    """The next channel opens one that others can come in by."""
    here, there = make_node(transports=["unix"], name="here"), make_node(transports=["unix"])
    ways: dict[str, Start] = {
        "never": _fail,
        "before": _interrupt_before,
        "behind": _interrupt_behind,
        "late": late,
    }
    starting("echo-door-here", ways[when])
    with pytest.raises((echo.LinkError, KeyboardInterrupt)):
        here.create_channel("test", Plain)
    late.begin()
    for thread in late.threads:
        thread.join(LIMIT_S)
    channel = here.create_channel("test", Plain)
    assert there.open_channel(channel.id).statistics().peers == 1
