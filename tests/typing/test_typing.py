"""The typed API as checkers see it: revealed types, and mistakes that are found."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.once]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Not named as Python files, for the checkers must not take them for our own code: one is full of mistakes.
EVENTS = HERE / "sample_events.txt"
MISTAKES = HERE / "sample_mistakes.txt"

# By what is revealed in the sample: mypy with the plugin, and pyright, in mypy's spelling.
REVEALED = {
    "reading.id": "int",
    "reading.temp": "float",
    "reading.wave": "complex",
    "reading.tag": "str",
    "reading.key": "bytes",
    "reading.position": "ndarray[Any, dtype[Any]]",
    "reading.samples": "ndarray[Any, dtype[Any]]",
    "reading.cells": "list[Cell]",
    "reading.color": "Color",
    "reading.note": "str | None",
    "reading.names": "list[str]",
    "reading.unit": "float",
    "echo.encoder(Reading)(reading)": "bytes",
    'echo.decoder(Reading)(b"")': "Reading",
    "echo.format_of(Reading)": "Format",
    "echo.format_of(Reading).token": "Token",
    "echo.compare(echo.format_of(Reading), echo.format_of(Reading)).is_same": "bool",
}
# What mypy cannot say without its plugin.
WITHOUT_PLUGIN = {
    "reading.tag": "Any",
    "reading.key": "Any",
    "reading.position": "Any",
    "reading.samples": "Any",
}
PYRIGHT = {
    "reading.position": "ndarray[tuple[Any, ...], dtype[Any]]",
    "reading.samples": "ndarray[tuple[Any, ...], dtype[Any]]",
}

_QUALIFIED = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])")  # a module's name before a class's


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


def mypy(path: Path, folder: Path, *, plugin: bool) -> str:
    """mypy's output on one file."""
    needs("mypy")
    config = folder / "mypy.ini"
    lines = ["[mypy]", "strict = true", "hide_error_context = true"]
    config.write_text("\n".join(lines + ["plugins = echo_core.mypy_plugin"] * plugin), encoding="utf-8")
    options = ["--config-file", str(config), "--cache-dir", str(ROOT / ".mypy_cache" / "typing")]
    return output("mypy", *options, str(python_file(path, folder)))


def pyright(path: Path, folder: Path) -> str:
    """pyright's output on one file."""
    needs("pyright")
    return output("pyright", "--pythonpath", sys.executable, str(python_file(path, folder)))


def python_file(path: Path, folder: Path) -> Path:
    """A sample under a name that a checker accepts."""
    copied = folder / path.with_suffix(".py").name
    copied.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return copied


def output(*command: str) -> str:
    made = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert made.returncode in (0, 1), made.stderr  # 1: mistakes were found
    return made.stdout


def asked() -> dict[int, str]:
    """What the sample wants to be revealed, by its line."""
    lines = enumerate(EVENTS.read_text(encoding="utf-8").splitlines(), 1)
    return {n: line[len("reveal_type(") : -1] for n, line in lines if line.startswith("reveal_type(")}


def revealed(text: str, pattern: str) -> dict[str, str]:
    """What a checker revealed, by what it was asked."""
    questions = asked()
    return {
        questions[int(found["line"])]: _QUALIFIED.sub("", found["type"])
        for found in re.finditer(pattern, text)
    }


MYPY_REVEALS = r'sample_events\.py:(?P<line>\d+): note: Revealed type is ["\'](?P<type>.*)["\']'
PYRIGHT_REVEALS = r'sample_events\.py:(?P<line>\d+):\d+ - information: Type of ".*" is "(?P<type>.*)"'


def mistakes(*, without: str = "") -> set[int]:
    """The lines of the sample that a checker should complain of."""
    lines = enumerate(MISTAKES.read_text(encoding="utf-8").splitlines(), 1)
    return {n for n, line in lines if "# mistake" in line and not (without and without in line)}


def complained(text: str) -> set[int]:
    return {int(line) for line in re.findall(r"sample_mistakes\.py:(\d+):.*error:", text)}


@pytest.mark.parametrize("plugin", [True, False], ids=["with plugin", "without plugin"])
def test_mypy_reveals_what_fields_hold(tmp_path: Path, plugin: bool) -> None:
    """With the plugin everything, without it everything but what takes numbers in brackets."""
    expected = REVEALED if plugin else REVEALED | WITHOUT_PLUGIN
    text = mypy(EVENTS, tmp_path, plugin=plugin)
    seen = revealed(text, MYPY_REVEALS)
    seen.pop("Reading")
    assert seen == expected
    assert not re.search(r"sample_events\.py:\d+.*error:", text)


def test_pyright_reveals_what_fields_hold(tmp_path: Path) -> None:
    """Without any plugin."""
    text = pyright(EVENTS, tmp_path)
    seen = revealed(text, PYRIGHT_REVEALS)
    assert seen.pop("Reading") == "type[Reading]"
    assert seen == REVEALED | PYRIGHT
    assert not re.search(r"sample_events\.py:\d+.*error:", text)


@pytest.mark.parametrize("plugin", [True, False], ids=["with plugin", "without plugin"])
def test_mypy_finds_mistakes(tmp_path: Path, plugin: bool) -> None:
    """Each line that says so, and no other."""
    expected = mistakes() if plugin else mistakes(without="mypy: with its plugin")
    assert complained(mypy(MISTAKES, tmp_path, plugin=plugin)) == expected


def test_pyright_finds_mistakes(tmp_path: Path) -> None:
    """Each line that says so, and no other."""
    assert complained(pyright(MISTAKES, tmp_path).replace(" - error:", ": error:")) == mistakes()
