"""Native code behind a built-in function: what it answers, what it leaves to the fallback, what it holds.

The native code here is C, compiled when the tests run; where it comes from is nothing to a Routine. A fixed
source record is a uint32, its target a uint64 of the same value, and 0xFFFFFFFF cannot be converted. A
variable record is a length byte and as many bytes; converted, it is each of them twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from array import array
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from echo_core._c.events import GIL_RELEASE_BYTES, Routine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

C_CODE = """
#include <stdint.h>
#include <string.h>

extern int PyGILState_Check(void); /* found in the process that loads this */

uint64_t gil_was_held;      /* by the native code that ran last */
const uint8_t *seen[3];     /* the record as verify, measure and convert were given it */
uint8_t *overwritten;       /* verify sets this byte to 255 after its look, as a writer elsewhere may */
uint64_t waits;             /* how many widen_when_told have begun */
uint64_t told;              /* lets them go on */

int32_t widen(const uint8_t *source, uint8_t *target, uint64_t count)
{
    gil_was_held = PyGILState_Check();
    for (uint64_t i = 0; i < count; i++) {
        uint32_t narrow;
        uint64_t wide;
        memcpy(&narrow, source + 4 * i, 4);
        wide = narrow;
        if (narrow == UINT32_MAX)
            return -1;
        memcpy(target + 8 * i, &wide, 8);
    }
    return 0;
}

/* Gives up after a while, so that a GIL that was kept fails the test instead of hanging it. */
int32_t widen_when_told(const uint8_t *source, uint8_t *target, uint64_t count)
{
    __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    for (uint64_t turn = 0; turn < (uint64_t)1 << 33; turn++)
        if (__atomic_load_n(&told, __ATOMIC_SEQ_CST))
            return widen(source, target, count);
    return -1;
}

int32_t negate(const uint8_t *source, uint8_t *target, uint64_t count)
{
    for (uint64_t i = 0; i < 4 * count; i++)
        target[i] = ~source[i];
    return 0;
}

int32_t verify(const uint8_t *record, uint64_t size)
{
    int32_t status = size == 0 || size != 1 + (uint64_t)record[0];

    gil_was_held = PyGILState_Check();
    seen[0] = record;
    if (overwritten)
        *overwritten = 255;
    return status;
}

int32_t verify_any(const uint8_t *record, uint64_t size)
{
    (void)size;
    gil_was_held = PyGILState_Check();
    seen[0] = record;
    return 0;
}

uint64_t measure(const uint8_t *record)
{
    seen[1] = record;
    return 2 * (uint64_t)record[0];
}

uint64_t measure_nothing(const uint8_t *record) { (void)record; return 0; }
uint64_t measure_too_much(const uint8_t *record) { (void)record; return UINT64_MAX; }
uint64_t measure_half_of_all(const uint8_t *record) { (void)record; return (uint64_t)1 << 63; }

int32_t twice(const uint8_t *record, uint8_t *target)
{
    seen[2] = record;
    for (int i = 0; i < record[0]; i++)
        target[2 * i] = target[2 * i + 1] = record[1 + i];
    return 0;
}

int32_t refuse(const uint8_t *record, uint8_t *target) { (void)record; (void)target; return 7; }
"""


class RefusedError(Exception):
    """What the fallback of these tests raises."""


class Owner:
    """Stands for the owner of machine code; a weak reference can watch it."""

    def __init__(self) -> None:
        self.remembered: list[object] = []

    def remember(self, source: object, target: object = None) -> bytes:
        """Refers to its arguments from now on; fit to be a fallback."""
        self.remembered += [source, target]
        return b"remembered"


class Fallback:
    """Refuses, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> bytes:
        self.asked.append(arguments)
        raise RefusedError


class Subject(NamedTuple):
    """A Routine and its fallback."""

    routine: Routine
    fallback: Fallback

    def leaves_to_fallback(self, *arguments: Any) -> bool:
        """Whether the call is the fallback's, with these very arguments and its exception."""
        call: Callable[..., object] = self.routine.call
        compiled, interpreted = self.routine.compiled, self.routine.interpreted
        with pytest.raises(RefusedError):
            call(*arguments)
        passed = self.fallback.asked.pop()
        return (
            len(passed) == len(arguments)
            and all(got is given for got, given in zip(passed, arguments, strict=True))
            and (self.routine.compiled, self.routine.interpreted) == (compiled, interpreted + 1)
        )


@pytest.fixture(name="library", scope="module")
def fixture_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The C code above, compiled and loaded."""
    folder: Path = tmp_path_factory.mktemp("native")
    source, shared = folder / "code.c", folder / "code.so"
    source.write_text(C_CODE, encoding="utf-8")
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC")
    subprocess.run(("gcc", *flags, "-o", shared, source), check=True)
    return ctypes.CDLL(str(shared))


def address(library: ctypes.CDLL, name: str) -> int:
    """Where a C function is."""
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


def number(library: ctypes.CDLL, name: str) -> ctypes.c_uint64:
    """A uint64_t or a pointer of the C code, to read and write."""
    return ctypes.c_uint64.in_dll(library, name)


def address_of(buffer: bytearray | mmap.mmap) -> int:
    """Where the bytes of a writable buffer are."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def install_fixed(routine: Routine, library: ctypes.CDLL, name: str = "widen", target_size: int = 8) -> None:
    """Installs a conversion of uint32."""
    routine.install_fixed(address(library, name), 4, target_size, library)


def install_variable(
    routine: Routine,
    library: ctypes.CDLL,
    verify: str = "verify",
    measure: str = "measure",
    convert: str = "twice",
) -> None:
    """Installs a conversion of records with a length byte."""
    routine.install_variable(
        address(library, verify), address(library, measure), address(library, convert), library
    )


@pytest.fixture(name="empty")
def fixture_empty() -> Subject:
    """Nothing is installed."""
    fallback = Fallback()
    return Subject(Routine(fallback), fallback)


@pytest.fixture(name="fixed")
def fixture_fixed(empty: Subject, library: ctypes.CDLL) -> Subject:
    """Widens uint32 to uint64."""
    install_fixed(empty.routine, library)
    return empty


@pytest.fixture(name="variable")
def fixture_variable(empty: Subject, library: ctypes.CDLL) -> Subject:
    """Doubles each byte of a record with a length byte."""
    install_variable(empty.routine, library)
    number(library, "overwritten").value = 0
    return empty


def narrow(*values: int) -> bytes:
    """Fixed source records."""
    return array("I", values).tobytes()


def wide(*values: int) -> bytes:
    """Fixed target records."""
    return array("Q", values).tobytes()


# --- nothing installed ---


def test_call_without_native_code_is_the_fallbacks() -> None:
    """The result is whatever the fallback returns, with the target or without."""
    routine = Routine(lambda *arguments: repr(arguments).encode())
    assert routine.call(b"ab") == b"(b'ab',)"
    assert Routine(lambda *arguments: len(arguments)).call(b"ab", bytearray(2)) == 2
    assert (routine.is_compiled, routine.compiled, routine.interpreted) == (False, 0, 1)


def test_fallback_is_given_the_arguments_as_they_were(empty: Subject) -> None:
    """An absent target stays absent, and None stays None."""
    assert empty.leaves_to_fallback(b"source")
    assert empty.leaves_to_fallback(b"source", None)
    assert empty.leaves_to_fallback(b"source", bytearray(8))


@pytest.mark.parametrize("arguments", [(), (b"", None, None)])
def test_wrong_number_of_arguments_is_a_type_error(fixed: Subject, arguments: tuple[Any, ...]) -> None:
    """A fallback with more parameters must not make native and slow calls differ."""
    call: Any = fixed.routine.call
    with pytest.raises(TypeError, match=f"got {len(arguments)}"):
        call(*arguments)
    assert fixed.fallback.asked == []


def test_fallback_must_be_callable() -> None:
    """Found when the Routine is made, not at the first unusual call."""
    with pytest.raises(TypeError, match="callable as fallback, got 5"):
        Routine(5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_call_is_one_function_for_the_life_of_a_routine(empty: Subject, library: ctypes.CDLL) -> None:
    """Who has kept it sees what is installed and cleared later."""
    call = empty.routine.call
    install_fixed(empty.routine, library)
    assert call(narrow(1)) == wide(1)
    empty.routine.clear()
    assert empty.routine.call == call
    assert empty.leaves_to_fallback(narrow(1))


def test_installing_and_clearing_show_in_is_compiled(empty: Subject, library: ctypes.CDLL) -> None:
    """Clearing twice is as good as once."""
    is_compiled = [empty.routine.is_compiled]
    install_variable(empty.routine, library)
    is_compiled.append(empty.routine.is_compiled)
    for _ in range(2):
        empty.routine.clear()
        is_compiled.append(empty.routine.is_compiled)
    assert is_compiled == [False, True, False, False]


# --- fixed records ---


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_fixed_records_become_new_bytes(fixed: Subject, count: int) -> None:
    """Any number of them, none included, in one call."""
    assert fixed.routine.call(narrow(*range(count))) == wide(*range(count))
    assert (fixed.routine.compiled, fixed.routine.interpreted) == (1, 0)


def test_fixed_records_are_written_to_the_start_of_a_target(fixed: Subject) -> None:
    """The number of bytes written is returned; what follows them is left alone."""
    target = bytearray(b"." * 20)
    assert fixed.routine.call(narrow(1, 2), target) == 16
    assert target == wide(1, 2) + b"...."


class AlmostBytes(bytes):
    """Bytes, but not exactly."""


def integers(data: bytes) -> array[int]:
    """A buffer whose items are not bytes."""
    return array("I", data)


@pytest.mark.parametrize("kind", [bytearray, memoryview, AlmostBytes, integers])
def test_source_is_any_contiguous_buffer(fixed: Subject, kind: Callable[[bytes], Any]) -> None:
    """Native code is given the bytes, whatever the item type of the exporter."""
    assert fixed.routine.call(kind(narrow(1, 2, 3))) == wide(1, 2, 3)
    assert fixed.routine.compiled == 1


def test_source_may_begin_at_an_odd_address(fixed: Subject) -> None:
    """Events lie in a received buffer wherever they happen to lie."""
    assert fixed.routine.call(memoryview(b"." + narrow(5))[1:]) == wide(5)


def writable_view(size: int) -> memoryview:
    """A buffer that somebody else owns."""
    return memoryview(bytearray(size))


@pytest.mark.parametrize("kind", [bytearray, writable_view, ctypes.create_string_buffer])
def test_target_is_any_writable_contiguous_buffer(fixed: Subject, kind: Callable[[int], Any]) -> None:
    """A slice of shared memory is one such."""
    target = kind(8)
    assert fixed.routine.call(narrow(9), target) == 8
    assert bytes(target) == wide(9)


def test_target_none_is_no_target(fixed: Subject) -> None:
    """So that a wrapper can hand its own default on."""
    assert fixed.routine.call(narrow(1), None) == wide(1)


@pytest.mark.parametrize("source", [b"abc", b"abcde", 5, None, "abcd", memoryview(bytes(8))[::2]])
def test_unusual_source_is_left_to_the_fallback(fixed: Subject, source: Any) -> None:
    """A length that is not a multiple, not a buffer at all, a buffer with gaps."""
    assert fixed.leaves_to_fallback(source)
    assert fixed.leaves_to_fallback(source, bytearray(16))


@pytest.mark.parametrize(
    "target", [bytearray(7), bytes(8), memoryview(bytes(8)), 5, memoryview(bytearray(16))[::2]]
)
def test_unusual_target_is_left_to_the_fallback(fixed: Subject, target: Any) -> None:
    """Too small, read-only, not a buffer at all, a buffer with gaps."""
    assert fixed.leaves_to_fallback(narrow(1), target)


@pytest.mark.parametrize(("source", "target"), [(0, 0), (4, 0), (0, 3), (7, 0)])
def test_overlap_is_left_to_the_fallback(fixed: Subject, source: int, target: int) -> None:
    """Native code would read bytes that it has just written."""
    memory = memoryview(bytearray(16))
    assert fixed.leaves_to_fallback(memory[source : source + 4], memory[target:])


def test_target_may_touch_the_source_without_overlap(fixed: Subject) -> None:
    """Only the bytes that are written count, not the rest of the target."""
    memory = memoryview(bytearray(narrow(0, 0, 7, 0)))
    assert fixed.routine.call(memory[8:12], memory) == 8
    assert memory[:8] == wide(7)


def test_value_that_cannot_be_converted_is_left_to_the_fallback(fixed: Subject) -> None:
    """With a target, what came before that value may have been written."""
    assert fixed.leaves_to_fallback(narrow(1, 0xFFFFFFFF))
    assert fixed.leaves_to_fallback(narrow(1, 0xFFFFFFFF), bytearray(16))


@pytest.mark.parametrize("target_size", [2**64 - 1, 2**63, 2**62, 2**63 // 2 + 1])
def test_result_beyond_what_python_can_hold_is_left_to_the_fallback(
    fixed: Subject, library: ctypes.CDLL, target_size: int
) -> None:
    """The product of count and size is checked, in 64 bits and against Py_ssize_t."""
    install_fixed(fixed.routine, library, target_size=target_size)
    assert fixed.leaves_to_fallback(narrow(1, 2))


def test_views_are_closed_before_the_fallback_runs(library: ctypes.CDLL) -> None:
    """It may resize either buffer, and so may the caller afterwards."""

    def grow(source: bytearray, target: bytearray) -> int:
        source.append(0)
        target.append(0)
        return len(target)

    routine = Routine(grow)
    install_fixed(routine, library)
    assert routine.call(bytearray(narrow(0xFFFFFFFF)), bytearray(8)) == 9
    source, target = bytearray(narrow(1)), bytearray(8)
    routine.call(source, target)
    source.clear()
    target.clear()


# --- variable records ---


def test_variable_record_becomes_new_bytes(variable: Subject) -> None:
    """As many as measure said."""
    assert variable.routine.call(b"\x03abc") == b"aabbcc"
    assert variable.routine.call(b"\x00") == b""
    assert variable.routine.compiled == 2


def test_variable_record_is_written_to_the_start_of_a_target(variable: Subject) -> None:
    """A target that is larger is usual: how large a record becomes is known only by then."""
    target = bytearray(b"........")
    assert variable.routine.call(bytearray(b"\x03abc"), target) == 6
    assert target == b"aabbcc.."


@pytest.mark.parametrize("source", [b"", bytearray(), b"\x03ab", b"\x03abcd", 5, memoryview(b"\x01.a.")[::2]])
def test_record_that_does_not_verify_is_left_to_the_fallback(variable: Subject, source: Any) -> None:
    """Neither measured nor converted, since its counts point anywhere."""
    assert variable.leaves_to_fallback(source)
    assert variable.leaves_to_fallback(source, bytearray(16))


@pytest.mark.parametrize("target", [bytearray(5), bytes(6), 5])
def test_unusual_target_of_a_variable_record_is_left_to_the_fallback(variable: Subject, target: Any) -> None:
    """Too small for what was measured, read-only, not a buffer at all."""
    assert variable.leaves_to_fallback(b"\x03abc", target)


def test_variable_record_that_overlaps_its_target_is_left_to_the_fallback(variable: Subject) -> None:
    """The same rule as for fixed records, though a copied source would survive it."""
    memory = bytearray(b"\x03abc....")
    assert variable.leaves_to_fallback(memoryview(memory)[:4], memory)


@pytest.mark.parametrize("measure", ["measure_too_much", "measure_half_of_all"])
def test_record_that_would_become_too_large_is_left_to_the_fallback(
    variable: Subject, library: ctypes.CDLL, measure: str
) -> None:
    """Both by measure's own word and by what Python can hold."""
    install_variable(variable.routine, library, measure=measure)
    assert variable.leaves_to_fallback(b"\x01a")
    assert variable.leaves_to_fallback(b"\x01a", bytearray(16))


def test_record_that_cannot_be_converted_is_left_to_the_fallback(
    variable: Subject, library: ctypes.CDLL
) -> None:
    """Verified and measured, and still a value did not fit."""
    install_variable(variable.routine, library, convert="refuse")
    assert variable.leaves_to_fallback(b"\x01a")
    assert variable.leaves_to_fallback(bytearray(b"\x01a"), bytearray(16))


def records_seen(library: ctypes.CDLL) -> list[int]:
    """The addresses that verify, measure and convert were given."""
    return list((ctypes.c_uint64 * 3).in_dll(library, "seen"))


@pytest.mark.parametrize("extra", [0, GIL_RELEASE_BYTES])
def test_variable_record_that_may_change_is_copied_before_it_is_verified(
    variable: Subject, library: ctypes.CDLL, extra: int
) -> None:
    """A count that is raised after verify has passed would lead convert out of the record."""
    install_variable(variable.routine, library, verify="verify" if extra == 0 else "verify_any")
    source = bytearray(b"\x03abc" + bytes(extra))
    number(library, "overwritten").value = address_of(source) if extra == 0 else 0
    assert variable.routine.call(source) == b"aabbcc"
    (record,) = set(records_seen(library))
    assert record != address_of(source)
    assert source[0] == (255 if extra == 0 else 3)


def test_variable_record_in_shared_memory_is_copied(variable: Subject, library: ctypes.CDLL) -> None:
    """A read-only view of it is no promise either: others may write."""
    with mmap.mmap(-1, 4) as memory:
        memory[:] = b"\x03abc"
        where = address_of(memory)
        number(library, "overwritten").value = where
        with memoryview(memory) as view, view.toreadonly() as readonly:
            assert variable.routine.call(readonly) == b"aabbcc"
        assert memory[0] == 255
        assert where not in records_seen(library)


def test_variable_record_in_bytes_is_not_copied(variable: Subject, library: ctypes.CDLL) -> None:
    """Bytes do not change, so verify, measure and convert are given their own address."""
    source = b"\x03abc"
    assert variable.routine.call(source) == b"aabbcc"
    assert set(records_seen(library)) == {ctypes.cast(ctypes.c_char_p(source), ctypes.c_void_p).value}


# --- records that are the result as they are ---


@pytest.fixture(name="verified")
def fixture_verified(empty: Subject, library: ctypes.CDLL) -> Subject:
    """Passes on a record with a length byte."""
    empty.routine.install_verified(address(library, "verify"), library)
    number(library, "overwritten").value = 0
    return empty


def test_verified_bytes_are_the_result_themselves(verified: Subject) -> None:
    """No copy, for they cannot change."""
    record = b"\x03abc"
    assert verified.routine.call(record) is record
    assert verified.routine.compiled == 1


def test_verified_record_that_may_change_is_copied_before(verified: Subject, library: ctypes.CDLL) -> None:
    """What was verified is what is passed on."""
    source = bytearray(b"\x03abc")
    number(library, "overwritten").value = address_of(source)
    assert verified.routine.call(source) == b"\x03abc"
    assert source[0] == 255


def test_verified_record_is_written_to_a_target(verified: Subject) -> None:
    """Which must be large enough, and apart from it."""
    target = bytearray(b"........")
    assert verified.routine.call(b"\x03abc", target) == 4
    assert target == b"\x03abc...."
    assert verified.leaves_to_fallback(b"\x03abc", bytearray(3))


@pytest.mark.parametrize("source", [b"", b"\x03ab", b"\x03abcd", 5])
def test_record_that_is_not_verified_is_not_passed_on(verified: Subject, source: Any) -> None:
    """The fallback says why."""
    assert verified.leaves_to_fallback(source)
    assert verified.leaves_to_fallback(source, bytearray(16))


def test_verify_is_needed(empty: Subject) -> None:
    """Without it nothing may be read."""
    with pytest.raises(ValueError, match="address of a native function, got 0"):
        empty.routine.install_verified(0, None)
    assert not empty.routine.is_compiled


# --- threads ---


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize(("size", "is_held"), [(GIL_RELEASE_BYTES, 1), (GIL_RELEASE_BYTES + 4, 0)])
def test_gil_is_released_for_large_fixed_sources_alone(
    fixed: Subject, library: ctypes.CDLL, kind: Callable[[int], bytes], size: int, is_held: int
) -> None:
    """Whether the result is new bytes or in a target."""
    for target in (None, bytearray(2 * size)):
        fixed.routine.call(kind(size), target)
        assert number(library, "gil_was_held").value == is_held
    assert fixed.routine.compiled == 2


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize(("size", "is_held"), [(GIL_RELEASE_BYTES, 1), (GIL_RELEASE_BYTES + 1, 0)])
def test_gil_is_released_for_large_variable_sources_alone(
    variable: Subject, library: ctypes.CDLL, kind: Callable[[int], bytes], size: int, is_held: int
) -> None:
    """Verify needs no GIL either."""
    install_variable(variable.routine, library, verify="verify_any")
    assert variable.routine.call(kind(size)) == b""
    assert number(library, "gil_was_held").value == is_held


def wait_for(happened: Callable[[], bool]) -> None:
    """Gives other threads the processor until something has happened."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, "waited 30 s"
        threading.Event().wait(0)


@pytest.fixture(name="told")
def fixture_told(library: ctypes.CDLL) -> ctypes.c_uint64:
    """Lets widen_when_told go on when it is set to 1."""
    number(library, "waits").value = 0
    number(library, "told").value = 0
    return number(library, "told")


def test_replaced_native_code_lives_until_the_last_call_that_runs_it(
    empty: Subject, library: ctypes.CDLL, told: ctypes.c_uint64
) -> None:
    """Two calls are inside the old code while the new one is installed, used and cleared."""
    owner = Owner()
    watch = weakref.ref(owner)
    empty.routine.install_fixed(address(library, "widen_when_told"), 4, 8, owner)
    del owner
    source = bytes(GIL_RELEASE_BYTES + 4)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(empty.routine.call, source) for _ in range(2)]
        wait_for(lambda: number(library, "waits").value == 2)
        install_fixed(empty.routine, library, "negate", target_size=4)
        assert empty.routine.call(narrow(0)) == narrow(0xFFFFFFFF)
        empty.routine.clear()
        assert watch() is not None
        told.value = 1
        assert all(call.result() == bytes(2 * len(source)) for call in calls)
    assert watch() is None
    assert (empty.routine.compiled, empty.routine.interpreted) == (3, 0)


def test_buffers_cannot_be_resized_while_native_code_uses_them(
    fixed: Subject, library: ctypes.CDLL, told: ctypes.c_uint64
) -> None:
    """The memory would be gone under a conversion that has let go of the GIL."""
    install_fixed(fixed.routine, library, "widen_when_told")
    source = bytearray(GIL_RELEASE_BYTES + 4)
    target = bytearray(2 * len(source))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(fixed.routine.call, source, target)
        wait_for(lambda: number(library, "waits").value == 1)
        with pytest.raises(BufferError):
            source.append(0)
        with pytest.raises(BufferError):
            target.append(0)
        told.value = 1
        assert call.result() == len(target)
    source.append(0)
    target.append(0)


def test_installing_while_other_threads_call_gives_one_answer_or_the_other(
    empty: Subject, library: ctypes.CDLL
) -> None:
    """Sizes and code are replaced together: a mixture would give a result of the wrong size."""
    source = narrow(*[1] * (GIL_RELEASE_BYTES // 4 + 1))
    answers = {wide(*[1] * (GIL_RELEASE_BYTES // 4 + 1)), bytes(byte ^ 0xFF for byte in source)}
    install_fixed(empty.routine, library)

    def call_often() -> bool:
        return all(empty.routine.call(source) in answers for _ in range(300))

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(call_often) for _ in range(3)]
        while not all(call.done() for call in calls):
            install_fixed(empty.routine, library, "negate", target_size=4)
            install_fixed(empty.routine, library)
        assert all(call.result() for call in calls)
    assert empty.routine.compiled == 900


# --- installing ---


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 4, 8, None), ValueError),
        ((1, 0, 8, None), ValueError),
        ((1, 4, 0, None), ValueError),
        ((-1, 4, 8, None), OverflowError),
        ((1, 2**64, 8, None), OverflowError),
        ((1, "4", 8, None), TypeError),
        ((1, 4, 8), TypeError),
    ],
)
def test_refused_installation_leaves_what_was_there(
    fixed: Subject, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    """No address is NULL and no record empty."""
    with pytest.raises(error):
        fixed.routine.install_fixed(*arguments)
    assert fixed.routine.call(narrow(3)) == wide(3)


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_each_function_of_variable_records_is_needed(variable: Subject, zero: int) -> None:
    """Without verify nothing may be read, without measure nothing allocated."""
    addresses = [1, 1, 1]
    addresses[zero] = 0
    with pytest.raises(ValueError, match="address of a native function, got 0"):
        variable.routine.install_variable(addresses[0], addresses[1], addresses[2], None)
    assert variable.routine.call(b"\x01a") == b"aa"


def test_owner_of_the_code_lives_as_long_as_the_code_is_installed(
    empty: Subject, library: ctypes.CDLL
) -> None:
    """Replacing it and clearing it let it go."""
    ends: list[Callable[[], None]] = [partial(install_variable, empty.routine, library), empty.routine.clear]
    for end in ends:
        owner = Owner()
        watch = weakref.ref(owner)
        empty.routine.install_fixed(address(library, "widen"), 4, 8, owner)
        del owner
        assert watch() is not None
        end()
        assert watch() is None


def test_code_that_clears_its_routine_from_a_finalizer_is_harmless(
    empty: Subject, library: ctypes.CDLL
) -> None:
    """The finalizer of a replaced owner sees the new code already, and may replace that too."""
    owner = Owner()
    finalizer = weakref.finalize(owner, empty.routine.clear)
    empty.routine.install_fixed(address(library, "widen"), 4, 8, owner)
    del owner
    install_fixed(empty.routine, library)
    assert not finalizer.alive
    assert not empty.routine.is_compiled


def test_fallback_that_installs_code_takes_effect_at_the_next_call(library: ctypes.CDLL) -> None:
    """Which is how a conversion is compiled on its first use."""

    def compile_now(source: bytes, target: bytearray | None = None) -> bytes:
        install_fixed(routine, library)
        return b"slow"

    routine = Routine(compile_now)
    assert [routine.call(narrow(1)), routine.call(narrow(1))] == [b"slow", wide(1)]
    assert (routine.compiled, routine.interpreted) == (1, 1)


# --- what is held ---


def test_cycles_through_a_routine_are_collected(library: ctypes.CDLL) -> None:
    """Its own (call holds the Routine) and those through the fallback and the owner of the code."""
    owner = Owner()
    watch = weakref.ref(owner)

    routine = Routine(owner.remember)
    owner.remember(routine)
    routine.install_fixed(address(library, "widen"), 4, 8, owner)
    del owner, routine
    gc.collect()
    assert watch() is None


def test_call_keeps_its_routine() -> None:
    """A program may hold the function alone."""
    owner = Owner()
    watch = weakref.ref(owner)
    call = Routine(owner.remember).call
    del owner
    gc.collect()
    assert watch() is not None
    assert call(b"") == b"remembered"
    del call
    gc.collect()
    assert watch() is None


CALLS = 100_000


def grown_by(work: Callable[[], None], references: list[Any]) -> tuple[list[int], int]:
    """What `work` adds to the reference counts, and to the memory that Python holds for lines of this file.

    Other threads of the process allocate meanwhile, and so does what measures coverage.
    """
    work()  # what is made once is made here
    gc.collect()
    counts = [sys.getrefcount(one) for one in references]
    tracemalloc.start()
    try:
        work()
        gc.collect()
        kept = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(inclusive=True, filename_pattern=__file__)]
        )
    finally:
        tracemalloc.stop()
    after = [sys.getrefcount(one) for one in references]
    grown = [new - old for new, old in zip(after, counts, strict=True)]
    return grown, sum(trace.size for trace in kept.traces)


def usual_and_unusual_calls(good: Any, bad: Any) -> list[tuple[Any, ...]]:
    """Each way a call can go: new bytes, a target, a bad source, a target too small or read-only."""
    return [
        (good,),
        (bytearray(good),),
        (good, bytearray(64)),
        (bytearray(good), bytearray(64)),
        (bad,),
        (bytearray(bad), bytearray(64)),
        (good, bytearray(1)),
        (bytearray(good), bytes(64)),
        (object(),),
        (good, object()),
    ]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("fixed", narrow(1, 2), narrow(1, 0xFFFFFFFF)), ("variable", b"\x03abc", b"\x03ab")],
)
def test_calls_leak_nothing(empty: Subject, library: ctypes.CDLL, kind: str, good: bytes, bad: bytes) -> None:
    """A hundred thousand, usual and unusual, each holding and letting go of buffers, copies and results."""
    number(library, "overwritten").value = 0
    answer = b"answer"
    routine = Routine(lambda *arguments: answer)
    if kind == "fixed":
        install_fixed(routine, library)
    else:
        install_variable(routine, library)
    call: Any = routine.call
    ways = usual_and_unusual_calls(good, bad)

    def work() -> None:
        for _ in range(CALLS // len(ways)):
            for arguments in ways:
                call(*arguments)

    held = [answer, routine, call, library, *ways, *(one for way in ways for one in way)]
    references, memory = grown_by(work, held)
    assert references == [0] * len(held)
    assert memory < CALLS // 100, "less than a byte for every hundred calls"
    assert (routine.compiled, routine.interpreted) == (CALLS * 8 // 10, CALLS * 12 // 10)


def test_failing_calls_leak_nothing(fixed: Subject) -> None:
    """The fallback's exception, a wrong number of arguments."""
    call: Any = fixed.routine.call
    source = narrow(1, 0xFFFFFFFF)
    ways: list[tuple[Any, ...]] = [(), (source,), (b"abc",), (source, None)]

    def work() -> None:
        for _ in range(CALLS // len(ways)):
            for arguments in ways:
                with contextlib.suppress(TypeError, RefusedError):
                    call(*arguments)
            fixed.fallback.asked.clear()

    references, memory = grown_by(work, [fixed.routine, call, source, *ways])
    assert references == [0] * 7
    assert memory < CALLS // 100


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="ASan ends the process instead")
def test_running_out_of_memory_is_a_memory_error_and_leaks_nothing(
    fixed: Subject, library: ctypes.CDLL
) -> None:
    """It says nothing about the data, and the slow way would need as much."""
    install_fixed(fixed.routine, library, target_size=2**61)
    sources: list[bytes | bytearray] = [narrow(1, 2), bytearray(narrow(1, 2))]

    def work() -> None:
        for _ in range(CALLS // 100):
            for source in sources:
                with pytest.raises(MemoryError):
                    fixed.routine.call(source)

    references, memory = grown_by(work, [fixed.routine, *sources])
    assert references == [0] * 3
    assert memory < CALLS // 100
    assert (fixed.routine.compiled, fixed.routine.interpreted) == (0, 0)


def test_installing_leaks_nothing(empty: Subject, library: ctypes.CDLL) -> None:
    """Also when it is refused, and when a Routine goes with its code installed."""
    owner = Owner()
    widen = address(library, "widen")

    def work() -> None:
        for _ in range(CALLS // 100):
            empty.routine.install_fixed(widen, 4, 8, owner)
            empty.routine.install_variable(widen, widen, widen, keep_alive=owner)
            with pytest.raises(ValueError, match="at least 1 byte"):
                empty.routine.install_fixed(widen, 0, 8, owner)
            Routine(empty.fallback).install_fixed(widen, 4, 8, owner)
        empty.routine.clear()

    references, memory = grown_by(work, [owner, empty.routine, empty.fallback, library, Routine])
    assert references == [0] * 5
    assert memory < CALLS // 100
