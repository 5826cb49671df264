"""The suites of this package on the command line: what `python -m bench latency` and the others do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from bench.transport import choice
from bench.transport.outcome import Options, Outcome
from bench.transport.peers import available
from bench.transport.plot import as_svg
from bench.transport.suites import breakdown, channels, fanout, inprocess, latency, obvious, throughput

SUITES: dict[str, Callable[[Options], Outcome]] = {
    "breakdown": breakdown.measure,
    "channels": channels.measure,
    "fanout": fanout.measure,
    "inprocess": inprocess.measure,
    "latency": latency.measure,
    "obvious": obvious.measure,
    "throughput": throughput.measure,
}


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 where a goal was missed, so that a script can tell."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a result")
    parser.add_argument("--peers", metavar="NAMES", help="transports, or transport/form, between commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the times of every round trip")
    given = parser.parse_args(arguments)
    peers = None if given.peers is None else [name for name in given.peers.split(",") if name]
    options = Options(quick=given.quick, peers=peers)
    try:
        choice.check(options)
    except ValueError as error:
        parser.error(str(error))
    outcome = SUITES[given.suite](options)
    _report(outcome, given.json, given.plot)
    return 0 if all(row.is_reached for row in outcome.rows) else 1


def _report(outcome: Outcome, json_path: Path | None, plot_path: Path | None) -> None:
    print(outcome.as_text())
    for module, reason in available()[1].items():
        print(f"\nThe peers of {module} were left out: {reason}")
    if json_path:
        json_path.write_text(json.dumps(outcome.as_dict(), indent=1) + "\n")
    if plot_path:
        plot_path.write_text(as_svg(outcome.charts))
