"""Offsets of streams: Spark compares them as text."""

from __future__ import annotations

import json

import pytest

from echo_core.spark_eval.logs.offsets import OffsetError, offset_of, place_of

LOG = "6f" * 16


def test_offset_is_the_same_text_whenever_it_is_made() -> None:
    """And the place again when it is read."""
    text = json.dumps(offset_of(LOG, 3, 4160))
    assert text == f'{{"log": "{LOG}", "offset": 4160, "segment": 3}}'
    assert place_of(json.loads(text), LOG) == (3, 4160)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"log": LOG, "segment": 1},
        {"log": LOG, "offset": 1, "segment": -1},
        {"log": LOG, "offset": 1, "segment": "1"},
        {"offset": 1, "segment": 1},
        {"a": 1, **offset_of(LOG, 1, 1)},
    ],
)
def test_offset_of_another_source_is_refused(given: dict[str, object]) -> None:
    """As where a checkpoint is used for another stream."""
    with pytest.raises(OffsetError, match="the checkpoint is of another source"):
        place_of(given, LOG)


def test_offset_of_another_log_is_refused() -> None:
    """As where the log was replaced: the same place is another there."""
    with pytest.raises(OffsetError, match="the log was replaced"):
        place_of(offset_of("00" * 16, 1, 4096), LOG)
