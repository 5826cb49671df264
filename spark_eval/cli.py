"""The command line: `python -m echo_core.spark_eval doctor | compare | pipeline | cluster`.

A command is a module with `add_arguments(parser)` and `run(arguments) -> exit status`. Only the chosen module
is imported, so that `doctor` runs even if packages that other commands need are missing.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Any

import echo_core as echo
from echo_core.spark_eval.console import say

COMMANDS = {
    "doctor": "what is there to run Spark with, what is missing, and what to do",
    "compare": "measure encoding and decoding against other codecs, and write a report",
    "pipeline": "encode, shuffle and decode a data set of a chosen size with every codec",
    "cluster": "start a Spark cluster on this machine, and run a command beside it",
}

_MODULES = {
    "cluster": "runtime.cluster",
    "compare": "comparison",
}  # those that are not called as their command

_PROGRAM = "python -m echo_core.spark_eval"


def main(given: Sequence[str]) -> int:
    """Run a command. Exit status: that of the command, 2 for unknown arguments, 1 for an EchoError."""
    if not given or given[0] not in COMMANDS:
        return _tell_usage(given)
    name, *rest = given
    own, beside = _split(rest)
    module: Any = importlib.import_module(f"echo_core.spark_eval.{_MODULES.get(name, name)}")
    parser = argparse.ArgumentParser(prog=f"{_PROGRAM} {name}", description=COMMANDS[name] + ".")
    module.add_arguments(parser)
    arguments = parser.parse_args(own)
    if beside:
        if not hasattr(arguments, "command"):
            parser.error(f"{name} takes nothing after --")
        arguments.command = beside
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        return int(module.run(arguments))
    except echo.EchoError as error:
        say(f"{name}: {error}", stream=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say(f"{name}: interrupted", stream=sys.stderr)
        return 128 + signal.SIGINT


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Suppress the traceback that py4j logs on Ctrl-C."""
    return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)


def _split(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before `--`, and the command after it."""
    if "--" not in given:
        return list(given), []
    place = list(given).index("--")
    return list(given[:place]), list(given[place + 1 :])


def _tell_usage(given: Sequence[str]) -> int:
    asked = given[:1] in (["-h"], ["--help"])
    width = max(map(len, COMMANDS))
    lines = [f"usage: {_PROGRAM} COMMAND [ARGUMENTS]", ""]
    lines += [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    lines += ["", f"{_PROGRAM} COMMAND --help tells the arguments."]
    if given and not asked:
        lines.insert(0, f"Expected a command, got {given[0]!r}")
    say("\n".join(lines), stream=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2
