"""Installs the peers of the benchmarks into the environment that runs this: `make bench` and `make check` do.

Those that cannot be had for this Python or machine are left out, each with its name and pip's reason. Nothing
is built from source: a peer that takes a C++ library and minutes is not worth a failed set-up.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--only-binary=:all:")


def peers() -> list[str]:
    """The dependency group `bench` of pyproject.toml."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    return [str(requirement) for requirement in groups["bench"]]


def failure(requirements: Sequence[str]) -> str | None:
    """Why pip did not install them."""
    ran = subprocess.run([*PIP, *requirements], capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return None
    errors = [line.removeprefix("ERROR: ") for line in ran.stderr.splitlines() if line.startswith("ERROR: ")]
    return errors[-1] if errors else f"pip ended with {ran.returncode}"


def main() -> None:
    """All at once; where that fails, one by one, to find out which."""
    if failure(peers()) is None:
        return
    for requirement in peers():
        reason = failure([requirement])
        if reason is not None:
            print(f"left out: {requirement}: {reason}")


if __name__ == "__main__":
    main()
