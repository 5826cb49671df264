"""The loops that are timed, written once and compiled for each form.

As in timeit, the text of a form's accesses is put into the loop, so that all forms pay for the same calls:
one to send, one to receive, and one each to encode and decode where the transport does neither. Every
message is checked: its step, which shows its place in the order, and a batch's last particle.
"""

from __future__ import annotations

import array
import textwrap
import time
from collections.abc import Callable
from typing import Any

from bench.transport.forms import END, Form


class WrongAnswerError(Exception):
    """A message came that was not the one expected."""


def _wrong(step: Any, last: Any) -> None:
    msg = f"Received a message of step {step} whose last particle is {last}"
    raise WrongAnswerError(msg)


_PING = """
def loop(message, send, receive, encode, decode, budget_ns, most):
    times_ns = new_times()
    note = times_ns.append
    k = 0
    stop = now() + budget_ns
    while (start := now()) < stop and k < most:
        k += 1
        {step_of_message} = k
        send({sent})
        event = {received}
        if {is_wrong}:
            wrong({step}, {last})
        note(now() - start)
    return times_ns
"""

# The next one is sent by the handler of the last answer: no thread waits.
_PING_HANDLER = """
def loop(message, end, finished):
    k = start = stop = most = 0
    times_ns = new_times()
    def begin(budget_ns, limit):
        nonlocal k, start, stop, most, times_ns
        times_ns = new_times()
        k, most = 1, limit
        stop = now() + budget_ns
        {step_of_message} = k
        start = now()
        end.send(message)
    def handle(event):
        nonlocal k, start
        if {is_wrong}:
            finished(None)
            wrong({step}, {last})
        ended = now()
        times_ns.append(ended - start)
        if ended >= stop or k >= most:
            finished(times_ns)
        else:
            k += 1
            {step_of_message} = k
            start = now()
            end.send(message)
    return begin, handle
"""

_PONG = """
def loop(send, receive, encode, decode):
    while True:
        event = {received}
        if {step} == END:
            return
        send({event_sent})
"""

_SOURCE = """
def loop(message, send, encode, budget_ns, stride):
    k = 0
    start = now()
    stop = start + budget_ns
    while now() < stop:
        for k in range(k, k + stride):
            {step_of_message} = k
            send({sent})
        k += 1
    return start, k
"""

_SINK = """
def loop(receive, decode):
    k = 0
    while True:
        event = {received}
        if {is_wrong}:
            if {step} == END:
                return now(), k
            wrong({step}, {last})
        k += 1
"""

_PONG_HANDLER = """
def loop(end, finished):
    def handle(event):
        if {step} == END:
            finished((now(), 0))
        else:
            end.send(event)
    return handle
"""

_SINK_HANDLER = """
def loop(finished):
    k = 0
    def handle(event):
        nonlocal k
        if {is_wrong}:
            if {step} == END:
                finished((now(), k))
                k = -1  # the next stream begins with 0
            else:
                finished((0, k))
                wrong({step}, {last})
        k += 1
    return handle
"""

# Arrays that wait together are handed over as one. The last message's step tells whether all of them came.
_ARRAY_SINK_HANDLER = """
def loop(finished):
    k = 0
    def handle(event):
        nonlocal k
        messages, rest = divmod(len(event), records)
        ids = event['id']
        k += messages
        if ids[-records] != k - 1 or ids[-1] != {array_end} or rest:
            if ids[-records] == END and not rest:
                finished((now(), k - 1))
                k = 0
            else:
                finished((0, k))
                wrong(ids[-records], ids[-1])
    return handle
"""


def ping(form: Form) -> Callable[..., Any]:
    """Sends and waits for the answer: the times of as many as fit into the budget."""
    return _compiled(_PING, form)


def ping_handler(form: Form) -> Callable[..., Any]:
    """As ping, for a transport that calls a handler: what begins it, and the handler."""
    return _compiled(_PING_HANDLER, form)


def pong(form: Form) -> Callable[..., Any]:
    """Sends back what comes, until the end."""
    return _compiled(_PONG, form)


def source(form: Form) -> Callable[..., Any]:
    """Sends for as long as the budget lasts: when that began, and how many."""
    return _compiled(_SOURCE, form)


def sink(form: Form) -> Callable[..., Any]:
    """Takes all until the end: when that came, and how many."""
    return _compiled(_SINK, form)


def pong_handler(form: Form) -> Callable[..., Any]:
    """As pong, for a transport that calls a handler."""
    return _compiled(_PONG_HANDLER, form)


def sink_handler(form: Form) -> Callable[..., Any]:
    """As sink, for a transport that calls a handler."""
    return _compiled(_ARRAY_SINK_HANDLER if form.records else _SINK_HANDLER, form)


def end_message(form: Form) -> Any:
    """The form's message as the last of a stream."""
    exec(f"{form.step.format(it='message')} = END", {"message": form.message, "END": END})
    return form.message


def _compiled(template: str, form: Form) -> Callable[..., Any]:
    step = form.step.format(it="event")
    last = form.last.format(it="event") if form.last else step
    names: dict[str, Any] = {
        "END": END,
        "new_times": lambda: array.array("q"),
        "now": time.perf_counter_ns,
        "wrong": _wrong,
        "last_id": _value(form),
        "records": form.records,
    }
    is_wrong = f"{step} != k" + (f" or {last} != last_id" if form.last else "")
    text = textwrap.dedent(template).format(
        step=step,
        last=last,
        is_wrong=is_wrong,
        array_end="last_id" if form.last else "k - 1",
        step_of_message=form.step.format(it="message"),
        sent="encode(message)" if form.encode else "message",
        event_sent="encode(event)" if form.encode else "event",
        received="decode(receive())" if form.decode else "receive()",
    )
    exec(text, names)
    loop: Callable[..., Any] = names["loop"]
    return loop


def _value(form: Form) -> Any:
    """The last particle's id, which never changes."""
    return eval(form.last.format(it="message"), {"message": form.message}) if form.last else None
