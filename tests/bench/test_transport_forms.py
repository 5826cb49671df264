"""Everyone's messages come back as they were, and loops find those that do not."""

from __future__ import annotations

import collections
import importlib.util
from typing import Any

import numpy as np
import pytest

from bench.codec.peer import values
from bench.transport import loops
from bench.transport.forms import DTYPE, END, MAKERS, Form, payload_bytes
from bench.workload import particle

ALONE = ("dataclass", "record")
BATCHES = ("array", "batch", "in place")
ENCODED = ("msgspec", "numpy", "pickle")
NEEDS_MSGSPEC = pytest.mark.skipif(not importlib.util.find_spec("msgspec"), reason="msgspec is not installed")


def cases(*names: str, batches: tuple[int, ...]) -> list[Any]:
    """Each form as each batch."""
    marks = {"msgspec": [NEEDS_MSGSPEC]}
    return [pytest.param(name, n, marks=marks.get(name, [])) for name in names for n in batches]


CASES = [
    *cases(*ALONE, *ENCODED, "array", "in place", batches=(0,)),
    *cases(*BATCHES, *ENCODED, batches=(1, 10)),
]


def wire(form: Form) -> tuple[collections.deque[Any], Any, Any]:
    """A queue in place of a transport; what a form does not encode is passed as it is."""
    queue: collections.deque[Any] = collections.deque()
    return queue, queue.append, queue.popleft


def particles_of(form: Form, message: Any) -> list[tuple[Any, ...]]:
    """The values of every particle of a message, whatever it is."""
    held: Any = getattr(message, "particles", message)
    if hasattr(held, "dtype"):
        return [tuple(row.item()[:14]) for row in held]
    return [values(it)[:14] for it in (held if hasattr(held, "append") else [held])]


@pytest.mark.parametrize(("name", "n"), CASES)
def test_every_form_holds_the_particles(name: str, n: int) -> None:
    """As many as were asked for, before and after its codec."""
    form = MAKERS[name](n)
    message = form.message
    if form.encode is not None and form.decode is not None:
        message = form.decode(form.encode(message))
    found = particles_of(form, message)
    expected = np.array([values(particle(i)) for i in range(max(n, 1))], DTYPE)
    for mine, row in zip(found, expected, strict=True):
        assert mine == pytest.approx(row.item()[:14], rel=1e-6)


@pytest.mark.parametrize(("name", "n"), CASES)
def test_a_round_trip_is_timed(name: str, n: int) -> None:
    """As many as were allowed, each with its own step."""
    form = MAKERS[name](n)
    _, send, receive = wire(form)
    times_ns = loops.ping(form)(form.message, send, receive, form.encode, form.decode, 10**10, 20)
    assert len(times_ns) == 20
    assert min(times_ns) > 0


@pytest.mark.parametrize(("name", "n"), cases(*ENCODED, batches=(0, 1, 10)))
def test_a_stream_is_counted(name: str, n: int) -> None:
    """By a loop that receives, up to the message of the end."""
    form = MAKERS[name](n)
    assert form.encode is not None
    queue, send, receive = wire(form)
    _, sent = loops.source(form)(form.message, send, form.encode, 100_000, 4)
    send(form.encode(loops.end_message(form)))
    assert len(queue) == sent + 1
    _, received = loops.sink(form)(receive, form.decode)
    assert received == sent > 0


@pytest.mark.parametrize("name", [pytest.param("msgspec", marks=NEEDS_MSGSPEC), "numpy", "pickle"])
def test_a_lost_message_is_found_out(name: str) -> None:
    """The next one's step is not the one expected."""
    form = MAKERS[name](10)
    assert form.encode is not None
    queue, send, receive = wire(form)
    loops.source(form)(form.message, send, form.encode, 100_000, 4)
    del queue[2]
    with pytest.raises(loops.WrongAnswerError, match="step 3"):
        loops.sink(form)(receive, form.decode)


@NEEDS_MSGSPEC
def test_a_cut_batch_is_found_out() -> None:
    """By its last particle."""
    form = MAKERS["msgspec"](10)
    assert form.encode is not None
    _, send, receive = wire(form)
    receive_all = loops.sink(form)
    del form.message.particles[-1]
    send(form.encode(form.message))
    with pytest.raises(loops.WrongAnswerError, match="particle is 8"):
        receive_all(receive, form.decode)


@pytest.mark.parametrize(("name", "n"), [("dataclass", 0), ("array", 10)])
def test_handlers_count_and_answer(name: str, n: int) -> None:
    """As the loops do, for transports that call them."""
    form = MAKERS[name](n)
    finished: list[tuple[int, int]] = []
    count = loops.sink_handler(form)(finished.append)
    _, sent = loops.source(form)(form.message, count, form.encode, 100_000, 4)
    count(loops.end_message(form))
    assert [received for _, received in finished] == [sent]

    class End:
        sent: list[Any] = []  # noqa: RUF012 - of this test alone
        send = sent.append

    answer = loops.pong_handler(form)(End, finished.append)
    answer(MAKERS[name](n).message)
    answer(loops.end_message(form))
    assert len(End.sent) == 1
    assert len(finished) == 2


@pytest.mark.parametrize("n", [1, 10])
def test_arrays_may_come_joined(n: int) -> None:
    """As many as there are, and the end of the stream may be among them; what is missing is found out."""
    form = MAKERS["array"](n)
    queue, send, _ = wire(form)

    def send_copy(message: Any) -> None:
        send(message.copy())

    loops.source(form)(form.message, send_copy, form.encode, 100_000, 4)
    sent = len(queue)
    send(loops.end_message(form))
    finished: list[tuple[int, int]] = []
    count = loops.sink_handler(form)(finished.append)
    count(queue[0])
    count(np.concatenate(list(queue)[1:3]))
    count(np.concatenate(list(queue)[3:]))
    assert [received for _, received in finished] == [sent]
    for broken in (np.concatenate([queue[0], queue[2]]), np.concatenate([queue[0], queue[1][: n - 1]])):
        if len(broken) != n:
            with pytest.raises(loops.WrongAnswerError):
                loops.sink_handler(form)(finished.append)(broken)


def test_a_handler_finds_a_lost_message_out() -> None:
    """And whoever waits for the end need not wait on."""
    form = MAKERS["dataclass"](0)
    finished: list[tuple[int, int]] = []
    count = loops.sink_handler(form)(finished.append)
    form.message.id = 3
    with pytest.raises(loops.WrongAnswerError, match="step 3"):
        count(form.message)
    assert finished == [(0, 0)]


def test_objects_of_one_particle_have_no_batches() -> None:
    """A class that is one particle is not asked to be many."""
    with pytest.raises(ValueError, match="batch of 10"):
        MAKERS["dataclass"](10)


def test_sizes_are_those_of_c() -> None:
    """Of a particle alone and of batches behind their header."""
    assert [payload_bytes(n) for n in (0, 1, 1000)] == [96, 112, 96016]
    assert END < 0
