"""`python -m bench scale`: what stays flat as fields, sinks, links, channels, formats, queues and events
grow.

One command for all studies, each beside a peer where there is one. Goals are for marginal costs: never above
1.25 times the least of a study.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

from bench.available import LEFT_OUT
from bench.scale import growth
from bench.scale.growth import Study
from bench.scale.plot import as_svg

STUDIES = {
    "fields": "records:fields",
    "nesting": "records:nesting",
    "sinks": "inprocess:sinks",
    "queue": "inprocess:queued",
    "sink-processes": "fanout:sink_processes",
    "channels": "channels:channels",
    "idle-links": "idle:idle_links",
    "formats": "known:formats",
    "sizes": "sizes:sizes",
    "joining": "joined:joining",
}
"""By what `--only` calls them: a module of `rows` and its function, imported when it is asked for."""


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where a cost does not stay flat."""
    parser = argparse.ArgumentParser(
        prog="python -m bench scale",
        description=__doc__,
        epilog=growth.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=sorted(STUDIES), nargs="+", metavar="ROW", help=", ".join(STUDIES))
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes and few rounds: a look, not a result"
    )
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="write tables, figures and plots there")
    given = parser.parse_args(arguments)
    studies: list[Study] = []
    for name in given.only or STUDIES:
        study = study_of(name)(given.quick)
        print(f"{study.table().as_text()}\n", flush=True)
        studies.append(study)
    for peer, reason in LEFT_OUT.items():
        print(f"The peer {peer} was left out: {reason}")
    if given.into:
        write(studies, given.into)
    return 0 if all(row.is_reached for study in studies for row in study.rows()) else 1


def study_of(name: str) -> Callable[[bool], Study]:
    """The function that measures it, of whether to be quick."""
    module, function = STUDIES[name].split(":")
    measure: Callable[[bool], Study] = getattr(import_module(f"bench.scale.rows.{module}"), function)
    return measure


def write(studies: Iterable[Study], folder: Path) -> None:
    """A page with the tables, and beside it each study's figures and plot. Studies of an earlier run stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for study in studies:
        (folder / f"{study.name}.svg").write_text(as_svg(study))
        (folder / f"{study.name}.json").write_text(json.dumps(study.as_dict(), indent=1) + "\n")
        page = f"{study.table().as_text()}\n\n![{study.what_grows}]({study.name}.svg)\n"
        (folder / f"{study.name}.md").write_text(page)
