"""Blocks do what LLVM's linker makes of the same objects; what cannot be a block is not made one."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import code as native_code
from echo_core.codegen.machine import elf, engine, flat
from echo_core.codegen.machine.cache import default_cache, disable_cache, set_cache
from echo_core.codegen.machine.engine import compile_ir, compile_object, load, native_target
from echo_core.errors import CompileError
from echo_core.formats.abi import ABI_BY_NAME, NATIVE
from echo_core.formats.types import Sequence, Text
from tests.codegen.machine_code import Code, Level, levels
from tests.codegen.pairs import (
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    S390X,
    Pair,
    format_of_types,
    messages,
    pair_from,
)
from tests.formats.strategies import examples
from tests.formats.test_compilers import compiler_for

ROOT = Path(__file__).resolve().parents[2]
LEVELS = pytest.mark.parametrize("level", levels(), ids=lambda level: level.name)
IS_LAID_OUT = pytest.mark.skipif(native_code.MACHINE == 0, reason="a machine that no code is laid out for")

pytestmark = IS_LAID_OUT

FIXED = Pair(
    format_of_types(S390X, a=INT32, b=FLOAT64, c=INT16, d=FLOAT32),
    format_of_types(NATIVE, b=FLOAT64, a=INT64, d=FLOAT64, c=INT32),
)
VARIABLE = Pair(
    format_of_types(S390X, t=Text(8), a=Sequence(INT32, (None,), 8)),
    format_of_types(NATIVE, a=Sequence(INT64, (None,), 8), t=Text(8)),
)
PLAIN: dict[Pair, dict[str, Any]] = {
    FIXED: {"a": -5, "b": 0.5, "c": -300, "d": 2.5},
    VARIABLE: {"t": "größe", "a": [1, -2, 3]},
}

TABLES = """
@numbers = internal constant [4 x i64] [i64 11, i64 22, i64 33, i64 44]
@letters = internal constant [5 x i8] c"abcde"

define i64 @found(i64 %i) {
  %place = getelementptr [4 x i64], ptr @numbers, i64 0, i64 %i
  %number = load i64, ptr %place
  %letter = load i8, ptr getelementptr ([5 x i8], ptr @letters, i64 0, i64 3)
  %wide = zext i8 %letter to i64
  %sum = add i64 %number, %wide
  ret i64 %sum
}
"""

FOUND = [111, 122, 133, 144]


# ---------------------------------------------------------------------------------------------------
# Agreement with LLVM's linker


@LEVELS
@examples(40)
@given(data=st.data())
def test_blocks_convert_as_linked_objects_do(level: Level, data: st.DataObject) -> None:
    """Random pairs, of which every one can be a block."""
    pair = pair_from(data, abi=NATIVE)
    parts = pair.plan, pair.verification
    mapped = Code(*parts, level)
    linked = Code(*parts, level, is_linked=True)
    assert flat.is_flat(mapped.code)
    assert not flat.is_flat(linked.code)
    message = data.draw(messages(pair))
    assert mapped.verify(message)
    assert mapped.convert(message) == linked.convert(message)


@LEVELS
@pytest.mark.parametrize("pair", [FIXED, VARIABLE], ids=["fixed", "variable"])
def test_blocks_convert(level: Level, pair: Pair) -> None:
    """By vectors with constants, and by the C library's functions."""
    message = pair.message(PLAIN[pair])
    assert Code(pair.plan, pair.verification, level).convert(message) == pair.expected(message)


def test_constants_are_part_of_the_block() -> None:
    """Each at its alignment; code finds them wherever the block comes to lie."""
    code = compile_ir(TABLES, native_target())
    held = [load(code, ["found"]) for _ in range(3)]
    for loaded in held:
        found = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.addresses["found"])
        assert [found(i) for i in range(4)] == FOUND


@pytest.fixture(name="no_cache")
def fixture_no_cache() -> Iterator[None]:
    """Everything is compiled."""
    before = default_cache()
    disable_cache()
    yield
    set_cache(before)


def codecs() -> tuple[Any, ...]:
    """What the codecs of a new class make of an event and of its record."""

    @echo.event
    class Measured:
        at: float
        count: echo.Int32
        name: echo.Chars[16]

    echoed = Measured(0.5, 7, "north")
    there = echo.encoder(Measured, tier="compiled")(echoed)
    back = echo.decoder(Measured, tier="compiled")(there)
    foreign = echo.encoder(Measured, abi="s390x")(echoed)
    columns = echo.column_decoder(Measured, tier="compiled")(there * 20)
    other = echo.decoder(Measured, sender=echo.format_of(Measured, abi="s390x"), tier="compiled")
    return (
        there,
        [getattr(back, name) for name in ("at", "count", "name")],
        [getattr(other(foreign), name) for name in ("at", "count", "name")],
        {name: column.tobytes() for name, column in columns.items()},
    )


@pytest.mark.usefixtures("no_cache")
def test_codecs_by_blocks_and_by_linked_objects_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events, conversions and columns; none of their code needs the linker."""
    before = engine.statistics()
    mapped = codecs()
    after = engine.statistics()
    assert after.linked == before.linked
    assert after.loaded > before.loaded
    monkeypatch.setattr(engine, "compile_ir", compile_object)
    assert codecs() == mapped
    assert engine.statistics().linked > after.linked


# ---------------------------------------------------------------------------------------------------
# What cannot be a block

STATE = "@state = internal global i64 5\ndefine i64 @f() {\n  %v = load i64, ptr @state\n  ret i64 %v\n}\n"
FIVE = "@five = internal constant i64 5\n"
UNKNOWN = {
    "writable data": STATE,
    "zeroed data": STATE.replace("i64 5", "i64 0"),
    "constant with an address": FIVE + "@at = constant ptr @five\ndefine i64 @f() {\n"
    "  %p = load volatile ptr, ptr @at\n  %v = load i64, ptr %p\n  ret i64 %v\n}\n",
    "data outside": "@environ = external global ptr\ndefine i64 @f() {\n"
    "  %v = load ptr, ptr @environ\n  %i = ptrtoint ptr %v to i64\n  ret i64 %i\n}\n",
    "address of a function outside": "declare ptr @memcpy(ptr, ptr, i64)\n"
    "define ptr @f() {\n  ret ptr @memcpy\n}\n",
    "weak function outside": "declare extern_weak void @echo_no_such_function()\n"
    "define void @f() {\n  call void @echo_no_such_function()\n  ret void\n}\n",
    "data of threads": STATE.replace("internal global", "internal thread_local global"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_takes_a_linker_is_not_made_a_block(name: str) -> None:
    """It stays an object."""
    assert flat.flatten(compile_object(UNKNOWN[name], native_target())) is None


@pytest.mark.parametrize(("name", "result"), [("writable data", 5), ("constant with an address", 5)])
def test_what_takes_a_linker_is_linked(name: str, result: int) -> None:
    """And does what it should."""
    before = engine.statistics().linked
    loaded = load(compile_ir(UNKNOWN[name], native_target()), ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.addresses["f"])() == result
    assert engine.statistics().linked == before + 1


def test_object_for_another_machine_is_not_made_a_block() -> None:
    """Its relocations mean something else."""
    code = bytearray(compile_object(TABLES, native_target()))
    code[18:20] = (22).to_bytes(2, "little")  # s390
    assert flat.flatten(bytes(code)) is None


@pytest.mark.parametrize("text", [TABLES, STATE], ids=["tables", "state"])
def test_damaged_object_is_never_more_than_not_made_a_block(text: str) -> None:
    """Cut anywhere, or with any byte inverted, it is a block that is whole or none, and no other error."""
    whole = compile_object(text, native_target())
    for damaged in _damaged(whole):
        try:
            elf.read(damaged)
        except elf.UnknownObjectError:
            assert flat.flatten(damaged) is None
        block = flat.flatten(damaged)
        assert block is None or block.startswith(b"echo.fl1")


def _damaged(whole: bytes) -> Iterator[bytes]:
    for at in range(len(whole)):
        yield whole[:at]
        yield whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]


# ---------------------------------------------------------------------------------------------------
# Malformed blocks


def block_with_imports() -> bytes:
    """A block of two functions that calls two."""
    text = "declare i64 @strlen(ptr)\ndeclare ptr @memchr(ptr, i32, i64)\n"
    text += "define i64 @f(ptr %s) {\n  %n = call i64 @strlen(ptr %s)\n  ret i64 %n\n}\n"
    text += "define ptr @g(ptr %s) {\n  %n = call ptr @memchr(ptr %s, i32 0, i64 9)\n  ret ptr %n\n}\n"
    return compile_ir(text, native_target())


def test_block_tells_its_parts() -> None:
    """Functions and imports by name, all inside the image."""
    machine, image, exports, imports = flat.parse(block_with_imports())
    assert machine == native_code.MACHINE
    assert set(exports) == {"f", "g"}
    assert set(imports) == {"memchr", "strlen"}
    assert all(0 <= at < len(image) for at in (*exports.values(), *imports.values()))


def test_truncated_block_is_refused() -> None:
    """At every offset, by a CompileError."""
    block = block_with_imports()
    for at in range(len(b"echo.fl1"), len(block)):
        with pytest.raises(CompileError):
            load(block[:at], ["f"])
    with pytest.raises(CompileError):
        load(block + b"\0", ["f"])


def test_flipped_bits_of_the_head_are_refused_or_stay_inside() -> None:
    """A digest is the cache's business; here nothing may lead outside the image. Nothing is run."""
    block = block_with_imports()
    image = flat.parse(block).image
    for at in range(len(block) - len(image)):
        for bit in range(8):
            flipped = block[:at] + bytes([block[at] ^ 1 << bit]) + block[at + 1 :]
            try:
                loaded = load(flipped, ["f"])
            except CompileError:
                continue
            _, image, exports, imports = flat.parse(flipped)
            assert 0 <= exports["f"] < len(image)
            assert all(at + 8 <= len(image) for at in imports.values())
            assert loaded.addresses


@pytest.mark.parametrize("at", range(8, 28, 4))
@pytest.mark.parametrize("number", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_absurd_numbers_in_the_head_are_refused(at: int, number: int) -> None:
    """Sizes and counts that no block has, and machines that this is not."""
    block = block_with_imports()
    with pytest.raises(CompileError):
        load(block[:at] + number.to_bytes(4, "little") + block[at + 4 :], ["f"])


def test_code_for_another_machine_is_refused() -> None:
    """Though it is a block."""
    other = flat.AARCH64 if native_code.MACHINE == flat.X86_64 else flat.X86_64
    block = block_with_imports()
    with pytest.raises(CompileError, match=f"got code for {other}"):
        load(block[:8] + other.to_bytes(4, "little") + block[12:], ["f"])


def test_refused_blocks_leave_nothing_mapped() -> None:
    """Those whose imports are not found are refused when they are mapped already."""
    gc.collect()
    before = engine.statistics().mapped_bytes
    block = block_with_imports().replace(b"strlen", b"strlem")
    for _ in range(100):
        with pytest.raises(CompileError, match="strlem"):
            load(block, ["f"])
    assert engine.statistics().mapped_bytes == before


# ---------------------------------------------------------------------------------------------------
# Processes without LLVM

WARM = """
import sys
import echo_core as echo
from echo_core.codegen.machine import engine
from tests.formats.samples import Particle

sender = echo.format_of(Particle, abi="s390x")
data = bytes(sender.size_bytes)
echo.converter(sender, echo.format_of(Particle), tier="compiled")(data)
echo.decoder(Particle, sender=sender, tier="compiled")(data)
echo.encoder(Particle, tier="compiled")
echo.column_decoder(Particle, sender=sender, tier="compiled")(data)
permissions = [line.split()[1] for line in open("/proc/self/maps")]
has_llvm = "llvmlite" in sys.modules  # its callbacks, by libffi, lie in memory that is both
assert has_llvm or not any("wx" in each for each in permissions)
print(has_llvm, engine.statistics().compiled > 0, engine.statistics().loaded > 0)
"""


@pytest.mark.skipif(not native_code.cpu(), reason="a CPU that only LLVM knows")
def test_process_that_finds_its_code_in_the_cache_has_no_llvm(tmp_path: Path) -> None:
    """The first one compiles; the second one maps what the first has left."""
    environment = {**os.environ, "ECHO_CACHE": str(tmp_path / "cache")}
    for expected in ("True True True", "False False True"):
        command = [sys.executable, "-c", WARM]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == expected


# ---------------------------------------------------------------------------------------------------
# The other machine

FOR_AARCH64 = """
import sys
from echo_core.codegen.machine import engine, flat
engine.native_target()
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = engine.Target("aarch64-unknown-linux-gnu", "generic", "+neon")
code = engine.compile_ir(sys.argv[1], target)
assert flat.is_flat(code)
print(code.hex())
"""

# Without a C library. The image lies in a section that may be written and run; its slots are filled in here.
ON_AARCH64 = """
typedef unsigned long size_t;
__asm__(".section .image, \\"awx\\"\\n.balign 4096\\n.skip %(page)d\\n.globl image\\n"
        "image: .incbin \\"%(folder)s/image\\"\\n.previous");
extern char image[];
long echo_text_size(const char *, size_t);
int echo_is_utf8(const char *, size_t);
static const char source[] __attribute__((aligned(8))) = {%(source)s};
static char target[4096] __attribute__((aligned(8)));

void *memcpy(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = (char)c;
    return to;
}
void *memchr(const void *at, int c, size_t n)
{
    for (const char *p = at; n > 0; p++, n--)
        if (*(volatile const char *)p == (char)c)
            return (void *)p;
    return 0;
}
size_t strlen(const char *s)
{
    const volatile char *p = s;
    while (*p)
        p++;
    return (size_t)(p - s);
}
static long call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
void _start(void)
{
    size_t size = 0;
    %(imports)s
    %(calls)s
    call(64, 1, (long)target, size);
    call(93, 0, 0, 0);
}
"""

CALLS = {
    True: """
    size = %(size)d;
    if (((int (*)(const char *, char *, size_t))(image + %(convert_many)d))(source, target, 1))
        call(93, 1, 0, 0);
    """,
    False: """
    if (((int (*)(const char *, size_t))(image + %(verify)d))(source, sizeof source))
        call(93, 2, 0, 0);
    size = ((size_t (*)(const char *))(image + %(measure)d))(source);
    if (((int (*)(const char *, char *))(image + %(convert)d))(source, target))
        call(93, 3, 0, 0);
    """,
}


@pytest.mark.compilers
@pytest.mark.parametrize("page", [0, 4096 * 5])
@pytest.mark.parametrize("name", ["fixed", "variable"])
def test_blocks_run_on_aarch64(name: str, page: int, tmp_path: Path) -> None:
    """Under qemu, where that is installed: constants, calls outside, at more than one page."""
    qemu, abi = "qemu-aarch64-static", ABI_BY_NAME["aarch64"]
    command = compiler_for(abi)
    if shutil.which(qemu) is None:
        pytest.skip(f"{qemu} is not installed")
    given_pair = FIXED if name == "fixed" else VARIABLE
    receiver = format_of_types(abi, **{field.name: field.type for field in given_pair.receiver.fields})
    pair = Pair(given_pair.sender, receiver)
    message = pair.message(PLAIN[given_pair])
    arm = Level("aarch64", native_target(), 16)
    text = Code(pair.plan, pair.verification, arm).ir
    made = subprocess.run(
        [sys.executable, "-c", FOR_AARCH64, text], cwd=ROOT, check=True, capture_output=True, text=True
    )
    _, image, exports, imports = flat.parse(bytes.fromhex(made.stdout))
    (tmp_path / "image").write_bytes(image)
    filled = [f"*(void **)(image + {at}) = (void *){of};" for of, at in imports.items()]
    source = ON_AARCH64 % {
        "page": page,
        "folder": tmp_path,
        "source": ", ".join(map(str, message)),
        "imports": "\n    ".join(filled),
        "calls": CALLS["convert_many" in exports] % {**exports, "size": receiver.size_bytes},
    }
    (tmp_path / "program.c").write_text(source)
    (tmp_path / "string.h").write_text("void *memchr(), *memcpy();")
    flags = ("-std=gnu11", "-O1", "-ffreestanding", "-fno-builtin", "-nostdlib", "-static", "-w")
    program, sources = str(tmp_path / "program"), [str(tmp_path / "program.c"), "native/code/text.c"]
    built = [*command, *flags, f"-I{tmp_path}", "-o", program, *sources]
    subprocess.run(built, check=True, cwd=ROOT)
    done = subprocess.run([qemu, program], check=True, stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == pair.expected(message)
