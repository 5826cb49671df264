"""`echoctl watch`: events as they come."""

from __future__ import annotations

import contextlib
import select as polling
import sys
import threading
import time
from typing import Any

import click

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.endings import Ending, end
from echo_core.tools.events import Writer, origin_of, writer_for
from echo_core.tools.opening import opened
from echo_core.tools.parameters import DURATION, Way, channel_argument, timeout_option
from echo_core.tools.taps import Tap

_TICK_S = 0.05  # how long what is written may wait to be seen
_TELL_S = 1.0  # between two lines on what was missed


@click.command()
@channel_argument
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many events.")
@timeout_option("End after that time: 5s, 500ms, 2m.")
@click.option("--where", help="Only events that pass, such as 'temperature > 300'; sources judge them.")
@click.option("--select", help="Only these fields, such as id,at.x; sources send no others.")
@click.option("--wait", "wait_s", type=DURATION, default=0.0, help="Wait so long for a channel by name.")
@click.option("--json", "form", flag_value="json", help="JSON lines, as pipes get them.")
@click.option("--csv", "form", flag_value="csv", help="Comma-separated values with a header.")
@click.option("--lines", "form", flag_value="lines", help="Lines for people, as terminals get them.")
@click.option("-f", "--fields", "template", help="A line for each, such as '{id} {temperature:.1f}'.")
@click.option(
    "-i", "--info", "with_origin", is_flag=True, help="JSON with _type, _source, _number and others."
)
@logs.options
def command(
    channel: Way,
    count: int | None,
    timeout_s: float | None,
    where: str | None,
    select: str | None,
    wait_s: float,
    form: str | None,
    template: str | None,
    with_origin: bool,
) -> None:
    """Show the events of a CHANNEL, of whatever type, as they come.

    What comes faster than it can be shown is dropped, the oldest first, and counted on stderr. Nobody else
    on the channel waits for this program. The exit status is 1 if no event has come, and 124 if fewer than -n
    have when -t is over.
    """
    written = _Written(writer_for(form, template, with_origin=with_origin), count)
    selected = [name.strip() for name in select.split(",")] if select is not None else None
    with opened(channel, wait_s=wait_s) as joined:
        tap = Tap(joined, written.take, where=where, select=selected, wake=written.wake)
        try:
            _go_on(tap, written, timeout_s)
        finally:
            tap.close()
            written.flush()
            _tell_missed(tap.missed)
    if count is not None and written.events < count:
        end(Ending.OUT_OF_TIME)
    if not written.events:
        end(Ending.UNMATCHED)


def _go_on(tap: Tap, written: _Written, timeout_s: float | None) -> None:
    """Until there is enough, or time is up, or nobody reads any more."""
    limit = time.monotonic() + timeout_s if timeout_s is not None else float("inf")
    told_at, told = time.monotonic(), (0, 0)
    while not written.is_done() and time.monotonic() < limit:
        written.wait(min(_TICK_S, max(0.0, limit - time.monotonic())))
        tap.attend()
        written.flush()
        if time.monotonic() - told_at >= _TELL_S:
            told_at = time.monotonic()
            if tap.missed != told:
                told = tap.missed
                _tell_missed(told)
    written.demand_no_error()


def _tell_missed(missed: tuple[int, int]) -> None:
    here, before = missed
    if here or before:
        logs.note(f"missed {here + before:,} events so far: {here:,} dropped here, {before:,} at sources")


class _Written:
    """What sinks' threads write, in turn; seen by the main thread, which flushes and ends."""

    def __init__(self, text_of: Writer, limit: int | None) -> None:
        self._text_of, self._limit = text_of, limit
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._error: BaseException | None = None
        self._is_dirty = False
        self._output = polling.poll()
        with contextlib.suppress(OSError):  # it has none
            self._output.register(sys.stdout.fileno(), 0)  # says when nobody reads any more
        self.events = 0

    def take(self, event: Any, info: echo.EventInfo) -> None:
        with self._lock:
            if self.is_done():
                return
            try:
                text = self._text_of(event, origin_of(info))
                if text is not None:
                    sys.stdout.write(text)
                    self._is_dirty = True
                    self.events += 1
            except BaseException as error:  # noqa: BLE001 - the main thread ends with it
                self._error = error
            if self.is_done():
                self._wake.set()

    def is_done(self) -> bool:
        return self._error is not None or (self._limit is not None and self.events >= self._limit)

    def wake(self) -> None:
        self._wake.set()

    def wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def flush(self) -> None:
        """BrokenPipeError: nobody reads what is written, or would read it."""
        with self._lock:
            if self._is_dirty:
                self._is_dirty = False
                sys.stdout.flush()
        if any(events & (polling.POLLERR | polling.POLLNVAL) for _, events in self._output.poll(0)):
            raise BrokenPipeError

    def demand_no_error(self) -> None:
        if self._error is not None:
            raise self._error
