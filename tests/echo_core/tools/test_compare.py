"""Types from wherever they come, compared by `compare`."""

from __future__ import annotations

from pathlib import Path

import pytest

import echo_core as echo
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.plant import Particle, Plant
from tests.echo_core.tools.running import done, rows, run

NEWER = """
import echo_core as echo


@echo.event
class Particle:
    id: echo.Int64
    temp: float = echo.field(default=0.0, aliases=("temperature",))
    mass: float = 1.0


class Other:
    pass
"""

HEADER = "struct Particle { long id; double mass; };\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With files that hold types."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "newer_events.py").write_text(NEWER)
    (tmp_path / "particle.h").write_text(HEADER)
    (tmp_path / "broken_events.py").write_text("1 / 0\n")
    (tmp_path / "particle.format").write_bytes(echo.format_of(Particle).metadata)
    return tmp_path


def test_channel_is_compared_with_a_class(plant: Plant) -> None:
    """Field by field, and whether the sink's can be filled."""
    (report,) = rows("compare", "particles", "newer_events.py:Particle")
    assert (report["accepted"], report["same"]) == (True, False)
    assert {field["path"]: field["verdict"] for field in report["fields"]} == {
        "Particle.id": "same",
        "Particle.temp": "renamed",
        "Particle.mass": "defaulted",
        "Particle.at": "ignored",
        "Particle.note": "ignored",
    }
    table = done("compare", "particles", "newer_events.py:Particle", "--table")
    assert table.startswith("Particle -> Particle: accepted\n")


@pytest.mark.parametrize(
    "place",
    [
        "newer_events.py:Particle",
        "newer_events:Particle",
        "particle.h",
        "particle.h:Particle",
        "particle.format",
    ],
)
def test_types_come_from_files_of_several_kinds(place: str) -> None:
    """Each is the same as itself."""
    (report,) = rows("compare", place, place)
    assert report["same"]


def test_what_cannot_be_filled_is_refused_by_the_status() -> None:
    """With the reason; consent makes it go."""
    result = run("compare", "newer_events.py:Particle", "particle.h", "--table")
    assert result.exit_code == 0
    result = run("compare", "particle.h", "particle.format", "--table")
    assert result.exit_code == 0
    (Path("narrow.h")).write_text("struct Particle { int id; };")
    refused = run("compare", "particle.h", "narrow.h", "--table")
    assert refused.exit_code == 1
    assert "Particle -> Particle: refused" in refused.stdout
    assert run("compare", "particle.h", "narrow.h", "--lossy").exit_code == 0


def test_lookalikes_are_told(folder: Path) -> None:
    """And refused, where that is asked for."""
    (folder / "slip.h").write_text("struct Particle { long id; double masss; };")
    (folder / "wanting.py").write_text(NEWER)
    command = ("compare", "slip.h", "wanting.py:Particle", "--table")
    result = run(*command)
    assert result.exit_code == 0
    assert "Particle.mass takes its default, though A has `masss`" in result.stderr
    assert run(*command, "--strict").exit_code == 1


def test_types_of_one_name_are_compared_where_there_are_several(make_node: MakeNode) -> None:
    """Or none, which is said."""

    @echo.event
    class Alarm:
        text: str

    make_node().channel("mixed", Particle, Alarm)
    (report,) = rows("compare", "mixed", "newer_events.py:Particle")
    assert report["sender"] == "Particle"
    (Path("other.h")).write_text("struct Other { int id; };")
    result = run("compare", "mixed", "other.h")
    assert (result.exit_code, "Expected types of the same name" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("place", "status", "said"),
    [
        ("newer_events.py:Nix", 2, "Expected a class `Nix` in newer_events.py, there is none"),
        ("newer_events.py:Other", 2, "Expected an event class, got `Other`"),
        ("nowhere.py:Nix", 2, "Expected a file nowhere.py, there is none"),
        ("nowhere_at_all:Nix", 2, "Expected a module `nowhere_at_all`, got ModuleNotFoundError"),
        ("broken_events.py:X", 2, "got ZeroDivisionError: division by zero"),
        ("newer_events.py", 1, "Expected"),
        ("nix", 3, "Expected a channel `nix`"),
    ],
)
def test_what_holds_no_type_is_told(place: str, status: int, said: str) -> None:
    """In one line."""
    result = run("compare", place, "particle.h")
    assert result.exit_code == status
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_types_of_a_log_are_compared_with_a_channels(plant: Plant, make_node: MakeNode) -> None:
    """Whether what was recorded can be read as what flows now; a log without events has no types."""
    channel = make_node().create_channel("old")
    older = echo.Format.from_c("struct Particle { long id; };")
    with echo.record(channel, "old.echolog"):
        channel.source(older).submit_records(bytes(older.size_bytes))
    (report,) = rows("compare", "old.echolog", "particles")
    assert report["accepted"]
    verdicts = {field["path"]: field["verdict"] for field in report["fields"]}
    assert verdicts["Particle.temperature"] == "defaulted"
    echo.record(make_node().create_channel("quiet"), "empty.echolog").close()
    result = run("compare", "empty.echolog", "particles")
    assert (result.exit_code, "a log with events" in result.stderr) == (1, True)


def test_file_that_is_too_large_is_not_read(folder: Path) -> None:
    """Metadata has less."""
    (folder / "large").write_bytes(bytes(2**20 + 1))
    result = run("compare", "large", "particle.h")
    assert (result.exit_code, "at most 1,048,576 bytes" in result.stderr) == (2, True)


def test_channel_without_types_is_nothing_to_compare(make_node: MakeNode) -> None:
    """Nobody sends on it."""
    make_node().channel("quiet")
    assert run("compare", "quiet", "particle.h").exit_code == 1
