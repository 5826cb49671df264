"""What derived channels cost those who have none."""

from __future__ import annotations

import pytest

from bench.against import checkouts, instructions
from bench.against.instructions import Counted, per_event

RUNS = "tests.echo_core.handles.derived_runs"


@pytest.mark.skipif(instructions.unavailable() is not None, reason=str(instructions.unavailable()))
@pytest.mark.slow
@pytest.mark.once
def test_a_channel_without_derivations_pays_nothing_for_those_it_had() -> None:
    """A submit and its hand-over take the same instructions as where nothing was ever derived."""
    runs = {name: Counted(f"{RUNS}:{name}", 2000) for name in ("never_derived", "derived_once")}
    counts = per_event(checkouts.this_tree(), runs)
    never, once = counts["never_derived"], counts["derived_once"]
    assert abs(once.median - never.median) < 1, counts
