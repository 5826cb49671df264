"""Machine code in memory: what is mapped, with which permissions, and what is refused."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from echo_core._c.code import MACHINE, Block, cpu, functions, statistics
from tests.forks import forks

PAGE = os.sysconf("SC_PAGESIZE")


def permissions_at(address: int) -> str:
    """What the kernel lets this process do at an address, "" where nothing is mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, permissions = line.split()[:2]
        first, end = (int(part, 16) for part in extent.split("-"))
        if first <= address < end:
            return permissions
    return ""


def bytes_of(block: Block, size: int) -> bytes:
    """What stands at the start of a block."""
    return ctypes.string_at(block.address, size)


@pytest.mark.parametrize("size", [1, 2, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE])
def test_block_holds_its_image_in_whole_pages(size: int) -> None:
    """At the start of a page, with nothing but zeros behind it."""
    image = bytes(i % 251 for i in range(size))
    block = Block(image, ())
    assert block.address % PAGE == 0
    assert block.size == -(-size // PAGE) * PAGE
    assert bytes_of(block, block.size) == image + bytes(block.size - size)


def test_image_may_be_any_buffer_and_is_copied() -> None:
    """It may change, or go, as soon as the block is there."""
    image = bytearray(b"code" * 10)
    block = Block(memoryview(image)[4:], ())
    image[:] = bytes(len(image))
    image.clear()  # BufferError if the block still held it
    assert bytes_of(block, 36) == b"code" * 9


def test_block_can_be_run_and_not_written() -> None:
    """From its first page to its last."""
    block = Block(bytes(3 * PAGE), ())
    assert {permissions_at(block.address + i * PAGE) for i in range(3)} == {"r-xp"}


def test_memory_is_given_back() -> None:
    """When the last reference goes, at once."""
    gc.collect()
    mapped, unmapped, size = statistics()
    block = Block(bytes(2 * PAGE), ())
    address = block.address
    assert statistics() == (mapped + 1, unmapped, size + 2 * PAGE)
    del block
    assert statistics() == (mapped + 1, unmapped + 1, size)
    assert "x" not in permissions_at(address)


def test_addresses_are_filled_in() -> None:
    """Those of functions of this process, each as often as it is asked for."""
    imports = (("strlen", 8), ("PyFloat_FromDouble", 16), ("strlen", 24))
    block = Block(b"\xaa" * 40, imports)
    words = [int.from_bytes(bytes_of(block, 40)[at : at + 8], sys.byteorder) for at in range(0, 40, 8)]
    python = ctypes.cast(ctypes.pythonapi.PyFloat_FromDouble, ctypes.c_void_p).value
    assert words[0] == words[4] == 0xAAAAAAAAAAAAAAAA
    assert words[1] == words[3] != 0
    assert words[2] == python


def test_functions_that_no_linker_sees_are_filled_in_too() -> None:
    """By their names alone."""
    offered = functions()
    assert {"echo_is_utf8", "echo_text_size", "echo_compare_int", "echo_contains"} <= set(offered)
    size = 8 * len(offered)
    block = Block(bytes(size), tuple((name, 8 * i) for i, name in enumerate(offered)))
    words = [int.from_bytes(bytes_of(block, size)[at : at + 8], sys.byteorder) for at in range(0, size, 8)]
    assert words == list(offered.values())


@pytest.mark.skipif(MACHINE != 62, reason="code for x86-64")
def test_code_calls_what_was_filled_in() -> None:
    """jmp *[rip + 2], two bytes of nothing, and the address."""
    block = Block(b"\xff\x25\x02\0\0\0\xcc\xcc" + bytes(8), (("strlen", 8),))
    assert ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p)(block.address)(b"echo") == 4


@pytest.mark.parametrize("size", [1, 7, 8, 16])
@pytest.mark.parametrize("offset", [-(2**63), -8, -1, 9, 16, 2**32, 2**63 - 1])
def test_address_beyond_the_image_is_refused(size: int, offset: int) -> None:
    """No byte of it may be outside, though the page goes on."""
    with pytest.raises(ValueError, match="room for an address"):
        Block(bytes(size), (("strlen", offset),))


def test_address_may_end_with_the_image() -> None:
    """The last offset that fits, and any below it."""
    for offset in range(9):
        assert Block(bytes(16), (("strlen", offset),)).address


def test_unknown_function_is_refused_by_name() -> None:
    """Nothing stays mapped, and the buffer is let go."""
    image = bytearray(16)
    before = statistics()[2]
    with pytest.raises(LookupError, match="echo_no_such_function"):
        Block(image, (("strlen", 0), ("echo_no_such_function", 8)))
    assert statistics()[2] == before
    image.clear()


@pytest.mark.parametrize(
    ("image", "imports"),
    [
        ("text", ()),
        (None, ()),
        (b"x", []),
        (b"x", None),
        (bytes(8), (("strlen",),)),
        (bytes(8), (("strlen", "0"),)),
        (bytes(8), (("strlen", 0, 0),)),
        (bytes(8), (["strlen", 0],)),
        (bytes(8), ((b"strlen", 0),)),
        (bytes(8), (None,)),
    ],
    ids=repr,
)
def test_arguments_of_wrong_types_are_refused(image: object, imports: object) -> None:
    """With nothing mapped."""
    before = statistics()[2]
    with pytest.raises(TypeError):
        Block(cast("Any", image), cast("Any", imports))
    assert statistics()[2] == before


def test_name_with_a_nul_or_an_offset_beyond_all_is_refused() -> None:
    """As Python's own functions do it."""
    with pytest.raises(ValueError, match="null"):
        Block(bytes(8), (("str\0len", 0),))
    with pytest.raises(OverflowError):
        Block(bytes(8), (("strlen", 2**63),))


def test_empty_image_is_refused() -> None:
    """There is nothing to run."""
    with pytest.raises(ValueError, match="at least 1 byte"):
        Block(b"", ())


def test_block_is_fixed() -> None:
    """Where it is and how large: who holds an address relies on it."""
    block: Any = Block(b"x", ())
    for name in ("address", "size"):
        with pytest.raises(AttributeError):
            setattr(block, name, 1)


def test_many_blocks_come_and_go() -> None:
    """Nothing is left of a thousand."""
    before = statistics()
    held = [Block(bytes([i % 256]), ()) for i in range(1000)]
    assert len({block.address for block in held}) == 1000
    held.clear()
    assert statistics() == (before[0] + 1000, before[1] + 1000, before[2])


@forks
def test_child_of_a_fork_has_its_parents_blocks() -> None:
    """The mapping is private memory like any other."""
    block = Block(b"echo", ())
    child = os.fork()
    if not child:
        os._exit(bytes_of(block, 4) != b"echo")
    assert os.waitpid(child, 0)[1] == 0


def test_cpu_answers_the_same_each_time() -> None:
    """It is what keys of cached code are made of."""
    assert cpu() == cpu()
    assert MACHINE != 62 or len(cpu()) > 100
