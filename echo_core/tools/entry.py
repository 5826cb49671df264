"""Where `echoctl` begins: it needs the extra `tools`, and says so in one line where that is missing."""

from __future__ import annotations

import importlib.util
import sys

NEEDED = ("click", "rich")


def main() -> int:
    """Runs the command of `sys.argv`, which ends the process; returns only where nothing can be run."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        told = f"Expected the packages of the extra `tools`, got no {' and no '.join(missing)}"
        sys.stderr.write(f"echoctl: {told}: run `pip install 'echo-core[tools]'`\n")
        return 2
    from echo_core.tools.program import program

    program(prog_name="echoctl")
    return 0
