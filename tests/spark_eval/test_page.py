"""The page of a report in a real browser, narrow and wide, by day and by night."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_core.spark_eval.report import folder as report
from tests.spark_eval import browser, synthetic

pytest.importorskip("matplotlib", reason="needs the extra `spark`")
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(browser.CHROMIUM is None, reason="no `chromium` on the PATH"),
    pytest.mark.xdist_group("chromium"),
]

widths = pytest.mark.parametrize("width", [400, 1400])
schemes = pytest.mark.parametrize("scheme", ["light", "dark"])

OVERFLOW = """(() => {
  const beyond = [];
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest(".box") && !element.matches(".box")) continue;
    const {left, right, width} = element.getBoundingClientRect();
    if (width && (left < -0.5 || right > innerWidth + 0.5))
      beyond.push(element.tagName + " " + element.textContent.slice(0, 40));
  }
  return {page: document.documentElement.scrollWidth, window: innerWidth, beyond};
})()"""

OUTSIDE_FIGURES = """(() => {
  const outside = [];
  for (const figure of document.querySelectorAll("figure svg")) {
    const box = figure.getBoundingClientRect();
    for (const text of figure.querySelectorAll("text")) {
      const {left, right, top, bottom} = text.getBoundingClientRect();
      if (left < box.left - 1 || right > box.right + 1 || top < box.top - 1 || bottom > box.bottom + 1)
        outside.push(text.textContent);
    }
  }
  return outside;
})()"""

# Every text against the nearest ancestor that is painted; text in plots lies on the page itself, or on
# the shade of the losing side.
FAINT = """(() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const background = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = channels(getComputedStyle(e).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  let seen = 0;
  for (const details of document.querySelectorAll("details")) details.open = true;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("title, desc")) continue;
    const style = getComputedStyle(element);
    const colour = channels(element.ownerSVGElement ? style.fill : style.color);
    const pair = [luminance(colour), luminance(background(element))].sort((a, b) => a - b);
    seen += 1;
    if ((pair[1] + 0.05) / (pair[0] + 0.05) < 4.5 || Number(style.opacity) < 1)
      faint.push(walker.currentNode.data.trim());
  }
  return {seen, faint};
})()"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(synthetic.write(tmp_path_factory.mktemp("comparison")))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    with browser.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def _pixels(png: bytes) -> Any:
    image: Any = importlib.import_module("matplotlib.image")
    return image.imread(io.BytesIO(png))[:, :, :3]


@widths
@schemes
def test_page_is_painted_in_its_scheme(page: browser.Page, written: Path, width: int, scheme: str) -> None:
    """Not blank: most is surface, bright or dark as asked for, and some is ink of several colours."""
    page.open(written, width=width, scheme=scheme)
    pixels = _pixels(page.screenshot())
    assert pixels.shape[1] == width
    brightness = pixels.mean(axis=2)
    assert (np.median(brightness) > 0.9) == (scheme == "light")
    assert (np.median(brightness) < 0.15) == (scheme == "dark")
    assert 0.01 < (abs(brightness - np.median(brightness)) > 0.3).mean() < 0.4
    assert len(np.unique((pixels.reshape(-1, 3) * 15).astype(int), axis=0)) > 8


@widths
def test_nothing_overflows(page: browser.Page, written: Path, width: int) -> None:
    """The page has no sideways scroll; what is too wide scrolls in a box of its own."""
    page.open(written, width=width)
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    found = page.evaluate(OVERFLOW)
    assert found == {"page": width, "window": width, "beyond": []}
    assert page.evaluate("[...document.querySelectorAll('.box')].some(b => b.scrollWidth > b.clientWidth)")


@widths
def test_text_of_plots_stays_inside_them(page: browser.Page, written: Path, width: int) -> None:
    """Labels are laid out with another font's widths than the browser's."""
    page.open(written, width=width)
    assert page.evaluate(OUTSIDE_FIGURES) == []
    assert page.evaluate("document.querySelectorAll('figure svg text').length") > 200


@widths
@schemes
def test_nothing_is_complained_of_or_fetched(
    page: browser.Page, written: Path, width: int, scheme: str
) -> None:
    """One file, no error on the console, no second request."""
    page.open(written, width=width, scheme=scheme)
    assert page.evaluate("document.scripts.length") == 0
    assert page.complaints() == []
    assert page.requests() == [written.as_uri()]


@schemes
def test_all_text_can_be_read(page: browser.Page, written: Path, scheme: str) -> None:
    """A contrast of 4.5 with what is behind it, in the folded tables too."""
    page.open(written, width=1400, scheme=scheme)
    found = page.evaluate(FAINT)
    assert found["faint"] == []
    assert found["seen"] > 5000


def test_complaints_of_a_page_are_seen(page: browser.Page, tmp_path: Path) -> None:
    """The check of the others: a script that fails, too wide a line and faint text are found."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<body style='color:#999;background:#fff'><p style='width:3000px'>wide</p>"
        "<img src='missing.png'><script>throw new Error('no')</script>",
        "utf-8",
    )
    page.open(bad, width=400)
    assert len(page.complaints()) >= 2
    assert len(page.requests()) == 2
    assert page.evaluate(OVERFLOW)["beyond"]
    assert "wide" in page.evaluate(FAINT)["faint"]


def test_page_prints_with_its_folded_tables(page: browser.Page, written: Path) -> None:
    """Paper has nothing to click on, and is bright."""
    page.open(written, width=1000, scheme="dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    heights = page.evaluate(
        "[...document.querySelectorAll('details .box')].map(b => b.getBoundingClientRect().height)"
    )
    assert min(heights) > 5000
