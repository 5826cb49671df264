"""Lines on their way to stdout."""

from __future__ import annotations

import inspect
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from echo_core.tools.endings import Terminated
from echo_core.tools.spools import Spool
from tests.echo_core.tools.running import LIMIT_S


def write_until(spool: Spool, stop_at: int) -> bool:
    """Whether a signal ended it, which came before that instruction of Python's."""
    seen = 0

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal seen
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == stop_at:
                raise Terminated(15)
        return trace

    before = sys.gettrace()
    here = inspect.currentframe()
    assert here is not None
    here.f_trace_opcodes = True  # CPython 3.12 asks for it before tracing begins
    sys.settrace(trace)
    try:
        spool.write()
    except Terminated:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.usefixtures("without_collector")
def test_signal_may_end_a_write_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever makes lines and closes goes on: a lock that a handler left behind would hold both for good."""
    stop_at, was_ended = 0, True
    while was_ended:
        stop_at += 1
        spool = Spool()
        spool.add(lambda: "a line\n")
        was_ended = write_until(spool, stop_at)
        ending = [threading.Thread(target=spool.add, args=[lambda: None], daemon=True)]
        ending.append(threading.Thread(target=spool.close, daemon=True))
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), f"held by what ended before instruction {stop_at}"
    assert stop_at > 10
    assert "a line" in capsys.readouterr().out
