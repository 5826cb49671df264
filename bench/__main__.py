"""`python -m bench SUITE`: measures one suite, checks what it made, and prints goals beside figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench import codec, columns, compiling, convert, formats, memory
from bench.report import Row, as_text

SUITES: dict[str, Callable[..., Iterable[Row]]] = {
    "codec": codec.measure,
    "columns": columns.measure,
    "compile": compiling.measure,
    "convert": convert.measure,
    "formats": formats.measure,
    "memory": memory.measure,
}


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 where a goal was missed, so that a script can tell."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--quick", action="store_true", help="fewer repeats: a look, not a result")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    rows = list(SUITES[options.suite](quick=options.quick))
    print(as_text(rows))
    if options.json:
        options.json.write_text(json.dumps([row.as_dict() for row in rows], indent=1) + "\n")
    return 0 if all(row.is_reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
