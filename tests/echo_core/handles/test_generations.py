"""Three generations of one type on a channel, each in its own process, as docs/evolution.md has them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.echo_core.processes import Actor

PAGE = (Path(__file__).parents[3] / "docs" / "evolution.md").read_text(encoding="utf-8")
GENERATIONS = (1, 2, 3)

# What a component of any generation does: `Event` is its class, `values` what it sends of it.
COMPONENT = """
generation, values = int(sys.argv[1]), eval(sys.argv[2])
if generation == 1:
    channel = echo.create_channel("plant", Event)
else:
    channel = echo.open_channel(hear(), timeout_s=LIMIT_S)
sink = channel.sink(Event)
say(channel.id if generation == 1 else "ready")
source = None
for line in sys.stdin:
    match line.split():
        case ["send", sinks]:
            source = source or channel.source(Event)
            source.wait_matched(int(sinks), LIMIT_S)
            source.submit(Event(*values))
            source.flush(LIMIT_S)
            say("sent")
        case ["take", count]:
            say(sorted(sink.get(LIMIT_S).machine for _ in range(int(count))))
        case ["refusals", count]:
            known = threading.Semaphore(0)
            with channel.watch(lambda told: isinstance(told, echo.SourceOpened) and known.release()):
                for _ in range(int(count)):
                    assert known.acquire(timeout=LIMIT_S)
            say("; ".join(entry.reason for report in sink.refusals for entry in report.refused))
        case ["note"]:
            say(repr(sink.get(LIMIT_S)))
"""
VALUES = {1: "(1, State.RUNNING, 20.5)", 2: "(2, State.PAUSED, 21.5)", 3: "(3, State.PAUSED, 22.5, 'hot')"}


def blocks(until: int) -> str:
    """The page's classes up to a generation: its enumeration may be the one before's."""
    found = [
        re.search(rf"<!-- generation: {n} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
        for n in range(1, until + 1)
    ]
    return "\n".join(block[1] for block in found if block)


def component(generation: int) -> Actor:
    name = re.findall(r"class (\w+):", blocks(generation))[-1]
    script = f"{blocks(generation)}\nEvent = {name}\n{COMPONENT}"
    return Actor(script, str(generation), VALUES[generation])


@pytest.fixture
def generations() -> Iterator[dict[int, Actor]]:
    """The first has created the channel; receivers of the others have come, and no sender yet."""
    with contextlib.ExitStack() as stack:
        made = {n: stack.enter_context(component(n)) for n in GENERATIONS}
        channel_id = made[1].hear()
        for n in (2, 3):
            made[n].tell(channel_id)
            assert made[n].hear() == "ready"
        yield made


def matrix() -> dict[int, list[int]]:
    """Who takes the events of each generation, as the page says."""
    rows = re.findall(r"^\| (\d) \| (yes|no) \| (yes|no) \| (yes|no) \|$", PAGE, re.MULTILINE)
    return {int(row[0]): [n for n in GENERATIONS if row[n] == "yes"] for row in rows}


def ask(actor: Actor, *words: object) -> str:
    actor.tell(" ".join(map(str, words)))
    return actor.hear()


def test_three_generations_live_on_one_channel(generations: dict[int, Actor]) -> None:
    """Receivers were upgraded first; each gets the events that the page says, and no other."""
    takers = matrix()
    assert set(takers) == set(GENERATIONS)
    for sender in GENERATIONS:
        assert ask(generations[sender], "send", len(takers[sender])) == "sent"
    for receiver in GENERATIONS:
        expected = [sender for sender in GENERATIONS if receiver in takers[sender]]
        assert ask(generations[receiver], "take", len(expected)) == str(expected)


def test_receiver_that_was_left_behind_is_told_which_member_it_lacks(generations: dict[int, Actor]) -> None:
    """And goes on taking what it knows."""
    for sender, sinks in ((2, 2), (3, 2), (1, 3)):
        assert ask(generations[sender], "send", sinks) == "sent"
    reasons = ask(generations[1], "refusals", 3)
    assert "`enum State` has no `PAUSED`" in reasons
    assert "`int32` does not hold every `int64`" in reasons
    assert ask(generations[1], "take", 1) == "[1]"


def test_newer_generations_go_on_when_the_creator_is_killed(generations: dict[int, Actor]) -> None:
    """The third reads what the second writes, in its own names."""
    generations[1].kill()
    assert ask(generations[2], "send", 2) == "sent"
    assert ask(generations[3], "note").startswith("MachineStatus(machine=2, state=<State.PAUSED: 3>")
    assert ask(generations[3], "send", 2) == "sent"
    assert ask(generations[2], "take", 2) == "[2, 3]"
