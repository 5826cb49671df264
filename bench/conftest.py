"""What every benchmark shares: a cache of compiled code of the run's own, and nobody's home."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

_OWNED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Before any benchmark is imported."""
    if "ECHO_CACHE" not in os.environ:
        os.environ["ECHO_CACHE"] = config.stash[_OWNED] = tempfile.mkdtemp(prefix="echo-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """And removes it."""
    if _OWNED in config.stash:
        shutil.rmtree(config.stash[_OWNED], ignore_errors=True)
        del os.environ["ECHO_CACHE"]
