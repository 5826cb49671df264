"""Processes without descriptors or threads: calls say so in words, and go on when there are some again."""

from __future__ import annotations

from tests.echo_core.processes import Actor

CALLS = """
import asyncio, logging
logging.disable(logging.CRITICAL)  # others say there that they go without
loop = asyncio.new_event_loop()
other = echo.Node(transports=["shm", "tcp"])
id_ = other.create_channel("other", Plain).id

async def wait_for_nothing():
    with channel.sink(Plain) as sink, contextlib.suppress(echo.TimedOutError):
        await sink.get_async(0.0)

async def open_async():
    (await node.open_channel_async(id_, timeout_s=0.1)).close()

def make_node():
    with contextlib.closing(echo.Node()) as node:
        node.create_channel("x", Plain)

calls = {
    "node": make_node,
    "create": lambda: node.create_channel("y", Plain).close(),
    "open": lambda: node.open_channel(id_, timeout_s=0.1).close(),
    "open by tcp": lambda: node.open_channel(id_, transport="tcp", timeout_s=0.1).close(),
    "open for a task": lambda: loop.run_until_complete(open_async()),
    "by name": lambda: node.channel("named").close(),
    "identity": lambda: channel.identity,
    "watch": lambda: channel.watch(lambda told: None).close(),
    "source": lambda: channel.source(Plain).close(),
    "sink": lambda: channel.sink(Plain, lambda event: None, own_thread=True).close(),
    "wait": lambda: loop.run_until_complete(wait_for_nothing()),
}
refused = set()

def demand_words(name):
    try:
        calls[name]()
    except echo.EchoError:
        refused.add(name)

def anew():
    made = echo.Node(transports=["shm", "tcp"])
    return made, made.create_channel("x", Plain)

for name in calls:  # once with all that it needs, so that what is imported late is there
    node, channel = anew()
    with contextlib.suppress(echo.LinkError):  # a tenth of a second is little on a busy machine
        calls[name]()
    node.close()
"""

DESCRIPTORS = (
    CALLS
    + """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
for name in calls:
    for left in range(8):
        node, channel = anew()
        held = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(left):
            os.close(held.pop())
        try:
            demand_words(name)
        finally:
            for descriptor in held:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            node.close()
say(sorted(refused))
"""
)

THREADS = (
    CALLS
    + """
def fail(thread):
    raise RuntimeError("can't start new thread")

for name in calls:
    node, channel = anew()
    start, threading.Thread.start = threading.Thread.start, fail
    try:
        demand_words(name)
    finally:
        threading.Thread.start = start
        node.close()
say(sorted(refused))
"""
)

AFTERWARDS = """
node, channel = anew()
with node.open_channel(id_) as opened:
    say(channel.name, opened.name)
loop.close()
node.close()
other.close()
"""


def test_calls_without_descriptors_raise_errors_of_this_library() -> None:
    """However many are left."""
    with Actor(DESCRIPTORS + AFTERWARDS) as actor:
        refused = actor.hear()
        for call in ("node", "open", "open by tcp", "by name", "identity", "source", "wait"):
            assert f"'{call}'" in refused
        assert actor.hear() == "x other"
        actor.demand_quiet_end()


def test_calls_without_threads_raise_errors_of_this_library() -> None:
    with Actor(THREADS + AFTERWARDS) as actor:
        refused = actor.hear()
        for call in ("node", "open", "open by tcp", "open for a task", "sink"):
            assert f"'{call}'" in refused
        assert actor.hear() == "x other"
        actor.demand_quiet_end()
