"""Many records at once: structured arrays and columns, compiled and by numpy."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.batches import arrays, memory
from echo_core.codegen.emit.columns import LINE, Column, emit, lead_of
from echo_core.codegen.machine import background, engine
from tests.formats.strategies import examples


@dataclasses.dataclass
class Cell:
    """A record in a record."""

    row: echo.Int16
    weight: float


@dataclasses.dataclass
class Reading:
    """Fields that lie in a lane, across two, and in none: 96 bytes."""

    id: int
    cell: Cell
    a: echo.UInt8
    b: echo.UInt16
    c: echo.Float32
    ok: bool
    tag: echo.Chars[11]
    spot: echo.Array[echo.Float32, 3]
    wave: complex
    last: echo.UInt32
    maybe: echo.Int16 | None


@dataclasses.dataclass
class Small:
    """Smaller than the sixty-four bytes that are turned round at a time."""

    x: float
    y: echo.Int16


@dataclasses.dataclass
class Worded:
    """Not of one size."""

    text: str


def records(cls: type[Any], count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Records whose bytes are all different, with bools that are 0 or 1."""
    dtype = echo.format_of(cls).dtype
    made = np.frombuffer(np.random.default_rng(seed).bytes(count * dtype.itemsize), dtype).copy()
    if "ok" in (dtype.names or ()):
        made["ok"] = made["id"] % 2 == 0
    return made


def by_name(array: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
    """A column by numpy."""
    for name in path.split("."):
        array = array[name]
    return array


COLUMNS = {"id", "cell.row", "cell.weight", "a", "b", "c", "ok", "tag", "spot", "wave", "last", "maybe"}


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 1003])
def test_each_field_becomes_a_column(count: int, tier: Any) -> None:
    """Byte for byte what numpy says, however many records there are."""
    array = records(Reading, count)
    columns = echo.column_decoder(Reading, tier=tier)(array)
    assert set(columns) == COLUMNS
    for name, column in columns.items():
        assert column.flags.c_contiguous
        wanted = by_name(array, name)
        same = (column == wanted).all() if column.dtype.names else column.tobytes() == wanted.tobytes()
        assert same, name  # a pair has padding, which means nothing


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_small_records_become_columns(tier: Any) -> None:
    """Record by record, for there is nothing to turn round."""
    array = records(Small, 100)
    columns = echo.column_decoder(Small, tier=tier)(array)
    assert columns["x"].tobytes() == array["x"].tobytes()
    assert columns["y"].tobytes() == array["y"].tobytes()


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("abi", ["s390x", "i386"])
def test_a_foreign_sender_becomes_columns(abi: str, tier: Any) -> None:
    """Its records are converted first."""
    events = [Small(i / 7, i - 50) for i in range(100)]
    data = echo.codec(Small, abi=abi).encode_many(events)
    columns = echo.column_decoder(Small, sender=echo.format_of(Small, abi=abi), tier=tier)(data)
    assert columns["x"].tolist() == [event.x for event in events]
    assert columns["y"].tolist() == [event.y for event in events]


def test_columns_that_are_there_are_filled() -> None:
    """From their start, and no further."""
    split = echo.column_decoder(Small, tier="compiled")
    array = records(Small, 10)
    columns = {name: np.zeros(12, dtype) for name, dtype in split.dtypes.items()}
    assert split.into(array, columns) == 10
    assert columns["y"][:10].tolist() == array["y"].tolist()
    assert columns["y"][10:].tolist() == [0, 0]


@pytest.mark.parametrize(
    "column",
    [None, np.zeros(9, "i2"), np.zeros(10, "i4"), np.zeros(20, "i2")[::2], np.zeros(10, "i2").view()],
)
def test_a_column_that_does_not_fit_is_refused(column: Any) -> None:
    """Too short, of another type, not contiguous, read-only or not there at all."""
    split = echo.column_decoder(Small, tier="compiled")
    columns = {"x": np.zeros(10), "y": column}
    if column is None:
        del columns["y"]
    elif len(column) == 10 and column.dtype == np.int16 and column.flags.c_contiguous:
        column.flags.writeable = False
    with pytest.raises(echo.FormatError, match="at `y`"):
        split.into(records(Small, 10), columns)


def test_columns_are_by_numpy_until_code_is_there() -> None:
    """And the same afterwards."""
    split = echo.column_decoder(Reading)
    array = records(Reading, 33)
    first = split(array)
    assert background.drain(30)
    for name, column in split(array).items():
        assert (
            column["value"].tolist() == first[name]["value"].tolist()
            if column.dtype.names
            else (column.tobytes() == first[name].tobytes())
        )


def test_arrow_takes_columns_without_a_copy() -> None:
    """A column of numbers is the memory of the Arrow array."""
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is not installed")
    pyarrow: Any = importlib.import_module("pyarrow")
    columns = echo.column_decoder(Small)(records(Small, 100))
    table = pyarrow.table(columns)
    assert table["x"].chunk(0).buffers()[1].address == columns["x"].ctypes.data


@examples(60)
@given(st.data())
def test_columns_of_any_layout_are_right(data: st.DataObject) -> None:
    """Any number of columns of any width anywhere in a record, in code and by hand."""
    stride = data.draw(st.integers(8, 200))
    places = data.draw(
        st.lists(st.tuples(st.integers(0, stride - 1), st.integers(1, 90)), min_size=1, max_size=6)
    )
    columns = tuple(dict.fromkeys(Column(at, min(size, stride - at)) for at, size in places))
    count = data.draw(st.integers(0, 20))
    memory = np.frombuffer(np.random.default_rng(count).bytes(stride * count), np.uint8).reshape(
        count, stride
    )
    for by_vectors, is_streamed in ((True, False), (True, True), (False, False)):
        found = split_by_code(columns, memory, by_vectors, is_streamed)
        for column, got in zip(columns, found, strict=True):
            wanted = memory[:, column.offset : column.offset + column.size]
            assert got == wanted.tobytes()


def aligned(size: int, beside: int = 0) -> np.ndarray[Any, Any]:
    """Room that begins so many bytes behind the start of a cache line."""
    room = np.full(size + 2 * LINE, 0xA5, np.uint8)
    return room[-room.ctypes.data % LINE + beside :][:size]


def split_by_code(
    columns: tuple[Column, ...], memory: Any, by_vectors: bool, is_streamed: bool
) -> list[bytes]:
    """The columns' bytes, with a guard after each that must stay as it was."""
    import ctypes

    count, stride = memory.shape
    text = emit(columns, stride, by_vectors=by_vectors)
    loaded = engine.load(engine.compile_ir(text, engine.native_target()), ["columns"])
    rooms = [aligned(count * column.size + 64, 0 if is_streamed else 3) for column in columns]
    addresses = (ctypes.c_void_p * len(rooms))(*(room.ctypes.data for room in rooms))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
    prototype(loaded.addresses["columns"])(memory.ctypes.data, addresses, count, is_streamed)
    assert all((room[-64:] == 0xA5).all() for room in rooms)
    return [room[:-64].tobytes() for room in rooms]


LANES = (Column(0, 8), Column(8, 4), Column(16, 8))


@pytest.mark.parametrize(
    ("columns", "places", "expected"),
    [
        (LANES, [64, 4, 128], 0),
        (LANES, [16, 4, 80], 6),
        (LANES, [56, 4, 120], 1),
        (LANES, [64, 4, 80], None),
        (LANES, [4, 4, 68], None),
        (LANES[1:2], [64], None),
    ],
)
def test_columns_of_whole_lanes_are_streamed_from_a_line_on(
    columns: tuple[Column, ...], places: list[int], expected: int | None
) -> None:
    """Where all of them get to one after the same number of records; there must be one at least."""
    assert lead_of(columns, places) == expected


def test_records_are_asked_for_ahead() -> None:
    """Every line of eight records, once a round; without vectors the CPU sees for itself."""
    assert emit(LANES, 96, by_vectors=True).count("call void @llvm.prefetch") == 12
    assert "call void @llvm.prefetch" not in emit(LANES, 96, by_vectors=False)


def test_only_columns_of_whole_lanes_are_streamed() -> None:
    """A narrower one has parts of lines, which would be written one by one."""
    text = emit(LANES, 96, by_vectors=True)
    assert text.count("align 64, !nontemporal") == 2
    assert text.count("fence seq_cst") == 1


@pytest.mark.parametrize("beside", [0, 16, 24, 4])
@pytest.mark.parametrize("count", [0, 3, 5, 6, 14, 1003])
def test_batch_beyond_the_caches_is_streamed(
    count: int, beside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever its columns begin, and however few records there are."""
    monkeypatch.setattr(arrays, "cache_bytes", lambda: 0)
    split = echo.column_decoder(Reading, tier="compiled")
    array = records(Reading, count)
    rooms = {name: aligned(dtype.itemsize * count + LINE, beside) for name, dtype in split.dtypes.items()}
    columns = {
        name: np.ndarray((count, *dtype.shape), dtype.base, buffer=rooms[name])
        for name, dtype in split.dtypes.items()
    }
    assert split.into(array, columns) == count
    for name, column in columns.items():
        assert (rooms[name][-LINE:] == 0xA5).all()
        if not column.dtype.names:
            assert column.tobytes() == by_name(array, name).tobytes()


def test_new_columns_take_the_memory_that_earlier_ones_have_left() -> None:
    """But never that of columns which someone still has."""
    split = echo.column_decoder(Small, tier="compiled")
    array = records(Small, 100_000)
    first = split(array)
    place, kept = first["x"].ctypes.data, first["y"]
    del first
    second = split(array[::-1].copy())
    assert second["x"].ctypes.data == place
    assert not np.may_share_memory(second["y"], kept)
    assert kept.tobytes() == array["y"].tobytes()


# ---------------------------------------------------------------------------
# Structured arrays


def test_records_of_the_same_layout_are_a_view() -> None:
    """Nothing is copied, and what is read-only stays so."""
    data = records(Small, 10).tobytes()
    array = echo.array_decoder(Small)(data)
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not array.flags.writeable
    room = bytearray(data)
    echo.array_decoder(Small)(room)["y"][0] = 7
    assert echo.array_decoder(Small)(bytes(room))["y"][0] == 7


@pytest.mark.parametrize("tier", ["compiled", "interpreted", "auto"])
def test_foreign_records_become_native_ones(tier: Any) -> None:
    """With this machine's own dtype."""
    events = [Small(i / 7, i) for i in range(10)]
    data = echo.codec(Small, abi="m68k").encode_many(events)
    array = echo.array_decoder(Small, sender=echo.format_of(Small, abi="m68k"), tier=tier)(data)
    assert array.dtype == echo.format_of(Small).dtype
    assert array["x"].tolist() == [event.x for event in events]


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
def test_many_foreign_records_are_read_only_like_few(tier: Any) -> None:
    """Large arrays are in memory that is used again, but not as long as someone has them."""
    data = echo.codec(Small, abi="s390x").encode_many([Small(i / 7, i) for i in range(1000)])
    decode = echo.array_decoder(Small, sender=echo.format_of(Small, abi="s390x"), tier=tier)
    few, many, others = decode(data), decode(data * 10), decode(data * 10)
    assert not few.flags.writeable
    assert not many.flags.writeable
    assert not np.may_share_memory(many, others)
    assert many.tobytes() == others.tobytes() == few.tobytes() * 10
    place, part = many.ctypes.data, others["x"]
    del many, others
    assert decode(data * 10).ctypes.data == place
    assert part.tolist() == few["x"].tolist() * 10


@dataclasses.dataclass
class Spread:
    """32 bytes, with numbers that grow; and more than a vector in another layout."""

    a: int
    b: echo.Long
    c: echo.Array[echo.Int16, 4]
    d: float


@pytest.mark.parametrize("tier", ["compiled", "auto", "interpreted"])
@pytest.mark.parametrize("abi", ["s390x", "ppc", "i386"])
def test_foreign_records_beyond_the_caches_are_streamed(
    abi: str, tier: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By code of its own, once it is there; byte for byte the same."""
    events = [Spread(i << 40, -i, np.arange(i, i + 4), i / 7) for i in range(997)] * 5
    data = echo.codec(Spread, abi=abi).encode_many(events)
    sender = echo.format_of(Spread, abi=abi)
    expected = echo.array_decoder(Spread, sender=sender, tier="interpreted")(data)
    monkeypatch.setattr(arrays, "cache_bytes", lambda: 0)
    decode = echo.array_decoder(Spread, sender=sender, tier=tier)
    for _ in range(2):
        assert decode(data).tobytes() == expected.tobytes()
        assert background.drain(30)
    with pytest.raises(echo.WireError):
        decode(data + b"\0")


def test_no_records_are_an_empty_array() -> None:
    """From a native and a foreign sender."""
    assert len(echo.array_decoder(Small)(b"")) == 0
    decode = echo.array_decoder(Small, sender=echo.format_of(Small, abi="m68k"))
    assert len(decode(b"")) == len(decode(np.empty((0, 2), "u1"))) == 0


@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_records_that_are_no_whole_number_are_refused(abi: str) -> None:
    """A rest is never dropped."""
    with pytest.raises(echo.WireError):
        echo.array_decoder(Small, sender=echo.format_of(Small, abi=abi))(bytes(17))


def test_variable_parts_are_refused() -> None:
    """On either end."""
    with pytest.raises(echo.FormatError):
        echo.array_decoder(Worded)
    sender = echo.Format.from_c("struct Small { double x; short y; char *text; };")
    with pytest.raises(echo.FormatError, match="variable parts"):
        echo.array_decoder(Small, sender=sender)
    with pytest.raises(echo.FormatError):
        echo.column_decoder(Worded)


def test_an_array_is_encoded_without_a_copy() -> None:
    for array in (records(Small, 5), records(Small, 0), records(Small, 6).reshape(2, 3)):
        data = echo.array_encoder(Small)(array)
        assert data.readonly
        assert bytes(data) == array.tobytes()
        assert array.size == 0 or np.shares_memory(np.frombuffer(data, np.uint8), array)
        assert np.array_equal(echo.array_decoder(Small)(data), array.reshape(-1))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (records(Small, 4)[::2], "one piece"),
        (records(Cell, 4), "dtype"),
        (records(Small, 4).astype(echo.format_of(Small, abi="s390x").dtype), "dtype"),
        (b"bytes", "`bytes`"),
    ],
)
def test_what_would_have_to_be_copied_is_not_encoded(array: Any, message: str) -> None:
    with pytest.raises(echo.EncodeError, match=message) as caught:
        echo.array_encoder(Small)(array)
    assert isinstance(caught.value, TypeError) == (message != "one piece")


def test_arrays_hold_no_variable_parts() -> None:
    with pytest.raises(echo.FormatError):
        echo.array_encoder(Worded)


def test_buffer_cannot_grow_while_it_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size that was seen is the size that is read."""
    sender = echo.format_of(Small, abi="s390x")
    decode: Any = echo.array_decoder(Small, sender=sender, tier="compiled")
    data = bytearray(memory.MIN_BYTES // sender.size_bytes * sender.size_bytes + sender.size_bytes * 10)
    make_room = memory.Spare.empty

    def grow(*arguments: Any) -> Any:
        with pytest.raises(BufferError):
            data.extend(bytes(1 << 20))
        return make_room(*arguments)

    monkeypatch.setattr(memory.Spare, "empty", grow)
    assert len(decode(data)) == len(data) // sender.size_bytes
