"""Modules that a later Python has compiled, as this one runs them: a wheel says that it may."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
TESTING_ROOT = Path(os.environ.get("TESTING_ROOT", ROOT / "build/testing-root"))
SUPPORTED = re.findall(r"Programming Language :: Python :: 3\.(\d+)", (ROOT / "pyproject.toml").read_text())
LATER = [f"3.{minor}" for minor in SUPPORTED if int(minor) > sys.version_info.minor]

USES = """
import gc, socket, sys
import echo_core as echo
from echo_core._c import links

assert links.__file__.startswith({folder!r}), links.__file__

@echo.event
class Number:
    n: int
    text: str

source = echo.create_channel("numbers", Number).source()
encode, decode = echo.encoder(Number), echo.decoder(Number)
pool = links.Pool(block_bytes=4096, blocks=2)
holder = pool.attach()
mapping = links.Mapping(pool.fileno(), holder)
here, there = socket.socketpair()
link = links.Link(links.SocketWire(here.detach()), print, max_payload=1, control_bytes=1,
                   delay_ns=0, stall_ns=1)
outgoing = links.OutgoingStream(link, 64, "", max_events=1, max_bytes=1, policy=0, timeout_ns=0)
outlet = links.Outlet(bytes, bytes)

def use():
    number = Number(7, "seven")
    number.n = 8
    source.submit(number)
    assert decode(encode(number)) == number
    assert outlet.kept_since(10**9) == ([], outlet.sequence)
    assert mapping.open(pool.loan(10).lend(holder, 64))[0] == 64
    pool.take_back(holder, bytes(16))
    assert links.scan(bytes([2, 0, 0, 0, 64, 0, 0, 0]) + b"ab" + bytes(6), 9) == ([(64, b"ab")], 16)

def references():
    return [sys.getrefcount(each) for each in (None, True, False)]

for _ in range(100):
    use()
gc.collect()
before = references()
for _ in range(10_000):
    use()
gc.collect()
after = references()  # other threads import and compile meanwhile
assert all(abs(one - other) < 5_000 for one, other in zip(before, after)), (before, after)
there.close()
"""


def headers_of(version: str) -> Path:
    """Those of a Python that is on this machine, as .ci/run finds it, or in its testing root."""
    candidates = [shutil.which(f"python{version}")]
    candidates += map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    ask = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_path('include'))"
    for python in filter(None, candidates):
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False).stdout
        found, _, folder = said.strip().partition(" ")
        if found == version and (Path(folder) / "Python.h").exists():
            return Path(folder)
    there = TESTING_ROOT / "usr/include" / f"python{version}"
    if (there / "Python.h").exists():
        return there
    pytest.skip(f"no Python {version} with its headers is on this machine")


def build(headers: Path, folder: Path) -> None:
    """The package as it is here, but for its modules of C, which setup.py compiles with other headers."""
    shutil.copytree(ROOT / "echo_core", folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    places: list[str | Path] = [
        "--include-dirs",
        headers,
        "--build-lib",
        folder.parent,
        "--build-temp",
        folder / "objects",
    ]
    subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", *places],
        cwd=ROOT,
        env={
            **os.environ,
            "CFLAGS": f"-O0 -idirafter {headers.parent}",
        },  # Debian's pyconfig.h
        check=True,
        capture_output=True,
        timeout=120,
    )


def test_all_c_sees_python_as_the_stable_abi_has_it() -> None:
    """A file that included Python.h by itself would lend what has to be given, by later headers."""
    including = [path.name for path in NATIVE.rglob("*.[ch]") if "<Python.h>" in path.read_text()]
    assert including == ["stable_abi.h"]


@pytest.mark.slow
@pytest.mark.parametrize("version", LATER)
def test_what_a_later_python_has_compiled_runs_here(version: str, tmp_path: Path) -> None:
    """It gives references as this Python counts them, and takes what this Python gives."""
    folder = tmp_path / "echo_core"
    build(headers_of(version), folder)
    command = [sys.executable, "-W", "error", "-c", USES.format(folder=str(folder))]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "ECHO_CACHE": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ran.returncode == 0, ran.stderr
