"""How processes end: without closing anything, in every order of closing, by Ctrl-C wherever they wait."""

from __future__ import annotations

import gc
import itertools
import signal

import pytest

import echo_core as echo
from tests.echo_core.census import left_behind, settled_census
from tests.echo_core.channel_events import Plain
from tests.echo_core.processes import Actor

EXIT_S = 60.0  # who waits to the end of a wait takes ten minutes

_PAIR = """
WAIT_S = 600
limits = echo.Limits(stall_s=WAIT_S)
a, b = (echo.Node(transports=[sys.argv[1]], limits=limits) for _ in range(2))
here = a.create_channel("test", Plain)
there = b.open_channel(here.id)
source = here.source(backlog=echo.Backlog(timeout_s=WAIT_S))
"""


ORDERS = list(enumerate(itertools.permutations(["source", "sink", "here", "there", "node"])))


@pytest.fixture(scope="module")
def no_garbage() -> None:
    """Collects what earlier tests have left, which takes long where it is done a hundred times."""
    gc.collect()


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize(("number", "order"), ORDERS)
def test_every_order_of_closing_leaves_nothing(number: int, order: tuple[str, ...]) -> None:
    transport = ("shm", "unix", "tcp")[number % 3]
    before = settled_census(collects=False)
    node, other = echo.Node(transports=[transport]), echo.Node(transports=[transport])  # type: ignore[list-item]
    here = node.create_channel("test", Plain)
    there = other.open_channel(here.id)
    source, sink = here.source(), there.sink(Plain)
    source.wait_matched()
    source.submit(Plain(1, 2.0))
    held = {"source": source, "sink": sink, "here": here, "there": there, "node": node}
    for name in order:
        held[name].close()
    other.close()
    del node, other, here, there, source, sink, held
    assert left_behind(before) == ""


ENDINGS = {
    "the script ends": "",
    "sys.exit": "sys.exit(0)",
    "a queue that nobody reads": "there.sink(Plain); source.wait_matched(); source.submit(Plain(1, 1.0))",
    "a handler's own thread is busy": """
there.sink(Plain, lambda event: (say("busy"), threading.Event().wait()), own_thread=True)
source.wait_matched()
source.submit(Plain(1, 1.0))
""",
    "several handlers are busy": """
for _ in range(5):
    there.sink(Plain, lambda event: threading.Event().wait(), own_thread=True)
source.wait_matched(5)
source.submit(Plain(1, 1.0))
""",
    "a thread waits for an event": """
sink = there.sink(Plain)
def wait():
    with contextlib.suppress(echo.ClosedError):
        sink.get()
threading.Thread(target=wait, daemon=True).start()
source.wait_matched()
""",
    "a thread iterates a sink": """
sink = there.sink(Plain)
threading.Thread(target=lambda: list(sink), daemon=True).start()
source.wait_matched()
source.submit(Plain(1, 1.0))
""",
    "a thread submits": """
there.sink(Plain, lambda event: None)
source.wait_matched()
def submit():
    try:
        while True:
            source.submit(Plain(1, 1.0))
    except echo.ClosedError:
        pass
threading.Thread(target=submit, daemon=True).start()
""",
    "sys.exit in a handler": """
done = threading.Event()
import logging
logging.disable()  # it is said, as that of any other failure

def leave(event):
    done.set()
    sys.exit(3)
there.sink(Plain, leave)
source.wait_matched()
source.submit(Plain(1, 1.0))
done.wait(WAIT_S)
""",
}


@pytest.mark.parametrize("transport", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_that_closes_nothing_exits_quietly(ending: str, transport: str) -> None:
    with Actor(_PAIR + "say('begun')\n" + ENDINGS[ending] + "\nsay('over')\n", transport) as actor:
        assert actor.hear() == "begun"
        code, _, err = actor.end(EXIT_S)
    assert (code, [line for line in err.splitlines() if not _tells_of_drops(line)]) == (0, [])


def _tells_of_drops(line: str) -> bool:
    """What was submitted to the very end may not have left, which is said."""
    return line.startswith("channel `") and "dropped" in line


def test_an_exception_is_all_that_an_interpreter_says_of_it() -> None:
    with Actor(_PAIR + "raise ValueError('on purpose')", "unix") as actor:
        code, _, err = actor.end()
    assert code == 1
    assert err.splitlines()[-1] == "ValueError: on purpose"
    assert err.count("Traceback") == 1


WAITS = {
    "iterating a sink": "sink = there.sink(Plain); say('waits'); list(sink)",
    "get": "sink = there.sink(Plain); source.wait_matched(); say('waits'); sink.get()",
    "get with no source": "sink = a.create_channel('b', Plain).sink(Plain); say('waits'); sink.get()",
    "wait_matched": "say('waits'); source.wait_matched(3, None)",
    "flush": """
there.sink(Plain, lambda event: time.sleep(WAIT_S))
source.wait_matched()
source.submit(Plain(1, 1.0))
say('waits')
source.flush(None)
""",
    "submit": """
full = there.sink(Plain, backlog=echo.Backlog(events=1, timeout_s=WAIT_S))
blocked = here.source(backlog=echo.Backlog(events=1, timeout_s=WAIT_S))
blocked.wait_matched()
say('waits')
while True:
    blocked.submit(Plain(1, 1.0))
""",
    "open_channel": """
import socket
from echo_core.roster.ids import ChannelId, Member
from echo_core.transports.addresses import TcpAddress
listener = socket.create_server(('127.0.0.1', 0))
import atexit; atexit.register(listener.close)
id_ = ChannelId.new(Member(bytes(16), (TcpAddress(*listener.getsockname()),)))
node = echo.Node()
say('waits')
node.open_channel(str(id_), timeout_s=WAIT_S)
""",
    "a handler's own thread": """
there.sink(Plain, lambda event: threading.Event().wait(), own_thread=True)
source.wait_matched()
source.submit(Plain(1, 1.0))
say('waits')
time.sleep(WAIT_S)
""",
    "async for": """
import asyncio
async def take():
    say('waits')
    async for event in there.sink(Plain):
        pass
asyncio.run(take())
""",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait: str) -> None:
    with Actor(_PAIR + WAITS[wait], "unix") as actor:
        assert actor.hear() == "waits"
        actor.interrupt()
        code, _, err = actor.end(EXIT_S)
    assert code in {-signal.SIGINT, 1}, err  # 1: CPython forgets the cause where another thread calls `exec`
    assert "\nKeyboardInterrupt\n" in err, err
