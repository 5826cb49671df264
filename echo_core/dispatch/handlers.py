"""A component's handler, and what becomes of what it raises."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from echo_core._c import links
from echo_core.errors import BacklogError, EchoError
from echo_core.transports.repeats import Repeats
from echo_core.transports.threads import failures_logged, is_failure, log

if sys.version_info >= (3, 14):  # annotations may name what is not there at run time
    import annotationlib

    _signature = partial(inspect.signature, annotation_format=annotationlib.Format.FORWARDREF)
else:
    _signature = inspect.signature

SLOW_PERIOD_S = 60.0

FailureHook = Callable[[Any, BaseException], object]


class Handler:
    """What a sink's events are given to. Its failures are counted, told to `on_failure` and logged: the first
    at once and with its traceback, others as a sum from time to time.

    `target` is the sink's working part. It is passed along, not kept here: it refers to this object, and the
    two would wait for the garbage collector.
    """

    __slots__ = (
        "_channel",
        "_expected",
        "_failing",
        "_failures",
        "_on_failure",
        "_refusing",
        "function",
        "own",
        "slow_calls",
        "takes_info",
    )

    def __init__(
        self,
        function: Callable[..., object] | None,
        *,
        channel: Callable[[], str],
        expected: str,
        on_failure: FailureHook | None,
    ) -> None:
        """`channel` names the channel and `expected` the sink's type, both for messages."""
        self.function = function
        self.takes_info = function is not None and takes_two(function)
        self.own: links.Delivery | None = None  # from the queue, while `run` is under way
        self._channel = channel
        self._expected = expected
        self._on_failure = on_failure
        self._failures = 0
        self._failing, self._refusing = Repeats(), Repeats()
        self.slow_calls = Repeats(period_s=SLOW_PERIOD_S)  # one that is always slow is told of now and then

    @property
    def failures(self) -> int:
        """In `run`; the deliveries of streams count those of events that they hand over themselves."""
        return self._failures if self.own is None else self.own.failures

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)

    def run(self, target: object, queue: links.Queue) -> None:
        """Handles what is queued until the queue is closed: the main function of a sink's own thread."""
        assert self.function is not None
        function = partial(_call_with_pair, self.function) if self.takes_info else self.function
        self.own = own = links.Delivery(function, _no_record, partial(self._failed_at, queue, target))
        try:
            for event in queue:
                own.hand_event(event)
        except BacklogError as error:  # the policy "error"
            log.error("a sink of channel `%s` has ended: %s", self._channel(), error)
            self._tell(target, error)
        finally:
            self._failures, self.own = own.failures, None  # which refers to the target

    def _failed_at(self, queue: links.Queue, target: object, error: BaseException) -> bool:
        """Its source is told which event that was, if it asks."""
        queue.fail_held()
        return self.failed(target, error)

    def failed(self, target: object, error: BaseException) -> bool:
        """Reports what the function has raised. False: it was not, the error is for the calling thread."""
        if not is_failure(error):
            return False
        said = "a handler of channel `%s` failed: %s: %s"
        kind = type(error).__name__
        self._failing.say(logging.ERROR, said, self._channel(), kind, error, exc_info=error)
        self._tell(target, error)
        return True

    def refused(self, target: object, sent: str, error: BaseException) -> bool:
        """Likewise, where a record of format `sent` could not become an event: own errors need no trace."""
        if not is_failure(error):
            return False
        trace = None if isinstance(error, EchoError) else error
        said = "channel `%s`: what a source of `%s` has sent cannot become %s: %s"
        words = self._channel(), sent, self._expected, error
        self._refusing.say(logging.ERROR, said, *words, exc_info=trace)
        self._tell(target, error)
        return True

    def _tell(self, target: object, error: BaseException) -> None:
        if self._on_failure is None:
            return
        with failures_logged("on_failure failed"):
            self._on_failure(target, error)

    def settle(self, *, at_end: bool = False) -> None:
        """Logs how many failures were not logged one by one; for whoever has a tick, and at the end."""
        for repeats in (self._failing, self._refusing, self.slow_calls):
            repeats.settle(at_end=at_end)


def takes_two(function: Callable[..., object]) -> bool:
    """Whether it has to be given two arguments: one that has a default is the function's own affair.

    Built-in functions that cannot be inspected take one.
    """
    try:
        parameters = _signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(it.kind in kinds and it.default is inspect.Parameter.empty for it in parameters) == 2


def _call_with_pair(function: Callable[..., object], pair: tuple[object, object]) -> None:
    """An event that waited in a queue, and where it is from."""
    function(*pair)


def _no_record(record: object) -> Any:
    """What waits in a queue was decoded before."""
    raise AssertionError(record)
