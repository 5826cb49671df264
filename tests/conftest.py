"""What every test shares: a cache of compiled code and a run-time directory of the run's own, so that nothing
of the user's is touched.

And Ctrl-C, which shells have background processes ignore, and they those that they start. And all the time
that a machine takes: hypothesis would have an example of 200 ms fail, whatever else the machine did then."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator

import hypothesis
import pytest

# coverage has a lock, which a forked child would wait for if another thread had it. Before echo_core's own
# hooks, and not in Python: that would be traced.
os.register_at_fork(after_in_child=functools.partial(sys.settrace, None))
os.register_at_fork(after_in_child=functools.partial(threading.settrace, None))

hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

_RUN_TIME = "echo-run-time-"
_MET_IN = pytest.StashKey[str]()  # where channels by name are kept
_OWNED = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """The first process makes the folders; those that it starts inherit their names."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _RUN_TIME not in os.environ.get("XDG_RUNTIME_DIR", ""):
        os.environ["XDG_RUNTIME_DIR"] = config.stash[_MET_IN] = tempfile.mkdtemp(prefix=_RUN_TIME)
    if "ECHO_CACHE" not in os.environ:
        os.environ["ECHO_CACHE"] = config.stash[_OWNED] = tempfile.mkdtemp(prefix="echo-cache-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """And removes it."""
    if _MET_IN in config.stash:
        shutil.rmtree(config.stash[_MET_IN], ignore_errors=True)
        del os.environ["XDG_RUNTIME_DIR"]
    if _OWNED in config.stash:
        shutil.rmtree(config.stash[_OWNED], ignore_errors=True)
        del os.environ["ECHO_CACHE"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were run again: what has passed then is told of as what fails is."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"run again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(autouse=True)
def nothing_left_to_compile() -> Iterator[None]:
    """The next test counts, measures and times what is its own."""
    yield
    background = sys.modules.get("echo_core.codegen.machine.background")
    assert background is None or background.drain(300.0)


@pytest.fixture
def without_collector() -> Iterator[None]:
    """For who interrupts, or counts, what Python runs. A collection has others' code run anywhere, such as
    hypothesis's, which notes how long it takes; what is raised there reaches nobody."""
    gc.disable()
    yield
    gc.enable()
