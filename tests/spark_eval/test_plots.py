"""The figures: stable, valid, and readable by everybody in either scheme."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.spark_eval.report import canvas, palette, plots, svg
from echo_core.spark_eval.report.summaries import Range

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra `spark`")
pytestmark = pytest.mark.once

CODECS = (
    "echo dataclass", "echo event", "xml etree", "xml expat", "msgpack map", "pickle", "msgspec",
    "protobuf", "arrow ipc", "a stranger",
)  # fmt: skip


def _lines(name: str) -> str:
    lines = [plots.Line(codec, [1, 10, 1000], [900.0 + n, 80, 7 + n]) for n, codec in enumerate(CODECS)]
    return plots.cost_lines(lines, name=name, title="Title <&>", description="Description")


def _bars(name: str) -> str:
    rows = [plots.Bar("extra", codec, n + 1.5, "1.5", codec) for n, codec in enumerate(CODECS)]
    return plots.bars(rows, name=name, title="Title <&>", description="Description", axis="bytes", mark=1)


def _dots(name: str) -> str:
    rows = [plots.Bar(codec, codec, 10.0**n, "x") for n, codec in enumerate(CODECS)]
    return plots.cost_dots(rows, name=name, title="Title <&>", description="Description")


def _ratios(name: str) -> str:
    by_shape = {"single": Range(0.5, 0.4, 0.6), "odd": Range(30, 20, 40)}
    rows = [plots.RatioRow(codec, by_shape) for codec in CODECS[2:]]
    return plots.ratio_ranges(
        rows, ours="echo dataclass", name=name, title="Title <&>", description="Description"
    )


def _pairs(name: str) -> str:
    rows = [plots.Pair("echo columns", None, 5.0), plots.Pair("arrow ipc", 50.0, 4.0)]
    return plots.objects_and_columns(rows, name=name, title="Title <&>", description="Description")


FIGURES: tuple[Callable[[str], str], ...] = (_lines, _bars, _dots, _ratios, _pairs)
figures = pytest.mark.parametrize("figure", FIGURES)


@figures
def test_equal_data_make_equal_bytes(figure: Callable[[str], str]) -> None:
    """No date, and no number that is drawn at random."""
    assert figure("one") == figure("one")


@figures
def test_figure_is_xml_with_a_title_and_without_script_or_style(figure: Callable[[str], str]) -> None:
    """Inside a page its rules and events would be those of the page."""
    root = ElementTree.fromstring(figure("one"))
    tags = {element.tag.removeprefix(f"{{{svg.SVG}}}") for element in root.iter()}
    assert not tags & {"script", "style", "metadata", "image", "foreignObject"}
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)
    assert root.attrib["role"] == "img"
    assert [element.text for element in root[:2]] == ["Title <&>", "Description"]
    assert root.attrib["aria-labelledby"] == "one-title one-desc"


@figures
def test_colours_are_all_of_the_palette_and_left_to_the_page(figure: Callable[[str], str]) -> None:
    """Whatever has a colour has the class by which the dark scheme changes it."""
    for element in ElementTree.fromstring(figure("one")).iter():
        for name in ("fill", "stroke"):
            colour = element.get(name)
            if colour not in (None, "none"):
                assert f"{name}-{palette.ROLE_BY_LIGHT[colour]}" in element.attrib["class"].split()
        assert "style" not in element.attrib


@figures
def test_ids_of_two_figures_never_meet(figure: Callable[[str], str]) -> None:
    """Two on one page would otherwise clip each other; every reference leads into the figure itself."""
    first, second = ({*re.findall(r'\bid="([^"]+)"', figure(name))} for name in ("one", "two"))
    assert first
    assert not first & second
    assert {*re.findall(r'(?:url\(|href=")#([^)"]+)', figure("one"))} <= first


@figures
def test_nothing_of_matplotlib_is_configured_for_others(figure: Callable[[str], str]) -> None:
    """A user's own plots in the same process look as before."""
    before = dict(matplotlib.rcParams)
    figure("one")
    assert dict(matplotlib.rcParams) == before


def test_file_of_its_own_has_both_schemes_and_a_surface() -> None:
    """Shown as an image it cannot take them from a page."""
    root = ElementTree.fromstring(svg.standalone(_lines("one")).encode())
    style = root.find(f"{{{svg.SVG}}}style")
    assert style is not None
    assert "prefers-color-scheme:dark" in (style.text or "")
    assert root[1].get("class") == "fill-surface"


def test_colour_without_a_role_is_refused() -> None:
    """It would be unreadable in one of the schemes."""
    source = f'<svg xmlns="{svg.SVG}" viewBox="0 0 1 1"><path style="fill: #123456"/></svg>'
    with pytest.raises(ValueError, match=r"Expected a colour of the palette, got `#123456`"):
        svg.clean(source, name="one", title="", description="")


def _linear(colour: str) -> list[float]:
    shares = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(first: str, second: str) -> float:
    dark, bright = sorted((_luminance(first), _luminance(second)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("role", ["ink", "muted", *palette.FAMILIES])
def test_text_can_be_read_in_every_colour(role: str, scheme: str) -> None:
    """4.5 is what WCAG asks for; shaded rows are a background as well."""
    colour = getattr(palette.COLOURS[role], scheme)
    assert _contrast(colour, getattr(palette.COLOURS["surface"], scheme)) >= 4.5
    assert _contrast(colour, getattr(palette.COLOURS["shade"], scheme)) >= 4.5


# Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB
DEFICIENCIES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)
    ),
}  # fmt: skip


def _seen(colour: str, deficiency: str) -> list[float]:
    linear = _linear(colour)
    return [sum(a * b for a, b in zip(row, linear, strict=True)) for row in DEFICIENCIES[deficiency]]


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ours_stays_apart_for_the_colour_blind(scheme: str, deficiency: str) -> None:
    """Rivals are told apart by their names at the lines; ours is by its colour too."""
    ours = _seen(getattr(palette.COLOURS["echo"], scheme), deficiency)
    for role in set(palette.FAMILIES) - {"echo"}:
        other = _seen(getattr(palette.COLOURS[role], scheme), deficiency)
        assert sum((a - b) ** 2 for a, b in zip(ours, other, strict=True)) ** 0.5 > 0.1, role


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_labels_are_moved_apart_within_bounds(wanted: list[float]) -> None:
    """Twenty of them fit; their order stays."""
    placed = canvas.spread_apart(wanted, 0.05, 0, 1)
    inside = sorted(placed)
    assert all(b - a > 0.0499 for a, b in itertools.pairwise(inside))
    assert inside[0] > -1e-9
    assert inside[-1] < 1 + 1e-9
    for (a, at), (b, bt) in itertools.combinations(zip(wanted, placed, strict=True), 2):
        assert a == b or (a < b) == (at < bt)
