"""What a bug report says of the machine."""

from __future__ import annotations

import re

import echo_core as echo


def test_the_clock_of_links_is_named_with_its_rate() -> None:
    report = echo.diagnostics()
    found = re.fullmatch(r"the (processor's counter|system's clock), ([\d,]+) ticks a second", report.clock)
    assert found
    assert int(found[2].replace(",", "")) >= 1_000_000
    assert f"clock       {report.clock}" in str(report)
