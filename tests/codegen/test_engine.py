"""Text to machine code and back out of memory; what may abort or grow a process has a process of its own."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from echo_core.codegen.machine import background, flat
from echo_core.codegen.machine.engine import (
    FORK_WAIT_S,
    LOADS_PER_LINKER,
    MAX_IR_BYTES,
    MAX_OBJECT_BYTES,
    Loaded,
    Target,
    compile_ir,
    compile_object,
    compiler_version,
    load,
    native_target,
    statistics,
)
from echo_core.errors import CompileError

Compile = Callable[[str, Target], bytes]

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
FEATURES_BY_LEVEL = {
    "x86-64": (),
    "x86-64-v2": ("+ssse3", "+sse4.2", "+popcnt"),
    "x86-64-v3": ("+avx2", "+bmi2", "+fma", "+movbe"),
    "x86-64-v4": ("+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl"),
}

ADD = "define i64 @add(i64 %a, i64 %b) {\n  %c = add i64 %a, %b\n  ret i64 %c\n}\n"

REVERSE = ", ".join(f"i32 {63 - i}" for i in range(64))

# Each @name(d, s) makes 64 bytes of 64 bytes. @masked aborts at code generation level 0 with AVX-512. Its
# masked load has the signature of LLVM 20, which later ones rewrite; LLVM 20 does not know theirs.
CORPUS = f"""
define void @reversed(ptr noalias %d, ptr noalias %s) {{
  %v = load <64 x i8>, ptr %s, align 1
  %r = shufflevector <64 x i8> %v, <64 x i8> poison, <64 x i32> <{REVERSE}>
  store <64 x i8> %r, ptr %d, align 1
  ret void
}}

define void @masked(ptr noalias %d, ptr noalias %s) {{
  %b = load i8, ptr %s, align 1
  %n = zext i8 %b to i32
  %m = call <16 x i1> @llvm.get.active.lane.mask.v16i1.i32(i32 0, i32 %n)
  %v = call <16 x i8> @llvm.masked.load.v16i8.p0(ptr %s, i32 1, <16 x i1> %m, <16 x i8> zeroinitializer)
  store <16 x i8> %v, ptr %d, align 1
  ret void
}}

define void @swapped(ptr noalias %d, ptr noalias %s) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr i64, ptr %s, i64 %i
  %to = getelementptr i64, ptr %d, i64 %i
  %v = load i64, ptr %from, align 1
  %w = call i64 @llvm.bswap.i64(i64 %v)
  store i64 %w, ptr %to, align 1
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 8
  br i1 %more, label %loop, label %done
done:
  ret void
}}

declare i64 @llvm.bswap.i64(i64)
declare <16 x i1> @llvm.get.active.lane.mask.v16i1.i32(i32, i32)
declare <16 x i8> @llvm.masked.load.v16i8.p0(ptr, i32, <16 x i1>, <16 x i8>)
"""

GIVEN = bytes([5, *range(1, 64)])  # @masked takes as many bytes as the first one says
EXPECTED = {
    "reversed": GIVEN[::-1],
    "masked": GIVEN[:5] + bytes(59),
    "swapped": b"".join(GIVEN[i : i + 8][::-1] for i in range(0, 64, 8)),
}

CALLS_LIBC = """
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare ptr @memchr(ptr, i32, i64)
declare i64 @strnlen(ptr, i64)

define i64 @copy(ptr %d, ptr %s, i64 %n) {
  call ptr @memset(ptr %d, i32 46, i64 %n)
  %length = call i64 @strnlen(ptr %s, i64 %n)
  call ptr @memcpy(ptr %d, ptr %s, i64 %length)
  %end = call ptr @memchr(ptr %d, i32 46, i64 %n)
  %from = ptrtoint ptr %d to i64
  %to = ptrtoint ptr %end to i64
  %distance = sub i64 %to, %from
  ret i64 %distance
}
"""


# What our own loader maps, and what LLVM's linker does.
WAYS = pytest.mark.parametrize("way", [compile_ir, compile_object], ids=["mapped", "linked"])


def python(code: str, *arguments: str) -> str:
    """What a fresh interpreter prints; this test fails where it dies."""
    command = (sys.executable, "-W", "ignore::DeprecationWarning:", "-c", code, *arguments)
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def added(loaded: Loaded, a: int, b: int) -> int:
    """@add of ADD, called."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(loaded.addresses["add"])
    return int(function(a, b))


def converted(address: int, data: bytes) -> bytes:
    """What a function of CORPUS makes of 64 bytes."""
    made = ctypes.create_string_buffer(64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(address)(ctypes.addressof(made), data)
    return made.raw


def permissions_at(address: int) -> str:
    """What the kernel lets this process do at an address, "" where nothing is mapped."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, permissions = line.split()[:2]
        first, end = (int(part, 16) for part in extent.split("-"))
        if first <= address < end:
            return permissions
    return ""


def padded(text: str, size: int) -> str:
    """The same text with a comment that makes it this long."""
    return f"{text};".ljust(size)


def test_imports_leave_llvmlite_alone() -> None:
    """Neither the front door nor the engine imports llvmlite before something is to be compiled."""
    code = "import sys, echo_core, echo_core.codegen.machine.engine; print('llvmlite' in sys.modules)"
    assert python(code).strip() == "False"


@WAYS
def test_compiled_text_runs(way: Compile) -> None:
    """A function does what its text says."""
    loaded = load(way(ADD, native_target()), ["add"])
    assert added(loaded, 40, 2) == 42


def test_code_is_made_a_block() -> None:
    """Unless something in it takes a linker."""
    assert flat.is_flat(compile_ir(ADD, native_target()))
    assert not flat.is_flat(compile_ir("@state = global i64 5\n" + ADD, native_target()))
    assert compile_object(ADD, native_target()).startswith(b"\x7fELF")


@pytest.mark.parametrize("name", EXPECTED)
def test_compiled_code_does_what_its_text_says(name: str) -> None:
    """Each function of the corpus."""
    loaded = load(compile_ir(CORPUS, native_target()), [name])
    assert converted(loaded.addresses[name], GIVEN) == EXPECTED[name]


COMPILE_FOR_LEVEL = """
import sys
from echo_core.codegen.machine.engine import Target, compile_ir, native_target
print(compile_ir(sys.argv[2], Target(native_target().triple, sys.argv[1], "")).hex())
"""


@pytest.mark.skipif(not native_target().triple.startswith("x86_64"), reason="a machine that is no x86-64")
@pytest.mark.parametrize("level", LEVELS)
def test_corpus_compiles_for_each_level_and_runs_where_it_can(level: str) -> None:
    """No level meets a fatal error of LLVM, which would abort the process that compiles."""
    object_code = bytes.fromhex(python(COMPILE_FOR_LEVEL, level, CORPUS))
    if not set(FEATURES_BY_LEVEL[level]) <= set(native_target().features.split(",")):
        pytest.skip("compiled; this CPU cannot run it")
    loaded = load(object_code, EXPECTED)
    assert {name: converted(loaded.addresses[name], GIVEN) for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize(
    ("target", "size"),
    [
        (Target("x86_64-unknown-linux-gnu", "znver5", "+avx2,+avx512vbmi,+ssse3"), 64),
        (Target("x86_64-unknown-linux-gnu", "skylake-avx512", "+avx2,+avx512f,-avx512vbmi,+ssse3"), 32),
        (Target("x86_64-unknown-linux-gnu", "nehalem", "-avx2,+ssse3"), 16),
        (Target("x86_64-unknown-linux-gnu", "k8", "-ssse3"), 0),
        (Target("x86_64-unknown-linux-gnu", "x86-64", ""), 0),
        (Target("x86_64-unknown-linux-gnu", "x86-64-v2", ""), 16),
        (Target("x86_64-unknown-linux-gnu", "x86-64-v3", ""), 32),
        (Target("x86_64-unknown-linux-gnu", "x86-64-v4", ""), 32),
        (Target("aarch64-unknown-linux-gnu", "generic", "+neon"), 16),
        (Target("arm64-apple-darwin", "apple-m1", ""), 16),
        (Target("s390x-unknown-linux-gnu", "z15", ""), 0),
    ],
)
def test_shuffles_are_as_wide_as_pays(target: Target, size: int) -> None:
    """Byte shuffles take the width at which one instruction does one, or are not used."""
    assert target.vector_bytes == size


def test_native_target_is_this_machine() -> None:
    """The triple names the running architecture, and the answer is computed once."""
    assert native_target().cpu
    assert native_target() is native_target()


def test_version_names_llvm() -> None:
    """Keys of cached objects can tell one LLVM from another."""
    assert "LLVM " in compiler_version()


@pytest.mark.parametrize(
    "text",
    [
        "define i64 @f( {",
        "define i64 @f() {\n  ret i32 0\n}",
        "define i64 @f() {\n  br label %nowhere\n}",
        "declare i64 @f()\ndeclare i64 @f()\ndefine i64 @f() { ret i64 0 }",
        "define void @f() {\n  %x = add i64 %y, 1\n  %y = add i64 %x, 1\n  ret void\n}",
        "; cut \0 short\n" + ADD,
        "; nicht für LLVM\n" + ADD,
        'target triple = "s390x-unknown-linux-gnu"\n' + ADD,
    ],
    ids=["syntax", "type", "label", "twice", "dominance", "nul", "non-ascii", "triple"],
)
def test_wrong_text_is_a_compile_error(text: str) -> None:
    """What LLVM cannot parse or verify, or would not see, is refused by name."""
    with pytest.raises(CompileError):
        compile_ir(text, native_target())


def test_unknown_machine_is_a_compile_error() -> None:
    """A target that LLVM does not know is refused."""
    with pytest.raises(CompileError):
        compile_ir(ADD, Target("pdp11-dec-unix", "", ""))


def test_longest_text_compiles() -> None:
    """Text at the limit is accepted, so is what is one shorter."""
    for size in (MAX_IR_BYTES - 1, MAX_IR_BYTES):
        assert compile_ir(padded(ADD, size), native_target())


def test_longer_text_is_refused() -> None:
    """One byte more is a CompileError that says how much was expected."""
    with pytest.raises(CompileError, match=str(MAX_IR_BYTES)):
        compile_ir(padded(ADD, MAX_IR_BYTES + 1), native_target())


def test_too_much_object_code_is_refused() -> None:
    """Object code over the limit does not get as far as the linker."""
    with pytest.raises(CompileError, match=str(MAX_OBJECT_BYTES)):
        load(bytes(MAX_OBJECT_BYTES + 1), [])


def test_too_much_compiled_code_is_refused() -> None:
    """Short text can ask for much: a table of zeros is all there in the object."""
    text = f"@table = constant [{MAX_OBJECT_BYTES} x i8] zeroinitializer\n"
    with pytest.raises(CompileError, match=str(MAX_OBJECT_BYTES)):
        compile_ir(text, native_target())


@WAYS
def test_missing_function_is_a_compile_error(way: Compile) -> None:
    """A name that the object does not define is refused, and the next load works."""
    code = way(ADD, native_target())
    with pytest.raises(CompileError, match="subtract"):
        load(code, ["subtract"])
    assert added(load(code, ["add"]), 1, 1) == 2


@WAYS
def test_missing_symbol_is_a_compile_error(way: Compile) -> None:
    """Code that calls what is not in the process is refused when it is loaded, not when it is run."""
    text = "declare void @echo_no_such_function()\n"
    text += "define void @f() {\n  call void @echo_no_such_function()\n  ret void\n}\n"
    with pytest.raises(CompileError):
        load(way(text, native_target()), ["f"])


def test_foreign_bytes_are_a_compile_error() -> None:
    """Bytes that are no object code are refused."""
    with pytest.raises(CompileError):
        load(b"no object code", ["f"])


@WAYS
def test_functions_of_the_c_library_are_found(way: Compile) -> None:
    """Text may call memcpy, memset, memchr and strnlen."""
    loaded = load(way(CALLS_LIBC, native_target()), ["copy"])
    made = ctypes.create_string_buffer(8)
    arguments = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
    copy = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(loaded.addresses["copy"])
    assert copy(ctypes.addressof(made), b"echo", 8) == 4
    assert made.raw == b"echo...."


@WAYS
def test_functions_of_our_own_are_found(way: Compile) -> None:
    """Though no other module of the process could be linked with them."""
    text = "declare i64 @echo_text_size(ptr, i64)\n"
    text += "define i64 @f(ptr %s) {\n  %n = call i64 @echo_text_size(ptr %s, i64 5)\n  ret i64 %n\n}\n"
    loaded = load(way(text, native_target()), ["f"])
    size = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(loaded.addresses["f"])
    assert (size(b"echo"), size(b"\xff"), size(b"echo core")) == (4, -1, -1)


@WAYS
def test_code_is_never_writable(way: Compile) -> None:
    """Loaded code can be read and run, not written."""
    loaded = load(way(ADD, native_target()), ["add"])
    assert permissions_at(loaded.addresses["add"]).startswith("r-x")


@WAYS
def test_two_loads_of_one_code_are_two(way: Compile) -> None:
    """The same code and names may be loaded again, and one outlives the other."""
    code = way(ADD, native_target())
    first, second = load(code, ["add"]), load(code, ["add"])
    assert first.addresses != second.addresses
    del first
    gc.collect()
    assert added(second, 20, 3) == 23


def let_go_of_earlier_code() -> None:
    """What other tests have left, so that the counts are this one's."""
    assert background.drain(300.0)
    gc.collect()


@WAYS
def test_collected_code_is_unloaded(way: Compile) -> None:
    """When a Loaded is gone its code is no longer mapped."""
    let_go_of_earlier_code()
    loaded = load(way(ADD, native_target()), ["add"])
    address = loaded.addresses["add"]
    before = statistics().unloaded
    del loaded
    gc.collect()
    assert statistics().unloaded == before + 1
    assert "x" not in permissions_at(address)


def test_statistics_tell_what_is_mapped_and_what_took_the_linker() -> None:
    """Of a block its whole pages are counted, as long as it lives."""
    mapped, linked = compile_ir(ADD, native_target()), compile_object(ADD, native_target())
    let_go_of_earlier_code()
    before = statistics()
    held = [load(mapped, ["add"]), load(mapped, ["add"]), load(linked, ["add"])]
    during = statistics()
    assert (during.loaded, during.linked) == (before.loaded + 3, before.linked + 1)
    assert during.mapped_bytes == before.mapped_bytes + 2 * os.sysconf("SC_PAGESIZE")
    held.clear()
    assert statistics().mapped_bytes == before.mapped_bytes
    assert statistics().unloaded == before.unloaded + 3


@WAYS
def test_code_is_unloaded_though_a_compilation_is_under_way(way: Compile) -> None:
    """Who drops a Loaded never waits for the compiler, and nothing is forgotten for that."""
    target = native_target()
    object_code = way(ADD, target)
    let_go_of_earlier_code()
    mapped = statistics().loaded - statistics().unloaded
    compiler = threading.Thread(target=lambda: [compile_ir(CORPUS, target) for _ in range(20)])
    compiler.start()
    for _ in range(2 * LOADS_PER_LINKER):
        load(object_code, ["add"])
    compiler.join()
    assert statistics().loaded - statistics().unloaded == mapped


def test_threads_compile_and_load_at_once() -> None:
    """Calls from several threads wait for each other and do not mix."""
    sums: list[int] = []

    def work() -> None:
        for number in range(10):
            text = f"define i64 @add(i64 %a, i64 %b) {{\n  %c = add i64 %a, {number}\n  ret i64 %c\n}}\n"
            sums.append(added(load(compile_ir(text, native_target()), ["add"]), 100, 0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == sorted(list(range(100, 110)) * 4)


MEMORY = """
import json, sys
from echo_core.codegen.machine import engine
from echo_core.codegen.machine.engine import load, native_target

def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

object_code = getattr(engine, sys.argv[2])(sys.argv[1], native_target())
held = [load(object_code, ["add"]) for _ in range(20)]
before = resident_kib()
held += [load(object_code, ["add"]) for _ in range(200)]
each_kib = (resident_kib() - before) / 200
held.clear()
for _ in range(200):
    load(object_code, ["add"])
before = resident_kib()
for _ in range(2000):
    load(object_code, ["add"])
print(json.dumps({"each_kib": each_kib, "grown_kib": resident_kib() - before}))
"""


@pytest.mark.parametrize(("way", "each_kib"), [("compile_ir", 8), ("compile_object", 72)])
def test_loads_are_small_and_leave_nothing_behind(way: str, each_kib: int) -> None:
    """Loaded code takes a page, or what LLVM needs; 2000 that come and go take nothing, nor leak 20 MB."""
    memory = json.loads(python(MEMORY, ADD, way))
    assert memory["each_kib"] < each_kib
    assert memory["grown_kib"] < 1024


FORK_IN_COMPILATION = """
import os, sys, threading
from echo_core.codegen.machine import engine
from echo_core.codegen.machine.engine import compile_ir, load, native_target

engine.FORK_WAIT_S = 60  # a machine that is busy may take more than a second for one compilation
text, target = sys.argv[1], native_target()
stop = threading.Event()

def compile_on():
    while not stop.is_set():
        compile_ir(text, target)

thread = threading.Thread(target=compile_on)
thread.start()
for _ in range(10):
    child = os.fork()
    if not child:
        loaded = load(compile_ir(text, target), ["reversed"])
        os._exit(not loaded.addresses["reversed"])
    print(os.waitpid(child, 0)[1])
stop.set()
thread.join()
"""


def test_child_of_a_fork_in_a_compilation_can_compile() -> None:
    """A fork waits until no thread is inside LLVM, so the child finds no lock taken."""
    assert python(FORK_IN_COMPILATION, CORPUS).split() == ["0"] * 10


FORK_IN_LONG_COMPILATION = """
import os, sys, threading
from echo_core.codegen.machine import engine
from echo_core.errors import CompileError

target = engine.native_target()
code = engine.compile_ir(sys.argv[1], target)
taken, forked = threading.Event(), threading.Event()

def compile_too_long():
    with engine._lock:
        taken.set()
        forked.wait()

thread = threading.Thread(target=compile_too_long)
thread.start()
taken.wait()
child = os.fork()
if not child:
    loaded = engine.load(code, ["add"])
    try:
        engine.compile_ir(sys.argv[1], target)
    except CompileError as error:
        print(*loaded.addresses, error, sep="; ", flush=True)
        os._exit(0)
    os._exit(1)
print(os.waitpid(child, 0)[1])
forked.set()
thread.join()
print(bool(engine.compile_ir(sys.argv[1], target)))
"""


def test_fork_does_not_wait_for_long() -> None:
    """After FORK_WAIT_S the child goes on without a compiler, which it is told, and loads what is a block."""
    told = f"This process was forked in a compilation that took more than {FORK_WAIT_S} s"
    assert python(FORK_IN_LONG_COMPILATION, ADD).splitlines() == [f"add; {told}", "0", "True"]


EXIT_IN_COMPILATION = """
import atexit, sys, threading

@atexit.register  # before the engine's own, so it is called after that
def no_one_else_compiles():
    before = statistics().compiled
    for _ in range(10):
        compile_ir(text, target)
    print(statistics().compiled - before)

from echo_core.codegen.machine.engine import compile_ir, native_target, statistics

text, target = sys.argv[1], native_target()
started = threading.Event()

def compile_on():
    while True:
        started.set()
        compile_ir(text, target)

threading.Thread(target=compile_on, daemon=True).start()
started.wait()
"""


def test_interpreter_exits_in_a_compilation() -> None:
    """The exit waits until daemon threads have left LLVM and lets none back in, or it may crash."""
    assert python(EXIT_IN_COMPILATION, CORPUS).strip() == "10"


WITHOUT_LLVMLITE = """
import sys
sys.modules["llvmlite.binding"] = None
from echo_core.codegen.machine.engine import native_target
from echo_core.errors import CompileError
try:
    native_target()
except CompileError as error:
    print(error)
"""


def test_machine_without_llvmlite_is_a_compile_error() -> None:
    """Where llvmlite cannot be imported, the caller stays interpreted."""
    assert "llvmlite cannot be imported" in python(WITHOUT_LLVMLITE)
