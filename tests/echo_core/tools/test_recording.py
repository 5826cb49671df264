"""Channels into logs and back: `record` and `play`."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.plant import Particle, Plant
from tests.echo_core.tools.running import LIMIT_S, rows, run, start


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where logs are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(log: str) -> list[int]:
    """What a log has, in order."""
    with echo.open_log(log) as opened:
        return [particle.id for particle in opened[Particle]]


def test_channel_is_recorded_for_a_time(plant: Plant) -> None:
    """And what that was is told."""
    (told,) = rows("record", "particles", "-o", "run.echolog", "-t", "1s")
    ids = recorded("run.echolog")
    assert told["events"] == len(ids) > 0
    assert (told["missing"], told["dropped"], told["failure"]) == (0, 0, None)
    assert ids == list(range(ids[0], ids[-1] + 1))


def test_condition_on_a_channel_without_types_is_judged_by_those_of_sources(make_node: MakeNode) -> None:
    """Of types that have what it reads; without any there is nothing to go by."""

    @echo.event
    class Alarm:
        level: int

    channel = make_node().channel("undeclared")
    result = run("record", "undeclared", "-o", "run.echolog", "--where", "id > 2", "-t", "1s")
    assert (result.exit_code, "nobody sends" in result.stderr) == (2, True)
    particles, alarms = channel.source(Particle, keep=9), channel.source(Alarm, keep=9)
    for number in range(5):
        particles.submit(Particle(number))
        alarms.submit(Alarm(number))
    result = run("record", "undeclared", "-o", "run.echolog", "--where", "id > 2", "-t", "1s")
    assert result.exit_code == 0
    assert "events of `Alarm` are left out" in result.stderr
    assert "those that come later are not recorded" in result.stderr
    assert recorded("run.echolog") == [3, 4]
    assert run("record", "undeclared", "-o", "b.echolog", "--where", "nix > 2").exit_code == 2
    assert not Path("b.echolog").exists()


def test_only_what_passes_is_recorded(plant: Plant) -> None:
    """By the sources' own judgement; the options of the log are those of the library."""
    options = (
        "--split-size",
        "1M",
        "--split-time",
        "1h",
        "--keep-size",
        "1G",
        "--keep-time",
        "7d",
        "--keep-free",
        "0",
        "--block",
    )
    result = run(
        *("record", "particles", "-o", "run.echolog", "-t", "1s", "--level", "synced", "--table"),
        *("--where", "temperature > 300"),
        *options,
    )
    assert result.exit_code == 0
    assert result.stdout.startswith("log         run.echolog\nevents ")
    ids = recorded("run.echolog")
    assert ids
    assert all(number % 3 == 0 for number in ids)


def test_what_came_before_the_trigger_is_recorded(plant: Plant) -> None:
    """And all after it."""
    result = run(
        *("record", "particles", "-o", "run.echolog", "-t", "2s"),
        *("--before", "10s", "--trigger", "id % 100 == 99"),
    )
    assert result.exit_code == 0
    assert "echoctl: triggered" in result.stderr
    ids = recorded("run.echolog")
    assert any(number % 100 == 99 for number in ids)
    assert ids[0] % 100 != 99


def test_trigger_that_does_not_fit_leaves_no_log(plant: Plant, folder: Path) -> None:
    """Nothing would ever be in it."""
    result = run("record", "particles", "-o", "run.echolog", "--before", "1s", "--trigger", "di > 1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (folder / "run.echolog").exists()


def test_trigger_and_what_comes_before_it_go_together() -> None:
    """Neither means anything alone."""
    for options in (("--before", "1s"), ("--trigger", "id > 1")):
        result = run("record", "particles", "-o", "run.echolog", *options)
        assert (result.exit_code, "got one of them" in result.stderr) == (2, True)


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """What is started hears of a closed terminal, also where the tests themselves do not (`nohup`)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_recording_as_a_whole_log(plant: Plant, folder: Path, number: signal.Signals) -> None:
    """What has come is in it, and the statistics are told."""
    process = start("record", "particles", "-o", str(folder / "run.echolog"))
    plant.source.wait_matched(1, LIMIT_S)
    mark = plant.source.statistics().events
    until(lambda: plant.source.statistics().events > mark + 1, "two events")
    plant.source.flush(LIMIT_S)
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (128 + number, "")
    assert json.loads(out)["failure"] is None
    ids = recorded("run.echolog")
    assert mark in ids  # which was sent after the recorder was there
    (verified,) = rows("log", "verify", "run.echolog")
    assert (verified["sound"], verified["torn"]) == (True, False)


@pytest.fixture
def log(make_node: MakeNode) -> str:
    """Ten particles."""
    channel = make_node().create_channel("old", Particle)
    with echo.record(channel, "run.echolog"), channel.source(name="simulation") as source:
        for number in range(10):
            source.submit(Particle(number))
    return "run.echolog"


def test_log_is_played_into_a_channel(log: str, make_node: MakeNode) -> None:
    """By a source of the same name, once a sink is there."""
    sink = make_node().channel("particles").sink(Particle)
    (told,) = rows("play", log, "particles", "--speed", "max", "--type", "Particle")
    assert (told["events"], told["lost"]) == (10, 0)
    taken = [sink.get_with_info(LIMIT_S) for _ in range(10)]
    assert [event.id for event, _ in taken] == list(range(10))
    assert {info.source for _, info in taken} == {"simulation"}


def test_channel_is_created_if_that_is_asked_for(log: str) -> None:
    """Nobody takes what is played then, but who comes meanwhile."""
    assert run("play", log, "particles").exit_code == 3
    result = run("play", log, "particles", "--create", "--unmatched", "--speed", "2", "--table")
    assert result.exit_code == 0
    assert "events       10\n" in result.stdout
    assert run("play", log, "-", "--create", given="x").exit_code == 2


def test_time_ends_what_is_played(log: str, make_node: MakeNode) -> None:
    """As the status says; a loop has no other end but this one and Ctrl-C."""
    taken: list[int] = []  # a queue that nobody reads would be full after a while, and drop the first
    make_node().channel("particles").sink(Particle, lambda particle: taken.append(particle.id))
    result = run("play", log, "particles", "--loop", "--speed", "max", "-t", "1s")
    assert result.exit_code == 124
    assert json.loads(result.stdout)["rounds"] > 0
    assert taken[:12] == [*range(10), 0, 1]


def test_what_is_not_played_yet_says_why(
    log: str, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while, once."""
    from echo_core.tools.commands import play

    monkeypatch.setattr(play, "_PATIENT_S", 0.0)
    make_node().channel("particles")
    result = run("play", log, "particles", "-t", "500ms")
    assert result.exit_code == 124
    assert result.stderr == (
        "echoctl: nothing is played yet: each source waits for a sink, but with --unmatched\n"
    )


def test_part_of_a_log_is_played(log: str) -> None:
    """From one time to another, and no faster than it can be said."""
    result = run("play", log, "particles", "--create", "--unmatched", "--until", "2000-01-01")
    assert json.loads(result.stdout)["events"] == 0
    assert run("play", log, "particles", "--speed", "fast").exit_code == 2
    assert run("play", log, "particles", "--create", "--speed", "-1").exit_code == 2
