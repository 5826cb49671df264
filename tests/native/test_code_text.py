"""What compiled code asks of text: CPython's strict decoder is the truth, and nothing outside is read."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import random
from collections.abc import Iterator

import pytest

from echo_core._c.code import functions

FUNCTIONS = functions()
_IS_UTF8 = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64)(FUNCTIONS["echo_is_utf8"])
_SIZE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64)(FUNCTIONS["echo_text_size"])

PAGE = mmap.PAGESIZE
EDGES = bytes((0x00, 0x01, 0x40, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xED, 0xF4, 0xFF))
# Around every word and every turn of a loop.
LENGTHS = [*range(42), 55, 56, 57, 62, 63, 64, 65, 66, 71, 72, 73, 95, 96, 97, 127, 128, 129, 200, 1000]


class Room:
    """Memory that ends where no one may read."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start: int = libc.mmap(None, 2 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        assert libc.mprotect(start + PAGE, PAGE, 0) == 0
        self._end = start + PAGE

    def is_utf8(self, data: bytes) -> bool:
        found: int = _IS_UTF8(self._put(data), len(data))
        return found != 0

    def text_size(self, data: bytes) -> int:
        size: int = _SIZE(self._put(data), len(data))
        return size

    def _put(self, data: bytes) -> int:
        ctypes.memmove(self._end - len(data), data, len(data))
        return self._end - len(data)


@pytest.fixture(scope="module", name="room")
def fixture_room() -> Room:
    """One for all tests: it is never unmapped."""
    return Room()


def is_text(data: bytes) -> bool:
    """The oracle."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def size_of(data: bytes) -> int:
    """The oracle for a text among other bytes."""
    text, end, _ = data.partition(b"\0")
    return len(text) if end and is_text(text) else -1


def assert_right(room: Room, data: bytes) -> None:
    """Both functions on these bytes, and with a NUL and more behind them."""
    assert room.is_utf8(data) is is_text(data.partition(b"\0")[0]), data
    assert room.text_size(data) == size_of(data), data
    assert room.text_size(data + b"\0") == size_of(data + b"\0"), data
    assert room.text_size(data + b"\0\xff") == size_of(data + b"\0"), data


def sequences() -> Iterator[bytes]:
    """Every first byte with every second one, and with what decides at the edges behind it."""
    for first in range(256):
        yield bytes((first,))
        for second in range(256):
            yield bytes((first, second))
    for first in range(0xC0, 256):
        for second, third in itertools.product(range(0x7F, 0xC1), EDGES):
            yield bytes((first, second, third))
        for rest in itertools.product(EDGES, repeat=3):
            yield bytes((first, *rest))


def test_bytes_are_utf8_where_cpython_decodes_them(room: Room) -> None:
    """Overlong forms, surrogates, and what is above U+10FFFF are not."""
    for data in sequences():
        assert room.is_utf8(data) is is_text(data.partition(b"\0")[0]), data


def test_every_character_is_utf8(room: Room) -> None:
    """All 1,112,064 of them, some thousand at a time; none of them with a byte less."""
    points = [point for point in range(1, 0x110000) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(points), 1000):
        assert room.is_utf8("".join(map(chr, points[start : start + 1000])).encode())
    for point in range(0x80, 0x110000, 997):
        if not 0xD800 <= point < 0xE000:
            assert not room.is_utf8(chr(point).encode()[:-1])


@pytest.mark.parametrize("length", LENGTHS)
def test_text_ends_at_its_first_nul(room: Room, length: int) -> None:
    """Wherever it stands, and also where nothing follows."""
    data = bytes(1 + i % 127 for i in range(length))
    assert_right(room, data)
    for at in {0, 1, length // 2, length - 2, length - 1} & set(range(length)):
        assert_right(room, data[:at] + b"\0" + data[at + 1 :])


@pytest.mark.parametrize("length", LENGTHS)
def test_byte_beyond_ascii_is_found_wherever_it_stands(room: Room, length: int) -> None:
    """Before the NUL; behind it, it is no one's."""
    data = bytes(1 + i % 127 for i in range(length))
    for at in range(length):
        for sequence in (b"\xff", "é".encode(), "€".encode(), "😀".encode(), b"\xed\xa0\x80", b"\xc0\x80"):
            if at % 7 == 0 or length < 80:
                assert_right(room, data[:at] + sequence + data[at + len(sequence) :])


def test_both_functions_agree_with_cpython_on_random_bytes(room: Room) -> None:
    """Of every kind of character, cut off and changed."""
    dice = random.Random(8)
    kinds = ["a", "b", "é", "߿", "ࠀ", "€", "\ud7ff", "\ue000", "𐀀", "\U0010ffff"]
    for _ in range(20_000):
        data = bytearray("".join(dice.choices(kinds, k=dice.randrange(40))).encode())
        for _ in range(dice.choice((0, 0, 1, 2)) if data else 0):
            data[dice.randrange(len(data))] = dice.choice(EDGES)
        assert_right(room, bytes(data[: len(data) - dice.choice((0, 0, 1))]))
