"""A component's handler, and what becomes of what it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echo_core._c import links
from echo_core.errors import BacklogError, EchoError
from echo_core.transports.threads import failures_logged, is_failure, log

FailureHook = Callable[[Any, BaseException], object]


class Handler:
    """What a sink's events are given to. Its failures are logged, counted and told to `on_failure`.

    `target` is the sink's working part. It is passed along, not kept here: it refers to this object, and the
    two would wait for the garbage collector.
    """

    __slots__ = ("_channel", "_expected", "_on_failure", "failures", "function")

    def __init__(
        self,
        function: Callable[[Any], object] | None,
        *,
        channel: Callable[[], str],
        expected: str,
        on_failure: FailureHook | None,
    ) -> None:
        """`channel` names the channel and `expected` the sink's type, both for messages."""
        self.function = function
        self.failures = 0  # in `run`; links.Delivery counts those of events that it hands over itself
        self._channel = channel
        self._expected = expected
        self._on_failure = on_failure

    def run(self, target: object, queue: links.Queue) -> None:
        """Handles what is queued until the queue is closed: the main function of a sink's own thread."""
        assert self.function is not None
        try:
            for event in queue:
                try:
                    self.function(event)
                except BaseException as error:
                    self.failures += 1
                    if not self.failed(target, error):
                        raise
        except BacklogError as error:  # the policy "error"
            self._report(target, error, "a sink of channel `%s` has ended: %s", self._channel(), error)

    def failed(self, target: object, error: BaseException) -> bool:
        """Reports what the function has raised. False: it was not, the error is for the calling thread."""
        if not is_failure(error):
            return False
        self._report(target, error, "a handler of channel `%s` failed", self._channel(), trace=error)
        return True

    def refused(self, target: object, sent: str, error: BaseException) -> bool:
        """Likewise, where a record of format `sent` could not become an event: own errors need no trace."""
        if not is_failure(error):
            return False
        trace = None if isinstance(error, EchoError) else error
        said = "channel `%s`: what a source of `%s` has sent cannot become %s: %s"
        self._report(target, error, said, self._channel(), sent, self._expected, error, trace=trace)
        return True

    def _report(
        self,
        target: object,
        error: BaseException,
        said: str,
        *words: object,
        trace: BaseException | None = None,
    ) -> None:
        log.error(said, *words, exc_info=trace)
        if self._on_failure is None:
            return
        with failures_logged("on_failure failed"):
            self._on_failure(target, error)
