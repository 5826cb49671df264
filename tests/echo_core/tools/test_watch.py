"""Events as `watch` shows them."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

import echo_core as echo
from echo_core.tools.events import brief
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.plant import Particle, Plant
from tests.echo_core.tools.running import LIMIT_S, done, rows, run, start

LONG = f"{LIMIT_S}s"


def test_events_are_shown_as_json_by_default(plant: Plant) -> None:
    """As many as were asked for, in order, without a class here."""
    found = rows("watch", "particles", "-n", "5")
    assert [row["id"] for row in found] == list(range(found[0]["id"], found[0]["id"] + 5))
    assert set(found[0]) == {"id", "temperature", "at", "note"}
    assert found[0]["at"] == {"x": found[0]["id"] / 2, "y": -1.0}


def test_events_go_with_where_they_are_from_if_asked_for(plant: Plant) -> None:
    """Beside their own fields."""
    (row,) = rows("watch", "particles", "-n", "1", "--info")
    assert (row["_type"], row["_source"], row["_time"]) == ("Particle", "simulation", None)
    assert row["_sequence"] == row["id"]


def test_sources_judge_a_condition_and_send_what_is_selected(plant: Plant) -> None:
    """So that no other event comes here."""
    found = rows("watch", "particles", "-n", "3", "--where", "temperature > 300", "--select", "id, at.x")
    assert all(row["id"] % 3 == 0 for row in found)
    assert [row["at_x"] for row in found] == [row["id"] / 2 for row in found]
    assert {len(row) for row in found} == {2}


def test_csv_has_a_header_and_nested_columns(plant: Plant) -> None:
    """A line for each event, whatever is in it."""
    lines = done("watch", "particles", "-n", "2", "--csv").splitlines()
    assert lines[0] == "id,temperature,at.x,at.y,note"
    assert len(lines) == 3
    notes = {row["note"] for row in csv.DictReader(io.StringIO("\n".join(lines)))}
    assert notes == {"", r'two\nlines, "\x1b[31m"'}


def test_events_of_other_columns_are_left_out_of_csv(make_node: MakeNode) -> None:
    """And told of, once."""

    @echo.event
    class Alarm:
        text: str

    channel = make_node().channel("mixed")
    channel.source(Particle, keep=1).submit(Particle(1))
    channel.source(Alarm, keep=2).submit(Alarm("hot"))
    result = run("watch", "mixed", "-t", "1.5s", "--csv")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert "are left out: they have other columns than the first" in result.stderr


def test_template_formats_fields(plant: Plant) -> None:
    """Also nested ones, and where they are from."""
    line = done(
        "watch", "particles", "-n", "1", "-f", r"{id:04d}\t{temperature:.1f} {at.y} {_source}"
    ).rstrip("\n")
    number, rest = line.split("\t")
    assert len(number) == 4
    assert rest.split() == [f"{301.5 if int(number) % 3 == 0 else 299.5}", "-1.0", "simulation"]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{nix}", "Expected a field of `Particle` in the template, got `nix`: it has id, temperature"),
        ("{id.__class__}", "got `id.__class__`"),
        ("{id", "Expected a template such as '{id} {temperature:.1f}', got '{id'"),
        ("{id:zz}", "Expected a value that `zz` can format"),
    ],
)
def test_template_that_fits_no_field_is_refused(plant: Plant, template: str, said: str) -> None:
    """It reaches nothing but fields."""
    result = run("watch", "particles", "-n", "1", "-f", template)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_lines_are_for_people(plant: Plant) -> None:
    """Time, source, number, type, fields."""
    line = done("watch", "particles", "-n", "1", "--lines")
    assert " simulation #" in line
    assert "  Particle id=" in line
    assert line.endswith("\n")


def test_long_values_are_cut_for_people() -> None:
    """An array of a million elements is one line."""
    assert brief(list(range(10))) == "[0, 1, 2, 3, 4, 5, 6, 7, \u2026 2 more]"
    assert len(brief("x" * 10_000)) < 200
    assert brief({"a": [1.5, None]}) == "{a=[1.5, null]}"


def test_condition_that_fits_no_type_is_refused_where_it_is_wrong(plant: Plant, make_node: MakeNode) -> None:
    """Also where the type is known from a source alone."""
    channel = make_node().channel("undeclared")
    channel.source(Particle)
    for name in ("particles", "undeclared"):
        result = run("watch", name, "--where", "temprature > 300")
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0].endswith("is `temperature` meant?")
        assert result.stderr.splitlines()[2].strip() == "^^^^^^^^^^"


def test_types_that_come_later_are_judged_too(make_node: MakeNode) -> None:
    """Each type by a derived channel of its own."""
    channel = make_node().channel("undeclared")
    channel.source(Particle, keep=1).submit(Particle(7, 301.0))

    @echo.event
    class Other:
        id: int

    process = start("watch", "undeclared", "--where", "id > 5", "-n", "2")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["id"] == 7
    channel.source(Other, keep=2).submit(Other(9))
    out, _ = process.communicate(timeout=LIMIT_S)
    assert json.loads(out) == {"id": 9}


def test_end_of_time_is_told_by_the_status(plant: Plant, make_node: MakeNode) -> None:
    """Fewer than were asked for: 124; none at all: 1; some: 0."""
    make_node().channel("quiet")
    assert run("watch", "particles", "-n", "1000000", "-t", "50ms").exit_code == 124
    assert run("watch", "quiet", "-t", "10ms").exit_code == 1
    assert run("watch", "particles", "-t", "1s").exit_code == 0


def test_channel_that_is_not_there_yet_is_waited_for(make_node: MakeNode) -> None:
    """If asked for."""
    assert run("watch", "late").exit_code == 3
    process = start("watch", "late", "--wait", LONG, "-n", "1")
    channel = make_node().channel("late", Particle)
    channel.source(keep=1).submit(Particle(5))
    out, err = process.communicate(timeout=LIMIT_S)
    assert (json.loads(out)["id"], err) == (5, "")


def test_what_comes_too_fast_is_dropped_and_told(make_node: MakeNode) -> None:
    """Nobody waits for a program that shows events, whoever reads what it shows."""
    channel = make_node().channel("fast", Particle)
    source = channel.source()
    process = start("watch", "fast")
    source.wait_matched(1, LIMIT_S)
    source.submit(Particle(0))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["id"] == 0  # it is at work before too much comes
    for number in range(100_000):
        source.submit(Particle(number))
    source.flush(LIMIT_S)
    process.terminate()
    assert process.wait(LIMIT_S) == 143  # also while nobody reads what it writes
    out, err = process.communicate(timeout=LIMIT_S)
    assert out.count("\n") < 100_000
    assert re.search(r"missed [\d,]+ events so far: [\d,]+ dropped here, ", err)


def test_two_versions_on_one_channel_are_both_shown(make_node: MakeNode) -> None:
    """Each with its own fields."""
    channel = make_node().channel("versions")
    channel.source(Particle, keep=1, name="old").submit(Particle(1))
    other = make_node().open_channel(channel.id, timeout_s=30)
    newer = echo.Format.from_dtype(np.dtype([("id", "<i8"), ("mass", "<f8")]), name="Particle")
    source = other.source(newer, keep=1, name="new")
    source.submit_array(np.zeros(1, newer.dtype))
    found = sorted((set(row) for row in rows("watch", "versions", "-n", "2", "-t", LONG)), key=len)
    assert found == [{"id", "mass"}, {"id", "temperature", "at", "note"}]
