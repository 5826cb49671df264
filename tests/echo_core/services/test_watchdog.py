"""Components of real processes are started, asked, and started again."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.processes import LIMIT_S, ROOT, Actor

COMPONENT = """
import signal, sys, threading
import echo_core as echo
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with echo.answer_watchdog(sys.argv[1], channel=sys.argv[2]):
    stop.wait(120)
"""

ACTOR = """
with echo.answer_watchdog(sys.argv[1], channel=sys.argv[2]):
    say("there")
    hear()
"""

# Its own loop goes round a few times, and then hangs.
HANGING = """
import sys, threading
import echo_core as echo
heart = echo.answer_watchdog(sys.argv[1], channel=sys.argv[2], within_s=1.0)
for _ in range(10):
    heart.beat()
    threading.Event().wait(0.1)
threading.Event().wait(120)
"""

ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
PATIENCE = echo.Patience(start_s=LIMIT_S, rest_s=0.05, restarts=3, within_s=1000.0)
NEVER_SILENT = echo.Patience(silences=1_000_000, start_s=LIMIT_S)


class Kennel:
    """A watchdog, and all that it has told."""

    def __init__(self, channel: str, ping_s: float) -> None:
        self.channel = channel
        self.told: list[echo.ComponentState] = []
        self.dog = echo.Watchdog(ping_s=ping_s, on_change=self.told.append, channel=channel)

    def watch(self, script: str = COMPONENT, *, patience: echo.Patience = PATIENCE) -> None:
        command = [sys.executable, "-c", script, "camera", self.channel]
        self.dog.watch("camera", command, cwd=ROOT, env=ENV, patience=patience)

    @property
    def camera(self) -> echo.ComponentState:
        return self.dog.components["camera"]

    def pid(self, *, but: int | None = None) -> int:
        """Of the camera, once it runs; of another process than that one."""
        until(lambda: self.camera.state == "running" and self.camera.pid not in (None, but))
        assert self.camera.pid is not None
        return self.camera.pid


@pytest.fixture
def channel(tmp_path: Path) -> str:
    return f"watchdog of {tmp_path.name}"


@pytest.fixture
def kennel(channel: str) -> Iterator[Kennel]:
    kennel = Kennel(channel, ping_s=0.2)
    yield kennel
    kennel.dog.close()


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_component_is_started_and_started_again(kennel: Kennel) -> None:
    """Whatever has ended it; and it ends with its watchdog."""
    kennel.watch()
    kennel.dog.wait_running(LIMIT_S)
    first = kennel.pid()
    os.kill(first, signal.SIGKILL)
    second = kennel.pid(but=first)
    assert not is_there(first)
    assert any(each.why == "it was ended by SIGKILL" for each in kennel.told)
    assert kennel.camera.restarts >= 1
    kennel.dog.close()
    assert not is_there(second)


def test_one_that_does_not_answer_is_killed_and_started_again(kennel: Kennel) -> None:
    """A stopped process, say: its link is there, and nobody reads it."""
    kennel.watch()
    first = kennel.pid()
    os.kill(first, signal.SIGSTOP)
    kennel.pid(but=first)
    assert not is_there(first)
    assert any(each.why == "it has not answered 3 times" for each in kennel.told)


def test_one_that_a_signal_without_a_name_has_ended_is_started_again(kennel: Kennel) -> None:
    """Those for real time have numbers alone."""
    kennel.watch()
    first = kennel.pid()
    os.kill(first, signal.SIGRTMIN + 5)
    kennel.pid(but=first)
    assert any(f"by signal {signal.SIGRTMIN + 5}" in each.why for each in kennel.told)


def test_one_that_others_have_started_is_not_started_beside_it(channel: str) -> None:
    """Though it is stopped, and does not answer: it is there until its link is lost."""
    with Actor(ACTOR, "camera", channel) as actor:
        assert actor.hear() == "there"
        kennel = Kennel(channel, ping_s=0.05)
        try:
            kennel.watch(patience=echo.Patience(silences=100))  # time to find it
            until(lambda: kennel.camera.state == "running")
            assert kennel.camera.pid == actor.pid
            actor.signal(signal.SIGSTOP)
            command = [sys.executable, "-c", COMPONENT, "other", channel]
            kennel.dog.watch("other", command, cwd=ROOT, env=ENV, patience=echo.Patience(silences=150))
            until(lambda: kennel.dog.components["other"].state == "running", limit_s=LIMIT_S)
            assert kennel.camera.pid == actor.pid
            assert kennel.camera.restarts == 0
        finally:
            kennel.dog.close()


def test_one_whose_own_loop_hangs_is_started_again(kennel: Kennel) -> None:
    """It says so by `beat`: the threads that answer know nothing of that."""
    kennel.watch(HANGING)
    kennel.pid(but=kennel.pid())


def test_one_that_ends_again_and_again_is_given_up(kennel: Kennel) -> None:
    """Until somebody has seen to it; who waits for it is told why."""
    kennel.watch("raise SystemExit(3)")
    until(lambda: kennel.camera.state == "gave up")
    with pytest.raises(echo.TimedOutError, match="`camera` is gave up: it has ended with status 3"):
        kennel.dog.wait_running(0.0)
    seen = len(kennel.told)
    kennel.dog.reset("camera")
    until(lambda: any(each.state == "starting" for each in kennel.told[seen:]))


def test_a_program_that_is_not_there_is_told_of(kennel: Kennel) -> None:
    """By what the system says."""
    kennel.dog.watch("camera", ["/no/such/program"], patience=PATIENCE)
    until(lambda: any("No such file" in each.why for each in kennel.told))


def test_who_answers_already_is_not_started(channel: str) -> None:
    """It is started in place of one that has gone."""
    with Actor(ACTOR, "camera", channel) as actor:
        assert actor.hear() == "there"
        kennel = Kennel(channel, ping_s=0.2)
        try:
            kennel.watch(patience=NEVER_SILENT)
            assert kennel.pid() == actor.pid
            assert [each.state for each in kennel.told] == ["running"]
            os.kill(actor.pid, signal.SIGKILL)
            assert kennel.pid(but=actor.pid) != os.getpid()
            assert kennel.told[1].why == "it has gone"
        finally:
            kennel.dog.close()


def test_components_that_were_left_are_found_by_the_next_watchdog(channel: str) -> None:
    """They do not depend on any."""
    first = Kennel(channel, ping_s=0.2)
    first.watch()
    first.dog.wait_running(LIMIT_S)
    first.dog.close(leave=True)
    pid = first.camera.pid
    assert pid is not None
    try:
        second = Kennel(channel, ping_s=0.2)
        second.watch(patience=NEVER_SILENT)
        assert second.pid() == pid
        second.dog.close()  # it has not started it
        assert is_there(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_is_wrong_is_refused(kennel: Kennel) -> None:
    """By words."""
    kennel.watch()
    with pytest.raises(echo.ChannelError, match="not watched yet, got `camera`"):
        kennel.watch()
    with pytest.raises(echo.ChannelError, match="a list of a program"):
        kennel.dog.watch("other", "python3 -m other")
    with pytest.raises(echo.ChannelError, match="that is watched, got `other`"):
        kennel.dog.reset("other")
    with pytest.raises(echo.ChannelError, match="above 0 as ping_s"):
        echo.Watchdog(ping_s=0.0)
    with pytest.raises(echo.ChannelError, match="what the component is called"):
        echo.answer_watchdog("")
    with pytest.raises(echo.ChannelError, match="a time above 0"):
        echo.answer_watchdog("x", within_s=0.0)


def test_nothing_is_done_once_it_is_closed(kennel: Kennel) -> None:
    """Whoever waits is told; a second close does nothing."""
    kennel.watch("import threading; threading.Event().wait(120)")
    waiter: list[BaseException] = []

    def wait() -> None:
        try:
            kennel.dog.wait_running(None)
        except echo.ClosedError as error:
            waiter.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    kennel.dog.close(stop_s=LIMIT_S)
    thread.join(LIMIT_S)
    assert len(waiter) == 1
    kennel.dog.close()
    with pytest.raises(echo.ClosedError):
        kennel.dog.reset("camera")


def test_a_failing_callback_stops_nothing(channel: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; and one that closes the watchdog is told that it cannot."""

    def fail(_: echo.ComponentState) -> None:
        dog.close()

    dog = echo.Watchdog(ping_s=0.2, on_change=fail, channel=channel)
    try:
        dog.watch("camera", [sys.executable, "-c", COMPONENT, "camera", channel], cwd=ROOT, env=ENV)
        dog.wait_running(LIMIT_S)
    finally:
        dog.close()
    assert "Expected a call of close by another thread" in caplog.text
