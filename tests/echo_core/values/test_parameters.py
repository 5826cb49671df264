"""Parameters of sources: their values, bounds and merges, and how they travel."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core.errors import ChannelError, WireError
from echo_core.streams.controls import to_message, type_of, value_of, word_of
from echo_core.transports.protocol import messages
from echo_core.values.parameters import MAX_CHOICES, ParameterType, Value

RESOLUTION = ParameterType("resolution", 64, 1, 1024)
GAIN = ParameterType("gain", 1.0, 0.0, math.inf)
LIVE = ParameterType("live", default=False, low=False, high=True)
MODE = ParameterType("mode", "slow", "off", "fast", ("off", "slow", "fast"), is_least=True)
ALL = [RESOLUTION, GAIN, LIVE, MODE]


@pytest.mark.parametrize("type_", ALL, ids=lambda type_: type_.name)
def test_a_type_comes_back(type_: ParameterType) -> None:
    """Of every type, with its bounds and choices."""
    type_.demand_possible()
    assert type_of(to_message(type_)) == type_


FITTING: list[tuple[ParameterType, object, Value]] = [
    (RESOLUTION, 1, 1),
    (RESOLUTION, 1024, 1024),
    (RESOLUTION, np.int32(7), 7),
    (GAIN, 3, 3.0),
    (GAIN, np.float64(0.5), 0.5),
    (GAIN, math.inf, math.inf),
    (LIVE, True, True),
    (LIVE, np.False_, False),
    (MODE, "off", "off"),
]


@pytest.mark.parametrize(("type_", "given_value", "value"), FITTING)
def test_a_value_has_the_parameters_own_type(type_: ParameterType, given_value: object, value: Value) -> None:
    """Numpy's scalars are plain ones, and an int may be a float; bytes bring it back."""
    fitting = type_.fitting(given_value)
    assert (fitting, type(fitting)) == (value, type_.type)
    assert value_of(type_, word_of(type_, fitting)) == fitting


UNFIT: list[tuple[ParameterType, object, str]] = [
    (RESOLUTION, 0, "Expected `resolution` from 1 to 1024, got 0"),
    (RESOLUTION, 1025, "from 1 to 1024, got 1025"),
    (RESOLUTION, True, "Expected `int` as `resolution`, got `bool`"),
    (RESOLUTION, 2.0, "Expected `int` as `resolution`, got `float`"),
    (RESOLUTION, None, "got `NoneType`"),
    (GAIN, -0.5, "Expected `gain` from 0.0 to inf, got -0.5"),
    (GAIN, math.nan, "got nan"),
    (GAIN, 2**60, "Expected `float` as `gain`, got `int`"),
    (LIVE, 1, "Expected `bool` as `live`, got `int`"),
    (MODE, "faster", "Expected `mode` of off, slow, fast, got 'faster'"),
    (MODE, 1, "Expected `str` as `mode`, got `int`"),
]


@pytest.mark.parametrize(("type_", "given_value", "said"), UNFIT)
def test_a_value_that_does_not_fit_is_refused_with_what_would(
    type_: ParameterType, given_value: object, said: str
) -> None:
    """Its bounds, its choices or its type."""
    with pytest.raises(ChannelError) as caught:
        type_.fitting(given_value)
    assert said in str(caught.value)


IMPOSSIBLE: dict[str, ParameterType] = {
    "a Python name": replace(RESOLUTION, name="re solution"),
    "of at most 255 bytes": replace(RESOLUTION, name="r" * 256),
    "the default of `resolution` from 1 to 1024, got 0": replace(RESOLUTION, default=0),
    "of 64 bits": replace(RESOLUTION, high=2**63),
    "bounds of `gain`, got NaN": replace(GAIN, low=math.nan),
    "no choices of `int`": replace(RESOLUTION, choices=("a",)),
    "different texts as choices": replace(MODE, choices=("off", "fast", "slow", "fast")),
    f"1 to {MAX_CHOICES} different": replace(MODE, choices=()),
    "that can be printed": replace(MODE, choices=("off", "slow", "fast", "fa\nst")),
    "the default of `mode` of off": replace(MODE, default="gone"),
}


@pytest.mark.parametrize("said", IMPOSSIBLE)
def test_a_type_that_none_can_have_is_refused_here_and_of_a_peer(said: str) -> None:
    """The same rule, as the source's own fault and as a peer's."""
    type_ = IMPOSSIBLE[said]
    with pytest.raises(ChannelError, match=said):
        type_.demand_possible()
    if "64 bits" in said or "default of `mode`" in said:
        return  # there are no bytes for these
    if type_.choices or type_.type is not str:
        with pytest.raises(WireError, match=said):
            type_of(to_message(type_))


HOSTILE: dict[str, dict[str, Any]] = {
    "no type": {"type": 3},
    "a bool of 2": {"type": 1, "high": (2).to_bytes(8, "little")},
    "a choice that is none": {"type": 5, "choices": ("a",), "high": (1).to_bytes(8, "little")},
    "a choice before the first": {"type": 5, "choices": ("a",), "low": b"\xff" * 8},
    "NaN": {"type": 4, "low": np.float64("nan").tobytes()},
    "a default above the greatest": {"default": (9).to_bytes(8, "little")},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_peer_says_of_a_parameter_is_looked_at(what: str) -> None:
    """Whatever stands in its words."""
    said = messages.Parameter(64, 2, False, bytes(8), bytes(8), bytes(8), "x", ())
    assert type_of(said) == ParameterType("x", 0, 0, 0)
    with pytest.raises(WireError):
        type_of(replace(said, **HOSTILE[what]))


@given(st.sampled_from([1, 2, 4, 5]), st.binary(min_size=24, max_size=24), st.integers(0, 3))
@settings(max_examples=300)
def test_any_words_are_a_parameter_or_a_wire_error(type_: int, data: bytes, choices: int) -> None:
    """And what is a parameter is written as it was read."""
    words = data[:8], data[8:16], data[16:]
    said = messages.Parameter(0, type_, False, *words, "x", tuple("abc"[:choices]))
    try:
        found = type_of(said)
    except WireError:
        return
    assert to_message(found) == said


def test_what_many_ask_is_merged_the_same_in_any_order() -> None:
    """The greatest or the least; of choices the place counts, and the default where nobody asks."""
    chance = random.Random(3)
    values = [3, 700, 12]
    for _ in range(5):
        chance.shuffle(values)
        assert RESOLUTION.merged(values) == 700
        assert replace(RESOLUTION, is_least=True).merged(values) == 3
    assert MODE.merged(["fast", "slow"]) == "slow"
    assert replace(MODE, is_least=False).merged(["off", "fast", "slow"]) == "fast"
    assert [type_.merged([]) for type_ in ALL] == [64, 1.0, False, "slow"]
