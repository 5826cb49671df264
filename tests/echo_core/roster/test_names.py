"""Channels by name: processes of one user on one host meet in any order, and nobody else gets in the way."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import echo_core as echo
from echo_core.roster.names import identity_of
from echo_core.transports.wires import sockets
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, ROOT, Actor
from tests.echo_core.roster.test_opening import demand_delivery

SENDER = """
channel = echo.channel("test", Plain)
say(channel.identity)
source = channel.source()
source.wait_matched(1, LIMIT_S)
source.submit(Plain(1, 2.0))
hear()
"""

RECEIVER = """
channel = echo.channel("test", Plain)
say(channel.identity)
say(channel.sink(Plain).get(LIMIT_S))
hear()
"""


@pytest.fixture(autouse=True)
def run_time_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "echo_core"


@pytest.mark.parametrize("scripts", [(SENDER, RECEIVER), (RECEIVER, SENDER)])
def test_two_programs_meet_by_name_in_any_order(scripts: tuple[str, str]) -> None:
    with Actor(scripts[0]) as first:
        identity = first.hear()
        with Actor(scripts[1]) as second:
            assert second.hear() == identity
            receiver = second if scripts[1] is RECEIVER else first
            assert receiver.hear() == "Plain(id=1, x=2.0)"


def test_twenty_that_create_a_channel_at_once_are_on_one() -> None:
    script = """
hear()
channel = echo.channel("test", Plain)
say(channel.identity)
hear()
"""
    with ExitStack() as stack:
        actors = [stack.enter_context(Actor(script)) for _ in range(20)]
        for actor in actors:
            actor.tell("go")
        identities = {actor.hear() for actor in actors}
        channel = echo.Node("last").channel("test", Plain)
        assert identities == {channel.identity}
        until(lambda: channel.statistics().peers >= 1, "a link")
        channel.close()


def test_who_comes_when_the_holder_was_killed_holds_the_channel(make_node: MakeNode) -> None:
    with Actor(RECEIVER) as first:
        identity = first.hear()
        os.kill(first.pid, signal.SIGKILL)
        channel = make_node().channel("test", Plain)
        assert channel.identity == identity
        demand_delivery(channel, make_node(transports=["unix"]).channel("test", Plain))


def test_who_is_still_there_takes_over_when_it_asks_by_name(make_node: MakeNode) -> None:
    first, second, third = (make_node(transports=["unix"]) for _ in range(3))
    held, member = first.channel("test", Plain), second.channel("test", Plain)
    held.close()
    until(lambda: member.statistics().peers == 0, "the holder to be gone")
    again = second.channel("test", Plain)
    demand_delivery(member, third.channel("test", Plain))
    again.close()


def test_one_process_asks_as_often_as_it_likes(make_node: MakeNode) -> None:
    node = make_node()
    first = node.channel("test", Plain)
    with node.channel("test", Plain) as again:
        demand_delivery(first, again)
    demand_delivery(first, make_node().channel("test", Plain))


KEEPER = """
channel = echo.channel("test", Plain)
source = channel.source()
say(channel.identity)
while hear():
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(os.getpid(), 0.5))
"""


def test_processes_are_killed_and_started_again_in_any_order_and_meet_by_name(make_node: MakeNode) -> None:
    """Each in turn, so that who holds the channel changes; who stays needs to do nothing."""
    sink = make_node().channel("test", Plain).sink(Plain)
    with ExitStack() as stack:
        actors = [stack.enter_context(Actor(KEEPER)) for _ in range(2)]
        for turn in range(4):
            assert len({actor.hear() for actor in (actors if turn == 0 else actors[-1:])}) == 1
            for actor in actors:
                actor.tell("submit")
            assert {sink.get(LIMIT_S).id for _ in actors} == {actor.pid for actor in actors}
            actors.pop(0).kill()
            actors.append(stack.enter_context(Actor(KEEPER)))


def test_who_stays_links_to_who_holds_the_channel_after_the_holder_was_killed(make_node: MakeNode) -> None:
    with Actor(KEEPER) as holder:
        holder.hear()
        sink = make_node().channel("test", Plain).sink(Plain)
        sink.wait_matched(1, LIMIT_S)
        holder.kill()
    until(lambda: sink.statistics().sources == 0, "the holder to be gone")
    with Actor(KEEPER) as next_holder:
        next_holder.hear()
        next_holder.tell("submit")
        assert sink.get(LIMIT_S).id == next_holder.pid


def test_the_log_of_who_comes_has_the_name_from_the_start(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in lines of the log before anybody has told it."""
    caplog.set_level(logging.INFO, "echo_core")
    with (
        make_node(transports=["unix"]).channel("hall/robot"),
        make_node(transports=["unix"]).channel("hall/robot"),
    ):
        joined = [line for line in caplog.messages if ": joined by" in line]
        assert len(joined) == 2
        assert all(line.startswith("channel `hall/robot`: ") for line in joined)


def test_other_names_are_other_channels() -> None:
    names = ["test", "Test", "a/b", "../test", "a b", "name\nof lines", "\u00e9", "e\u0301", "x" * 255]
    assert len({identity_of(name) for name in names}) == len(names)
    assert identity_of("test") == identity_of("test")


def test_a_name_leaves_no_file_of_its_own(run_time_directory: Path) -> None:
    for name in ("first", "../second"):
        identity_of(name)
    assert sorted(path.name for path in run_time_directory.iterdir()) == ["listed", "names"]
    assert run_time_directory.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in run_time_directory.iterdir())


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800"])
def test_what_is_no_name_is_refused(make_node: MakeNode, name: str) -> None:
    with pytest.raises(echo.ChannelError, match="Expected a name"):
        make_node().channel(name)


def test_names_are_not_for_tcp_alone(make_node: MakeNode) -> None:
    with pytest.raises(echo.ChannelError, match="`shm` or `unix`"):
        make_node(transports=["tcp"]).channel("test")


def test_types_that_do_not_fit_what_is_there_are_refused(make_node: MakeNode) -> None:
    @echo.event
    class Other:
        text: str

    first, second = make_node(transports=["unix"]), make_node(transports=["unix"])
    first.channel("test", Plain)
    with pytest.raises(echo.IncompatibleError, match="Plain"):
        second.channel("test", Other)
    assert second.statistics().channels == 0
    assert second.channel("test").types == first.channel("test").types


# ---------------------------------------------------------------------------
# A directory that is not as it should be


def _link(directory: Path) -> None:
    (directory.parent / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to("elsewhere")


def _open_to_all(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o770)


def _of_another_user(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    os.chown(directory, 4711, 4711)


def _no_directory(directory: Path) -> None:
    directory.touch()


def _missing(directory: Path) -> None:
    directory.parent.rmdir()


def _secret_for_all(directory: Path) -> None:
    identity_of("test")
    (directory / "names").chmod(0o644)


def _linked_secret(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    (directory / "names").symlink_to("elsewhere")


def _pipe(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    os.mkfifo(directory / "names", 0o600)


def _garbage(directory: Path) -> None:
    identity_of("test")
    (directory / "names").write_bytes(b"\0garbage\n")


def _of_another_namespace(directory: Path) -> None:
    identity_of("test")
    boot, _, secret = (directory / "names").read_text().split()
    (directory / "names").write_text(f"{boot} 1 {secret}\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_link, "no symbolic link is followed"),
        (_open_to_all, "closed to other users, its mode is 770"),
        (_of_another_user, r"of user \d+, it is of user 4711"),
        (_no_directory, "Not a directory"),
        (_missing, "No such file or directory"),
        (_secret_for_all, "its mode is 644"),
        (_linked_secret, "no symbolic link is followed"),
        (_pipe, "Expected a file"),
        (_garbage, "got other bytes"),
        (_of_another_namespace, "it is of another one"),
    ],
)
def test_a_directory_that_is_not_this_users_alone_is_refused_in_words(
    run_time_directory: Path, spoil: Callable[[Path], None], words: str
) -> None:
    if spoil is _of_another_user and os.geteuid() != 0:
        pytest.skip("only root gives a directory to another user")
    spoil(run_time_directory)
    with pytest.raises(echo.ChannelError, match=words):
        identity_of("test")


def test_another_user_has_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing says another one: in /tmp, and no other user can read it."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    script = """
import os, sys
from echo_core.roster.names import identity_of
os.setuid(4711)
print(identity_of("test"))
"""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    made = Path("/tmp/echo_core-4711")
    try:
        first, again = _run(script), _run(script)
        assert first == again
        assert (made.stat().st_uid, made.stat().st_mode & 0o777) == (4711, 0o700)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_secret_of_before_the_machine_was_started_is_replaced(run_time_directory: Path) -> None:
    before = identity_of("test")
    file = run_time_directory / "names"
    _, namespace, secret = file.read_text().split()
    file.write_text(f"00000000-0000-0000-0000-000000000000 {namespace} {secret}\n")
    after = identity_of("test")
    assert after == identity_of("test") != before


def test_a_file_that_was_not_written_yet_is_written(run_time_directory: Path) -> None:
    """Whoever has made it was killed."""
    run_time_directory.mkdir(mode=0o700)
    (run_time_directory / "names").touch(mode=0o600)
    assert identity_of("test") == identity_of("test")


def test_a_process_that_keeps_the_secret_locked_does_not_stop_others_for_ever(
    run_time_directory: Path, make_node: MakeNode
) -> None:
    import fcntl

    identity_of("test")
    with (run_time_directory / "names").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(echo.ChannelError, match=r"within 0\.1 s, another process keeps it locked"):
            identity_of("test", 0.1)
        with pytest.raises(echo.ChannelError, match="keeps it locked"):
            make_node().channel("test", Plain, timeout_s=0.1)


def test_a_holder_that_does_not_answer_takes_no_more_time_than_was_given(make_node: MakeNode) -> None:
    """Though its process is there, and is asked who it is."""
    node = make_node()
    with sockets.listen(identity_of("test").seat):
        began = time.monotonic()
        with pytest.raises(echo.LinkError, match="does not answer"):
            node.channel("test", Plain, timeout_s=0.2)
        assert time.monotonic() - began < 1.5


HOLDER = """
channel = echo.channel("test", Plain)
say("holds")
hear()
"""

MEMBER = """
channel = echo.channel("test", Plain)
source = channel.source(keep=1)
source.submit(Plain(1, 2.0))
say("there")
hear()
"""


def test_who_comes_while_the_holder_is_stopped_is_let_in_by_another_member(make_node: MakeNode) -> None:
    """And linked to the holder when that goes on."""
    with Actor(HOLDER) as holder:
        assert holder.hear() == "holds"
        with Actor(MEMBER) as member:
            assert member.hear() == "there"
            holder.signal(signal.SIGSTOP)
            channel = make_node().channel("test", Plain, timeout_s=LIMIT_S / 2)
            assert channel.sink(Plain).get(LIMIT_S) == Plain(1, 2.0)
            source = channel.source()
            holder.signal(signal.SIGCONT)
            until(lambda: channel.statistics().members == 2 and channel.statistics().missing == 0)
            assert source.sinks == 1


def test_a_stopped_holder_without_other_members_is_named(make_node: MakeNode) -> None:
    with Actor(HOLDER) as holder:
        assert holder.hear() == "holds"
        holder.signal(signal.SIGSTOP)
        with pytest.raises(
            echo.LinkError, match=f"process {holder.pid} holds the channel and does not answer"
        ):
            make_node().channel("test", Plain, timeout_s=0.5)


def test_a_channel_is_opened_by_name_for_a_task() -> None:
    async def run() -> bool:
        async with asyncio.timeout(LIMIT_S):
            with await echo.channel_async("test", Plain) as one, echo.channel("test") as same:
                return one.identity == same.identity

    assert asyncio.run(run())
