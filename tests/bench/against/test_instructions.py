"""Instructions are counted exactly, between marks that callgrind writes down."""

from __future__ import annotations

import pytest

from bench.against import checkouts, instructions
from bench.against.command import instructions_table
from bench.against.instructions import Count, Counted, count_of, marked_total, per_event

NEEDS_CALLGRIND = pytest.mark.skipif(
    instructions.unavailable() is not None, reason=str(instructions.unavailable())
)

DUMP = """# callgrind format
part: 2
thread: 1
desc: Trigger: Client Request: 3 0 once
events: Ir

totals: 1118879
"""


def test_a_dump_has_a_mark_and_a_total() -> None:
    """The last one, at the end of the program, has no mark."""
    assert marked_total(DUMP) == ("3 0 once", 1118879)
    assert marked_total(DUMP.replace("Client Request: 3 0 once", "Program termination")) is None


def test_what_is_not_an_events_cancels() -> None:
    """N events and 2N have the same start and the same end; other runs have marks of their own."""
    totals = {"1 0 once": 1500, "1 0 twice": 2500, "1 1 once": 1507, "1 1 twice": 2517, "11 0 once": 1}
    assert count_of(totals, "1", 100) == Count(10.05, 10.0, 10.1)


def test_counts_stand_side_by_side() -> None:
    """With their range, where repeats differ."""
    text = instructions_table("a", "b", {"x": Count(100.2, 99.9, 100.3)}, {"x": Count(110, 108, 120)})
    assert text.splitlines()[2] == "| x | 100 | 110 (108 to 120) | +10 |"


@NEEDS_CALLGRIND
@pytest.mark.slow
@pytest.mark.once
def test_a_submit_takes_as_many_instructions_each_time() -> None:
    """To a handler in process: some hundred, and the same within one in each of several repeats."""
    run = Counted("bench.against.workloads.counted:submit_record_in_process", 1000)
    count = per_event(checkouts.this_tree(), {"submit": run})["submit"]
    assert 100 < count.median < 1000
    assert count.high - count.low < 5
