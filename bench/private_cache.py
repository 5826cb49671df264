"""A cache of compiled code that is thrown away, so that what is measured does not depend on earlier runs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path

from echo_core.codegen.machine import cache


@contextlib.contextmanager
def private_cache() -> Generator[None]:
    """In place of the user's, for as long as this lasts."""
    kept = cache.default_cache()
    with tempfile.TemporaryDirectory() as folder:
        cache.set_cache(cache.Cache(Path(folder) / "cache"))
        try:
            yield
        finally:
            cache.set_cache(kept)
