"""What a comparison ran on: the machine, the interpreter and the versions of what took part."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

PACKAGES = (
    "echo-core",
    "numpy",
    "llvmlite",
    "msgpack",
    "msgspec",
    "protobuf",
    "lxml",
    "pyarrow",
    "pandas",
    "pyspark",
)


def environment() -> dict[str, Any]:
    """Of this process, which on a cluster should be an executor's."""
    return {"machine": machine(), "python": platform.python_version(), "packages": packages()}


def machine() -> dict[str, Any]:
    """The processor, and what there is of it."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def packages() -> dict[str, str]:
    """The versions of what takes part, as far as it is installed."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
