"""What a transport suite prints, writes and draws."""

from __future__ import annotations

import importlib.util
import json
from xml.etree import ElementTree

import pytest

from bench.report import Row
from bench.transport import choice, command
from bench.transport.outcome import Chart, Options, Outcome, stream_table, times_table
from bench.transport.plot import as_svg
from bench.transport.processes.session import SessionError
from bench.transport.rounds import Contender, Results, Stream, in_rounds
from bench.transport.statistics import Times

SVG = "{http://www.w3.org/2000/svg}"


def results() -> Results[Times]:
    """Two rounds, the second twice as slow for both."""
    rounds: dict[str, list[Times]] = {
        "floor": [Times.of([10_000] * 9), Times.of([20_000] * 9)],
        "other": [Times.of([15_000] * 9), Times.of([30_000] * 9)],
    }
    return Results(rounds, {"absent": "it is not installed"})


def test_a_table_has_quantiles_and_the_ratio() -> None:
    """The medians of the rounds, and why someone is not in it."""
    text = times_table("Round trip", results(), "floor").as_text().splitlines()
    assert text[0] == "### Round trip"
    assert text[2] == "|  | p50 us | p90 us | p99 us | p99.9 us | x floor |"
    assert text[5] == "| other | 22.5 | 22.5 | 22.5 | 22.5 | 1.50 |"
    assert text[-1] == "absent was left out: it is not installed"


def test_a_stream_has_messages_and_bytes() -> None:
    """And what TCP carried besides, where it was TCP."""
    rounds = {"a": [Stream(1e6, 8.0)], "b": [Stream(2e6, None)]}
    lines = stream_table("One way", Results(rounds), 96).lines
    assert lines == [("a", "1,000,000", "96", "8"), ("b", "2,000,000", "192", "-")]


def test_an_outcome_is_text_and_json() -> None:
    """Tables first, then goals."""
    outcome = Outcome([Row("a", 1, 2, "x")], [times_table("T", results(), "floor")])
    assert outcome.as_text().index("### T") < outcome.as_text().index("| a | 2 x | 1 x | reached |")
    written = json.loads(json.dumps(outcome.as_dict()))
    assert written["rows"][0]["is_reached"]
    assert written["tables"][0]["heading"] == "T"


def test_a_picture_has_a_row_for_everyone() -> None:
    """It is well-formed, whatever the names."""
    chart = Chart("a < b", {"floor tcp": [10_000, 11_000], "echo-tcp/<x>": [12_000] * 5, "tcp/y": [20_000]})
    root = ElementTree.fromstring(as_svg([chart, chart]))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts.count("a < b") == texts.count("echo-tcp/<x>") == 2
    kinds = [path.get("class") for path in root.iter(f"{SVG}path")]
    assert [kinds.count(kind) for kind in ("floor", "ours", "peer")] == [2, 2, 2]


def test_a_peer_that_fails_is_left_out_from_then_on() -> None:
    """The others go on, and the reason is kept."""
    calls: list[str] = []

    def fail() -> int:
        calls.append("failing")
        msg = "Process 1 failed:\nTraceback\nOSError: no"
        raise SessionError(msg)

    found = in_rounds([Contender("failing", fail), Contender("sound", lambda: 7)], 3)
    assert calls == ["failing"]
    assert found.rounds_by_name == {"sound": [7, 7, 7]}
    assert found.failures == {"failing": "OSError: no"}


def test_we_may_not_fail() -> None:
    """A suite that measures everyone but us says nothing."""

    def fail() -> int:
        raise SessionError

    with pytest.raises(SessionError):
        in_rounds([Contender("ours", fail, is_ours=True)], 1)


@pytest.mark.skipif(not importlib.util.find_spec("msgspec"), reason="msgspec is not installed")
def test_peers_are_chosen_by_name_or_transport() -> None:
    """Ours are always there, and are no peers."""
    names = [peer.name for peer in choice.chosen((), Options(peers=["tcp", "unix/numpy", "echo-tcp"]))]
    assert names == ["tcp/msgspec", "tcp/numpy", "tcp/pickle", "unix/numpy"]
    assert choice.chosen(("tcp/numpy",), Options(peers=[])) == []
    assert [peer.name for peer in choice.chosen(("tcp/numpy", "nobody/x"), Options())] == ["tcp/numpy"]


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that there are."""
    with pytest.raises(SystemExit):
        command.main(["latency", "--peers", "pigeon"])
    assert "Expected a peer of" in capsys.readouterr().err
