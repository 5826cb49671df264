"""The public face: its names, what importing it costs, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import get_origin

import pytest

import echo_core as echo

NAMES = [
    "Abi",
    "Array",
    "Backlog",
    "BacklogError",
    "Bytes",
    "Channel",
    "ChannelError",
    "Chars",
    "ClosedError",
    "Codec",
    "CompileError",
    "Complex128",
    "Complex64",
    "ConversionError",
    "EchoError",
    "EncodeError",
    "Entry",
    "EventsLost",
    "Field",
    "Float16",
    "Float32",
    "Float64",
    "Format",
    "FormatError",
    "IncompatibleError",
    "Int16",
    "Int32",
    "Int64",
    "Int8",
    "Limits",
    "LinkError",
    "Long",
    "Node",
    "Notice",
    "PeerJoined",
    "PeerLeft",
    "PlaintextWarning",
    "RefusedError",
    "Report",
    "Sink",
    "Source",
    "SourceClosed",
    "SourceOpened",
    "TimedOutError",
    "Token",
    "Transport",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt8",
    "ULong",
    "Unreachable",
    "Verdict",
    "Watch",
    "WhenFull",
    "WireError",
    "array_decoder",
    "array_encoder",
    "codec",
    "column_decoder",
    "compare",
    "converter",
    "create_channel",
    "decoder",
    "default_node",
    "diagnostics",
    "encoder",
    "event",
    "field",
    "format_of",
    "open_channel",
]

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

LISTED = "import echo_core, json, sys; sys.stdout.write(json.dumps(sorted(sys.modules)))"


def test_public_names_are_these() -> None:
    """A name that is added or lost is a decision, and is written down here."""
    assert sorted(echo.__all__) == sorted(NAMES)
    assert len(set(echo.__all__)) == len(echo.__all__)


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
        _ = echo.nothing


def test_import_stays_light() -> None:
    """What is heavy is imported on first use, if at all."""
    made = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, check=True)
    loaded: list[str] = json.loads(made.stdout)
    assert "echo_core.formats.declare" in loaded
    assert sorted(set(HEAVY) & set(loaded)) == []


def processor_seconds(script: str) -> float:
    """What a fresh interpreter uses, whatever else runs on the machine."""
    before = os.times()
    subprocess.run([sys.executable, "-c", script], check=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


@pytest.mark.slow
def test_import_takes_little_time() -> None:
    """It is to take under 120 ms: less than three times what numpy takes, on a machine of any speed."""
    processor_seconds("import echo_core")  # compiles what has changed
    ours, numpys = (
        min(processor_seconds(f"import {name}") for _ in range(5)) for name in ("echo_core", "numpy")
    )
    assert ours < 3 * numpys
