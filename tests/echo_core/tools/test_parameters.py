"""How channels, times and sizes are written."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from echo_core.tools.parameters import Way, channel_way, duration, size
from tests.echo_core.tools.plant import Plant
from tests.echo_core.tools.running import done, rows, run


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("particles", Way("name", "particles")),
        ("laboratory/a:b", Way("name", "laboratory/a:b")),
        ("name:@odd", Way("name", "@odd")),
        ("@/run/id", Way("file", "/run/id")),
        ("-", Way("stdin")),
        ("env:ID", Way("variable", "ID")),
    ],
)
def test_channel_is_named_or_its_id_is_somewhere(text: str, way: Way) -> None:
    """Each way has its own mark; `name:` takes any name."""
    assert channel_way(text) == way


@pytest.mark.parametrize("text", ["", "name:", "env:", "@"])
def test_way_that_leads_nowhere_is_refused(text: str) -> None:
    """Something has to stand behind the mark."""
    with pytest.raises(click.BadParameter, match="Expected a name, @FILE, - or env:VARIABLE"):
        channel_way(text)


@pytest.mark.parametrize("prefix", ["echo1:", "echo1-derived:", "echo2:"])
def test_id_on_the_command_line_is_refused_and_not_repeated(prefix: str) -> None:
    """Others can read it there; the log of a service could, too."""
    result = run("info", f"{prefix}SECRET")
    assert result.exit_code == 2
    assert "which others can read here: put it into a file that only you can read" in result.stderr
    assert "SECRET" not in result.output


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("0.5s", 0.5), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), (".5", 0.5)],
)
def test_time_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    """Seconds where it has none."""
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 s", "5y", "nan", "1e9"])
def test_other_times_are_refused(text: str) -> None:
    """With an example of what is one."""
    with pytest.raises(click.BadParameter, match="Expected a time such as 5s"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4096", 4096), ("64k", 65536), ("1.5M", 1572864), ("1GiB", 2**30), ("2tb", 2**41)],
)
def test_size_is_a_number_with_a_unit(text: str, size_bytes: int) -> None:
    """Of which each is 1,024 times the one before."""
    assert size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "k", "-1", "1p", "1 k"])
def test_other_sizes_are_refused(text: str) -> None:
    """With an example of what is one."""
    with pytest.raises(click.BadParameter, match="Expected a size such as 64k"):
        size(text)


def test_id_is_read_from_a_file_stdin_or_a_variable(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that others can read is told of."""
    id_ = plant.channel.id
    file = tmp_path / "id"
    file.write_text(f"{id_}\n")
    file.chmod(0o644)
    told = run("info", f"@{file}")
    assert told.exit_code == 0
    assert f"other users can read @{file}, which holds a channel's key" in told.stderr
    file.chmod(0o600)
    assert run("info", f"@{file}").stderr == ""
    assert '"particles"' in done("info", "-", given=f"{id_}\n")
    monkeypatch.setenv("PLANT", id_)
    assert rows("info", "env:PLANT")[0]["name"] == "particles"


def test_channel_of_the_environment_is_meant_where_none_is_given(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be an id there, or what an argument may be."""
    for value in (plant.channel.id, "particles"):
        monkeypatch.setenv("ECHO_CHANNEL", value)
        assert rows("info")[0]["name"] == "particles"


def test_damaged_id_is_refused(tmp_path: Path) -> None:
    """As the caller's mistake."""
    (tmp_path / "id").write_text("echo1:abc")
    os.chmod(tmp_path / "id", 0o600)
    result = run("info", f"@{tmp_path / 'id'}")
    assert (result.exit_code, "whole channel id" in result.stderr) == (2, True)
