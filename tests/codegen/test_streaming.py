"""Conversion past the caches: at each level of the CPU what the interpreter makes of the records."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import pytest

from echo_core.codegen.batches.arrays import Stream
from echo_core.codegen.conversion import Conversion
from echo_core.codegen.emit.emitter import emit_streamed
from echo_core.codegen.machine import background, engine
from echo_core.codegen.plans import interpreter
from echo_core.formats.abi import NATIVE
from tests.codegen.machine_code import Level, levels
from tests.codegen.pairs import (
    FLOAT32,
    FLOAT64,
    I386,
    INT8,
    INT16,
    INT32,
    INT64,
    PPC,
    S390X,
    X86_64,
    Pair,
    format_of_types,
)

LINE = 64
VECTORS = [level for level in levels() if level.vector_bytes]
GROWN = {INT8: INT32, INT16: INT64, INT32: INT64}


def room(size: int) -> np.ndarray[Any, Any]:
    """Bytes at a cache line, with as much behind them."""
    made = np.full(size + 2 * LINE, 0xAA, np.uint8)
    return made[-made.ctypes.data % LINE :][: size + LINE]


def random_pair(dice: random.Random) -> Pair:
    """Numbers in another order, some of them larger, up to a multiple of 16 bytes."""
    theirs = [
        dice.choice((INT8, INT16, INT32, INT64, FLOAT32, FLOAT64)) for _ in range(dice.randrange(6, 20))
    ]
    ours = [dice.choice((n, GROWN.get(n, n))) for n in theirs]
    names = [f"m{i}" for i in range(len(theirs))]
    kept = dice.sample(names, len(names) - dice.randrange(3))
    receiver = {name: ours[names.index(name)] for name in kept}
    while format_of_types(NATIVE, **receiver).size_bytes % 16:
        del receiver[next(iter(receiver))]
    sender = format_of_types(dice.choice((X86_64, S390X, I386, PPC)), **dict(zip(names, theirs, strict=True)))
    return Pair(sender, format_of_types(NATIVE, **receiver))


@pytest.mark.parametrize("level", VECTORS, ids=lambda level: level.name)
def test_streamed_records_are_the_interpreters(level: Level) -> None:
    """To the byte, and nothing behind them."""
    dice, streamed = random.Random(level.name), 0
    for _ in range(60):
        pair = random_pair(dice)
        text = emit_streamed(pair.plan, level.machine)
        if text is None:
            continue
        streamed += 1
        loaded = engine.load(engine.compile_ir(text, level.target), ["stream_many"])
        size, count = pair.sender.size_bytes, dice.randrange(5)
        data = dice.randbytes(size * count)
        target = room(count * pair.receiver.size_bytes)
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        source = np.frombuffer(data, np.uint8)
        prototype(loaded.addresses["stream_many"])(source.ctypes.data, target.ctypes.data, count)
        records = [interpreter.convert(pair.plan, data[i : i + size]) for i in range(0, len(data), size)]
        assert target[:-LINE].tobytes() == b"".join(records)
        assert (target[-LINE:] == 0xAA).all()
    assert streamed > 10


PAIR = Pair(
    format_of_types(S390X, **{f"m{i}": INT64 for i in range(9)}),
    format_of_types(NATIVE, **{f"m{i}": INT64 for i in range(8)}),
)


def stream_of(pair: Pair, tier: Any) -> Stream:
    """The stream of a conversion."""
    return Stream(Conversion(pair.sender, pair.receiver), tier)


def test_code_is_asked_for_by_the_first_batch() -> None:
    """In the background or at once, or never, as the tier says."""
    data = bytes(range(72)) * 5
    expected = interpreter.convert(PAIR.plan, data[:72]) * 5
    for tier, wanted in (
        ("compiled", [True, True]),
        ("auto", [False, True]),
        ("interpreted", [False, False]),
    ):
        stream, target, done = stream_of(PAIR, tier), room(5 * 64), list[bool]()
        for _ in range(2):
            done.append(stream.into(data, target))
            assert background.drain(30)
        assert done == wanted
        assert (target[:-LINE].tobytes() == expected) is any(wanted)


def test_rest_of_a_record_is_left_to_the_conversion() -> None:
    """It has the words."""
    assert not stream_of(PAIR, "compiled").into(bytes(73), room(64))


def test_pair_that_cannot_be_streamed_is_not() -> None:
    """Nor asked about again."""
    pair = Pair(format_of_types(S390X, a=FLOAT32), format_of_types(NATIVE, a=FLOAT64))
    stream = stream_of(pair, "compiled")
    assert not stream.into(bytes(4), room(8))
    assert not stream.into(bytes(4), room(8))


def test_target_that_is_too_small_is_left_alone() -> None:
    """Who counted otherwise is not believed."""
    sender = format_of_types(S390X, a=INT64, b=FLOAT64)
    stream = Stream(Conversion(sender, format_of_types(NATIVE, a=INT64, b=FLOAT64)), "compiled")
    data, target = bytes(16 * 8), room(16 * 8)[: 16 * 8]
    assert stream.into(data, target)
    assert not stream.into(data + bytes(16), target)
