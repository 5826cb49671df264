"""What the cache gives back is exactly what was put into it by this user, or nothing."""

from __future__ import annotations

import itertools
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_core.codegen.machine import cache as cache_module
from echo_core.codegen.machine.cache import (
    BLOCK_BYTES,
    KEY_BYTES,
    MAX_ENTRY_BYTES,
    Cache,
    CacheStatistics,
    default_cache,
    default_folder,
    disable_cache,
    key_of,
    set_cache,
)
from echo_core.errors import EchoError
from tests.native.link_ends import open_files

ROOT = Path(__file__).resolve().parents[2]
KEY = key_of("sender", "receiver", "generator 1", "LLVM 22", "znver5")
CODE = bytes(range(64))
HEADER_BYTES = 84
IS_ROOT = os.geteuid() == 0
NOBODY = 65534


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Path:
    """A folder that the cache makes on its first put."""
    return tmp_path / "caches" / "echo_core"


@pytest.fixture(name="cache")
def fixture_cache(folder: Path) -> Cache:
    """A cache that holds CODE under KEY."""
    cache = Cache(folder)
    cache.put(KEY, CODE)
    assert cache.statistics() == CacheStatistics(written=1)
    return cache


@pytest.fixture(name="default")
def fixture_default() -> Iterator[Cache]:
    """The default cache, put back after the test."""
    cache = default_cache()
    yield cache
    set_cache(cache)


def key(number: int) -> bytes:
    """One of many keys."""
    return key_of(str(number))


def entry_of(cache: Cache) -> Path:
    """The file of KEY."""
    assert cache.folder is not None
    return cache.folder / KEY.hex()


def is_refused(cache: Cache) -> bool:
    """Whether KEY is a miss that counts as damaged, and a put and a get make it whole again."""
    before = cache.statistics()
    refused = cache.get(KEY) is None and cache.statistics().damaged == before.damaged + 1
    cache.put(KEY, CODE)
    return refused and cache.get(KEY) == CODE


def python(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """A fresh interpreter, started."""
    command = (sys.executable, "-W", "error", "-c", code, *arguments)
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_entry_comes_back(cache: Cache) -> None:
    """What was put under a key is found under it, in another process as well."""
    assert cache.get(KEY) == CODE
    assert Cache(cache.folder).get(KEY) == CODE


def test_unknown_key_is_a_miss(cache: Cache) -> None:
    """A key that was never put is counted as a miss, and as nothing worse."""
    assert cache.get(key(0)) is None
    assert cache.statistics() == CacheStatistics(written=1, misses=1)


def test_cache_without_a_folder_yet_is_empty(folder: Path) -> None:
    """Reading makes no folder."""
    cache = Cache(folder)
    assert cache.get(KEY) is None
    assert cache.statistics() == CacheStatistics(misses=1)
    assert not folder.exists()


def test_later_put_replaces_the_earlier(cache: Cache) -> None:
    """The last code put under a key is the one found."""
    cache.put(KEY, b"other")
    assert cache.get(KEY) == b"other"


def test_empty_code_is_kept(cache: Cache) -> None:
    """No code at all is an entry like others."""
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_folder_and_files_are_for_this_user(cache: Cache) -> None:
    """The folder is 0700, the files are 0600, and no temporary file is left."""
    assert cache.folder is not None
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in cache.folder.iterdir()] == [0o600]


def test_layout_is_the_documented_one(cache: Cache) -> None:
    """Offsets in the file are those that the module's docstring draws."""
    entry = entry_of(cache).read_bytes()
    assert entry[:12] == b"echo.obj\1\0\0\0"
    assert entry[12:44] == KEY
    assert entry[44:52] == len(CODE).to_bytes(8, "little")
    assert entry[HEADER_BYTES:] == CODE


def test_entry_truncated_anywhere_is_refused(cache: Cache) -> None:
    """A part of an entry is never taken for one."""
    entry = entry_of(cache).read_bytes()
    for size in range(len(entry)):
        entry_of(cache).write_bytes(entry[:size])
        assert is_refused(cache), size


def test_entry_with_any_bit_flipped_is_refused(cache: Cache) -> None:
    """One wrong bit anywhere is found out."""
    entry = entry_of(cache).read_bytes()
    for position, bit in itertools.product(range(len(entry)), range(8)):
        flipped = bytearray(entry)
        flipped[position] ^= 1 << bit
        entry_of(cache).write_bytes(flipped)
        assert is_refused(cache), (position, bit)


def test_longer_entry_is_refused(cache: Cache) -> None:
    """A byte too many is damage."""
    with entry_of(cache).open("ab") as file:
        file.write(b"\0")
    assert is_refused(cache)


def test_entry_of_another_key_is_refused(cache: Cache) -> None:
    """A whole entry under another one's name is foreign."""
    other = key(1)
    cache.put(other, b"other code")
    assert cache.folder is not None
    (cache.folder / other.hex()).rename(entry_of(cache))
    assert is_refused(cache)


def test_entry_that_others_may_write_is_refused(cache: Cache) -> None:
    """Write permission for the group or for all makes an entry worthless."""
    for mode in (0o620, 0o602, 0o666):
        entry_of(cache).chmod(mode)
        assert is_refused(cache), oct(mode)


def test_symlink_to_an_entry_is_refused(cache: Cache, tmp_path: Path) -> None:
    """A link is not followed, and the next put replaces the link, not what it leads to."""
    target = tmp_path / "target"
    entry_of(cache).rename(target)
    entry_of(cache).symlink_to(target)
    kept = target.read_bytes()
    cache.put(KEY, b"new")
    assert target.read_bytes() == kept
    entry_of(cache).unlink()
    entry_of(cache).symlink_to(target)
    assert is_refused(cache)
    assert not entry_of(cache).is_symlink()


def test_fifo_is_refused_without_waiting(cache: Cache) -> None:
    """A FIFO in the place of an entry is not read, nor waited for."""
    entry_of(cache).unlink()
    os.mkfifo(entry_of(cache))
    assert is_refused(cache)


def test_folder_in_the_place_of_an_entry_is_refused(cache: Cache) -> None:
    """What cannot be replaced by a file stays a miss, and the put is counted as failed."""
    entry_of(cache).unlink()
    entry_of(cache).mkdir()
    assert not is_refused(cache)
    assert cache.statistics() == CacheStatistics(written=1, misses=2, damaged=2, failed=1)
    assert cache.folder is not None
    assert list(cache.folder.iterdir()) == [entry_of(cache)]


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
def test_entry_of_another_user_is_refused(cache: Cache) -> None:
    """An entry that someone else owns is not run."""
    os.chown(entry_of(cache), NOBODY, -1)
    assert is_refused(cache)


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a folder away")
def test_folder_of_another_user_is_not_used(cache: Cache) -> None:
    """In someone else's folder nothing is read and nothing written."""
    assert cache.folder is not None
    os.chown(cache.folder, NOBODY, -1)
    assert not is_refused(cache)
    assert cache.statistics() == CacheStatistics(written=1, misses=2, damaged=2, failed=1)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_folder_that_others_may_write_is_not_used(cache: Cache, mode: int) -> None:
    """Whoever can rename files in the folder could choose the code that is run."""
    assert cache.folder is not None
    cache.folder.chmod(mode)
    assert not is_refused(cache)
    assert cache.statistics() == CacheStatistics(written=1, misses=2, damaged=2, failed=1)


def test_symlink_to_a_folder_is_not_used(cache: Cache, tmp_path: Path) -> None:
    """The folder itself may not be a link."""
    assert cache.folder is not None
    link = tmp_path / "link"
    link.symlink_to(cache.folder)
    linked = Cache(link)
    assert not is_refused(linked)
    assert linked.statistics() == CacheStatistics(misses=2, damaged=2, failed=1)


def test_cache_off_keeps_nothing() -> None:
    """Without a folder every get is a miss and a put does nothing."""
    cache = Cache(None)
    cache.put(KEY, CODE)
    assert cache.get(KEY) is None
    assert cache.statistics() == CacheStatistics(misses=1)


def test_folder_that_cannot_be_made_is_counted(tmp_path: Path) -> None:
    """A file where the folder's parent should be: no exception, no cache."""
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" / "echo_core")
    cache.put(KEY, CODE)
    assert cache.get(KEY) is None
    assert cache.statistics() == CacheStatistics(misses=1, damaged=1, failed=1)


@pytest.mark.skipif(IS_ROOT, reason="root may write everywhere")
def test_folder_that_is_only_read_still_serves(cache: Cache) -> None:
    """In a read-only folder entries are found, and puts are counted as failed."""
    assert cache.folder is not None
    cache.folder.chmod(0o500)
    assert cache.get(KEY) == CODE
    cache.put(KEY, CODE)
    assert cache.statistics() == CacheStatistics(written=1, hits=1, failed=1)


def test_put_that_the_disk_refuses_leaves_nothing(cache: Cache) -> None:
    """A write that fails half way is counted, its temporary file removed, and the old entry stays."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        cache.put(KEY, bytes(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert cache.statistics() == CacheStatistics(written=1, failed=1)
    assert cache.folder is not None
    assert list(cache.folder.iterdir()) == [entry_of(cache)]
    assert cache.get(KEY) == CODE


def test_largest_entry_is_kept_and_a_larger_one_is_not(folder: Path) -> None:
    """An entry may have MAX_ENTRY_BYTES with its header, not one more."""
    cache = Cache(folder)
    for size, kept in ((MAX_ENTRY_BYTES - 1, True), (MAX_ENTRY_BYTES, True), (MAX_ENTRY_BYTES + 1, False)):
        code = bytes(size - HEADER_BYTES)
        cache.put(key(size), code)
        assert (cache.get(key(size)) == code) is kept
    assert cache.statistics() == CacheStatistics(written=2, hits=2, misses=1, failed=1)


def test_entry_over_the_whole_limit_is_not_kept(folder: Path) -> None:
    """What would push everything else out is not written."""
    cache = Cache(folder, limit_bytes=2 * BLOCK_BYTES)
    cache.put(key(0), bytes(2 * BLOCK_BYTES - HEADER_BYTES))
    cache.put(key(1), bytes(2 * BLOCK_BYTES - HEADER_BYTES + 1))
    assert cache.statistics() == CacheStatistics(written=1, failed=1)


def test_oldest_used_entries_are_evicted(folder: Path) -> None:
    """At the limit nothing goes; over it those go that were used longest ago, down to three quarters."""
    cache = Cache(folder, limit_bytes=8 * BLOCK_BYTES, now_ns=itertools.count(10**18).__next__)
    for number in range(8):
        cache.put(key(number), CODE)
    assert cache.statistics().evicted == 0
    assert cache.get(key(0)) == CODE
    cache.put(key(8), CODE)
    assert cache.statistics().evicted == 3
    kept = [number for number in range(9) if cache.get(key(number))]
    assert kept == [0, 4, 5, 6, 7, 8]


def test_what_a_killed_process_left_is_evicted(cache: Cache) -> None:
    """Temporary files count, and go when they have become the oldest."""
    assert cache.folder is not None
    left = cache.folder / f".{KEY.hex()}.0123456789abcdef"
    left.write_bytes(bytes(4 * BLOCK_BYTES))
    os.utime(left, ns=(0, 0))
    bounded = Cache(cache.folder, limit_bytes=4 * BLOCK_BYTES)
    bounded.put(key(0), CODE)
    assert bounded.statistics() == CacheStatistics(written=1, evicted=1)
    assert not left.exists()
    assert bounded.get(KEY) == CODE


def test_entries_of_other_processes_count(cache: Cache) -> None:
    """A new process looks at what is there before it trusts its own count."""
    assert cache.folder is not None
    for number in range(8):
        cache.put(key(number), CODE)
    bounded = Cache(cache.folder, limit_bytes=4 * BLOCK_BYTES)
    bounded.put(key(8), CODE)
    assert len(list(cache.folder.iterdir())) == 3


def test_key_depends_on_where_parts_end() -> None:
    """Parts do not run into each other; text is not bytes; order and number matter."""
    parts: list[tuple[bytes | str, ...]] = [
        (),
        ("",),
        ("", ""),
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (b"abc",),
        ("bc", "a"),
    ]
    assert len({key_of(*each) for each in parts}) == len(parts)


def test_key_is_stable() -> None:
    """The same parts have the same key in every process."""
    assert key_of("sender", "receiver", "generator 1", "LLVM 22", "znver5") == KEY
    assert key_of("a", b"b").hex() == "290431972a7ef503f73a27711576973f6e5c3fc19d3f7dc2686d3d2e237b4ea3"


def test_key_of_another_size_is_the_callers_fault(cache: Cache) -> None:
    """A key that does not come from key_of is an error, not a miss."""
    for size in (0, KEY_BYTES - 1, KEY_BYTES + 1):
        with pytest.raises(EchoError, match="key_of"):
            cache.get(bytes(size))
        with pytest.raises(EchoError, match="key_of"):
            cache.put(bytes(size), CODE)


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x"}, "/x/echo_core"),
        ({"XDG_CACHE_HOME": "/x", "ECHO_CACHE": "/y"}, "/y"),
        ({"XDG_CACHE_HOME": "/x", "ECHO_CACHE": ""}, "/x/echo_core"),
        ({"XDG_CACHE_HOME": "/x", "ECHO_CACHE": "relative"}, "/x/echo_core"),
        ({"XDG_CACHE_HOME": "/x", "ECHO_CACHE": "0"}, None),
    ],
)
def test_environment_names_the_folder(environment: dict[str, str], folder: str | None) -> None:
    """ECHO_CACHE goes before XDG_CACHE_HOME; 0 is off; a path that is not absolute is ignored."""
    assert default_folder(environment) == (Path(folder) if folder else None)


@pytest.mark.parametrize("caches", ["", "relative"])
def test_folder_is_in_the_home_folder_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caches: str
) -> None:
    """~/.cache is the default, also where XDG_CACHE_HOME is of no use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder({"XDG_CACHE_HOME": caches}) == tmp_path / ".cache" / "echo_core"


def test_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home folder that can be found the cache is off."""
    monkeypatch.setenv("HOME", "nowhere")
    assert default_folder({}) is None


def test_default_cache_can_be_set_and_disabled(default: Cache, tmp_path: Path) -> None:
    """A program decides where conversions are kept, or that they are not."""
    assert default_cache() is default
    chosen = Cache(tmp_path)
    set_cache(chosen)
    assert default_cache() is chosen
    disable_cache()
    assert default_cache().folder is None


def test_module_warns_that_entries_are_run() -> None:
    """The docstring says what trust in an entry means."""
    assert "run as machine code" in (cache_module.__doc__ or "")


WRITE_AND_READ = """
import sys
from pathlib import Path
from echo_core.codegen.machine.cache import Cache, key_of

cache, mark = Cache(Path(sys.argv[1])), sys.argv[2].encode()
key = key_of("shared")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(500):
    cache.put(key, mark * 50_000)
    found = cache.get(key)
    assert found in (b"a" * 50_000, b"b" * 50_000), found and len(found)
assert cache.statistics().damaged == cache.statistics().failed == cache.statistics().misses == 0
"""


def test_two_processes_write_one_key(folder: Path) -> None:
    """Each finds the one's whole code or the other's, never a mixture, a part or nothing."""
    processes = [python(WRITE_AND_READ, folder, mark) for mark in "ab"]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0


EVICT = """
import sys
from pathlib import Path
from echo_core.codegen.machine.cache import Cache, key_of

cache = Cache(Path(sys.argv[1]), limit_bytes=32 * 4096)
print("ready", flush=True)
sys.stdin.readline()
for number in range(500):
    cache.put(key_of(sys.argv[2], str(number)), b"code")
assert cache.statistics().failed == 0, cache.statistics()
"""


def test_two_processes_evict_at_once(folder: Path) -> None:
    """Entries that the other one has just evicted are no error, and both stay near the limit."""
    processes = [python(EVICT, folder, mark) for mark in "ab"]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.communicate("\n")
        assert process.returncode == 0
    assert len(list(folder.iterdir())) <= 32 + 2 * 2


def test_threads_share_a_cache(cache: Cache) -> None:
    """Each get and put of each thread is counted."""

    def work() -> None:
        for _ in range(100):
            cache.put(KEY, CODE)
            assert cache.get(KEY) == CODE

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.statistics() == CacheStatistics(written=401, hits=400)


def test_no_descriptor_is_left_open(cache: Cache) -> None:
    """Hits, misses and refusals close what they opened."""
    for _ in range(20):
        cache.get(KEY)
        cache.get(key(0))
    entry_of(cache).unlink()
    entry_of(cache).mkdir()
    for _ in range(20):
        is_refused(cache)
    assert [target for target in open_files() if target.startswith(str(cache.folder))] == []
