"""Who has an event: the sinks of this process and of others, and what becomes of those that do not answer."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import echo_core as echo
from echo_core.streams.receipts import MAX_RECEIPTS
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_source_control_processes import is_stopped
from tests.echo_core.processes import Actor

Pair = tuple[echo.Node, echo.Node]
LINKED = ("shm", "tcp")
LIMIT_S = 30.0
SHORT_S = 0.05  # in which nothing comes that could not

HANDLER = """
channel = echo.Node(sys.argv[3], transports=[sys.argv[1]]).open_channel(sys.argv[2])
def handle(event):
    if event.id < 0:
        raise ValueError(event.id)
    if event.id == 1000:
        os.write(1, b"at work\\n")
        threading.Event().wait()
sink = channel.sink(Plain, handle)
say("ready")
hear()
"""


def plain(number: int) -> Plain:
    return Plain(number, 0.5)


def submitted(pair: Pair, events: int = 1) -> tuple[echo.Sink[Plain], list[echo.Receipt]]:
    """A sink without a handler, of the other node, and receipts of events that are on their way there."""
    here, there = pair
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    return sink, [source.submit_tracked(plain(number)) for number in range(events)]


def test_a_receipt_says_which_processes_have_handled_an_event(pair: Pair, transport: str) -> None:
    """Nodes of one process reach each other directly, and are "this process" to each other."""
    here, there = pair
    channel, handled = here.create_channel("x", Plain), list[Plain]()
    there.open_channel(channel.id).sink(Plain, handled.append)
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    receipt = source.submit_tracked(plain(1))
    (who,) = receipt.wait(LIMIT_S)
    assert handled == [plain(1)]
    assert (who == "this process") == (transport == "process")
    assert receipt.is_done
    assert receipt.missing == ()
    assert receipt.wait(0.0, level="received") == (who,)
    assert repr(receipt) == f"Receipt(Plain 0, handled by {who})"


def test_an_event_that_nobody_takes_is_done(make_node: MakeNode) -> None:
    """A receipt is about the sinks that are there when the event is submitted, and no others."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source(Plain)
    receipt = source.submit_tracked(plain(1))
    sink = channel.sink(Plain)
    assert receipt.wait(0.0) == ()
    later = source.submit_tracked(plain(2))
    assert sink.get(LIMIT_S) == plain(2)
    assert later.wait(LIMIT_S) == ("this process",)


def test_what_waits_in_a_queue_is_received_and_not_handled(pair: Pair) -> None:
    """Until it is taken out; who waits too long is told who has not."""
    sink, (first, second) = submitted(pair, 2)
    (who,) = second.wait(LIMIT_S, level="received")
    with pytest.raises(echo.TimedOutError, match=r"event 1 of `Plain` to be handled by .* not handled it"):
        second.wait(SHORT_S)
    assert not first.is_done
    assert second.missing == ((who, "it has not handled it yet"),)
    assert sink.get(LIMIT_S) == plain(0)
    assert first.wait(LIMIT_S) == (who,)
    assert not second.is_done
    assert sink.get(LIMIT_S) == plain(1)
    assert second.wait(LIMIT_S) == (who,)


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_handler_that_fails_has_not_handled_its_event(pair: Pair, *, own_thread: bool) -> None:
    """It alone: what comes before and behind it is."""
    here, there = pair
    channel = here.create_channel("x", Plain)

    def handle(event: Plain) -> None:
        if event.id == 1:
            msg = "one"
            raise ValueError(msg)

    there.open_channel(channel.id).sink(Plain, handle, own_thread=own_thread)
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    before, failing, behind = [source.submit_tracked(plain(number)) for number in range(3)]
    assert len(behind.wait(LIMIT_S)) == len(before.wait(LIMIT_S)) == 1
    with pytest.raises(echo.UndeliveredError, match=r"event 1 .* handler has failed"):
        failing.wait(LIMIT_S)
    assert len(failing.wait(LIMIT_S, level="received")) == 1
    assert failing.is_done


def test_what_a_queue_has_no_room_for_is_not_received(pair: Pair) -> None:
    """Of which a receipt knows, whatever the policy."""
    here, there = pair
    channel = here.create_channel("x", Plain)
    full = echo.Backlog(events=1, when_full="drop_oldest")
    sink = there.open_channel(channel.id).sink(Plain, backlog=full)
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    dropped, kept = [source.submit_tracked(plain(number)) for number in range(2)]
    with pytest.raises(echo.UndeliveredError, match=r"to be received by .* was dropped"):
        dropped.wait(LIMIT_S, level="received")
    assert len(kept.wait(LIMIT_S, level="received")) == 1
    assert sink.get(LIMIT_S) == plain(1)
    assert len(kept.wait(LIMIT_S)) == 1


@pytest.mark.parametrize("transport", LINKED)
def test_what_a_source_drops_itself_is_not_received(make_node: MakeNode, transport: str) -> None:
    """Its backlog is full, as a receiver takes one event at a time: the gap has its place."""
    window = echo.Limits(window_events=1)
    here, there = make_node(transports=[transport]), make_node(transports=[transport], limits=window)
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    source = channel.source(Plain, backlog=echo.Backlog(events=2, when_full="drop_oldest"))
    source.wait_matched(1, LIMIT_S)
    receipts = [source.submit_tracked(plain(number)) for number in range(50)]
    taken: list[int] = []
    while not taken or taken[-1] < 49:
        taken.append(sink.get(LIMIT_S).id)
    handled: list[int] = []
    for number, receipt in enumerate(receipts):
        with suppress(echo.UndeliveredError):
            receipt.wait(LIMIT_S)
            handled.append(number)
    assert handled == taken
    assert len(taken) < 50


def test_a_sink_that_is_closed_has_not_handled_what_was_in_its_queue(pair: Pair) -> None:
    """What it has taken by then it has."""
    sink, (taken, left) = submitted(pair, 2)
    assert sink.get(LIMIT_S) == plain(0)
    assert len(taken.wait(LIMIT_S)) == 1
    sink.close()
    with pytest.raises(echo.UndeliveredError, match=r"sink was closed"):
        left.wait(LIMIT_S)


@pytest.mark.parametrize("transport", LINKED)
def test_a_sink_that_is_closed_while_it_is_slow_has_missed_what_came_by_then_alone(pair: Pair) -> None:
    """Not what comes to the other sinks of its process later."""
    here, there = pair
    channel = here.create_channel("x", Plain)
    is_at_it, may_go_on = threading.Event(), threading.Event()

    def handle(_: Plain) -> None:
        is_at_it.set()
        may_go_on.wait(LIMIT_S)

    taking = there.open_channel(channel.id)
    taken: list[Plain] = []
    taking.sink(Plain, taken.append)
    slow = taking.sink(Plain, handle)
    source = channel.source(Plain)
    source.wait_matched(2, LIMIT_S)
    receipts = [source.submit_tracked(plain(number)) for number in range(3)]
    assert is_at_it.wait(LIMIT_S)
    until(lambda: len(taken) == 3, "the other sink to have all", LIMIT_S)
    closing = threading.Thread(target=slow.close)
    closing.start()
    with pytest.raises(echo.UndeliveredError, match=r"sink was closed"):
        receipts[-1].wait(LIMIT_S)
    later = source.submit_tracked(plain(3))
    may_go_on.set()
    closing.join(LIMIT_S)
    assert len(later.wait(LIMIT_S)) == 1
    assert len(source.submit_tracked(plain(4)).wait(LIMIT_S)) == 1


@pytest.mark.parametrize("transport", LINKED)
def test_several_processes_answer_each_for_itself(make_node: MakeNode, transport: str) -> None:
    """One that fails keeps no other from having it; the sinks of this process count as one more."""
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    channel.sink(Plain, lambda _: None)
    source = channel.source(Plain)
    with ExitStack() as actors:
        for name in ("one", "two"):
            actors.enter_context(Actor(HANDLER, transport, channel.id, name)).hear()
        source.wait_matched(3, LIMIT_S)
        who = source.submit_tracked(plain(1)).wait(LIMIT_S)
        assert {name.split()[0] for name in who} == {"this", "one", "two"}
        receipt = source.submit_tracked(plain(-1))
        with pytest.raises(echo.UndeliveredError, match=r"handler has failed"):
            receipt.wait(LIMIT_S)
        until(lambda: receipt.is_done)
        assert {peer.split()[0] for peer, _ in receipt.missing} == {"one", "two"}


@pytest.mark.parametrize("transport", LINKED)
def test_of_a_process_that_is_killed_it_is_not_known_whether_it_has_handled_an_event(
    make_node: MakeNode, transport: str
) -> None:
    """What it had handled before it has."""
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    source = channel.source(Plain)
    with Actor(HANDLER, transport, channel.id, "one") as sink:
        sink.hear()
        source.wait_matched(1, LIMIT_S)
        before, at_work = source.submit_tracked(plain(1)), source.submit_tracked(plain(1000))
        assert len(before.wait(LIMIT_S)) == 1
        assert sink.hear() == "at work"
        sink.kill()
        until(lambda: source.sinks == 0)
        with pytest.raises((echo.TimedOutError, echo.UndeliveredError), match=r"one .*its link was lost"):
            at_work.wait(SHORT_S)
        assert source.submit_tracked(plain(2)).wait(LIMIT_S) == ()
        if transport != "tcp":  # where it may be out of reach: it is looked for for ten minutes
            until(lambda: at_work.is_done, "its process to be known to be gone", LIMIT_S)
            with pytest.raises(echo.UndeliveredError, match=r"its link was lost, and it has not come back"):
                at_work.wait(0.0)


@pytest.mark.parametrize("transport", LINKED)
def test_a_process_that_is_stopped_is_named_and_answers_when_it_goes_on(
    make_node: MakeNode, transport: str
) -> None:
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    source = channel.source(Plain)
    with Actor(HANDLER, transport, channel.id, "one") as sink:
        sink.hear()
        source.wait_matched(1, LIMIT_S)
        source.submit_tracked(plain(0)).wait(LIMIT_S)
        sink.signal(signal.SIGSTOP)
        until(lambda: is_stopped(sink))
        receipts = [source.submit_tracked(plain(number)) for number in range(100)]
        with pytest.raises(echo.TimedOutError, match=r"by one .*, but it has not said that it has it"):
            receipts[-1].wait(SHORT_S)
        sink.signal(signal.SIGCONT)
        for receipt in receipts:
            assert len(receipt.wait(LIMIT_S)) == 1


def test_a_receiver_that_is_back_is_sent_again_what_is_kept_alone(make_node: MakeNode) -> None:
    """Of the rest nobody knows whether it had it."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Plain)
    release = threading.Event()
    handled: list[int] = []

    def handle(event: Plain) -> None:
        release.wait(LIMIT_S)
        handled.append(event.id)

    there.open_channel(channel.id).sink(Plain, handle, own_thread=True)
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    receipt = source.submit_tracked(plain(1))
    receipt.wait(LIMIT_S, level="received")
    for peer in peers_of(here):
        peer.link.shut()
    with pytest.raises(echo.UndeliveredError, match=r"its link was lost, and it is back without it"):
        receipt.wait(LIMIT_S)
    release.set()
    source.wait_matched(1, LIMIT_S)
    assert len(source.submit_tracked(plain(2)).wait(LIMIT_S)) == 1
    assert handled[-1] == 2


def test_what_a_synced_recorder_has_on_the_disk_is_stored(make_node: MakeNode, tmp_path: Path) -> None:
    """Here and elsewhere; other sinks have handled it."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("x", Plain)
    channel.sink(Plain, lambda _: None)
    source = channel.source(Plain)
    with there.open_channel(channel.id).record(tmp_path / "a.echolog", level="synced") as recorder:
        source.wait_matched(2, LIMIT_S)
        receipts = [source.submit_tracked(plain(number)) for number in range(100)]
        (stored,) = receipts[-1].wait(LIMIT_S, level="stored")
        assert recorder.statistics().written_events == 100
        assert stored != "this process"
        assert {stored, "this process"} == set(receipts[0].wait(0.0))
    with channel.record(tmp_path / "b.echolog", level="synced"):
        receipt = source.submit_tracked(plain(1))
        assert receipt.wait(LIMIT_S, level="stored") == ("this process",)


def test_nobody_has_stored_what_no_recorder_syncs(make_node: MakeNode, tmp_path: Path) -> None:
    """One that writes when it comes to it does not count."""
    channel = make_node().create_channel("x", Plain)
    source = channel.source(Plain)
    with channel.record(tmp_path / "a.echolog"):
        receipt = source.submit_tracked(plain(1))
        assert receipt.wait(LIMIT_S) == ("this process",)
        with pytest.raises(echo.UndeliveredError, match=r"recorder with level='synced'"):
            receipt.wait(LIMIT_S, level="stored")
        with pytest.raises(echo.ChannelError, match=r"received, handled, stored as level"):
            receipt.wait(LIMIT_S, level="seen")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("transport", ["process", "unix"])
def test_threads_have_receipts_of_their_own(pair: Pair) -> None:
    """Each is about its own event, however their submissions meet."""
    here, there = pair
    channel, handled = here.create_channel("x", Plain), set[int]()
    there.open_channel(channel.id).sink(Plain, lambda event: handled.add(event.id))
    source = channel.source(Plain)
    source.wait_matched(1, LIMIT_S)
    failures: list[int] = []

    def submit(first: int) -> None:
        receipt = source.submit_tracked(plain(first))
        for number in range(first + 1, first + 3000):
            receipt = source.submit_tracked(plain(number))
            if number % 100 == 0 and (len(receipt.wait(LIMIT_S)) != 1 or number not in handled):
                failures.append(number)
        receipt.wait(LIMIT_S)

    threads = [threading.Thread(target=submit, args=(first,)) for first in (0, 10_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(handled) == 6000


@pytest.mark.parametrize("transport", ["process", "unix"])
def test_there_are_so_many_receipts_and_no_more(pair: Pair) -> None:
    """As the sink takes nothing; an event that has none was not submitted."""
    here, there = pair
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    source = channel.source(Plain, backlog=echo.Backlog(when_full="block", timeout_s=SHORT_S))
    source.wait_matched(1, LIMIT_S)
    event = plain(1)
    receipts = [source.submit_tracked(event) for _ in range(MAX_RECEIPTS)]
    with pytest.raises(echo.BacklogError, match=f"fewer than {MAX_RECEIPTS} receipts"):
        source.submit_tracked(event)
    assert source.statistics().events == MAX_RECEIPTS
    assert sink.get(LIMIT_S) == event
    assert len(receipts[0].wait(LIMIT_S)) == 1
    assert not source.submit_tracked(event).is_done


def test_what_a_closed_source_has_sent_is_still_answered(pair: Pair) -> None:
    """A reader takes it out of its queue later."""
    here, there = pair
    channel = here.create_channel("x", Plain)
    sink = there.open_channel(channel.id).sink(Plain)
    with channel.source(Plain) as source:
        source.wait_matched(1, LIMIT_S)
        receipts = [source.submit_tracked(plain(number)) for number in range(100)]
    assert not receipts[-1].is_done
    with pytest.raises(echo.ClosedError):
        source.submit_tracked(plain(1))
    for _ in receipts:
        sink.get(LIMIT_S)
    assert [len(receipt.wait(LIMIT_S)) for receipt in receipts] == [1] * 100


@pytest.mark.parametrize("transport", LINKED)
def test_what_is_open_when_a_node_closes_is_known_to_be_unanswered(pair: Pair) -> None:
    """Whichever of the two it is."""
    sink, (receipt,) = submitted(pair)
    receipt.wait(LIMIT_S, level="received")
    pair[0].close(0.0)
    with pytest.raises(echo.UndeliveredError, match=r"left the channel|closing|closed"):
        receipt.wait(LIMIT_S)
    assert sink.get(LIMIT_S) == plain(0)


def test_a_task_waits_while_others_go_on(pair: Pair) -> None:
    """One that is cancelled leaves the receipt to others."""
    sink, (receipt,) = submitted(pair)

    async def run() -> tuple[str, ...]:
        waiting = asyncio.create_task(receipt.wait_async(LIMIT_S))
        cancelled = asyncio.create_task(receipt.wait_async(LIMIT_S))
        with pytest.raises(echo.TimedOutError):
            await receipt.wait_async(SHORT_S)
        cancelled.cancel()
        assert await sink.get_async(LIMIT_S) == plain(0)
        return await waiting

    assert len(asyncio.run(run())) == 1


def test_a_handler_cannot_wait_for_what_its_own_thread_reads(make_node: MakeNode) -> None:
    """It may submit, and ask later."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel, answers = here.create_channel("x", Plain), here.create_channel("y", Plain)
    there.open_channel(answers.id).sink(Plain, lambda _: None)
    answering = answers.source(Plain)
    answering.wait_matched(1, LIMIT_S)
    said: list[str] = []
    receipts: list[echo.Receipt] = []

    def handle(event: Plain) -> None:
        receipts.append(answering.submit_tracked(event))
        try:
            receipts[0].wait(LIMIT_S)
        except echo.ChannelError as error:
            said.append(str(error))

    channel.sink(Plain, handle)
    source = there.open_channel(channel.id).source(Plain)
    source.wait_matched(1, LIMIT_S)
    assert len(source.submit_tracked(plain(1)).wait(LIMIT_S)) == 1
    assert len(receipts[0].wait(LIMIT_S)) == 1
    assert all("the one that reads the link" in words for words in said)


def test_an_event_that_cannot_be_submitted_has_no_receipt(pair: Pair) -> None:
    """Nor is it in the way of others."""
    sink, (first,) = submitted(pair)
    source = pair[0].create_channel("y", Plain).source(Plain)
    with pytest.raises(echo.EncodeError):
        source.submit_tracked("text")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    receipt = source.submit_tracked(plain(1))
    assert receipt.wait(LIMIT_S) == ()
    sink.get(LIMIT_S)
    assert len(first.wait(LIMIT_S)) == 1


def test_receipts_that_nobody_holds_are_let_go_of(pair: Pair) -> None:
    """Once they are done, without anybody asking."""
    sink, receipts = submitted(pair)
    known = weakref.ref(receipts[0]._receipts.open[0])  # pyright: ignore[reportPrivateUsage]
    assert sink.get(LIMIT_S) == plain(0)
    receipts.clear()

    def is_gone() -> bool:
        gc.collect()
        return known() is None

    until(is_gone)
