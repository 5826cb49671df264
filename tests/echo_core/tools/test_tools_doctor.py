"""What `doctor` finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from echo_core.tools.commands import doctor
from tests.echo_core.tools.running import done, rows, run


def test_this_machine_is_well() -> None:
    """It runs the tests; each transport is tried."""
    found = {row["subject"]: row["state"] for row in rows("doctor")}
    assert set(found) >= {"Python", "native", "compiler", "cache", "inotify", "names", "shm", "unix", "tcp"}
    assert "wrong" not in found.values()


def test_table_has_advice_below_what_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the status says whether something is wrong."""
    monkeypatch.setattr(
        doctor, "examine", lambda: iter([doctor.Finding("wrong", "it", "is \x1b[31mbroken", "mend it")])
    )
    result = run("doctor", "--table")
    assert result.exit_code == 1
    assert result.stdout == f"wrong  it           is \\x1b[31mbroken\n{'':20}-> mend it\n"


def test_cache_that_others_can_write_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code would not be run."""
    import echo_core as echo

    folder = Path(echo.diagnostics().cache_folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    folder.chmod(0o777)
    try:
        (row,) = [row for row in rows("doctor") if row["subject"] == "cache"]
    finally:
        folder.chmod(mode)
    assert row["state"] == "note"
    assert "others can write it" in row["text"]


def test_names_that_others_could_read_are_wrong(run_time_directory: Path) -> None:
    """With the library's own words."""
    done("doctor")
    os.chmod(run_time_directory, 0o755)
    result = run("doctor", "--table")
    assert result.exit_code == 1
    assert "to be closed to other users" in result.stdout
