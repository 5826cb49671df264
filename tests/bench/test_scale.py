"""What grows is measured by steps, held against its goal, shown in a table and drawn."""

from __future__ import annotations

import functools
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.report import Row
from bench.scale.command import STUDIES, study_of, write
from bench.scale.growth import Growth, Judged, Study, in_turn, marginal, medians, shortened
from bench.scale.plot import as_svg

SIZES = (1, 10, 100)
AMOUNTS = {size: size for size in SIZES}


def verdict(growth: Growth) -> Row:
    """In the one row that a growth has."""
    return growth.row()


def test_a_fixed_cost_is_in_no_step() -> None:
    """What one unit more costs is the slope between two sizes."""
    rounds = {size: [5.0 + 2.0 * size] for size in SIZES}
    assert marginal(rounds, AMOUNTS) == {10: pytest.approx(2), 100: pytest.approx(2)}


def test_a_slow_round_changes_no_step() -> None:
    """A step is the median of what each round says of it, and sizes of one round were slow together."""
    rounds = {size: [2.0 * size, 2.0 * size + 1000, 3.0 * size, 2.0 * size, 2.0 * size] for size in SIZES}
    assert marginal(rounds, AMOUNTS) == {10: pytest.approx(2), 100: pytest.approx(2)}


def test_what_grows_by_its_square_is_not_flat() -> None:
    """The last step is dearer than the first."""
    rounds = {size: [float(size**2)] for size in SIZES}
    row = verdict(Growth("quadratic", "ns", marginal(rounds, AMOUNTS)))
    assert row.measured == pytest.approx(10)
    assert not row.is_reached


@pytest.mark.parametrize(("most", "is_reached"), [(1.25, True), (1.26, False)])
def test_flat_is_a_quarter_above_the_least(most: float, is_reached: bool) -> None:
    """Whichever size has the least."""
    assert verdict(Growth("cost", "ns", {1: 1.1, 10: most, 100: 1.0})).is_reached is is_reached


def test_costs_next_to_nothing_are_flat() -> None:
    """Below what can be told apart, or matters, also where noise has taken one below nothing."""
    assert verdict(Growth("cost", "ns", {1: -0.01, 10: 0.02, 100: 0.11}, resolution=0.1)).is_reached


@pytest.mark.parametrize(
    ("judged", "is_reached"), [(Judged.MOST, False), (Judged.LAST, True), (Judged.FLAT, True)]
)
def test_a_goal_may_be_for_another_figure(judged: Judged, is_reached: bool) -> None:
    """The greatest cost of all, that at the end, or how they spread."""
    assert verdict(Growth("cost", "us", {1: 9.0, 10: 8.0}, judged=judged, goal=8.5)).is_reached is is_reached


def test_sizes_take_turns_within_a_round() -> None:
    """So that a slow spell of the machine meets all of them."""
    asked: list[int] = []

    def ask(size: int) -> float:
        asked.append(size)
        return float(size)

    rounds = in_turn({size: functools.partial(ask, size) for size in (1, 2)}, 3)
    assert asked == [1, 2] * 3
    assert medians(rounds, 10) == {1: 10, 2: 20}


@pytest.mark.parametrize(
    ("size", "text"),
    [(1, "1"), (200, "200"), (10_000, "10k"), (1_000_000, "1M"), (1024, "1Ki"), (1 << 26, "64Mi")],
)
def test_sizes_are_written_as_people_say_them(size: int, text: str) -> None:
    """In the table and below a plot."""
    assert shortened(size) == text


def an_example() -> Study:
    """One flat cost beside a peer, and one that is not."""
    flat = Growth("calls & more", "ns", {1: 1.0, 10: 1.1}, {"peer": {1: 2.0, 10: 3.0}})
    return Study(
        "example", "things", [flat, Growth("threads", "", {1: 0.0, 10: 9.0}, judged=Judged.LAST, goal=8)]
    )


def test_a_table_has_a_line_for_each_cost_and_each_peer() -> None:
    """With the verdict on ours."""
    lines = an_example().table().lines
    assert [line[0] for line in lines] == ["calls & more", "calls & more: peer", "threads"]
    assert [line[-1] for line in lines] == ["reached", "", "**missed**"]


def test_a_plot_is_a_picture_with_every_cost() -> None:
    """As XML that parses; nothing that is 0 or below is on a logarithmic axis."""
    drawn = ET.fromstring(as_svg(an_example()))
    assert len([it for it in drawn.iter() if it.tag.endswith("polyline")]) == 3
    assert "calls & more" in "".join(drawn.itertext())


def test_studies_are_written_beside_each_other(tmp_path: Path) -> None:
    """A page, figures and a plot of each; the figures say what was reached."""
    write([an_example()], tmp_path)
    figures = json.loads((tmp_path / "example.json").read_text())
    assert [it["is_reached"] for it in figures["growths"]] == [True, False]
    assert "example.svg" in (tmp_path / "example.md").read_text()
    assert (tmp_path / "example.svg").exists()


@pytest.mark.parametrize("name", STUDIES)
def test_every_row_can_be_asked_for(name: str) -> None:
    """Its function is there."""
    assert callable(study_of(name))


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_runs_and_writes_its_figures(name: str, tmp_path: Path) -> None:
    """A quick run, whose outputs are checked as those of a long one are; figures are noise here."""
    main(["scale", "--quick", "--only", name, "--into", str(tmp_path)])
    figures = json.loads((tmp_path / f"{name}.json").read_text())
    assert all(len(growth["costs"]) > 1 for growth in figures["growths"])
    ET.parse(tmp_path / f"{name}.svg")
