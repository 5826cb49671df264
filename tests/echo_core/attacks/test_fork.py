"""`fork` in an application: the child can end, and can have a node of its own; the parent does not notice."""

from __future__ import annotations

import threading

import pytest

import echo_core as echo
from tests.echo_core.channel_events import Plain
from tests.echo_core.processes import Actor

_PREFACE = """
faulthandler.cancel_dump_traceback_later()  # a forked child would wait for its thread
os.register_at_fork(after_in_child=lambda: faulthandler.dump_traceback_later(LIMIT_S - 40, exit=True))
transport = sys.argv[1]
far = echo.Node(transports=[transport])
node = echo.Node(transports=[transport])
here = node.create_channel("test", Plain)
aside = node.create_channel("aside", Plain)
aside_sink = aside.sink(Plain)
there = far.open_channel(here.id)
source, sink = here.source(), there.sink(Plain)
taken = []
there.sink(Plain, taken.append)
source.wait_matched(2)
back, handled = there.source(Plain), []
here.sink(Plain, handled.append)
back.wait_matched()

def demand_delivery(number):
    source.submit(Plain(number, 1.0))
    back.submit(Plain(number, 1.0))
    assert sink.get(LIMIT_S).id == sink.get(LIMIT_S).id == number
    source.flush(LIMIT_S)
    back.flush(LIMIT_S)
    assert taken[-1].id == number == handled[-1].id

def wait_for(child):
    _, status = os.waitpid(child, 0)
    assert status == 0, status

demand_delivery(1)
"""

_END = """
demand_delivery(2)
limit = time.monotonic() + LIMIT_S
while [len(each.statistics().links) for each in (node, far)] != [1, 1]:  # at first both may have called
    assert time.monotonic() < limit
    threading.Event().wait(0.01)
assert node.statistics().links_lost == far.statistics().links_lost == 0
late = echo.Node(transports=[transport])
late.open_channel(here.id).source(Plain).wait_matched(2)  # the door is open, too
late.close()
"""

CHILDREN = {
    "ends at once": "os._exit(0)",
    "ends as scripts do": "sys.exit(0)",
    "collects garbage": """
del node, far, here, there, source, sink, back
import gc
gc.collect()
sys.exit(0)
""",
    "closes what is the parent's": """
for thing in (source, sink, here, there, node, far):
    thing.close()
sys.exit(0)
""",
    "may not use what is the parent's": """
def refused(use):
    try:
        use()
    except echo.ClosedError:
        return
    raise AssertionError(use)
refused(lambda: source.submit(Plain(1, 1.0)))
refused(lambda: sink.get(1))
refused(lambda: here.source())
refused(lambda: there.sink(Plain))
refused(lambda: node.create_channel("other"))
refused(lambda: node.open_channel(here.id))
refused(lambda: source.flush(1))
os._exit(0)
""",
    "has a node of its own": """
mine = echo.Node(transports=[transport])
a = mine.create_channel("mine", Plain)
other = echo.Node(transports=[transport])
got = other.open_channel(a.id).sink(Plain)
out = a.source()
out.wait_matched()
out.submit(Plain(5, 5.0))
assert got.get(LIMIT_S) == Plain(5, 5.0)
sys.exit(0)
""",
    "talks to the parent": """
mine = echo.Node(transports=[transport])
channel = mine.open_channel(aside.id)
out = channel.source(Plain)
out.wait_matched(1)
out.submit(Plain(3, 3.0))
out.flush(LIMIT_S)
sys.exit(0)
""",
    "uses the default node": """
channel = echo.create_channel("mine", Plain)
got = channel.sink(Plain)
channel.source().submit(Plain(1, 1.0))
assert got.get(LIMIT_S) == Plain(1, 1.0)
sys.exit(0)
""",
}


SLOW = pytest.mark.slow
LINKS = ["shm", pytest.param("unix", marks=SLOW), pytest.param("tcp", marks=SLOW)]


@pytest.mark.parametrize("transport", LINKS)
@pytest.mark.parametrize("child", CHILDREN)
def test_a_forked_child_harms_nobody(child: str, transport: str) -> None:
    script = f"{_PREFACE}\nchild = os.fork()\nif child == 0:\n{_indented(CHILDREN[child])}\nwait_for(child)\n"
    with Actor(script + _END, transport, forks=True) as actor:
        assert complaint_of(actor) == ""


def test_what_is_queued_is_the_parents_alone() -> None:
    """Also at a sink that is closed, which the parent has yet to empty."""
    script = """
closed, threaded = there.sink(Plain), []
may_go_on = threading.Event()
there.sink(Plain, lambda event: (may_go_on.wait(LIMIT_S), threaded.append(event.id)), own_thread=True)
source.wait_matched(4)
for number in range(5):
    source.submit(Plain(number, 1.0))
source.flush(LIMIT_S)
closed.close()
child = os.fork()
if child == 0:
    assert list(sink) == list(closed) == []
    for it in (sink, closed):
        try:
            it.get(1)
        except echo.ClosedError:
            continue
        os._exit(3)
    assert sink.statistics().queued_events == 0
    os._exit(0)
wait_for(child)
assert [sink.get(LIMIT_S).id for _ in range(5)] == [event.id for event in closed] == [0, 1, 2, 3, 4]
assert (sink.statistics().dropped, closed.statistics().dropped) == (0, 0)
may_go_on.set()
while len(threaded) < 5:
    os.sched_yield()
"""
    with Actor(_PREFACE + script + _END, "shm", forks=True) as actor:
        assert complaint_of(actor) == ""


def complaint_of(actor: Actor) -> str:
    """That links were lost may be said, or that a node which was about to end was not let in."""
    code, _, err = actor.end()
    return "" if code == 0 and "Traceback" not in err else f"ended with {code}, having said {err}"


def _indented(script: str) -> str:
    return "\n".join(f"    {line}" for line in script.splitlines())


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_forks_while_events_flow_harm_nobody(transport: str) -> None:
    """Locks of every kind are held by threads that the child does not have."""
    script = """
is_over = threading.Event()
def flow():
    while not is_over.is_set():
        for _ in range(100):
            source.submit(Plain(7, 1.0))
        source.flush(LIMIT_S)
def consume():
    while not is_over.is_set():
        sink.get(LIMIT_S)
threads = [threading.Thread(target=flow), threading.Thread(target=consume)]
for thread in threads:
    thread.start()
for i in range(6):
    child = os.fork()
    if child == 0:
        try:
            if i % 3 == 0:
                mine = echo.Node(transports=[transport])
                channel = mine.open_channel(here.id)
                channel.source(Plain).wait_matched(1, LIMIT_S)
                mine.close()
            elif i % 3 == 1:
                source.close()
                node.close()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    wait_for(child)
is_over.set()
threads[0].join()
source.submit(Plain(7, 1.0))  # the other may wait for one more
threads[1].join()
source.flush(LIMIT_S)
while sink.statistics().queued_events:
    sink.get(LIMIT_S)
demand_delivery(2)
"""
    with Actor(_PREFACE + script, transport, forks=True) as actor:
        assert complaint_of(actor) == ""


def test_a_fork_in_a_handler_gives_a_child_that_can_wait() -> None:
    script = """
children = []
def fork(event):
    child = os.fork()
    if child == 0:
        mine = echo.Node(transports=[transport])
        mine.open_channel(aside.id).source(Plain).wait_matched(1, LIMIT_S)
        mine.close()
        os._exit(0)
    children.append(child)
handling = there.sink(Plain, fork)
source.wait_matched(3)
source.submit(Plain(1, 1.0))
source.flush(LIMIT_S)
wait_for(children[0])
handling.close()
sink.get(LIMIT_S)
"""
    with Actor(_PREFACE + script + _END, "unix", forks=True) as actor:
        assert complaint_of(actor) == ""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_and_subprocess_work_beside_nodes(method: str) -> None:
    script = f"""
import multiprocessing, subprocess
context = multiprocessing.get_context("{method}")
process = context.Process(target=print, args=("child",))
process.start()
process.join(LIMIT_S)
assert process.exitcode == 0
assert subprocess.run(["true"], check=True, close_fds=False).returncode == 0
"""
    with Actor(_PREFACE + script + _END, "shm", forks=True) as actor:
        assert complaint_of(actor) == ""


def submit_and_return(id_: str, events: int) -> None:
    """What a child of multiprocessing does: it closes nothing."""
    source = echo.open_channel(id_).source(Plain)
    source.wait_matched()
    for number in range(events):
        source.submit(Plain(number, 1.0))


@pytest.mark.parametrize("is_loaded_first", [False, True])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_that_returns_closes_its_node(
    method: str, *, is_loaded_first: bool
) -> None:
    """Its last events arrive, and then its farewell; also where multiprocessing ends it without `atexit`."""
    script = f"""
faulthandler.cancel_dump_traceback_later()
if {is_loaded_first}:
    import multiprocessing.util
channel = echo.create_channel("children", Plain)
import multiprocessing
from tests.echo_core.attacks.test_fork import submit_and_return
left, handled, has_left = [], [], threading.Event()
def notice(told):
    if isinstance(told, echo.PeerLeft):
        left.append(told.reason)
        has_left.set()
channel.watch(notice)
channel.sink(Plain, handled.append)
context = multiprocessing.get_context("{method}")
process = context.Process(target=submit_and_return, args=(channel.id, 5000))
process.start()
process.join(LIMIT_S / 2)
assert has_left.wait(LIMIT_S / 4)
say(process.exitcode, len(handled), left)
"""
    with Actor(script, forks=True) as actor:
        assert actor.hear() == "0 5000 ['']"
        assert complaint_of(actor) == ""


def submit_later(id_: str, events: int) -> None:
    """A child of multiprocessing may return before its threads do."""
    source = echo.open_channel(id_).source(Plain)
    source.wait_matched()

    def submit() -> None:
        threading.main_thread().join()
        for number in range(events):
            source.submit(Plain(number, 1.0))
        source.flush(30.0)

    threading.Thread(target=submit).start()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_of_multiprocessing_has_its_node_as_long_as_its_threads_run(method: str) -> None:
    script = f"""
faulthandler.cancel_dump_traceback_later()
import multiprocessing
from tests.echo_core.attacks.test_fork import submit_later
channel = echo.create_channel("children", Plain)
handled = []
channel.sink(Plain, handled.append)
context = multiprocessing.get_context("{method}")
process = context.Process(target=submit_later, args=(channel.id, 10))
process.start()
process.join(LIMIT_S / 2)
say(process.exitcode, len(handled))
"""
    with Actor(script, forks=True) as actor:
        assert actor.hear() == "0 10"
        assert complaint_of(actor) == ""
