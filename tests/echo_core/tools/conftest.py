"""Channels by name of each test's own, and a component on one of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import echo_core as echo
from tests.echo_core.tools.plant import Particle, Plant


@pytest.fixture(autouse=True)
def run_time_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("ECHO_CHANNEL", raising=False)
    return tmp_path / "echo_core"


@pytest.fixture
def plant() -> Iterator[Plant]:
    """A component that sends on the channel `particles` for as long as the test runs."""
    with echo.Node("plant") as node, node.channel("particles", Particle) as channel:
        source = channel.source(name="simulation")
        made = Plant(channel, source)
        thread = threading.Thread(target=made.send, daemon=True)
        thread.start()
        yield made
        made.is_over.set()
        thread.join()
