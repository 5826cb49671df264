"""What would bring compiled code to read or write where it must not."""

from __future__ import annotations

import dataclasses
import gc
import os
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen import cpython
from echo_core.codegen.conversion import Conversion
from echo_core.codegen.events.class_code import code_of
from echo_core.codegen.machine import cache, engine
from tests.forks import forks

needs_code = pytest.mark.skipif(bool(cpython.problem()), reason=cpython.problem() or "compiled")


@dataclasses.dataclass
class Pair:
    """Two columns, one of which has rows of its own."""

    x: float
    spot: echo.Array[float, 3]


def pairs(count: int) -> bytes:
    """So many records."""
    return echo.codec(Pair).encode_many([Pair(float(i), np.arange(3.0) + i) for i in range(count)])


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize(
    "shape", [(100, 0), (100, 2), (100,), (100, 3, 1)], ids=lambda shape: "x".join(map(str, shape))
)
def test_a_column_of_another_shape_is_not_filled(shape: tuple[int, ...], tier: Any) -> None:
    """Its memory would be smaller than its length says."""
    split = echo.column_decoder(Pair, tier=tier)
    with pytest.raises(echo.FormatError, match="at `spot`"):
        split.into(pairs(100), {"x": np.zeros(100), "spot": np.zeros(shape)})


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_columns_of_rows_are_filled(tier: Any) -> None:
    """A static array is a column of rows, also one that is there already."""
    columns = {"x": np.zeros(5), "spot": np.zeros((5, 3))}
    assert echo.column_decoder(Pair, tier=tier).into(pairs(5), columns) == 5
    assert columns["spot"][4].tolist() == [4.0, 5.0, 6.0]


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_a_column_within_the_records_is_not_filled(tier: Any) -> None:
    """It would be read after it was written."""
    room = np.frombuffer(bytearray(pairs(8)), np.float64)
    with pytest.raises(echo.FormatError, match="overlaps"):
        echo.column_decoder(Pair, tier=tier).into(room, {"x": room[:8], "spot": np.zeros((8, 3))})


class Changing(dict[str, Any]):
    """Shows one array to who checks, and another to who fills."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().__getitem__(key)

    def __getitem__(self, key: str) -> Any:
        return np.zeros(0)


def test_what_is_checked_is_what_is_filled() -> None:
    """Each column is asked for once."""
    columns = Changing(x=np.zeros(5), spot=np.zeros((5, 3)))
    echo.column_decoder(Pair, tier="compiled").into(pairs(5), columns)
    assert columns.get("x").tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@dataclasses.dataclass(slots=True)
class Inner:
    """Needs Python for its array."""

    spot: echo.Array[float, 2]
    n: int
    s: echo.Chars[8]


@dataclasses.dataclass(slots=True)
class Outer:
    """Whose nested record may be taken away while it is written."""

    inner: Inner
    k: int


@needs_code
def test_a_nested_event_that_vanishes_is_not_read_on() -> None:
    """Python code that runs midway may do anything to the event."""

    class Evil(list[float]):
        def __iter__(self) -> Any:
            event.inner = Inner(np.zeros(2), 1, "")
            gc.collect()
            return iter([1.0, 2.0])

    evil: Any = Evil([1.0, 2.0])
    event = Outer(Inner(evil, 10**15, "abc"), 3)
    data = echo.codec(Outer, tier="compiled").encode(event)
    assert struct.unpack("=ddq8sq", data) == (1.0, 2.0, 10**15, b"abc".ljust(8, b"\0"), 3)


@needs_code
def test_two_names_for_one_slot_get_no_code() -> None:
    """A value written twice would be lost and never freed."""

    @dataclasses.dataclass(slots=True)
    class Twice:
        x: int
        y: int

    setattr(Twice, "y", Twice.__dict__["x"])  # noqa: B010 - mypy would see it
    with pytest.raises(echo.CompileError):
        code_of(Twice)
    event = Twice(1, 2)
    assert echo.codec(Twice).encode(event) == echo.encoder(Twice, tier="interpreted")(event)


@needs_code
def test_a_slot_of_a_stranger_gets_no_code() -> None:
    """A descriptor of another class says nothing of this one's instances."""

    @dataclasses.dataclass(slots=True)
    class Other:
        q: int

    @dataclasses.dataclass(slots=True)
    class Mine:
        x: int

    setattr(Mine, "x", Other.__dict__["q"])  # noqa: B010 - mypy would see it
    with pytest.raises(echo.CompileError):
        code_of(Mine)


@pytest.mark.parametrize("damage", [b"", b"no object code", b"\x7fELF" + bytes(60)])
def test_cached_code_that_does_not_load_is_made_anew(damage: bytes, tmp_path: Path) -> None:
    """And takes the place of what was there, although that had the right digest."""
    kept = cache.default_cache()
    folder = tmp_path / "cache"
    cache.set_cache(cache.Cache(folder))
    try:
        pair = echo.format_of(Pair, abi="s390x"), echo.format_of(Pair)
        Conversion(*pair).compile()
        (entry,) = [path for path in folder.iterdir() if path.is_file()]
        cache.default_cache().put(bytes.fromhex(entry.stem), damage or b"\0")
        conversion = Conversion(*pair)
        conversion.compile()
        assert conversion.routine.is_compiled
        before = engine.statistics().compiled
        Conversion(*pair).compile()
        assert engine.statistics().compiled == before
    finally:
        cache.set_cache(kept)


@needs_code
@pytest.mark.parametrize(
    "wrong",
    [[1, 2, 3], "text", 5, None, memoryview(bytes(112))[::2]],
    ids=lambda it: type(it).__name__,
)
def test_what_is_no_contiguous_buffer_is_no_records(wrong: Any) -> None:
    """In every tier and for one record or many."""

    @dataclasses.dataclass(slots=True)
    class Number:
        x: int

    for tier in ("compiled", "interpreted"):
        codec: Any = echo.codec(Number, tier=tier)
        for decode in (codec.decode, codec.decode_many):
            with pytest.raises(echo.FormatError, match="contiguous buffer"):
                decode(wrong)
    for decoder in (echo.array_decoder(Number), echo.column_decoder(Number)):
        with pytest.raises(echo.FormatError, match="contiguous buffer"):
            decoder(wrong)


@needs_code
def test_a_layout_of_another_machine_gets_no_code() -> None:
    """Asking for it says why."""

    @dataclasses.dataclass(slots=True)
    class Checked:
        x: int

    native: Any = echo.encoder(Checked, tier="compiled")
    assert native.__self__.is_compiled
    with pytest.raises(echo.CompileError, match="own layout"):
        echo.encoder(Checked, abi="s390x", tier="compiled")


@needs_code
def test_a_class_of_a_thousand_fields_gets_code() -> None:
    """As many as a format may have."""
    wide: Any = dataclasses.make_dataclass("Wide", [(f"f{i}", int) for i in range(1000)], slots=True)
    codec = echo.codec(wide, tier="compiled")
    event = wide(*range(1000))
    assert codec.decode(codec.encode(event)) == event


@needs_code
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@forks
def test_a_child_forked_beside_a_compilation_can_compile() -> None:
    """No lock of the parent's is held in it for ever."""
    stop = threading.Event()

    def compile_one(name: str) -> None:
        cls: Any = dataclasses.make_dataclass(name, [("x", int)], slots=True)
        echo.codec(cls, tier="compiled")

    def compile_on() -> None:
        i = 0
        while not stop.is_set():
            compile_one(f"C{i}")
            i += 1

    compile_one("First")  # imports what it takes: a child would wait for the lock of what is being imported
    thread = threading.Thread(target=compile_on)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    cls: Any = dataclasses.make_dataclass("Child", [("x", int)], slots=True)
                    codec = echo.codec(cls)
                    os._exit(0 if codec.decode(codec.encode(cls(7))).x == 7 else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
