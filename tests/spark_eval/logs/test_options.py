"""What `.option(...)` says: every value is text, and every name lower case."""

from __future__ import annotations

import datetime as dt

import pytest

from echo_core.spark_eval.logs.options import OptionError, Options, options_of, write_options_of

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def test_path_alone_reads_all_events() -> None:
    """With the defaults of the guide."""
    assert options_of({"path": "run.echolog"}) == Options("run.echolog")


def test_every_option_is_read_whatever_its_case() -> None:
    """Spark hands over names in lower case."""
    given = {
        "path": "a",
        "channel": "plasma",
        "event": "shapes:Particle",
        "format": "Particle",
        "since": "2026-01-31T12:00:00+00:00",
        "until": "1769860800000000000",
        "columns": "id, x ,_time,x",
        "view": "gaps",
        "partitionbytes": "16m",
        "BATCHBYTES": "65536",
        "damage": "skip",
        "maxRows": "1000",
        "start": "latest",
        "verify": "False",
        "pushdown": "true",
    }
    assert options_of(given) == Options(
        "a",
        channel="plasma",
        event="shapes:Particle",
        format="Particle",
        since=NOON,
        until=1769860800000000000,
        columns=("id", "x", "_time"),
        view="gaps",
        partition_bytes=16 << 20,
        batch_bytes=65536,
        damage="skip",
        max_rows=1000,
        start="latest",
        verify=False,
        pushdown=True,
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("event", "Particle", "module:Class"),
        ("since", "2026-01-31T12:00:00", "a time such as"),
        ("until", "yesterday", "a time such as"),
        ("columns", " ,", "names"),
        ("view", "rows", "events or streams or gaps or damage"),
        ("partitionBytes", "0", "a number of bytes"),
        ("batchBytes", "4 MB", "a number of bytes"),
        ("damage", "ignore", "fail or skip"),
        ("maxRows", "-1", "a number of rows"),
        ("verify", "yes", "true or false"),
        ("channel", "", "a text"),
    ],
)
def test_value_that_an_option_does_not_take_is_named(name: str, value: str, expected: str) -> None:
    """With what it takes."""
    with pytest.raises(OptionError, match=expected) as caught:
        options_of({"path": "a", name: value})
    assert caught.value.path == name


def test_option_that_is_not_known_is_an_error() -> None:
    """A typing error would be a default otherwise."""
    with pytest.raises(OptionError, match=r"Expected options out of batchBytes, .*, got `chanel`"):
        options_of({"path": "a", "chanel": "plasma"})


def test_path_is_needed() -> None:
    """To read and to write."""
    with pytest.raises(OptionError, match="Expected the path of a log, got none"):
        options_of({})
    with pytest.raises(OptionError, match="Expected the path of a log, got none"):
        write_options_of({})


def test_writer_has_options_of_its_own() -> None:
    """Whose events they are said to be."""
    options = write_options_of({"path": "a", "channel": "c", "source": "s", "event": "m:C", "name": "Row"})
    assert (options.channel, options.source, options.event, options.name) == ("c", "s", "m:C", "Row")
    with pytest.raises(OptionError, match="got `since`"):
        write_options_of({"path": "a", "since": "0"})
