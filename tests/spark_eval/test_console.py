"""Lines of text and the progress bar."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from echo_core.spark_eval.console import OutputError, Progress, demand_writable, say, span


def test_a_folder_for_results_is_made_and_tried(tmp_path: Path) -> None:
    """Before the work is done, and leaving nothing in it."""
    demand_writable(tmp_path / "new" / "folder")
    assert not list((tmp_path / "new" / "folder").iterdir())
    taken = tmp_path / "file"
    taken.touch()
    for folder in (taken, taken / "below"):
        with pytest.raises(OutputError, match="Expected a folder to write to"):
            demand_writable(folder)


class Terminal(io.StringIO):
    """A stream that is looked at by somebody."""

    def isatty(self) -> bool:
        return True


def ticking(step: float = 1.0) -> Callable[[], float]:
    """A clock that goes on by a step whenever it is read."""
    times = [0.0]

    def clock() -> float:
        times[0] += step
        return times[0]

    return clock


def test_say_writes_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """To standard output."""
    say("here")
    assert capsys.readouterr().out == "here\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.44, "0.4 s"), (12.4, "12 s"), (59.9, "1 min 0 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")],
)
def test_span_is_said_in_two_units_at_most(seconds: float, text: str) -> None:
    """As one would say it."""
    assert span(seconds) == text


def test_bar_fills_and_tells_the_time_that_is_left() -> None:
    """On a terminal it is drawn over itself; a shorter line leaves nothing of a longer one."""
    out = Terminal()
    with Progress(3, "cells", stream=out, clock=ticking()) as progress:
        progress.advance(note="a long note")
        progress.advance(2)
    _, begun, first, last = out.getvalue().split("\r")
    assert begun == "cells [" + "." * 30 + "] 0/3"
    assert first == "cells [" + "#" * 10 + "." * 20 + "] 1/3, 4.0 s left a long note"
    assert last.rstrip() == "cells [" + "#" * 30 + "] 3/3, 3.0 s"
    assert len(last) == len(first) + 1
    assert progress.done == 3


def test_a_file_gets_a_line_at_every_tenth() -> None:
    """A log of a thousand steps is not a thousand lines."""
    out = io.StringIO()
    with Progress(1000, "cells", stream=out, clock=ticking()) as progress:
        for _ in range(1000):
            progress.advance()
    lines = out.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == "cells 0/1000"
    assert lines[-1].startswith("cells 1000/1000, ")


def test_more_to_do_than_was_thought_moves_the_end() -> None:
    """Samples are repeated when they were noisy."""
    out = io.StringIO()
    with Progress(1, "cells", stream=out, clock=ticking()) as progress:
        progress.extend(1)
        progress.advance()
        progress.advance()
    assert [line.partition(",")[0] for line in out.getvalue().splitlines()] == [
        "cells 0/1",
        "cells 1/2",
        "cells 2/2",
    ]
