"""The public face: its names, what importing it costs, and what it leaves alone."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_origin

import pytest

import echo_core as echo

ROOT = Path(__file__).parents[2]
NAMES: list[str] = vars(echo)["__all__"]  # read from the stub

HEAVY = [
    "construct",
    "llvmlite",
    "pandas",
    "pyarrow",
    "pyspark",
    "mypy",
    "hypothesis",
    "asyncio",
    "multiprocessing",
]

DECLARE = "from echo_core import event, field, format_of, compare, EchoError, Float32"


def test_public_names_are_those_of_the_documentation() -> None:
    """A name that is added or lost is a decision, and is written down for users."""
    page = (ROOT / "docs" / "public-names.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    documented = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(documented) == NAMES
    assert len(set(NAMES)) == len(NAMES)


def test_every_public_name_exists_and_is_documented() -> None:
    """Aliases of annotations have no docstring of their own."""
    for name in NAMES:
        value = getattr(echo, name)
        if get_origin(value) is None and (isinstance(value, type) or callable(value)):
            assert getattr(value, "__doc__", None), name


def test_nothing_else_is_shown() -> None:
    """What a shell completes is what is public; anything else is an AttributeError."""
    assert dir(echo) == sorted(NAMES)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(echo, "nothing")  # noqa: B009 - a type checker knows that it is not there


def test_every_name_comes_from_the_module_that_the_stub_names() -> None:
    """What a type checker knows of a name is what a program gets."""
    stub = (ROOT / "echo_core" / "__init__.pyi").read_text(encoding="utf-8")
    lines = re.findall(r"^from (\S+) import (\w+) as (\w+)$", stub, re.MULTILINE)
    assert sorted(name for _, _, name in lines) == NAMES
    for module, name, exported in lines:
        assert getattr(echo, exported) is getattr(importlib.import_module(module), name)


def test_import_stays_light() -> None:
    """What is heavy is imported on first use, if at all."""
    loaded = modules_after(f"{DECLARE}; import json, sys")
    assert "echo_core.formats.declare" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def test_import_alone_imports_no_other_module_of_the_library() -> None:
    """A name costs what it imports when it is used."""
    loaded = modules_after("import echo_core, json, sys")
    assert [name for name in loaded if name.startswith("echo_core.")] == []
    assert "numpy" not in loaded


def modules_after(statements: str) -> list[str]:
    """The modules that a fresh interpreter has loaded."""
    script = f"{statements}; sys.stdout.write(json.dumps(sorted(sys.modules)))"
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    names: list[str] = json.loads(made.stdout)
    return names


def processor_seconds(script: str) -> float:
    """What a fresh interpreter uses, whatever else runs on the machine."""
    before = os.times()
    subprocess.run([sys.executable, "-c", script], check=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


@pytest.mark.slow
def test_import_takes_little_time() -> None:
    """What declares events takes under 120 ms: less than three times numpy, on a machine of any speed."""
    processor_seconds(DECLARE)  # compiles what has changed
    ours, numpys = (min(processor_seconds(script) for _ in range(5)) for script in (DECLARE, "import numpy"))
    assert ours < 3 * numpys


def test_version_is_that_of_the_installed_package() -> None:
    """It is written down once; an installation made from older sources would report an older one."""
    assert importlib.metadata.version("echo-core") == echo.__version__
