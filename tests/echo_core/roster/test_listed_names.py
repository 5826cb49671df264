"""The list of names: what is on it, how long it may get, and what becomes of a damaged one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_core.roster import listed_names
from echo_core.roster.listed_names import MAX_LISTED_BYTES, add, names


def nobody_is_there() -> listed_names.IsThere:
    return lambda _: False


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_each_name_is_listed_once(directory: int) -> None:
    """However strange it is."""
    given = ["a", "two\nlines", "\x1b[31m", "\u00e9", '"', "a"]
    for name in given:
        add(directory, name, nobody_is_there)
    assert names(directory) == given[:-1]


def test_list_that_grows_too_long_loses_old_names_whose_channels_are_gone(
    directory: int, tmp_path: Path
) -> None:
    """And no other."""
    padding = "x" * 200
    count = MAX_LISTED_BYTES // 200 + 10
    (tmp_path / "listed").write_text("".join(f'"{i} {padding}"\n' for i in range(count - 11)))
    for i in range(count - 11, count):
        add(directory, f"{i} {padding}", lambda: lambda name: name.startswith("3 "))
    left = names(directory)
    assert (tmp_path / "listed").stat().st_size <= MAX_LISTED_BYTES
    assert left[0].startswith("3 ")
    assert left[-1].startswith(f"{count - 1} ")
    assert not any(name.startswith("4 ") for name in left)


DAMAGE = {
    "none": b"",
    "no text": b"\xff\xfe\n",
    "no name": b"[1]\n",
    "torn": b'"torn',
    "empty": b'\n\n""\n',
    "deep": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_lines_are_passed_over(directory: int, tmp_path: Path, damage: bytes) -> None:
    """A process may have been killed while it wrote."""
    (tmp_path / "listed").write_bytes(b'"first"\n' + damage)
    add(directory, "second", nobody_is_there)
    assert names(directory) == ["first", "second"]


def test_link_in_place_of_the_list_is_not_followed(directory: int, tmp_path: Path) -> None:
    """It could lead to a file that matters."""
    (tmp_path / "precious").write_text("data")
    (tmp_path / "listed").symlink_to("precious")
    with pytest.raises(OSError, match="symbolic links"):
        add(directory, "name", nobody_is_there)
    assert (tmp_path / "precious").read_text() == "data"
