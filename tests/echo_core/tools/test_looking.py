"""What `ls`, `info` and `types` say of channels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.plant import Particle, Plant
from tests.echo_core.tools.running import done, rows, run


def test_channels_are_listed_with_who_holds_them(plant: Plant, make_node: MakeNode) -> None:
    """Or those whose names fit."""
    make_node().channel("laboratory/second")
    found = rows("ls")
    assert [row["name"] for row in found] == ["laboratory/second", "particles"]
    assert {row["process"] for row in found} == {os.getpid()}
    assert all("python" in row["command"] for row in found)
    assert [row["name"] for row in rows("ls", "lab*")] == ["laboratory/second"]
    table = done("ls", "--table").splitlines()
    assert table[0].split() == ["name", "process", "command"]
    assert table[2].split()[:2] == ["particles", str(os.getpid())]


def test_info_says_who_is_there_and_what_they_send(plant: Plant, make_node: MakeNode) -> None:
    """Of members that it has to be linked to, and without taking an event."""
    other = make_node(name="far").open_channel(plant.channel.id, timeout_s=30)
    other.source(Particle, name="second")
    facts: dict[str, Any] = {}

    def are_both_there() -> bool:  # news of members take a moment
        facts.update(rows("info", "particles")[0])
        return len(facts["members"]) == len(facts["sources"]) == 2

    until(are_both_there, "both members")
    assert facts["name"] == "particles"
    assert [(each["name"], each["declared"]) for each in facts["types"]] == [("Particle", True)]
    members = {each["name"]: (each["holds"], each["sources"], each["sinks"]) for each in facts["members"]}
    assert members == {"plant": (True, True, False), "far": (False, True, False)}
    assert sorted(each["name"] for each in facts["sources"]) == ["second", "simulation"]
    assert facts["statistics"]["received_events"] == 0
    table = done("info", "particles", "--table")
    assert table.startswith("channel  particles\ntypes    Particle\nmembers  ")
    assert "plant" in table


def test_info_measures_what_comes(plant: Plant) -> None:
    """For a time; else nobody sends anything to it."""
    (facts,) = rows("info", "particles", "--for", "800ms")
    measured = facts["measured"]
    assert measured["events_per_s"] > 0
    assert measured["events_by_source"]["simulation"] > 0
    assert "events_per_s" in done("info", "particles", "--for", "50ms", "--table")


def test_info_of_a_channel_that_nobody_else_is_on_anymore(make_node: MakeNode) -> None:
    """It was declared with nothing, and nobody sends."""
    make_node().channel("quiet")
    (facts,) = rows("info", "quiet")
    assert (facts["types"], facts["sources"], len(facts["members"])) == ([], [], 1)
    assert "types    none known" in done("info", "quiet", "--table")


def test_types_show_fields_with_units(plant: Plant) -> None:
    """As a table, a header, or JSON with nested fields."""
    table = done("types", "particles", "--table")
    assert table.startswith("Particle: ")
    assert "[K]" in table
    assert f"token {echo.format_of(Particle).token}; declared, sent by simulation" in table
    (row,) = rows("types", "particles")
    assert (row["name"], row["declared"], row["sources"]) == ("Particle", True, ["simulation"])
    fields = {field["name"]: field for field in row["fields"]}
    assert (fields["temperature"]["unit"], fields["temperature"]["type"]) == ("K", "float32")
    assert [inner["name"] for inner in fields["at"]["fields"]] == ["x", "y"]
    assert "struct Particle" in done("types", "particles", "--c")


def test_types_of_sources_are_shown_where_none_is_declared(make_node: MakeNode) -> None:
    """Each format once; without any the status is 1."""
    channel = make_node().channel("mixed")
    assert run("types", "mixed").exit_code == 1
    channel.source(Particle, name="one")
    channel.source(Particle, name="two")

    @echo.event
    class Alarm:
        text: str

    channel.source(Alarm)
    found = {row["name"]: row["sources"] for row in rows("types", "mixed")}
    assert found == {"Particle": ["one", "two"], "Alarm": ["Alarm"]}


def test_id_of_a_process_that_has_ended_says_so(tmp_path: Path) -> None:
    """In a line, whatever addresses were tried."""
    script = "import os, echo_core as e; print(e.create_channel('x').id, flush=True); os._exit(0)"
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    path = tmp_path / "id"
    path.write_text(made.stdout)
    path.chmod(0o600)
    result = run("watch", f"@{path}", "-t", "1s")
    assert result.exit_code == 3
    assert "the process that made it has ended" in result.stderr
    assert result.stderr.count("\n") == 1
