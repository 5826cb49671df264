"""LLVM IR text to machine code, and machine code to addresses. Knows no formats and no plans.

This is the only module that uses llvmlite, and imports it on first use, because the import takes 33-50 ms and
47 MB. One lock guards all calls into llvmlite. Nearly all code is laid out as one block (flat.py), which is
loaded without llvmlite: the block is copied to its own pages, which are first read-write and then
read-execute. LLVM links the rest. Measured with llvmlite 0.50 (LLVM 22) on x86-64 Linux:

- llvmlite calls LLVM through ctypes.CDLL, which releases the GIL in the parser, the optimiser and the code
  generator. background.py says how much other threads are slowed down.
- An LLVM "fatal error" aborts the process. Code generation at level 0 fails so for llvm.get.active.lane.mask
  with AVX-512, therefore the level is 2. IR must come from our own emitter; it never contains names from a
  peer.
- Objects are position-independent, with the small code model. The linker is JITLink. RuntimeDyld, llvmlite's
  default, maps each section separately, and silently truncates relocations of more than 2 GiB. JITLink maps
  the sections of an object side by side and refuses relocations out of range. It also keeps no copy for gdb:
  43 KiB per loaded object instead of 51; a block takes one page. ORC maps code read-execute and constants
  read-only, so no page is both writable and executable.
- llvmlite frees the code of an unloaded object, but not its (empty) JITDylib: 10 KB each, 10 MB after a
  thousand. So each LLJIT links LOADS_PER_LINKER objects, and is freed with the last of them.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from echo_core._c import code as native_code
from echo_core._c import locks
from echo_core.codegen.machine import flat
from echo_core.errors import CompileError

MAX_IR_BYTES = 4 << 20
MAX_OBJECT_BYTES = 4 << 20
LOADS_PER_LINKER = 64
KEPT_MACHINES = 4  # TargetMachines that are cached; a process uses one, tests use several
FORK_WAIT_S = 1.0  # os.fork waits this long for a compilation; after that the child has no LLVM
EXIT_WAIT_S = 5.0  # exit waits this long for a compilation; IR of MAX_IR_BYTES took 1.6 s

CODEGEN_LEVEL = 2

_VECTOR_BYTES_BY_LEVEL = {"x86-64": 0, "x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 32}
_VECTOR_BYTES_BY_FEATURE = {"+avx512vbmi": 64, "+avx2": 32, "+ssse3": 16}  # the widest first


@dataclass(frozen=True, slots=True)
class Target:
    """A machine to compile for; every field is part of the key of cached code."""

    triple: str
    cpu: str
    features: str  # as LLVM reads them: "+avx2,-avx512f"

    @property
    def vector_bytes(self) -> int:
        """The best width of a byte shuffle; 0 if scalar code is faster.

        x86-64-v4 has AVX-512 but not VBMI, without which a 64-byte shuffle is several instructions.
        """
        architecture = self.triple.partition("-")[0]
        if architecture in ("aarch64", "arm64"):
            return 16
        if architecture != "x86_64":
            return 0
        features = self.features.split(",")
        by_feature = (size for name, size in _VECTOR_BYTES_BY_FEATURE.items() if name in features)
        return next(by_feature, _VECTOR_BYTES_BY_LEVEL.get(self.cpu, 0))


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """Counters of this process; loaded - unloaded objects are mapped."""

    compiled: int = 0
    loaded: int = 0
    unloaded: int = 0
    linked: int = 0  # of the loaded ones, by LLVM instead of as a block
    mapped_bytes: int = 0  # by blocks that are loaded; LLVM does not report what it maps


class Loaded:
    """Callable machine code, mapped as long as this object lives. Keep it as long as you use an address."""

    __slots__ = ("__weakref__", "_block", "addresses")

    def __init__(self, addresses: dict[str, int], block: native_code.Block | None = None) -> None:
        self.addresses = addresses
        self._block = block  # unmapped with this object; code linked by LLVM has a finalizer instead

    def function(self, name: str, *arguments: Any) -> Any:
        """A function, given the types of its arguments as ctypes has them; it keeps the code mapped."""
        function: Any = ctypes.CFUNCTYPE(None, *arguments)(self.addresses[name])
        function.loaded = self
        return function

    def __repr__(self) -> str:
        return f"Loaded({', '.join(self.addresses)})"


# llvmlite has no annotations or stubs: its objects are Any, and stay within this module.
_llvm: Any = None
_linker: Any = None  # an LLJIT, shared by the objects that it has linked
_linker_loads = 0
_names = itertools.count()  # of JIT libraries, never used twice
_statistics = EngineStatistics()  # of LLVM alone
_unloading: deque[Any] = deque()  # resource trackers to close; appending needs no lock
_lock = threading.RLock()  # guards all of the above except _unloading, and every call into LLVM
_forking = threading.local()  # held: whether the forking thread has the lock
_lost_to_fork = False


def native_target() -> Target:
    """This machine, with all features of its CPU."""
    with _compiler():
        return _native_target()


@functools.cache
def _native_target() -> Target:
    features = _llvm.get_host_cpu_features().flatten()
    return Target(_llvm.get_process_triple(), _llvm.get_host_cpu_name(), features)


def compiler_version() -> str:
    """llvmlite's and LLVM's versions, for keys of cached objects."""
    with _compiler() as llvm:
        llvmlite = importlib.import_module("llvmlite")
        return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


def statistics() -> EngineStatistics:
    """Counts since the process began."""
    by_llvm = _statistics
    loaded, unloaded, mapped_bytes = native_code.statistics()
    loaded, unloaded = loaded + by_llvm.loaded, unloaded + by_llvm.unloaded
    return EngineStatistics(by_llvm.compiled, loaded, unloaded, by_llvm.loaded, mapped_bytes)


def compile_ir(text: str, target: Target) -> bytes:
    """Compile to code for `load` or a cache: a block, or object code if it cannot be laid out as a block."""
    object_code = compile_object(text, target)
    return flat.flatten(object_code) or object_code


def compile_object(text: str, target: Target) -> bytes:
    """Object code in ELF. No optimiser runs: it took 2 to 3 times as long, and shuffles got no faster."""
    if len(text) > MAX_IR_BYTES:
        msg = f"Expected at most {MAX_IR_BYTES} bytes of IR, got {len(text)}"
        raise CompileError(msg)
    if not text.isascii() or "\0" in text:
        msg = "Expected IR of ASCII characters without NUL"
        raise CompileError(msg)
    with _compiler() as llvm:
        object_code = _limited(_object_code(llvm, text, target))
        _count("compiled")
        return object_code


def load(code: bytes, names: Iterable[str]) -> Loaded:
    """Map code into the process; `names` are the functions whose addresses are returned.

    The code may call all functions of the C library, and `native_code.functions()`. It is trusted: it must
    come from `compile_ir` for this machine, or from a cache that checks its entries.
    """
    exported = tuple(names)
    _limited(code)
    return _mapped(code, exported) if flat.is_flat(code) else _linked(code, exported)


def is_loaded_at_once(code: bytes) -> bool:
    """Whether `load` works without importing LLVM now."""
    return flat.is_flat(code) or _llvm is not None


def _mapped(block: bytes, names: tuple[str, ...]) -> Loaded:
    machine, image, exports, imports = flat.parse(block)
    if machine != native_code.MACHINE:
        msg = f"Expected code for machine {native_code.MACHINE}, got code for {machine}"
        raise CompileError(msg)
    missing = [name for name in names if name not in exports]
    if missing:
        msg = f"Expected code with {', '.join(missing)}, got {', '.join(exports)}"
        raise CompileError(msg)
    try:
        mapped = native_code.Block(image, tuple(imports.items()))
    except (LookupError, OSError, ValueError) as refused:
        msg = f"Expected code that can be mapped: {refused}"
        raise CompileError(msg) from refused
    start = mapped.address
    return Loaded({name: start + exports[name] for name in names}, mapped)


def _linked(object_code: bytes, names: tuple[str, ...]) -> Loaded:
    with _compiler() as llvm:
        library = llvm.JITLibraryBuilder().add_object_img(object_code)
        for name in names:
            library.export_symbol(name)
        for name, address in native_code.functions().items():
            library.import_symbol(name, address)
        tracker = library.link(_linker_with_room(llvm), f"echo{next(_names)}")
        loaded = Loaded({name: tracker[name] for name in names})
        # Not at exit: other threads may still run the code, and exit frees it anyway.
        weakref.finalize(loaded, _unload, tracker).atexit = False
        _count("loaded")
        return loaded


def _limited(object_code: bytes) -> bytes:
    if len(object_code) > MAX_OBJECT_BYTES:
        msg = f"Expected at most {MAX_OBJECT_BYTES} bytes of object code, got {len(object_code)}"
        raise CompileError(msg)
    return object_code


def _object_code(llvm: Any, text: str, target: Target) -> bytes:
    # A separate context, because the global one would keep the types and constants of all IR.
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        if module.triple not in ("", target.triple):
            msg = f"Expected IR for {target.triple}, got IR for {module.triple}"
            raise CompileError(msg)
        machine = _machine(target)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        code: bytes = machine.emit_object(module)
        return code


@functools.lru_cache(maxsize=KEPT_MACHINES)
def _machine(target: Target) -> Any:
    """A TargetMachine. Never pass it to an LLVM compiler that takes ownership (MCJIT).

    It is cached, because creating one takes 0.5 ms.
    """
    return _llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=CODEGEN_LEVEL, reloc="pic", codemodel="small"
    )


def _linker_with_room(llvm: Any) -> Any:
    global _linker, _linker_loads
    if _linker is None or _linker_loads == LOADS_PER_LINKER:
        _linker = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
        _linker_loads = 0
    _linker_loads += 1
    return _linker


def _count(what: str) -> None:
    global _statistics
    _statistics = replace(_statistics, **{what: getattr(_statistics, what) + 1})


@contextmanager
def _compiler() -> Generator[Any]:
    """llvmlite, under the lock; its RuntimeErrors become CompileErrors."""
    try:
        with locks.Held(_lock):
            yield _imported()
    except RuntimeError as refused:
        msg = f"LLVM refused: {str(refused).strip()}"
        raise CompileError(msg) from refused
    finally:
        _unload_waiting()


def _imported() -> Any:
    global _llvm
    if _lost_to_fork:
        msg = f"This process was forked in a compilation that took more than {FORK_WAIT_S} s"
        raise CompileError(msg)
    if _llvm is None:
        try:
            llvm = importlib.import_module("llvmlite.binding")
        except (ImportError, OSError) as missing:
            msg = "llvmlite cannot be imported"
            raise CompileError(msg, hint=str(missing)) from missing
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _llvm = llvm
    return _llvm


def _unload(tracker: Any) -> None:
    """Finalize a Loaded, in any thread, without waiting for a compilation in another thread."""
    _unloading.append(tracker)
    _unload_waiting()


def _unload_waiting() -> None:
    """Unload queued objects. If the lock is taken, its holder does this when it releases the lock."""
    while _unloading and not _lost_to_fork and _lock.acquire(blocking=False):
        try:
            _unload_one()
        finally:
            _lock.release()


def _unload_one() -> None:
    try:
        tracker = _unloading.popleft()
    except IndexError:  # another thread was here first
        return
    tracker.close()
    _count("unloaded")


def _before_fork() -> None:
    """Wait until no thread is inside LLVM: the child would inherit LLVM's locks and inconsistent data."""
    _forking.held = _lock.acquire(timeout=FORK_WAIT_S)


def _after_fork_in_parent() -> None:
    if _forking.held:
        _lock.release()


def _after_fork_in_child() -> None:
    global _lock, _lost_to_fork
    if _forking.held:
        _lock.release()
    else:
        _lock = threading.RLock()
        _lost_to_fork = True


def _at_exit() -> None:
    """Keep all other threads out of LLVM, because exit() destroys LLVM's static data while they use it.

    Without this, 1 exit of 180 aborted when compilations were in progress. The lock is never released: daemon
    threads that need it block for ever, as all daemon threads finally do. The main thread may still compile.
    """
    _lock.acquire(timeout=EXIT_WAIT_S)


atexit.register(_at_exit)
os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)
