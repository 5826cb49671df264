"""Conversions as components use them: tiers, the cache, buffers, errors with a path, threads, memory."""

from __future__ import annotations

import array
import json
import os
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen import conversion
from echo_core.codegen.conversion import LARGE_BYTES, Conversion, Tier, converter
from echo_core.codegen.machine import background, engine, store
from echo_core.codegen.machine.budgets import Allowance, Budget, Payers
from echo_core.codegen.machine.cache import Cache, default_cache, set_cache
from echo_core.codegen.plain.records import read, write
from echo_core.errors import (
    CompileError,
    ConversionError,
    EchoError,
    FormatError,
    IncompatibleError,
    WireError,
)
from echo_core.formats.abi import NATIVE
from echo_core.formats.format import Format
from echo_core.formats.layout import place
from echo_core.formats.types import Default, Field, Nullable, Sequence, StaticArray, Text
from tests.codegen.pairs import (
    FLOAT64,
    INT16,
    INT32,
    INT64,
    S390X,
    UINT8,
    Pair,
    format_of_types,
    format_with,
)
from tests.formats.samples import Particle

ROOT = Path(__file__).resolve().parents[2]
DRAIN_S = 300.0  # so long may compilation in the background take before a test fails


@pytest.fixture(name="cache", autouse=True)
def fixture_cache(tmp_path: Path) -> Iterator[Cache]:
    """An empty cache of the test's own; the one before is put back."""
    before = default_cache()
    assert background.drain(DRAIN_S)  # of what an earlier test has left
    cache = Cache(tmp_path / "cache")
    set_cache(cache)
    yield cache
    assert background.drain(DRAIN_S)
    set_cache(before)


FIXED = Pair(format_of_types(S390X, a=INT32, b=FLOAT64), format_of_types(NATIVE, b=FLOAT64, a=INT64))
VARIABLE = Pair(
    format_of_types(S390X, t=Text(8), a=Sequence(INT32, (None,), 8)),
    format_of_types(NATIVE, a=Sequence(INT64, (None,), 8), t=Text(8)),
)
MESSAGES = {
    FIXED: FIXED.message({"a": -5, "b": 0.5}),
    VARIABLE: VARIABLE.message({"t": "größe", "a": [1, -2, 3]}),
}
PAIRS = pytest.mark.parametrize("pair", [FIXED, VARIABLE], ids=["fixed", "variable"])
TIERS = pytest.mark.parametrize("tier", ["compiled", "interpreted"])


def made(pair: Pair, tier: Tier, *, lossy: bool = False) -> Conversion:
    """A conversion in this tier."""
    found = Conversion(pair.sender, pair.receiver, lossy=lossy)
    found.begin(tier)
    return found


def expected(pair: Pair) -> bytes:
    """What becomes of the pair's message."""
    record = pair.expected(MESSAGES[pair])
    assert isinstance(record, bytes)
    return record


def counts(found: Conversion) -> tuple[int, int]:
    """How many calls compiled code answered, and how many the interpreter."""
    return found.routine.compiled, found.routine.interpreted


# ---------------------------------------------------------------------------------------------------
# Tiers


@PAIRS
def test_first_call_is_interpreted_and_a_later_one_is_compiled(pair: Pair) -> None:
    """By the same callable, with the same result."""
    found = Conversion(pair.sender, pair.receiver)
    call = found.call
    assert call(MESSAGES[pair]) == expected(pair)
    assert counts(found) == (0, 1)
    found.compile()
    assert call(MESSAGES[pair]) == expected(pair)
    assert counts(found) == (1, 1)
    assert found.call is call


@PAIRS
def test_code_compiled_in_the_background_is_used_when_it_is_there(pair: Pair) -> None:
    """Nobody waits for it: the first call comes before."""
    found = made(pair, "auto")
    assert found.call(MESSAGES[pair]) == expected(pair)
    assert background.drain(DRAIN_S)
    assert found.routine.is_compiled
    before = counts(found)[0]
    assert found.call(MESSAGES[pair]) == expected(pair)
    assert counts(found)[0] == before + 1


def test_compiler_that_is_busy_keeps_no_call_waiting() -> None:
    """The job before takes as long as it likes; meanwhile calls are interpreted."""
    release = threading.Event()

    def wait() -> None:
        release.wait(DRAIN_S)

    assert background.submit(wait)
    found = made(FIXED, "auto")
    for _ in range(10):
        assert found.call(MESSAGES[FIXED]) == expected(FIXED)
    assert counts(found) == (0, 10)
    release.set()
    assert background.drain(DRAIN_S)
    assert found.call(MESSAGES[FIXED]) == expected(FIXED)
    assert counts(found) == (1, 10)


@dataclass
class Bits:
    bits: list[bool]


FEW_BITS = struct.pack(">QQ", 16, 8) + bytes([0, 1] * 4)
MANY_BITS = struct.pack(">QQ", 16, 2 * LARGE_BYTES) + bytes([0, 1] * LARGE_BYTES)


@pytest.fixture
def busy_compiler() -> Iterator[None]:
    """It does nothing else until the test is over."""
    release = threading.Event()

    def wait() -> None:
        release.wait(DRAIN_S)

    assert background.submit(wait)
    yield
    release.set()
    assert background.drain(DRAIN_S)


def foreign_bits() -> Conversion:
    return Conversion(echo.format_of(Bits, abi="s390x"), echo.format_of(Bits))


@pytest.mark.usefixtures("busy_compiler")
def test_a_large_record_has_code_compiled_at_once() -> None:
    """To interpret it would take longer; small ones are interpreted until it is the code's turn."""
    found = foreign_bits()
    found.begin("auto")
    assert len(found.call(FEW_BITS)) == len(FEW_BITS)
    assert counts(found) == (0, 1)
    assert found.call(MANY_BITS)[16:] == MANY_BITS[16:]
    assert counts(found)[0] == 1
    target = bytearray(len(MANY_BITS))
    again = foreign_bits()
    again.begin("auto")
    assert again.call(MANY_BITS, target) == len(target)
    assert target[16:] == MANY_BITS[16:]


@pytest.mark.usefixtures("busy_compiler")
def test_a_large_record_of_a_peer_without_budget_is_interpreted() -> None:
    budget, payers = Budget(Allowance(0.5, 0.05)), Payers()
    payers.add(budget)
    budget.charge(100.0)
    found = foreign_bits()
    found.begin("auto", payers)
    assert found.call(MANY_BITS)[16:] == MANY_BITS[16:]
    assert not found.routine.is_compiled
    budget.end()


def test_a_large_record_that_is_wrong_is_refused_in_the_same_words() -> None:
    found, interpreted = foreign_bits(), foreign_bits()
    found.begin("auto")
    with pytest.raises(WireError) as compiled_first:
        found.call(MANY_BITS + b"x")
    with pytest.raises(WireError) as words:
        interpreted.call(MANY_BITS + b"x")
    assert str(compiled_first.value) == str(words.value)


def test_interpreted_tier_never_compiles() -> None:
    """Nothing is queued and nothing installed."""
    done = background.statistics()
    found = made(FIXED, "interpreted")
    assert not found.routine.is_compiled
    assert background.statistics() == done


@TIERS
def test_converter_is_a_built_in_function(tier: Tier) -> None:
    """Whatever the tier, and it keeps its conversion alive."""
    call = converter(FIXED.sender, FIXED.receiver, tier=tier)
    assert type(call).__name__ == "builtin_function_or_method"
    assert call(MESSAGES[FIXED]) == expected(FIXED)


def test_compiler_that_refuses_leaves_the_interpreter_in_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here for a limit on the text that it is given."""
    monkeypatch.setattr(engine, "MAX_IR_BYTES", 10)
    found = Conversion(FIXED.sender, FIXED.receiver)
    with pytest.raises(CompileError, match="at most 10 bytes of IR"):
        found.compile()
    assert found.call(MESSAGES[FIXED]) == expected(FIXED)
    assert counts(found) == (0, 1)


def test_pair_that_is_refused_makes_no_conversion() -> None:
    """With the comparison's reasons; consent helps where it is asked for."""
    pair = Pair(format_of_types(NATIVE, a=INT64), format_of_types(NATIVE, a=INT32))
    with pytest.raises(IncompatibleError, match="consent with `lossy=True`"):
        Conversion(pair.sender, pair.receiver)
    assert made(pair, "compiled", lossy=True).call((5).to_bytes(8, "little")) == (5).to_bytes(4, "little")


def test_default_that_only_a_class_can_make_makes_no_conversion() -> None:
    """Bytes have no factory to call."""
    receiver = format_with(NATIVE, Field("a", INT32), Field("b", UINT8, default=Default(local=True)))
    with pytest.raises(IncompatibleError, match=r"R\.b") as caught:
        Conversion(format_of_types(NATIVE, a=INT32), receiver)
    assert caught.value.path == "R.b"


# ---------------------------------------------------------------------------------------------------
# The cache


def compiled_once(pair: Pair = FIXED) -> int:
    """How many compilations a new conversion needs."""
    before = engine.statistics().compiled
    found = made(pair, "compiled")
    assert found.call(MESSAGES[pair]) == expected(pair)
    assert counts(found) == (1, 0)
    return engine.statistics().compiled - before


@PAIRS
def test_second_conversion_of_a_pair_is_found_in_the_cache(pair: Pair, cache: Cache) -> None:
    """Compiled once, written once."""
    assert [compiled_once(pair), compiled_once(pair)] == [1, 0]
    assert (cache.statistics().written, cache.statistics().hits) == (1, 1)


def test_cached_code_is_taken_at_once_by_a_conversion_of_any_tier() -> None:
    """Its first call is compiled."""
    assert compiled_once() == 1
    found = made(FIXED, "auto")
    assert found.call(MESSAGES[FIXED]) == expected(FIXED)
    assert counts(found) == (1, 0)


def test_cached_code_that_takes_llvm_is_left_to_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import would hold up the caller."""
    assert compiled_once() == 1
    monkeypatch.setattr(engine, "is_loaded_at_once", lambda _code: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    release = threading.Event()
    assert background.submit(lambda: assert_released(release))
    found = made(FIXED, "auto")
    assert found.call(MESSAGES[FIXED]) == expected(FIXED)
    assert counts(found) == (0, 1)
    release.set()
    assert background.drain(DRAIN_S)
    assert found.call(MESSAGES[FIXED]) == expected(FIXED)
    assert counts(found) == (1, 1)
    assert compiled_once() == 0


def assert_released(release: threading.Event) -> None:
    """Keeps the compiler's thread until then."""
    assert release.wait(DRAIN_S)


def test_other_pair_has_other_code() -> None:
    """Field for field the same but for one width."""
    other = Pair(FIXED.sender, format_of_types(NATIVE, b=FLOAT64, a=INT32))
    MESSAGES[other] = MESSAGES[FIXED]
    assert [compiled_once(), compiled_once(other)] == [1, 1]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "of others"])
def test_damaged_entry_is_compiled_anew(cache: Cache, damage: str) -> None:
    """Ignored, counted, and written again; the one after finds it whole."""
    assert compiled_once() == 1
    assert cache.folder is not None
    (entry,) = cache.folder.iterdir()
    data = entry.read_bytes()
    if damage == "of others":
        entry.chmod(0o666)
    else:
        flipped = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        entry.write_bytes({"cut": data[:-1], "flipped": flipped, "empty": b""}[damage])
    assert [compiled_once(), compiled_once()] == [1, 0]
    assert cache.statistics().damaged == 1
    assert entry.read_bytes() == data


def test_generator_of_another_version_makes_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached code is the work of the modules that are imported, or it is not used."""
    assert compiled_once() == 1
    monkeypatch.setattr(conversion, "GENERATOR_VERSION", b"another one")
    assert compiled_once() == 1
    monkeypatch.undo()
    assert compiled_once() == 0


def test_version_of_the_generator_is_that_of_its_modules() -> None:
    """All that take part in making code are among them."""
    assert len(conversion.GENERATOR_VERSION) == 16
    named: tuple[str, ...] = conversion._GENERATOR  # pyright: ignore[reportPrivateUsage]
    folder = Path(conversion.__file__).parents[1]
    assert all((folder / f"{name}.py").exists() for name in named)
    assert reached(folder, {"codegen/plans/planner", "codegen/emit/emitter", "codegen/emit/columns"}) <= set(
        named
    )


def reached(folder: Path, modules: set[str]) -> set[str]:
    """These modules and those of codegen that they import, and so on."""
    found = set(modules)
    for module in modules:
        text = (folder / f"{module}.py").read_text()
        imported = re.findall(r"^from echo_core\.codegen\.([\w.]+) ", text, re.MULTILINE)
        found |= {f"codegen/{name}".replace(".", "/") for name in imported}
    return found if found == modules else reached(folder, found)


WITHOUT_CACHE = """
import sys
import echo_core as echo
from echo_core.codegen.machine import engine
from echo_core.codegen.machine.cache import default_cache
from echo_core.codegen.conversion import Conversion
from tests.formats.samples import Particle
for _ in range(2):
    Conversion(echo.format_of(Particle, abi="s390x"), echo.format_of(Particle)).compile()
print(default_cache().folder, engine.statistics().compiled)
"""


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def test_cache_is_turned_off_by_the_environment(tmp_path: Path) -> None:
    """`ECHO_CACHE=0` keeps nothing and reads nothing; a path is where it is kept."""
    assert python(WITHOUT_CACHE, ECHO_CACHE="0", XDG_CACHE_HOME=str(tmp_path)).split() == ["None", "2"]
    assert list(tmp_path.iterdir()) == []
    folder = tmp_path / "here"
    for compiled in ("1", "0"):
        assert python(WITHOUT_CACHE, ECHO_CACHE=str(folder)).split() == [str(folder), compiled]
    assert len(list(folder.iterdir())) == 1


# ---------------------------------------------------------------------------------------------------
# Sources


def sources() -> dict[str, Any]:
    """Three records of FIXED in all that holds bytes."""
    data = MESSAGES[FIXED] * 3
    records = np.frombuffer(data, FIXED.sender.dtype)
    return {
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "part of a memoryview": memoryview(b"x" + data + b"y")[1:-1],
        "array.array": array.array("B", data),
        "numpy bytes": np.frombuffer(data, np.uint8),
        "numpy records": records,
        "numpy records in a table": records.reshape(3, 1),
        "some of many numpy records": np.frombuffer(data * 2, FIXED.sender.dtype)[2:5],
        "numpy, read-only": np.frombuffer(bytes(data), ">i8"),
    }


@TIERS
@pytest.mark.parametrize("name", sources())
def test_source_is_whatever_holds_bytes(name: str, tier: Tier) -> None:
    """Side by side, in any shape."""
    found = made(FIXED, tier)
    assert found.call(sources()[name]) == expected(FIXED) * 3
    assert counts(found) == ((1, 0) if tier == "compiled" else (0, 1))


@TIERS
def test_records_of_fixed_size_are_converted_by_the_run(tier: Tier) -> None:
    """Any number, none included."""
    call = made(FIXED, tier).call
    for count in (0, 1, 2, 5, 1000):
        assert call(MESSAGES[FIXED] * count) == expected(FIXED) * count
    for empty in (b"", bytearray(), np.zeros(0, FIXED.sender.dtype), np.zeros((0, 3)), np.zeros((3, 0))):
        assert call(empty) == b""


@TIERS
@PAIRS
def test_source_of_a_wrong_size_is_the_peers_fault(pair: Pair, tier: Tier) -> None:
    """Whole records only, and of those with variable parts exactly one."""
    call = made(pair, tier).call
    message = MESSAGES[pair]
    for wrong in (message[:-1], message + b"\0", message[:1]):
        with pytest.raises(WireError, match="R"):
            call(wrong)
    if pair is VARIABLE:
        for wrong in (b"", message * 2):
            with pytest.raises(WireError, match="R"):
                call(wrong)


@TIERS
def test_source_with_gaps_is_refused(tier: Tier) -> None:
    """What is not side by side would have to be copied, which the caller can do."""
    call = made(FIXED, tier).call
    records = np.frombuffer(MESSAGES[FIXED] * 4, FIXED.sender.dtype)
    for source in (records[::2], memoryview(MESSAGES[FIXED] * 4)[::2], records.reshape(2, 2).T):
        with pytest.raises(FormatError, match="a contiguous buffer"):
            call(source)


@TIERS
@pytest.mark.parametrize("source", ["text", None, 5, [1, 2]], ids=str)
def test_source_without_bytes_is_the_callers_fault(source: Any, tier: Tier) -> None:
    """With its type named."""
    with pytest.raises(FormatError, match=f"got `{type(source).__name__}`"):
        made(FIXED, tier).call(source)


@TIERS
def test_number_of_arguments_is_1_or_2(tier: Tier) -> None:
    """As of any function."""
    call = made(FIXED, tier).call
    with pytest.raises(TypeError):
        call()
    with pytest.raises(TypeError):
        call(b"", bytearray(), b"")
    assert call(b"", None) == b""


# ---------------------------------------------------------------------------------------------------
# Targets


@TIERS
@PAIRS
def test_target_takes_the_record_and_keeps_the_rest(pair: Pair, tier: Tier) -> None:
    """The result is how many bytes were written at its start."""
    call = made(pair, tier).call
    record = expected(pair)
    for room in (0, 1, 100):
        target = bytearray(b"\xaa" * (len(record) + room))
        assert call(MESSAGES[pair], target) == len(record)
        assert target == record + b"\xaa" * room


@TIERS
def test_target_may_be_a_numpy_array_or_a_view(tier: Tier) -> None:
    """Records of the receiver's dtype are where converted records belong."""
    found = made(FIXED, tier)
    target = np.zeros(3, FIXED.receiver.dtype)
    assert found.call(MESSAGES[FIXED] * 3, target) == 48
    assert target["a"].tolist() == [-5] * 3
    assert target["b"].tolist() == [0.5] * 3
    room = bytearray(60)
    assert found.call(MESSAGES[FIXED], memoryview(room)[3:19]) == 16
    assert room[3:19] == expected(FIXED)
    assert not any(room[:3] + room[19:])


@TIERS
@PAIRS
def test_target_that_cannot_take_the_record_is_left_as_it_was(pair: Pair, tier: Tier) -> None:
    """Too short, read-only, with gaps, or no buffer at all."""
    call = made(pair, tier).call
    size = len(expected(pair))
    short = bytearray(size - 1)
    with pytest.raises(FormatError, match=f"a writable target of at least {size} bytes, got {size - 1}"):
        call(MESSAGES[pair], short)
    assert not any(short)
    held: list[Any] = [bytes(size), memoryview(bytes(size))]
    for target in held:
        with pytest.raises(FormatError, match="read-only"):
            call(MESSAGES[pair], target)
    held = [memoryview(bytearray(2 * size))[::2], "text", 5]
    for target in held:
        with pytest.raises(FormatError, match="contiguous buffer as target"):
            call(MESSAGES[pair], target)


@TIERS
def test_target_that_overlaps_the_source_is_refused(tier: Tier) -> None:
    """Where a record would be written over what is still to be read; beyond it they may meet."""
    call = made(FIXED, tier).call
    room = bytearray(MESSAGES[FIXED] + bytes(24))
    for first in (0, 1, 8, 15):
        with pytest.raises(FormatError, match="apart from the source"):
            call(memoryview(room)[:16], memoryview(room)[first:])
    assert room == MESSAGES[FIXED] + bytes(24)
    assert call(memoryview(room)[:16], memoryview(room)[16:]) == 16
    back = bytearray(bytes(16) + MESSAGES[FIXED])
    assert call(memoryview(back)[16:], back) == 16  # the target is longer than what is written
    assert back == expected(FIXED) + MESSAGES[FIXED]


@TIERS
def test_empty_source_writes_nothing(tier: Tier) -> None:
    """To any target, an empty one included."""
    call = made(FIXED, tier).call
    assert call(b"", bytearray()) == 0
    target = bytearray(b"\xaa")
    assert call(b"", target) == 0
    assert target == b"\xaa"


# ---------------------------------------------------------------------------------------------------
# Errors


CELL = [place("Cell", [Field("x", INT64)], S390X), place("Cell", [Field("x", INT16)], NATIVE)]
NARROW = Pair(
    format_of_types(S390X, cells=Sequence(CELL[0], (None,), 8), t=Text(8)),
    format_of_types(NATIVE, cells=Sequence(CELL[1], (None,), 8), t=Text(8)),
)


@TIERS
def test_value_that_does_not_fit_is_named_with_its_path(tier: Tier) -> None:
    """Compiled code says no more than no; the interpreter finds the words."""
    found = made(NARROW, tier, lossy=True)
    message = NARROW.message({"cells": [{"x": 1}, {"x": 40000}], "t": ""})
    with pytest.raises(ConversionError, match="Expected `int16` from -32768 to 32767, got 40000") as caught:
        found.call(message)
    assert caught.value.path == "R.cells[1].x"
    assert counts(found) == (0, 1)


@TIERS
@pytest.mark.parametrize(
    ("at", "path"), [(7, "R.cells"), (15, "R.cells"), (23, "R.t")], ids=["offset", "count", "text"]
)
def test_slot_that_leads_elsewhere_is_named_with_its_path(at: int, path: str, tier: Tier) -> None:
    """The peer's fault."""
    message = bytearray(NARROW.message({"cells": [{"x": 1}], "t": "abc"}))
    message[at] ^= 0x40
    with pytest.raises(WireError) as caught:
        made(NARROW, tier, lossy=True).call(bytes(message))
    assert caught.value.path == path


@TIERS
def test_one_record_of_a_run_that_does_not_fit_fails_the_run(tier: Tier) -> None:
    """And writes nothing that counts."""
    pair = Pair(format_of_types(S390X, a=INT64), format_of_types(NATIVE, a=UINT8))
    data = b"".join(n.to_bytes(8, "big") for n in (1, 2, 256, 3))
    with pytest.raises(ConversionError, match="got 256") as caught:
        made(pair, tier, lossy=True).call(data)
    assert caught.value.path == "R.a"


@TIERS
def test_records_that_could_have_parts_come_one_by_one(tier: Tier) -> None:
    """Also where no record of this sender's has any: two in a row would be one that is too long."""
    sender = format_of_types(S390X, a=INT64)
    receiver = format_with(NATIVE, Field("a", INT64), Field("t", Nullable(Text(8)), default=Default(None)))
    pair = Pair(sender, receiver)
    message, found = pair.message({"a": 1}), made(pair, tier)
    assert found.call(message) == (1).to_bytes(8, NATIVE.byte_order) + bytes(8)
    for wrong in (message * 2, message[:-1], b""):
        with pytest.raises(WireError):
            found.call(wrong)


@TIERS
def test_every_error_is_one_of_ours(tier: Tier) -> None:
    """Whatever a record holds."""
    found = made(NARROW, tier, lossy=True)
    message = NARROW.message({"cells": [{"x": 1}], "t": "é"})
    refused = {
        at for at in range(len(message)) if not converts(found, message[:at] + b"\xff" + message[at + 1 :])
    }
    text = message.index("é".encode())
    assert refused > {text, text + 1}


def converts(found: Conversion, message: bytes) -> bool:
    """Whether a message is taken; anything but an error of ours fails the test."""
    try:
        return bool(found.call(message))
    except EchoError:
        return False


# ---------------------------------------------------------------------------------------------------
# Threads and memory


def test_threads_convert_and_compile_at_once() -> None:
    """One conversion, called from all sides while its code arrives."""
    found = Conversion(VARIABLE.sender, VARIABLE.receiver)
    wrong: list[bytes] = []
    enough = threading.Barrier(5)

    def work() -> None:
        enough.wait()
        for _ in range(2000):
            record = found.call(MESSAGES[VARIABLE])
            if record != expected_record:
                wrong.append(record)

    expected_record = expected(VARIABLE)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    enough.wait()
    found.compile()
    for thread in threads:
        thread.join()
    assert found.call(MESSAGES[VARIABLE]) == expected_record  # by code at last, if not before
    assert wrong == []
    assert sum(counts(found)) == 8001
    assert counts(found)[0] > 0


def test_large_source_is_converted_by_two_threads_at_once() -> None:
    """With the GIL released, into targets of their own."""
    found = made(FIXED, "compiled")
    data = np.zeros(20_000, FIXED.sender.dtype)
    data["a"] = np.arange(20_000)
    targets = [np.zeros(20_000, FIXED.receiver.dtype) for _ in range(2)]
    threads = [threading.Thread(target=found.call, args=(data, target)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for target in targets:
        assert (target["a"] == np.arange(20_000)).all()


MEMORY = """
import json
import echo_core as echo
from echo_core.codegen.conversion import Conversion
from echo_core.formats.types import Field
from tests.codegen.pairs import *
from tests.formats.samples import Particle

def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

def conversion(i):
    particle = echo.format_of(Particle, abi="s390x")
    members = [*particle.fields, Field(f"extra{i}", INT32)]
    made = Conversion(format_with(S390X, *members, name="Particle"), echo.format_of(Particle))
    made.compile()
    return made

held = [conversion(i) for i in range(30)]
before = resident_kib()
held += [conversion(i) for i in range(30, 230)]
print(json.dumps((resident_kib() - before) / 200))
"""


@pytest.mark.slow
def test_live_conversion_takes_less_than_64_kib() -> None:
    """200 of them, compiled, formats and plans included: the slope of the process's memory."""
    assert json.loads(python(MEMORY, ECHO_CACHE="0")) < 64


def test_conversion_that_is_dropped_is_collected_with_its_code() -> None:
    """Its callable holds it and it holds its callable; the collector finds both."""
    import gc

    background.drain(DRAIN_S)
    made(VARIABLE, "compiled")
    gc.collect()
    mapped = engine.statistics().loaded - engine.statistics().unloaded
    for _ in range(5):
        made(VARIABLE, "compiled").call(MESSAGES[VARIABLE])
    gc.collect()
    assert engine.statistics().loaded - engine.statistics().unloaded == mapped


def test_particle_of_the_benchmark_is_what_its_encoder_writes() -> None:
    """From the other byte order, by hand and by machine."""
    sender, receiver = (echo.format_of(Particle, abi=abi) for abi in ("s390x", "native"))
    particle = Particle(1, 2.0, -3.0, 4.5, 0.5, 0.25, -0.5, 300.0, 7, -3, 255, True, 1e-27, -1e-19, "täg", 9)
    data = echo.encoder(Particle, abi="s390x")(particle)
    for tier in ("interpreted", "compiled"):
        assert converter(sender, receiver, tier=tier)(data) == echo.encoder(Particle)(particle)


def test_pair_of_formats_may_be_described_by_their_metadata_alone() -> None:
    """As a peer's are."""
    sender = Format.from_metadata(VARIABLE.sender.metadata)
    data = made(Pair(sender, VARIABLE.receiver), "compiled").call(MESSAGES[VARIABLE])
    assert read(data, VARIABLE.receiver.layout)["t"] == "größe"
    assert data == write(read(data, VARIABLE.receiver.layout), VARIABLE.receiver.layout)


def test_array_of_arrays_in_a_record_is_converted_whole() -> None:
    """Rows after rows, as they lie."""
    shapes = StaticArray(INT16, (3, 4)), StaticArray(INT64, (3, 4))
    pair = Pair(format_of_types(S390X, a=shapes[0]), format_of_types(NATIVE, a=shapes[1]))
    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    data = made(pair, "compiled").call(pair.message({"a": values}))
    assert (np.frombuffer(data, np.int64).reshape(3, 4) == values).all()


def test_without_a_compiler_what_is_converted_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the key of cached code cannot be known then."""

    def refuse() -> tuple[str, ...]:
        msg = "llvmlite cannot be imported"
        raise CompileError(msg)

    monkeypatch.setattr(store, "identity_of_machine", refuse)
    sender, receiver = echo.format_of(Particle, abi="s390x"), echo.format_of(Particle)
    data, interpreted = bytes(sender.size_bytes), echo.converter(sender, receiver, tier="interpreted")
    assert echo.converter(sender, receiver)(data) == interpreted(data)
