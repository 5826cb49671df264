"""Events that are written as JSON, as `send` sends them."""

from __future__ import annotations

import json

import pytest

import echo_core as echo
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.plant import Cell, Particle, Plant
from tests.echo_core.tools.running import LIMIT_S, done, run, start

Sink = echo.Sink[Particle]


@pytest.fixture
def sink(make_node: MakeNode) -> Sink:
    """Of a channel that was declared with a type."""
    return make_node().channel("particles", Particle).sink(Particle)


def test_arguments_are_events(sink: Sink) -> None:
    """What a field leaves out takes its default."""
    result = run("send", "particles", '{"id": 1, "at": {"x": 2, "y": 3}}', '{"id": 2, "note": "x"}')
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        "echoctl: sent 2 events of `Particle`\n",
    )
    assert sink.get(LIMIT_S) == Particle(1, 0.0, Cell(2.0, 3.0))
    assert sink.get(LIMIT_S) == Particle(2, note="x")


def test_lines_of_stdin_are_events(sink: Sink) -> None:
    """Empty ones are passed over."""
    done("send", "particles", "--rate", "1000", given='{"id": 1}\n\n{"id": 2}\n')
    assert [sink.get(LIMIT_S).id for _ in range(2)] == [1, 2]


def test_what_one_command_shows_another_sends(sink: Sink, make_node: MakeNode, plant_lines: str) -> None:
    """A pipe from one channel to another."""
    done("send", "particles", given=plant_lines)
    assert [sink.get(LIMIT_S).id for _ in plant_lines.splitlines()] == [
        json.loads(line)["id"] for line in plant_lines.splitlines()
    ]


@pytest.fixture
def plant_lines(make_node: MakeNode) -> str:
    """What `watch` shows of another channel."""
    source = make_node().channel("other", Particle).source(keep=3)
    for number in (7, 8, 9):
        source.submit(Particle(number))
    return done("watch", "other", "-n", "3")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ('{"id": 1, "tempreature": 2}', "got `tempreature` - at `Particle`: is `temperature` meant?"),
        ("{}", "Expected a value, got none - at `Particle.id`"),
        ('{"id": "one"}', "Expected `int64`, got `str` - at `Particle.id`"),
        ('{"id": 1', "Expected JSON such as '{\"id\": 1}', got '{\"id\": 1' in argument 2"),
        ("[" * 100_000, "Expected JSON such as"),
        ("[1]", "Expected an object with the fields of `Particle`, got [1]"),
    ],
)
def test_wrong_event_is_refused_before_any_is_sent(sink: Sink, event: str, said: str) -> None:
    """With its place, and what is meant."""
    result = run("send", "particles", '{"id": 5}', event)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    if "int64" not in said:  # which only the encoder sees
        assert sink.statistics().events == 0


def test_events_that_nobody_takes_are_not_sent(plant: Plant) -> None:
    """Unless that is asked for."""
    result = run("send", "particles", '{"id": 1}', "-t", "50ms")
    assert result.exit_code == 1
    assert "--unmatched sends all the same" in result.stderr
    assert run("send", "particles", '{"id": 1}', "--unmatched").exit_code == 0


def test_one_of_several_types_is_named(make_node: MakeNode) -> None:
    """As are those of sources, where none is declared."""

    @echo.event
    class Alarm:
        text: str

    channel = make_node().channel("mixed", Particle, Alarm)
    sink = channel.sink(Alarm)
    for given in ((), ("--type", "Nix")):
        result = run("send", "mixed", '{"text": "hot"}', *given)
        assert result.exit_code == 2
        assert "Expected one of the types `Alarm`, `Particle`" in result.stderr
    done("send", "mixed", '{"text": "hot"}', "--type", "Alarm")
    assert sink.get(LIMIT_S).text == "hot"


def test_type_is_that_of_sources_where_none_is_declared(make_node: MakeNode) -> None:
    """Without any there is nothing to go by."""
    channel = make_node().channel("undeclared")
    result = run("send", "undeclared", "{}")
    assert (result.exit_code, "nobody sends" in result.stderr) == (2, True)
    channel.source(Particle)
    sink = channel.sink(Particle)
    done("send", "undeclared", '{"id": 3}')
    assert sink.get(LIMIT_S).id == 3


def test_id_and_events_do_not_both_come_from_stdin() -> None:
    """Neither would know where the other ends."""
    result = run("send", "-", given="")
    assert (result.exit_code, "since the channel's id comes from stdin" in result.stderr) == (2, True)


def test_ctrl_c_ends_what_waits_for_lines(sink: Sink) -> None:
    """What was read by then is sent."""
    import signal
    import subprocess

    process = start("send", "particles", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write('{"id": 4}\n')
    process.stdin.flush()
    assert sink.get(LIMIT_S).id == 4
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    process.communicate()


def test_wrong_line_is_told_before_a_sink_is_waited_for(make_node: MakeNode) -> None:
    """As a wrong argument is; nobody takes these events."""
    make_node().channel("particles", Particle)
    for given in ('{"id": "one"}', '{"id": 1'):
        for arguments, lines in (((given,), None), ((), given)):
            result = run("send", "particles", *arguments, "-t", "1h", given=lines)
            assert result.exit_code == 2
            assert "Expected" in result.stderr
