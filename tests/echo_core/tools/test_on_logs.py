"""What is done to logs: `echoctl log ...`."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

import echo_core as echo
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.plant import Cell, Particle
from tests.echo_core.tools.running import LIMIT_S, done, rows, run, start


@echo.event
class Alarm:
    """Another type in the same log."""

    level: int


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(folder: Path, make_node: MakeNode) -> str:
    """A log of a hundred particles and three alarms."""
    channel = make_node(name="plant").create_channel("particles")
    with echo.record(channel, "run.echolog"):
        particles, alarms = channel.source(Particle, name="simulation"), channel.source(Alarm, name="guard")
        for number in range(100):
            particles.submit(Particle(number, 300.0, Cell(number, 0.0), "\x1b[31m" if number == 5 else None))
        for level in (1, 2, 3):
            alarms.submit(Alarm(level))
    return "run.echolog"


def test_info_says_what_is_there(log: str) -> None:
    """In all, and of each stream."""
    (facts,) = rows("log", "info", log)
    assert (facts["events"], facts["channels"], facts["streams"], facts["missing"]) == (103, 1, 2, 0)
    streams = {each["type"]: (each["events"], each["source"], each["last"]) for each in facts["stream_list"]}
    assert streams == {"Particle": (100, "simulation", 99), "Alarm": (3, "guard", 2)}
    table = done("log", "info", log, "--table")
    assert "events         103\n" in table
    assert "simulation" in table


def test_cat_shows_events_as_watch_does(log: str) -> None:
    """Of all types, or of some that are chosen."""
    assert len(rows("log", "cat", log)) == 103
    assert rows("log", "cat", log, "--type", "Alarm") == [{"level": level} for level in (1, 2, 3)]
    assert rows("log", "cat", log, "--type", "Particle", "--where", "id > 97", "-n", "1")[0]["id"] == 98
    assert len(rows("log", "cat", log, "--source", "guard", "--channel", "particles")) == 3
    (row,) = rows("log", "cat", log, "--info", "-n", "1")
    assert (row["_type"], row["_sequence"], row["_channel"], row["_source"]) == (
        "Particle",
        0,
        "particles",
        "simulation",
    )
    lines = done("log", "cat", log, "-n", "6", "--lines").splitlines()
    assert lines[5].endswith(r'note="\u001b[31m"')
    assert done("log", "cat", log, "-n", "1", "-f", "{id} {at.x}") == "0 0.0\n"


def test_condition_takes_the_types_that_have_its_fields(log: str) -> None:
    """The others are told; where none has them, that is wrong."""
    result = run("log", "cat", log, "--where", "id > 97")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [98, 99]
    assert "events of `Alarm` are left out" in result.stderr
    assert [row["level"] for row in rows("log", "cat", log, "--where", "level > 2")] == [3]
    done("log", "filter", log, "some.echolog", "--where", "id > 97")
    assert len(rows("log", "cat", "some.echolog")) == 2
    for options in ((), ("--type", "Alarm")):
        result = run("log", "cat", log, "--where", "nix > 1", *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "got `nix`" in result.stderr


def test_tables_want_one_type(log: str) -> None:
    """The option that says which is named."""
    result = run("log", "export", log, "run.csv")
    assert result.exit_code == 2
    assert "got `Alarm`, `Particle`: say which by --type" in result.stderr
    done("log", "export", log, "run.csv", "--type", "Alarm")
    done("log", "export", log, "run.jsonl")


def test_cat_takes_what_lies_between_two_times(log: str) -> None:
    """In ISO 8601, of this machine's zone or another, or in seconds."""
    first = rows("log", "cat", log, "--info", "-n", "1")[0]["_time"]
    assert len(rows("log", "cat", log, "--since", first[:19] + "Z", "--until", "2100-01-01")) == 103
    for options in (("--until", "0"), ("--since", "4000000000")):
        assert run("log", "cat", log, *options).exit_code == 1
    for moment in ("soon", "1e300"):
        result = run("log", "cat", log, "--since", moment)
        assert (result.exit_code, "Expected" in result.stderr) == (2, True)


def test_cat_follows_what_is_added(folder: Path, make_node: MakeNode) -> None:
    """Until nothing comes for a time, or there is enough."""
    channel = make_node().create_channel("particles", Particle)
    with echo.record(channel, "run.echolog") as recorder, channel.source() as source:
        source.submit(Particle(0))
        recorder.sync(LIMIT_S)
        process = start("log", "cat", str(folder / "run.echolog"), "--follow", "-n", "2")
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == 0
        source.submit(Particle(1))
        recorder.sync(LIMIT_S)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (json.loads(out)["id"], err) == (1, "")
    assert len(rows("log", "cat", "run.echolog", "-F", "-t", "10ms")) == 2


def damaged(log: str) -> None:
    """Flips a bit of a text in it."""
    (segment,) = Path(log).glob("*.seg")
    content = bytearray(segment.read_bytes())
    content[content.index(b"\x1b[31m")] ^= 0x40
    segment.write_bytes(content)


def test_sound_log_is_verified(log: str) -> None:
    """With how much it is."""
    (found,) = rows("log", "verify", log)
    assert (found["sound"], found["torn"], found["events"], found["damage"]) == (True, False, 103, [])
    assert done("log", "verify", log, "--table").startswith("sound: 103 events, ")


def test_damage_is_found_and_what_is_left_recovered(log: str) -> None:
    """The status says so, and the report what was lost."""
    damaged(log)
    result = run("log", "verify", log)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["sound"]
    assert found["damage"]
    assert found["events"] + sum(gap["last"] - gap["first"] + 1 for gap in found["missing"]) == 103
    assert run("log", "verify", log, "--table").stdout.startswith("damaged in ")
    run("log", "recover", log, "new.echolog")
    (again,) = rows("log", "verify", "new.echolog")
    assert (again["sound"], again["events"]) == (True, found["events"])


def test_filter_copies_what_is_chosen(log: str) -> None:
    """To a log, of which its name says that it is one."""
    result = run("log", "filter", log, "some.echolog", "--type", "Particle", "--where", "id < 10")
    assert (result.exit_code, result.stderr) == (0, "echoctl: 10 events are in some.echolog\n")
    assert [row["id"] for row in rows("log", "cat", "some.echolog")] == list(range(10))
    refused = run("log", "filter", log, "some.csv")
    assert (refused.exit_code, "Expected a new log NAME.echolog" in refused.stderr) == (2, True)
    assert run("log", "filter", log, "some.echolog").exit_code == 1  # it is there


def test_merge_has_what_is_in_several_once(log: str) -> None:
    """In one log."""
    shutil.copytree(log, "copy.echolog")
    result = run("log", "merge", log, "copy.echolog", "-o", "all.echolog")
    assert (result.exit_code, result.stderr) == (0, "echoctl: 103 events are in all.echolog\n")
    assert rows("log", "info", "all.echolog")[0]["events"] == 103


def test_du_says_what_takes_room(log: str) -> None:
    """The largest first."""
    found = rows("log", "du", log)
    assert [(row["type"], row["events"], row["source"]) for row in found] == [
        ("Particle", 100, "simulation"),
        ("Alarm", 3, "guard"),
    ]
    assert found[1]["bytes"] == 24
    assert " bytes in files, of which " in done("log", "du", log, "--table")


def test_export_writes_what_other_programs_read(log: str) -> None:
    """Of one type, where a file holds no more."""
    done("log", "export", log, "alarms.csv", "--type", "Alarm", "--no-info")
    with open("alarms.csv", newline="") as file:
        assert [row["level"] for row in csv.DictReader(file)] == ["1", "2", "3"]
    done("log", "export", log, "all.jsonl")
    exported = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    shown = rows("log", "cat", log, "--info")
    assert exported == [{name: row[name] for name in row if name != "_peer"} for row in shown]
    for name in ("all.csv", "all.nix"):
        result = run("log", "export", log, name)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["info", "cat", "verify", "du"])
def test_what_is_no_log_is_told(folder: Path, command: str) -> None:
    """In one line."""
    result = run("log", command, "nowhere.echolog")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("echoctl: Expected a log, got ")


def test_name_that_a_log_does_not_have_is_told(log: str) -> None:
    """With those that it has."""
    result = run("log", "cat", log, "--type", "Nix")
    assert result.exit_code == 1
    assert "one with `Alarm`, `Particle`" in result.stderr
