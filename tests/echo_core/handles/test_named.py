"""Which channels by name there are, for who looks for them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import Actor

HOLDER = """
channel = echo.channel("laboratory", Plain)
say("there")
hear()
"""

MEMBER = """
channel = echo.open_channel(hear(), timeout_s=LIMIT_S)
say("there")
hear()
"""


@pytest.fixture(autouse=True)
def run_time_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "echo_core"


def test_channels_are_listed_by_name_with_who_holds_them(make_node: MakeNode) -> None:
    """Those that are gone are not, however their processes ended."""
    own = make_node().channel("an own\none", Plain)
    with Actor(HOLDER) as holder:
        assert holder.hear() == "there"
        assert [(found.name, found.process_id) for found in echo.channels()] == [
            ("an own\none", os.getpid()),
            ("laboratory", holder.pid),
        ]
        holder.kill()
        assert [found.name for found in echo.channels()] == ["an own\none"]
    own.close()
    assert echo.channels() == []


def test_looking_disturbs_nobody(make_node: MakeNode) -> None:
    """No connection is made, not even to a process that is stopped."""
    node = make_node()
    with node.channel("watched", Plain), Actor(HOLDER) as holder:
        holder.hear()
        holder.signal(signal.SIGSTOP)
        assert [found.name for found in echo.channels()] == ["laboratory", "watched"]
        statistics = node.statistics()
        assert (statistics.handshakes_failed, statistics.links) == (0, ())


def test_channel_that_was_found_opens_without_being_held(make_node: MakeNode) -> None:
    """Its secret is not shown."""
    with Actor(HOLDER) as holder:
        holder.hear()
        (found,) = echo.channels()
        assert found.identity not in repr(found)
        with make_node().open_channel(found.identity, timeout_s=30) as channel:
            until(lambda: channel.name == "laboratory", "the name")
            holder.kill()
            until(lambda: channel.statistics().peers == 0, "the holder to be gone")
            assert all(each.process_id is None for each in echo.channels())


def test_channel_whose_holder_is_gone_is_listed_while_others_are_there(make_node: MakeNode) -> None:
    """They let newcomers in, though nobody holds it."""
    with Actor(HOLDER) as holder, Actor(MEMBER) as member:
        holder.hear()
        (found,) = echo.channels()
        member.tell(found.identity)
        member.hear()
        holder.kill()
        assert [(each.name, each.process_id) for each in echo.channels()] == [("laboratory", None)]
        with make_node().open_channel(found.identity, timeout_s=30) as channel:
            until(lambda: channel.name == "laboratory", "the name")


def test_name_that_cannot_be_listed_is_a_channel_all_the_same(
    make_node: MakeNode, run_time_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says so."""
    make_node().channel("first").close()
    (run_time_directory / "listed").unlink()
    (run_time_directory / "listed").symlink_to("elsewhere")
    with make_node().channel("second") as channel:
        assert channel.name == "second"
    assert any("name 'second' is not listed" in line for line in caplog.messages)
    with pytest.raises(echo.ChannelError, match="keep the secret of names at"):
        echo.channels()


def test_members_say_what_they_have_on_the_channel(make_node: MakeNode) -> None:
    """Who is linked comes first; who has left is none."""
    names = ("holder", "sender", "receiver")
    holder, sender, receiver = (make_node(name=name, transports=["unix"]) for name in names)
    channel = holder.create_channel("x", Plain)
    at_sender = sender.open_channel(channel.id, timeout_s=30)
    at_receiver = receiver.open_channel(channel.id, timeout_s=30)
    source, sink = at_sender.source(Plain), at_receiver.sink(Plain)
    source.wait_matched(1, 30)

    def seen() -> dict[str, tuple[bool, bool, bool]]:
        return {m.name: (m.holds_channel, m.has_sources, m.has_sinks) for m in at_receiver.members()}

    expected = {"holder": (True, False, False), "sender": (False, True, False)}
    until(lambda: seen() == expected, "both members")
    assert {m.node_id for m in at_receiver.members()} == {holder.id, sender.id}
    assert all(m.is_linked and m.addresses for m in at_receiver.members())
    sink.close()
    until(lambda: not next(m for m in at_sender.members() if m.name == "receiver").has_sinks, "no sinks")
    at_sender.close()
    until(lambda: set(seen()) == {"holder"}, "the sender to have left")


def test_watcher_of_everywhere_hears_of_sources_that_it_has_no_use_for(make_node: MakeNode) -> None:
    """Without a sink, and so without an event."""
    holder, sender, watcher = (make_node(transports=["unix"]) for _ in range(3))
    channel = holder.create_channel("x", Plain)
    source = sender.open_channel(channel.id, timeout_s=30).source(Plain, name="far")
    opened = watcher.open_channel(channel.id, timeout_s=30)
    told: list[str] = []

    def note(notice: echo.Notice) -> None:
        if isinstance(notice, echo.SourceOpened):
            told.append(notice.name)

    with opened.watch(note, everywhere=True):
        until(lambda: told == ["far"], "the source")
        assert source.statistics().remote_sinks == 0
        source.submit(Plain(1, 2.0))
        source.flush(30)
        assert opened.statistics().received_events == 0
    until(lambda: all(not m.has_sinks for m in channel.members()), "the watcher to be gone")


def test_watcher_of_everywhere_may_be_closed_after_its_node(make_node: MakeNode) -> None:
    """In any order, and twice."""
    node = make_node(transports=["unix"])
    channel = node.create_channel("x", Plain)
    first, second = (channel.watch(lambda _: None, everywhere=True) for _ in range(2))
    first.close()
    node.close()
    second.close()
    first.close()


def test_whether_a_watch_is_everywhere_is_said_by_a_flag(make_node: MakeNode) -> None:
    """Anything else is the caller's mistake."""
    everywhere: object = "yes"
    with make_node().create_channel("x") as channel, pytest.raises(echo.ChannelError, match="True or False"):
        channel.watch(print, everywhere=everywhere)  # type: ignore[arg-type] # pyright: ignore
