"""What native/ includes: native/core nothing of Python's, and no room what is above it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from echo_core._c import native
from echo_core.transports import limits as link_limits

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
CORE = sorted((NATIVE / "core").rglob("*.c"))
STRICT = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]

_CORE = {"core", "core/wires", "core/outbox"}

# What a file of each room may include besides its own files and the C library's; "" is native/ itself.
INCLUDED_BY_ROOM = {
    "": set[str](),
    "core": set[str](),
    "core/api": {"core", "core/wires"},
    "core/wires": {"core"},
    "core/outbox": {"core", "core/wires"},
    "links": {"", *_CORE},
    "streams": {"", *_CORE, "links", "events/raw_codec.h", "logs/taking.h"},
    "logs": {"", "core"},
    "events": {"", "code"},
    "expressions": {"", "code", "events/leaves.h"},
    "locks": {""},
    "code": {""},
}


def room_of(path: str) -> str:
    """The folder of native/ that a file is in; those within events are one room."""
    folder = path.rpartition("/")[0]
    return folder if folder in INCLUDED_BY_ROOM else folder.split("/")[0]


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.name)
def test_core_is_compiled_without_python(path: Path, tmp_path: Path) -> None:
    """No Python's headers are where the compiler looks, and it has nothing to say."""
    subprocess.run([*STRICT, "-c", str(path), "-o", str(tmp_path / "it.o")], check=True, timeout=60)


@pytest.mark.parametrize("wire", ["socket", "ring"])
def test_a_program_without_python_sends_events_by_core_alone(wire: str, tmp_path: Path) -> None:
    """An outbox with its streams, its thread and a host that has no lock."""
    program = tmp_path / "core_program"
    sources = [str(ROOT / "tests/native/core_program.c"), *map(str, CORE)]
    subprocess.run([*STRICT, "-O1", "-pthread", *sources, "-o", str(program)], check=True, timeout=60)
    subprocess.run([program, wire], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_threads_that_want_one_lock_take_turns(tmp_path: Path) -> None:
    """None is in it together with another, none sleeps for ever, and it is free in the end."""
    program = tmp_path / "lock_threads"
    sources = [
        str(ROOT / "tests/native/lock_threads.c"),
        *(str(NATIVE / "core" / it) for it in ("lock.c", "clock.c")),
    ]
    subprocess.run([*STRICT, "-O1", "-pthread", *sources, "-o", str(program)], check=True, timeout=60)
    subprocess.run([program], check=True, timeout=60)


def test_a_room_includes_its_own_files_and_those_below() -> None:
    """So what stands on native/core needs no Python, and what stands on native/links knows no formats."""
    for path in sorted(NATIVE.rglob("*.[ch]")):
        room = room_of(str(path.relative_to(NATIVE)))
        for included in re.findall(r'#include "([^"]+)"', path.read_text(encoding="utf-8")):
            allowed = {room, *INCLUDED_BY_ROOM[room]}
            assert room_of(included) in allowed or included in allowed, f"{path} includes {included}"


def test_a_header_can_be_included_by_itself(tmp_path: Path) -> None:
    """Each names what it needs; those of native/core need no Python for it."""
    for path in sorted((NATIVE / "core").rglob("*.h")):
        if path.name == "api.h":  # cffi reads it too, so it can include nothing
            continue
        lone = tmp_path / "lone.c"
        lone.write_text(f'#define _GNU_SOURCE\n#include "{path.relative_to(NATIVE)}"\n', encoding="utf-8")
        subprocess.run([*STRICT, "-fsyntax-only", str(lone)], check=True, timeout=60)


def test_the_clock_tells_how_fast_it_runs() -> None:
    """Ticks are nanoseconds, or those of a counter of more than a megahertz."""
    clock = native.ffi.new("struct echo_clock *")
    native.lib.echo_native_clock(clock)
    if clock.is_counter:
        assert clock.ticks_per_second > 1_000_000
    else:
        assert clock.ticks_per_second == 1_000_000_000


def test_frames_begin_as_the_protocol_says() -> None:
    """The numbers that transports/protocol and core both need are the same."""
    limits = native.ffi.new("struct echo_limits *")
    native.lib.echo_native_limits(limits)
    assert (limits.first_stream, limits.max_streams) == (link_limits.FIRST_STREAM, link_limits.MAX_STREAMS)
    assert (limits.frame_header_bytes, limits.frame_alignment) == (8, 8)
