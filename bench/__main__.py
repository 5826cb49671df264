"""`python -m bench SUITE`: measures one suite, checks what it made, and prints goals beside figures."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from bench.available import LEFT_OUT
from bench.report import as_text

# Each suite is imported when it is asked for.
SUITES = {
    "codec": "bench.codec.suite",
    "columns": "bench.convert.columns",
    "compile": "bench.compiling",
    "convert": "bench.convert.suite",
    "derived": "bench.derived.suite",
    "filters": "bench.filters.suite",
    "formats": "bench.formats",
    "joining": "bench.joining",
    "logs": "bench.logs.suite",
    "memory": "bench.memory",
    "takeover": "bench.takeover",
}
TRANSPORT_SUITES = ("breakdown", "channels", "fanout", "inprocess", "latency", "obvious", "throughput")
"""They have options of their own: `python -m bench latency --help`."""
COMMANDS = {
    "against": "bench.against.command",
    "leaks": "bench.leaks",
    "scale": "bench.scale.command",
    "types": "bench.types.suite",
}
"""And so have these, each with a `main` of its own."""


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 where a goal was missed, so that a script can tell."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in COMMANDS:
        return int(import_module(COMMANDS[arguments[0]]).main(arguments[1:]))
    if arguments and arguments[0] in TRANSPORT_SUITES:
        return int(import_module("bench.transport.command").main(arguments))
    epilog = (
        "python -m bench types: every type beside msgspec; leaks: what events of each leave in memory; scale:"
        " how costs grow; against REV: this tree and another commit. Each has its own --help."
    )
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, epilog=epilog)
    parser.add_argument("suite", choices=sorted((*SUITES, *TRANSPORT_SUITES)))
    parser.add_argument("--quick", action="store_true", help="fewer repeats: a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    rows = list(import_module(SUITES[options.suite]).measure(quick=options.quick))
    print(as_text(rows))
    for peer, reason in LEFT_OUT.items():
        print(f"\nThe peer {peer} was left out: {reason}")
    if options.json:
        options.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1) + "\n")
    return 0 if all(row.is_reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
