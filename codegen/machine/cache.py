"""A cache of machine code on disk, so that a machine compiles each conversion once. Knows no LLVM.

**What is read here is run as machine code.** So an entry is used only if the folder and the file belong to
this user, nobody else can write to them, neither is a symlink, and the digest matches. Owner and permissions
are checked on open descriptors (fstat, and files are opened relative to the folder's descriptor), because a
path could be replaced between check and use. The digest detects damage, not attacks: whoever can write as
this user can run code as this user anyway.

An entry is a file, named by its key in hexadecimal, little endian:

    offset  size
         0     8  magic "echo.obj"
         8     4  version
        12    32  key
        44     8  length of the code
        52    32  BLAKE2b of the code
        84     -  code, as the engine makes it

Entries are written to a temporary file and renamed, so other processes never see a partial entry; the last
writer wins, with the same code. Nothing here raises for the state of the disk: an unusable cache behaves like
an empty one, and is counted.
"""

from __future__ import annotations

import os
import secrets
import stat
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from echo_core._c import locks
from echo_core.errors import EchoError

KEY_BYTES = 32
LIMIT_BYTES = 64 << 20
MAX_ENTRY_BYTES = 8 << 20
BLOCK_BYTES = 4096  # the minimum that a file takes on disk
SCANS_PER_LIMIT = 16  # the folder is scanned whenever this fraction of the limit was written
KEPT_SIXTEENTHS = 12  # of the limit, after an eviction, so that the next one is not due soon

_MAGIC = b"echo.obj"
_VERSION = 1
_HEADER = struct.Struct(f"<8sI{KEY_BYTES}sQ32s")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a FIFO must not block


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """Counters of this process; each `get` is a hit or a miss, each `put` is written or failed."""

    hits: int = 0
    misses: int = 0
    damaged: int = 0  # misses because of an entry that is incomplete, not ours, or writable by others
    written: int = 0
    evicted: int = 0
    failed: int = 0  # puts that failed because of the disk, permissions or a limit


class _UntrustedError(Exception):
    """A folder or file that another user could have written, or that is no valid entry."""


def key_of(*parts: bytes | str) -> bytes:
    """A key of everything that the code depends on. Parts are unambiguous: each has a type and a length."""
    digest = blake2b(digest_size=KEY_BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(struct.pack("<cQ", b"s" if isinstance(part, str) else b"b", len(data)))
        digest.update(data)
    return digest.digest()


class Cache:
    """Machine code by key, in a folder of this user; without a folder it stores nothing.

    Processes and threads may share a folder. Each enforces the limit by itself, so together they may exceed
    it temporarily, by a sixteenth each. `now_ns` is the clock for the times of last use.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        limit_bytes: int = LIMIT_BYTES,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._now_ns = now_ns
        self._unscanned_bytes = (
            limit_bytes  # written since the last scan; this value makes the first put scan
        )
        self._statistics = CacheStatistics()

    def get(self, key: bytes) -> bytes | None:
        """The code that was stored under this key, if it is complete and trusted."""
        _check_key(key)
        found = None
        try:
            if self.folder is not None:
                with _opened(self.folder) as folder:
                    found = _read(folder, key, self._now_ns())
        except FileNotFoundError:
            pass
        except (OSError, _UntrustedError):
            self._count("damaged")
        self._count("misses" if found is None else "hits")
        return found

    def put(self, key: bytes, code: bytes) -> None:
        """Store code under this key, replacing an entry, if the folder is trusted."""
        _check_key(key)
        if self.folder is None:
            return
        entry = _entry(key, code)
        if len(entry) > MAX_ENTRY_BYTES or _price(len(entry)) > self.limit_bytes:
            self._count("failed")
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _opened(self.folder) as folder:
                _write(folder, key.hex(), entry, self._now_ns())
                self._count("written")
                self._keep_within_limit(folder, len(entry))
        except (OSError, _UntrustedError):
            self._count("failed")

    def statistics(self) -> CacheStatistics:
        """Counters since this object was created."""
        return self._statistics

    def __repr__(self) -> str:
        return f"Cache({str(self.folder) if self.folder else None!r}, limit_bytes={self.limit_bytes})"

    def _keep_within_limit(self, folder: int, written: int) -> None:
        self._unscanned_bytes += _price(written)
        if self._unscanned_bytes * SCANS_PER_LIMIT < self.limit_bytes:
            return
        self._unscanned_bytes = 0
        entries = sorted(_entries(folder))
        total = sum(price for _, _, price in entries)
        if total <= self.limit_bytes:
            return
        for _, name, price in entries[:-1]:  # never the newest: it was just written
            if total * 16 <= self.limit_bytes * KEPT_SIXTEENTHS:
                return
            with suppress(FileNotFoundError):  # evicted by another process
                os.unlink(name, dir_fd=folder)
                self._count("evicted")
            total -= price

    def _count(self, what: str) -> None:
        with locks.Held(_lock):
            self._statistics = replace(self._statistics, **{what: getattr(self._statistics, what) + 1})


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        msg = f"Expected a key of {KEY_BYTES} bytes, got {len(key)}"
        raise EchoError(msg, hint="make it with key_of")


def _price(size: int) -> int:
    return max(1, -(-size // BLOCK_BYTES)) * BLOCK_BYTES


def _entry(key: bytes, code: bytes) -> bytes:
    digest = blake2b(code, digest_size=32).digest()
    return _HEADER.pack(_MAGIC, _VERSION, key, len(code), digest) + code


@contextmanager
def _opened(path: Path | str, folder: int | None = None) -> Generator[int]:
    """Open a folder that only this user can write, or such a file in it."""
    flags, is_kind = (os.O_DIRECTORY, stat.S_ISDIR) if folder is None else (0, stat.S_ISREG)
    descriptor = os.open(path, os.O_RDONLY | _OPEN | flags, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not is_kind(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
            raise _UntrustedError
        yield descriptor
    finally:
        os.close(descriptor)


def _read(folder: int, key: bytes, now_ns: int) -> bytes:
    with _opened(key.hex(), folder) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > MAX_ENTRY_BYTES:  # the size is asked for, as room for the largest entry would cost more
            raise _UntrustedError
        entry = os.read(descriptor, size + 1)
        code = entry[_HEADER.size :]
        if entry != _entry(key, code):
            raise _UntrustedError
        with suppress(OSError):  # a read-only folder needs no times of use
            os.utime(descriptor, ns=(now_ns, now_ns))
        return code


def _write(folder: int, name: str, entry: bytes, now_ns: int) -> None:
    """Write a temporary file and rename it. One left by a killed process is evicted in time."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
    descriptor = os.open(temporary, flags, mode=0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(entry)
            file.flush()
            os.utime(descriptor, ns=(now_ns, now_ns))
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _entries(folder: int) -> Iterator[tuple[int, str, int]]:
    """When each file was last used, its name and what it takes on disk."""
    with os.scandir(folder) as files:
        for file in files:
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    yield status.st_mtime_ns, file.name, _price(status.st_size)


def default_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """`ECHO_CACHE`, or echo_core in the user's cache folder; None if it is "0" or there is no home folder.

    Relative paths are ignored, as the XDG Base Directory Specification demands.
    """
    chosen = environment.get("ECHO_CACHE", "")
    if chosen == "0":
        return None
    if Path(chosen).is_absolute():
        return Path(chosen)
    caches = Path(environment.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():
        caches = Path(os.path.expanduser("~"), ".cache")
    return caches / "echo_core" if caches.is_absolute() else None


_lock = threading.RLock()  # never held over I/O
_default: Cache | None = None


def default_cache() -> Cache:
    """The cache that conversions use: the one of `set_cache`, or one in the default folder."""
    global _default
    with locks.Held(_lock):
        if _default is None:
            _default = Cache(default_folder())
        return _default


def set_cache(cache: Cache) -> None:
    """Use this cache from now on."""
    global _default
    with locks.Held(_lock):
        _default = cache


def disable_cache() -> None:
    """Neither read from nor write to the disk from now on."""
    set_cache(Cache(None))


def _after_fork_in_child() -> None:
    """Replace the lock: another thread may have held it. What it guards is consistent, a single reference."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
