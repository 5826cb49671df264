"""`echoctl doctor`: what this machine has for echo_core to run well, what is wrong, and how to fix it."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import mmap
import os
import platform
import resource
import shutil
import stat
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.output import is_json, json_line
from echo_core.tools.parameters import form_options
from echo_core.tools.plain import plain

_NATIVE = ("code", "events", "expressions", "links", "locks", "logs", "native")
_TRANSPORTS: tuple[Literal["shm", "unix", "tcp"], ...] = ("shm", "unix", "tcp")
_TRIED = ((3, 11), (3, 15))
_TRIPS = 50
_LEAST_DESCRIPTORS, _LEAST_WATCHES = 1024, 1024
_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """With `wrong` something does not work, with a `note` it could be better."""

    state: Literal["ok", "note", "wrong"]
    subject: str
    text: str
    advice: str = ""


@click.command()
@form_options
@logs.options
def command(form: str | None) -> None:
    """Check Python, compiled modules, the compiler, its cache, transports, names and limits of this machine.

    The exit status is 1 where something is wrong.
    """
    findings: list[Finding] = []
    for finding in examine():
        findings.append(finding)
        click.echo(json_line(asdict(finding)) if is_json(form) else _line(finding))
    if any(finding.state == "wrong" for finding in findings):
        end(Ending.UNMATCHED)


def _line(finding: Finding) -> str:
    color = {"ok": "green", "note": "yellow", "wrong": "red"}[finding.state]
    line = f"{click.style(f'{finding.state:5}', fg=color)}  {finding.subject:12} {plain(finding.text)}"
    return f"{line}\n{'':20}-> {plain(finding.advice)}" if finding.advice else line


def examine() -> Iterator[Finding]:
    """All that is looked at. What fails in an unexpected way is a finding, too."""
    for check in (
        _python,
        _system,
        _native,
        _compiler,
        _cache,
        _building,
        _memory,
        _inotify,
        _limits,
        _names,
    ):
        yield from _tried(check, check.__name__.strip("_"))
    for transport in _TRANSPORTS:
        yield from _tried(partial(_transport, transport), transport)


def _tried(check: Callable[[], Iterator[Finding]], subject: str) -> Iterator[Finding]:
    try:
        yield from check()
    except (echo.EchoError, ImportError, OSError) as error:
        yield Finding("wrong", subject, f"{type(error).__name__}: {error}")


def _python() -> Iterator[Finding]:
    text = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        yield Finding("wrong", "Python", text, "take a CPython of the usual build: others are not supported")
    elif not _TRIED[0] <= sys.version_info[:2] <= _TRIED[1]:
        yield Finding("note", "Python", text, "3.11 to 3.15 were tried")
    else:
        yield Finding("ok", "Python", text)
    place = os.path.dirname(str(echo.__file__))
    yield Finding("ok", "echo_core", f"{echo.__version__} at {place}")


def _system() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    text = f"{platform.system()} {platform.release()} on {platform.machine()}, {cores} cores"
    if platform.system() != "Linux":
        yield Finding("wrong", "system", text, "links need futexes and memfds, which only Linux has")
    else:
        yield Finding("ok", "system", text)


def _native() -> Iterator[Finding]:
    missing: dict[str, str] = {}
    for name in _NATIVE:
        try:
            importlib.import_module(f"echo_core._c.{name}")
        except ImportError as error:
            missing[name] = str(error)
    if missing:
        text = "; ".join(f"{name}: {problem}" for name, problem in missing.items())
        yield Finding("wrong", "native", text, "run `pip install .` in the checkout, or install a wheel")
    else:
        yield Finding("ok", "native", f"{', '.join(_NATIVE)} are compiled")


def _compiler() -> Iterator[Finding]:
    report = echo.diagnostics()
    text = f"llvmlite {importlib.metadata.version('llvmlite')} for {report.target}"
    if report.event_code:
        yield Finding("note", "compiler", f"{text}; {report.event_code}", "event classes are walked instead")
    else:
        yield Finding("ok", "compiler", text)
    is_counter = "counter" in report.clock
    advice = "" if is_counter else "the system trusts no counter here: a round trip takes longer"
    yield Finding("ok" if is_counter else "note", "clock", report.clock, advice)


def _cache() -> Iterator[Finding]:
    folder = echo.diagnostics().cache_folder
    if not folder:
        advice = "set ECHO_CACHE to a folder of your own: code is compiled anew in each process"
        yield Finding("note", "cache", "no folder", advice)
        return
    place = Path(folder)
    nearest = next(each for each in (place, *place.parents) if each.exists())
    found = nearest.stat()
    if not os.access(nearest, os.W_OK):
        yield Finding(
            "note", "cache", f"{folder}: cannot be written", "set ECHO_CACHE to a folder of your own"
        )
    elif nearest == place and (found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022):
        advice = f"`chmod go-w {folder}`, or set ECHO_CACHE: what others can write is not run"
        yield Finding("note", "cache", f"{folder}: others can write it", advice)
    else:
        files = list(place.iterdir()) if place.exists() else []
        yield Finding("ok", "cache", f"{folder}, {len(files)} files")


def _building() -> Iterator[Finding]:
    there = [name for name in ("gcc", "make") if shutil.which(name)]
    text = f"{' and '.join(there) or 'no gcc, no make'}: for building from a checkout alone"
    yield Finding("ok", "building", text)


def _memory() -> Iterator[Finding]:
    """As links use it: anonymous memory that another process can map."""
    descriptor = os.memfd_create("echo-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, 1024 * 1024)
        with mmap.mmap(descriptor, 1024 * 1024) as mapped:
            mapped[0] = 1
    finally:
        os.close(descriptor)
    yield Finding("ok", "memory", "memfds can be made, sealed and mapped")


def _inotify() -> Iterator[Finding]:
    """By which readers of a log wait for what is added."""
    most = {
        name: int(Path(f"/proc/sys/fs/inotify/{name}").read_text())
        for name in ("max_user_instances", "max_user_watches")
    }
    text = ", ".join(f"{name} {value}" for name, value in most.items())
    descriptor = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
    if descriptor < 0:
        advice = "end processes that watch files, or raise fs.inotify.max_user_instances by sysctl"
        yield Finding("note", "inotify", f"{text}: none is left", advice)
        return
    os.close(descriptor)
    is_enough = most["max_user_watches"] >= _LEAST_WATCHES
    advice = "" if is_enough else "raise fs.inotify.max_user_watches by sysctl"
    yield Finding("ok" if is_enough else "note", "inotify", text, advice)


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _LEAST_DESCRIPTORS:
        advice = f"`ulimit -n {hard}`: a link takes up to six descriptors"
        yield Finding("note", "descriptors", f"{soft} of at most {hard}", advice)
    else:
        yield Finding("ok", "descriptors", f"{soft} of at most {hard}")


def _names() -> Iterator[Finding]:
    """ChannelError: where they are kept is not as it should be."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    where = "$XDG_RUNTIME_DIR/echo_core" if given else f"/tmp/echo_core-{os.geteuid()}"
    count = len(echo.channels())
    advice = "" if given else "programs that are to meet need the same setting of XDG_RUNTIME_DIR, or none"
    yield Finding("ok", "names", f"{where}, {count} channels are there", advice)


def _transport(transport: Literal["shm", "unix", "tcp"]) -> Iterator[Finding]:
    """Two nodes, a channel, and events in both directions."""
    point = echo.Format.from_c("struct EchoDoctor { long number; };")
    cls = point.record_class()
    with (
        echo.Node("doctor-1", transports=[transport]) as first,
        echo.Node("doctor-2", transports=[transport]) as second,
        first.create_channel("there") as there,
        second.open_channel(there.id, timeout_s=_LIMIT_S) as opened,
        opened.sink(cls) as sink,
        there.source(point) as source,
    ):
        source.wait_matched(1, _LIMIT_S)
        taken_s: list[float] = []
        for number in range(_TRIPS):
            began = time.perf_counter()
            source.submit(cls(number=number))
            sink.get(_LIMIT_S)
            taken_s.append(time.perf_counter() - began)
    text = f"an event takes {median(taken_s) * 1e6:.0f} us from one node of this process to another"
    yield Finding("ok", transport, text)
