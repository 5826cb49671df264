"""Names: by which processes of one user on one host find a channel without an id.

A name's identity follows, by a keyed hash, from a secret that the first of these processes leaves in the
user's run-time directory: `$XDG_RUNTIME_DIR/echo_core`, or else `/tmp/echo_core-<user>`. Who holds a name's
channel is decided at the channel's seat. A list of names is kept beside the secret, for who looks for them.

Seats belong to a network namespace, and so does the secret: a container that shares the directory but not the
network is refused, as its processes would hold channels of the same names by themselves. A secret of before
the machine was started is replaced.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Generator

from echo_core.errors import ChannelError
from echo_core.roster import listed_names, seats
from echo_core.roster.ids import ChannelId
from echo_core.transports.threads import log
from echo_core.values.waits import DEFAULT_WAIT_S

_FILE = "names"
_TEXT = re.compile(rb"([0-9a-f-]{36}) ([0-9]{1,20}) ([0-9a-f]{64})\n")  # boot, network namespace, secret
_MAX_TEXT = 256
_PAUSE_S = 0.005


def identity_of(name: str, timeout_s: float = DEFAULT_WAIT_S) -> ChannelId:
    """Of the channel of that name, which is listed from now on.

    `timeout_s`: for another process that reads the secret too.

    ChannelError: the directory or what is in it is not this user's alone, or of another namespace.
    """
    with _opened(timeout_s) as (directory, secret):
        try:
            listed_names.add(directory, name, lambda: _is_there(secret))
        except OSError as error:  # others still meet by it
            log.warning("name %r is not listed: %s", name, error.strerror)
    return _identity(secret, name)


def listed(timeout_s: float = DEFAULT_WAIT_S) -> list[tuple[str, ChannelId]]:
    """The names whose channels are there now, with their identities. ChannelError: as `identity_of`."""
    with _opened(timeout_s) as (directory, secret):
        is_there = _is_there(secret)
        return [(name, _identity(secret, name)) for name in listed_names.names(directory) if is_there(name)]


@contextlib.contextmanager
def _opened(timeout_s: float) -> Generator[tuple[int, bytes]]:
    """The directory and the secret, while no other process is there."""
    with (
        _opened_directory() as (path, directory),
        _locked_file(path, directory, timeout_s) as (file_path, file),
        _told(path),
    ):
        yield directory, _secret(file_path, file)


def _is_there(secret: bytes) -> listed_names.IsThere:
    taken = seats.taken()

    def is_there(name: str) -> bool:
        return any(seat in taken for seat in seats.of(_identity(secret, name)))

    return is_there


def _identity(secret: bytes, name: str) -> ChannelId:
    return ChannelId(_derived(secret, name, b"echo name's uid"), _derived(secret, name, b"echo name's key"))


def _derived(secret: bytes, name: str, purpose: bytes) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16, key=secret, person=purpose).digest()


def _path() -> str:
    given = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(given, "echo_core") if given else f"/tmp/echo_core-{os.geteuid()}"


@contextlib.contextmanager
def _opened_directory() -> Generator[tuple[str, int]]:
    path = _path()
    with _told(path):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _demand_own(path, os.fstat(directory))
        yield path, directory
    finally:
        os.close(directory)


@contextlib.contextmanager
def _locked_file(directory_path: str, directory: int, timeout_s: float) -> Generator[tuple[str, int]]:
    path = os.path.join(directory_path, _FILE)
    with _told(path):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(_FILE, flags, 0o600, dir_fd=directory)
    try:
        found = os.fstat(file)
        _demand_own(path, found)
        if not stat.S_ISREG(found.st_mode):
            msg = f"Expected a file at {path}, got something else"
            raise ChannelError(msg, hint="remove it")
        _lock(path, file, timeout_s)
        yield path, file
    finally:
        os.close(file)  # which unlocks it


def _lock(path: str, file: int, timeout_s: float) -> None:
    limit = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > limit:
                msg = f"Expected {path} to be free within {timeout_s} s, another process keeps it locked"
                raise ChannelError(msg) from None
            time.sleep(_PAUSE_S)  # no flock ends by itself after a time; it is held for microseconds
        else:
            return


def _secret(path: str, file: int) -> bytes:
    boot, namespace = _boot(), os.stat("/proc/self/ns/net").st_ino
    text = os.pread(file, _MAX_TEXT, 0)
    found = _TEXT.fullmatch(text)
    if text and found is None:
        msg = f"Expected the secret of names in {path}, got other bytes"
        raise ChannelError(msg, hint="remove it, once no process uses channels by name")
    if found is None or found[1] != boot:
        secret = secrets.token_bytes(32)
        size = os.pwrite(file, b"%s %d %s\n" % (boot, namespace, secret.hex().encode()), 0)
        os.ftruncate(file, size)
        return secret
    if int(found[2]) != namespace:
        msg = (
            f"Expected {path} to be of this network namespace, it is of another one: names do not reach there"
        )
        raise ChannelError(msg, hint="set XDG_RUNTIME_DIR to a directory of its own, or pass ids and use TCP")
    return bytes.fromhex(found[3].decode())


def _boot() -> bytes:
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().strip()


def _demand_own(path: str, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        msg = f"Expected {path} to be of user {os.geteuid()}, it is of user {found.st_uid}"
        raise ChannelError(msg, hint="set XDG_RUNTIME_DIR to a directory of your own")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        msg = f"Expected {path} to be closed to other users, its mode is {mode:o}"
        raise ChannelError(msg, hint="they may know its secret: remove it")


_HINTS = {
    errno.ELOOP: "no symbolic link is followed; XDG_RUNTIME_DIR says where, if not in /tmp",
    errno.ENOTDIR: "no symbolic link is followed; XDG_RUNTIME_DIR says where, if not in /tmp",
    errno.ENOENT: "the directory that XDG_RUNTIME_DIR names does not exist",
    errno.EACCES: "XDG_RUNTIME_DIR says where, if not in /tmp",
}


@contextlib.contextmanager
def _told(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        msg = f"Expected to keep the secret of names at {path}: {error.strerror}"
        hint = _HINTS.get(error.errno or 0, "")
        raise ChannelError(msg, hint=hint) from error
