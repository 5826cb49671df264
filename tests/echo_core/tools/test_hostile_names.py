"""Names and texts of others never reach a terminal as what it would obey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.tools.output import json_line
from echo_core.tools.plain import plain, plain_json, plain_lines
from tests.echo_core.census import until
from tests.echo_core.conftest import MakeNode
from tests.echo_core.tools.running import run

EVIL = "\x1b]0;evil\x07\x9b31m\u202e\n\r\x7f[bold]"


@pytest.fixture
def evil_channel(make_node: MakeNode) -> echo.Channel[Any]:
    """Whose every name is hostile."""
    channel = make_node(name=EVIL).channel(EVIL)

    @echo.event
    class Note:
        text: str

    channel.source(Note, name=EVIL, keep=3).submit(Note(EVIL))
    return channel


COMMANDS = [
    ("ls", "--json"),
    ("ls", "--table"),
    ("info", "--json"),
    ("info", "--table"),
    ("types", "--json"),
    ("types", "--table"),
    ("types", "--c"),
    ("watch", "-n1", "--json", "-i"),
    ("watch", "-n1", "--lines"),
    ("watch", "-n1", "--csv"),
    ("watch", "-n1", "-f", "{text} {_source} {_peer}"),
    ("watch", "-n1", "--where", "nix > 3"),
    ("send", "[]"),
    ("compare", f"name:{EVIL}"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(command[:3])[:20] for command in COMMANDS])
def test_no_command_puts_out_what_a_terminal_obeys(
    evil_channel: echo.Channel[Any], command: tuple[str, ...]
) -> None:
    """Neither on stdout nor on stderr; what is meant as markup is text."""
    name, *options = command
    places = [] if name == "ls" else [f"name:{EVIL}"]
    result = run(name, *places, *options)
    said = result.stdout + result.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in said), repr(said)
    if result.exit_code == 0 and name not in ("types", "compare"):
        assert "[bold]" in result.stdout


def test_names_of_fields_and_types_are_plain_too(make_node: MakeNode) -> None:
    """As far as a format may have such."""
    names = ["f\u00e9\u4e2d", "x_y"]
    format_ = echo.Format.from_dtype(np.dtype([(name, "<f8") for name in names]), name="T")
    channel = make_node().channel("fields")
    channel.source(format_, keep=1).submit_array(np.zeros(1, format_.dtype))
    shown = run("watch", "fields", "-n1").stdout
    assert json.loads(shown) == dict.fromkeys(names, 0.0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9\u4e2d", "plain \u00e9\u4e2d"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb", r"a\nb"),
        ("\u202e", r"\u202e"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_plain_text_is_printable(text: str, shown: str) -> None:
    """What was printable stays as it is."""
    assert plain(text) == shown


def test_lines_after_the_first_cannot_be_taken_for_ours() -> None:
    """They are indented."""
    assert plain_lines("one\nechoctl: two\x07\n") == "one\n  echoctl: two\\x07"


@pytest.mark.parametrize("text", [EVIL, "\U000e0001", "\x7f", "\u2028"])
def test_json_says_the_same_in_printable_characters(text: str) -> None:
    """A reader of JSON gets what was there."""
    line = plain_json(json.dumps({"text": text}, ensure_ascii=False))
    assert line.isprintable()
    assert json.loads(line) == {"text": text}


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**64,
        True,
        False,
        None,
        1.5,
        -0.0,
        1e300,
        5e-324,
        EVIL,
        "",
        [1, {"a": [None]}],
        {"b": {"c": EVIL}},
    ],
)
def test_line_of_json_is_what_the_encoder_makes(value: Any) -> None:
    """Whatever is put together here."""
    for name in ("x", EVIL):
        made = plain_json(json.dumps({name: value}, ensure_ascii=False))
        assert json_line({name: value, "last": 1}) == f'{made[:-1]}, "last": 1}}'


def test_number_that_json_has_not_is_a_mistake() -> None:
    """Of this program: events have texts in its place."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_line({"x": float("nan")})


@pytest.mark.parametrize(
    "command", ["info", "cat -i", "cat --lines", "cat --csv", "verify", "du", "info --table"]
)
def test_names_in_logs_are_plain_too(
    evil_channel: echo.Channel[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A log may come from anybody."""
    monkeypatch.chdir(tmp_path)
    with echo.record(evil_channel, "evil.echolog") as recorder:
        until(lambda: recorder.statistics().events == 1, "what was kept")
    name, *options = command.split()
    result = run("log", name, "evil.echolog", *options)
    assert result.exit_code == 0
    said = result.stdout + result.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in said), repr(said)
    assert "[bold]" in said or name == "verify"


def test_name_of_a_log_is_plain_too(tmp_path: Path) -> None:
    """Also in an error."""
    result = run("log", "info", str(tmp_path / EVIL))
    assert result.exit_code == 1
    assert all(letter.isprintable() or letter == "\n" for letter in result.stderr)
