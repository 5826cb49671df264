"""Where `echoctl` begins: it needs the extra `tools`, and says so in one line where that is missing."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

NEEDED = ("click", "rich")


def main() -> int:
    """Runs the command of `sys.argv`, which ends the process; returns only where nothing can be run."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        told = f"Expected the packages of the extra `tools`, got no {' and no '.join(missing)}"
        sys.stderr.write(f"echoctl: {told}: run `pip install 'echo-core[tools]'`\n")
        return 2
    _open_what_is_closed()
    _put_out_any_text()
    from echo_core.tools.program import program

    program(prog_name="echoctl")
    return 0


def _open_what_is_closed() -> None:
    """A shell's `>&-`, or a service without streams, leaves None where Python would have a file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _put_out_any_text() -> None:
    """Where the locale has not every character, pipes get UTF-8, as JSON is, and terminals escapes."""
    output: Any = sys.stdout
    if output.isatty():
        output.reconfigure(errors="backslashreplace")
    else:
        output.reconfigure(encoding="utf-8")
