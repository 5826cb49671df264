"""Source control: what receivers request of sources, wherever these are and whenever they come."""

from __future__ import annotations

import queue
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.roster import requests
from echo_core.roster.bookkeeping import books
from echo_core.transports.limits import MAX_SOURCE_PARAMETERS
from tests.echo_core.census import settled_census, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 60.0


class Both:
    """A source on one node, and the channel that another one has opened."""

    def __init__(self, pair: tuple[echo.Node, echo.Node]) -> None:
        self.sender, self.receiver = pair
        self.near = self.sender.create_channel("spectra", Plain)
        self.far: echo.Channel[Any] = self.receiver.open_channel(self.near.id)
        self.source = self.near.source(name="spectrometer")

    def have_far_know(self, *names: str) -> None:
        """That sources elsewhere have these parameters."""
        membership = self.far._membership  # pyright: ignore[reportPrivateUsage]

        def are_known() -> bool:
            with books.changing():
                sources = requests.known_sources(membership)
            return set(names) <= {name for source in sources for name in requests.names_of(source)}

        until(are_known, f"{names} to be known")


@pytest.fixture
def both(pair: tuple[echo.Node, echo.Node]) -> Both:
    return Both(pair)


def test_what_receivers_request_is_merged_and_ends_with_them(both: Both) -> None:
    """The greatest of all requests counts; the default where there is none."""
    resolution = both.source.parameter("resolution", 64, low=1, high=1024)
    assert (resolution.name, resolution.default, resolution.value) == ("resolution", 64, 64)
    both.have_far_know("resolution")
    assert both.far.request(resolution=128, timeout_s=LIMIT_S) == [both.source.id]
    assert resolution.value == 128
    assert both.near.request(resolution=32, timeout_s=LIMIT_S) == [both.source.id]
    assert resolution.value == 128
    other: echo.Channel[Any] = both.receiver.open_channel(both.near.id)
    other.request(resolution=512, timeout_s=LIMIT_S)
    assert resolution.value == 512
    assert both.source.wanted.parameters == {"resolution": 512}
    other.close()
    until(lambda: resolution.value == 128, "a closed handle's request to end")
    both.far.request(resolution=None, timeout_s=LIMIT_S)
    assert resolution.value == 32
    both.near.request(resolution=None)
    assert (resolution.value, resolution.is_requested) == (64, False)
    assert both.source.wanted.parameters == {}


def test_a_handle_that_requests_anew_replaces_what_it_has_requested(both: Both) -> None:
    """So a slider can move both ways."""
    resolution = both.source.parameter("resolution", 64)
    both.have_far_know("resolution")
    for value in (128, 7, 2000, 8):
        both.far.request(resolution=value, timeout_s=LIMIT_S)
        assert resolution.value == value


def test_every_type_of_parameter_is_requested(both: Both) -> None:
    """Several at once; the least counts where the source says so."""
    gain = both.source.parameter("gain", 1.0, low=0.0, merge=min)
    live = both.source.parameter("live", default=False)
    mode = both.source.parameter("mode", "off", choices=("off", "slow", "fast"))
    both.have_far_know("gain", "live", "mode")
    both.far.request(gain=0.5, live=True, mode="slow", timeout_s=LIMIT_S)
    assert (gain.value, live.value, mode.value) == (0.5, True, "slow")
    both.near.request(gain=2, live=False, mode="fast", timeout_s=LIMIT_S)
    assert (gain.value, live.value, mode.value) == (0.5, True, "fast")


def test_changes_are_told_by_a_thread_of_their_own(both: Both) -> None:
    """Each new value, and nothing where a request changes nothing."""
    told: queue.Queue[tuple[int, bool]] = queue.Queue()

    def tell(value: int) -> None:
        told.put((value, threading.current_thread() is threading.main_thread()))

    both.source.parameter("resolution", 64, on_change=tell)
    both.have_far_know("resolution")
    for value in (128, 64, 256):
        for _ in range(2):
            both.far.request(resolution=value, timeout_s=LIMIT_S)
        assert told.get(timeout=LIMIT_S) == (value, False)
    assert told.empty()


def test_a_receiver_that_changes_its_mind_all_the_time_keeps_nobody_from_being_told(both: Both) -> None:
    """However many requests come while somebody is told of one, there is one more to be told of."""
    begun, may_go_on, told = threading.Event(), threading.Event(), queue.SimpleQueue[int]()

    def tell(value: int) -> None:
        begun.set()
        may_go_on.wait(LIMIT_S)
        told.put(value)

    both.source.parameter("resolution", 64, low=1, high=1024, on_change=tell)
    both.near.request(resolution=2, timeout_s=LIMIT_S)
    assert begun.wait(LIMIT_S)
    for value in range(3, 500):
        both.near.request(resolution=value, timeout_s=LIMIT_S)
    may_go_on.set()
    assert [told.get(timeout=LIMIT_S), told.get(timeout=LIMIT_S)] == [2, 499]
    books.settle(LIMIT_S)
    assert told.empty()


def test_numbers_of_numpy_are_what_they_stand_for(both: Both) -> None:
    """As defaults and bounds: other processes hear of them."""
    numbers: list[Any] = [np.float32(it) for it in (1.5, 0.5, 8, 4)]
    default, low, high, wanted = numbers
    gain = both.source.parameter("gain", np.float64(default), low=low, high=high)
    both.have_far_know("gain")
    assert type(gain.default) is float
    assert both.far.request(gain=wanted, timeout_s=LIMIT_S) == [both.source.id]
    assert gain.value == 4.0


def test_a_request_reaches_sources_and_parameters_that_come_later(both: Both) -> None:
    """Of this process and of the other one."""
    both.source.close()
    assert both.far.request(resolution=128, timeout_s=LIMIT_S) == []
    source = both.near.source()
    resolution = source.parameter("resolution", 64)
    until(lambda: resolution.value == 128, "the source that has come to hear of it")
    here = both.far.source(Plain).parameter("resolution", 1)
    assert here.value == 128
    both.have_far_know("resolution")
    assert len(both.far.request(resolution=7, timeout_s=LIMIT_S)) == 2
    assert (resolution.value, here.value) == (7, 7)


def test_a_misspelled_parameter_is_an_error_that_says_what_there_is(both: Both) -> None:
    """Also where one of several is right; then nothing is requested."""
    resolution = both.source.parameter("resolution", 64)
    both.source.parameter("gain", 1.0)
    both.have_far_know("resolution", "gain")
    both.far.request(gain=2.0, timeout_s=LIMIT_S)
    with pytest.raises(echo.ChannelError) as caught:
        both.far.request(resolution=3, resolutoin=128, timeout_s=LIMIT_S)
    said = (
        "Expected a parameter of its sources, gain, resolution, got `resolutoin`, unknown to `spectrometer`"
    )
    assert said in str(caught.value)
    assert resolution.value == 64


def test_who_has_the_parameter_is_asked_and_others_are_not(both: Both) -> None:
    """Sources of several kinds may be on one channel."""
    resolution = both.source.parameter("resolution", 64)
    both.near.source(name="camera").parameter("gain", 1.0)
    both.have_far_know("resolution", "gain")
    assert both.far.request(resolution=128, timeout_s=LIMIT_S) == [both.source.id]
    assert resolution.value == 128


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "a value out of bounds": ({"resolution": 4096}, "Expected `resolution` from 1 to 1024, got 4096, for"),
    "a value of another type": ({"resolution": "high"}, "Expected `int` as `resolution`, got `str`, for"),
    "a choice that is none": ({"mode": "faster"}, "Expected `mode` of slow, fast, got 'faster', for"),
    "one that fits and one that does not": ({"mode": "fast", "resolution": 0}, "from 1 to 1024, got 0"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_value_that_a_source_cannot_have_is_an_error_that_names_it(both: Both, what: str) -> None:
    """Nothing is requested then."""
    both.source.parameter("resolution", 64, low=1, high=1024)
    both.source.parameter("mode", "slow", choices=("slow", "fast"))
    both.have_far_know("resolution", "mode")
    values, said = UNFIT[what]
    both.far.request(resolution=5, timeout_s=LIMIT_S)
    with pytest.raises(echo.ChannelError) as caught:
        both.far.request(**values, timeout_s=LIMIT_S)
    assert said in str(caught.value)
    assert "`spectrometer`" in str(caught.value)
    assert both.source.wanted.parameters == {"resolution": 5}


def test_what_comes_later_and_cannot_have_the_value_is_logged_once(
    both: Both, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bounds are others; and a name that no source has is logged, too."""
    monkeypatch.setattr(requests, "PATIENCE_S", LIMIT_S)
    both.source.close()
    both.far.request(resolution=128, resolutoin=1, timeout_s=LIMIT_S)
    narrow = both.near.source(name="narrow").parameter("resolution", 8, high=16)
    both.have_far_know("resolution")  # its parameter comes behind it, and may be late
    monkeypatch.setattr(requests, "PATIENCE_S", 0.0)

    def has_been_said(text: str) -> bool:
        return len([line for line in caplog.messages if text in line]) == 1

    until(lambda: has_been_said("Expected `resolution` from"), "the log")
    until(lambda: has_been_said("got `resolutoin`, unknown to `narrow`"), "the log")
    assert narrow.value == 8


def test_a_derived_channel_requests_of_the_sources_behind_it(both: Both) -> None:
    """For whoever has derived it, however deep, and until it is closed."""
    resolution = both.source.parameter("resolution", 64)
    both.have_far_know("resolution")
    hot = both.far.derive(where="x > 1")
    hotter = hot.derive(where="x > 2")
    assert hotter.request(resolution=128, timeout_s=LIMIT_S) == [both.source.id]
    assert resolution.value == 128
    hotter.close()
    until(lambda: resolution.value == 64, "the request to end")


def test_the_id_of_a_derived_channel_grants_no_control(make_node: MakeNode) -> None:
    """It grants what comes there, and nothing else."""
    base = make_node(transports=["unix"]).create_channel("base", Plain)
    base.source().parameter("resolution", 64)
    hot = base.derive(where="x > 1")
    viewed: echo.Channel[Any] = make_node(transports=["unix"]).open_channel(hot.id)
    again = viewed.derive(Plain, where="x > 2")
    for channel in (viewed, again):
        with pytest.raises(echo.ChannelError, match="open the one that it is derived from"):
            channel.request(resolution=128)


def test_a_request_comes_back_with_its_link(make_node: MakeNode) -> None:
    """It ends with the link, and is made again on the next one."""
    near, far = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = near.create_channel("events", Plain)
    resolution = channel.source().parameter("resolution", 64)
    opened: echo.Channel[Any] = far.open_channel(channel.id)
    opened.request(resolution=128, timeout_s=LIMIT_S)
    until(lambda: resolution.value == 128, "the request to come")
    for _ in range(3):
        [peer] = opened._membership.peers  # pyright: ignore[reportPrivateUsage]
        peer.link.shut()
        until(partial(has_another_peer, opened, peer), "another link")
        until(lambda: resolution.value == 128, "the request to be made again")
    far.close(0.0)
    until(lambda: resolution.value == 64, "the request to end")


def has_another_peer(channel: echo.Channel[Any], lost: object) -> bool:
    peers = tuple(channel._membership.peers)  # pyright: ignore[reportPrivateUsage]
    return len(peers) == 1 and lost not in peers


DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "no value that there could be": (
        {"name": "a", "default": b"x"},
        "a bool, int, float or str as the default",
    ),
    "no name": ({"name": "a b", "default": 1}, "a Python name"),
    "a name that requests have themselves": ({"name": "timeout_s", "default": 1}, "the name of a parameter"),
    "bounds of another type": ({"name": "a", "default": 1, "low": 0.5}, "bounds of `a` that are numbers"),
    "bounds of a text": ({"name": "a", "default": "x", "low": "x", "choices": ("x",)}, "bounds of `a`"),
    "a text without choices": ({"name": "a", "default": "x"}, "different texts as choices"),
    "a text as choices": ({"name": "a", "default": "x", "choices": "xyz"}, "a tuple of texts as the"),
    "numbers as choices": (
        {"name": "a", "default": "x", "choices": (1, 2)},
        "a tuple of texts as the",
    ),
    "bounds beyond all numbers": ({"name": "a", "default": 1.5, "high": 10**400}, "bounds of `a`"),
    "an array": ({"name": "a", "default": np.zeros(2)}, "a bool, int, float or str as the default"),
    "a merge of one's own": ({"name": "a", "default": 1, "merge": sum}, "max or min as the merge"),
    "a default out of bounds": ({"name": "a", "default": 1, "low": 2}, "the default of `a` from 2"),
    "what cannot be called": ({"name": "a", "default": 1, "on_change": 3}, "a handler that can be called"),
    "one that is there": ({"name": "there", "default": 1}, "that the source does not have"),
}


@pytest.mark.parametrize("what", DECLARED)
def test_a_parameter_that_none_can_be_is_refused(make_node: MakeNode, what: str) -> None:
    """By an error that says what it is to be."""
    source = make_node(transports=["unix"]).create_channel("events", Plain).source()
    source.parameter("there", 1)
    arguments, said = DECLARED[what]
    with pytest.raises(echo.ChannelError, match=said):
        source.parameter(**arguments)


def test_a_source_has_so_many_parameters_and_none_once_it_is_closed(both: Both) -> None:
    """One less and as many are fine."""
    for i in range(MAX_SOURCE_PARAMETERS):
        both.source.parameter(f"p{i}", i)
    both.have_far_know("p31")
    with pytest.raises(echo.ChannelError, match=f"at most {MAX_SOURCE_PARAMETERS}"):
        both.source.parameter("more", 1)
    assert both.far.request(p31=77, timeout_s=LIMIT_S) == [both.source.id]
    both.source.close()
    with pytest.raises(echo.ClosedError):
        both.source.parameter("late", 1)


def test_a_closed_channel_requests_nothing(both: Both) -> None:
    """Nor does anything stay of what it has requested."""
    resolution = both.source.parameter("resolution", 64)
    both.have_far_know("resolution")
    both.far.request(resolution=128, timeout_s=LIMIT_S)
    both.far.close()
    with pytest.raises(echo.ClosedError):
        both.far.request(resolution=3)
    until(lambda: resolution.value == 64, "the request to end")


def test_nothing_is_left_of_who_has_requested(make_node: MakeNode) -> None:
    """A source keeps no link alive by what was requested over it."""
    before = settled_census()
    near, far = make_node(transports=["shm"]), make_node(transports=["shm"])
    channel = near.create_channel("events", Plain)
    source = channel.source()
    source.parameter("resolution", 64)
    far.open_channel(channel.id).request(resolution=128, timeout_s=LIMIT_S)
    far.close(0.0)
    near.close(0.0)
    assert settled_census(collects=False) == before


@pytest.mark.parametrize("what", ["request", "set"])
def test_a_handler_that_cannot_wait_changes_nothing(make_node: MakeNode, what: str) -> None:
    """Its thread would read the answers. With a thread of its own, or for sources here, it can."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    near = here.create_channel("spectra", Plain)
    source = near.source()
    resolution = source.parameter("resolution", 64, low=1, high=1024)
    far: echo.Channel[Any] = there.open_channel(near.id)
    hot = far.derive(Plain, where="x > limit", limit=1.0)
    hot.sink(Plain, lambda event: None)
    said: queue.Queue[object] = queue.Queue()

    def change() -> object:
        if what == "set":
            return hot.set(limit=2.0, timeout_s=LIMIT_S)
        return far.request(resolution=128, timeout_s=LIMIT_S)

    def handle(event: Plain) -> None:
        try:
            said.put(change())
        except echo.ChannelError as error:
            said.put(str(error))

    sink = far.sink(Plain, handle)
    source.wait_matched(2, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert "Expected a thread that can wait for answers" in str(said.get(timeout=LIMIT_S))
    assert (hot.parameters, resolution.value) == ({"limit": 1.0}, 64)
    assert not source.wanted.parameters
    sink.close()
    far.sink(Plain, handle, own_thread=True)
    source.wait_matched(2, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert len(said.get(timeout=LIMIT_S)) == 1  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_handler_can_request_of_sources_of_its_own_process(make_node: MakeNode) -> None:
    """They follow at once, and nobody has to answer."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    near = here.create_channel("spectra", Plain)
    gain = near.source().parameter("gain", 1)
    far: echo.Channel[Any] = there.open_channel(near.id)
    near.sink(Plain, lambda event: near.request(gain=event.id))
    source = far.source(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(7, 0.0))
    until(lambda: gain.value == 7, "the request")


@pytest.mark.parametrize("timeout_s", [LIMIT_S, None])
def test_sources_that_are_about_to_be_linked_are_asked_too(
    make_node: MakeNode, timeout_s: float | None
) -> None:
    """Who has opened a channel is linked to its creator alone, until it asks something of others."""
    creator, sender, receiver = (make_node(transports=["unix"]) for _ in range(3))
    channel = creator.create_channel("spectra", Plain)
    source = sender.open_channel(channel.id).source(Plain)
    resolution = source.parameter("resolution", 64)
    until(lambda: channel.statistics().remote_sources == 1, "the source to be known")
    far: echo.Channel[Any] = receiver.open_channel(channel.id)
    until(lambda: far.statistics().members == 2, "the members to be known")
    assert far.request(resolution=128, timeout_s=timeout_s) == [source.id]
    assert resolution.value == 128
    with pytest.raises(echo.ChannelError, match="Expected a parameter of its sources, resolution"):
        far.request(gain=1, timeout_s=timeout_s)
    far.request(resolution=None, timeout_s=timeout_s)
    until(lambda: resolution.value == 64, "the request to end")


def test_without_sources_a_request_returns_none_and_stands(make_node: MakeNode) -> None:
    """However long it may take."""
    channel = make_node().create_channel("spectra", Plain)
    assert channel.request(resolution=128, timeout_s=None) == []
    assert channel.source().parameter("resolution", 64).value == 128
