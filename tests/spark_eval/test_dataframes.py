"""Events in columns: against an oracle that takes one value at a time, and in Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.records import write
from echo_core.formats.types import Record
from tests.formats.strategies import examples, layouts, plain_values
from tests.spark_eval.events import Channel, Fixed, Quality, Varying, comparable, fixed, plain, varying

pa: Any = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from echo_core.spark_eval.columns.dataframes import (  # noqa: E402 - needs both
    DecodeStep,
    EncodeStep,
    bounded,
    decode_column,
    decoding_of,
    encode_column,
)
from echo_core.spark_eval.columns.schema import arrow_type  # noqa: E402

SEEDS = st.lists(st.integers(0, 2**32), max_size=6)
ABIS = ("native", "s390x", "i386", "m68k")


def decoded(events: Sequence[bytes | None], cls: Any, sender: echo.Format | None = None) -> Any:
    """The struct array that a step makes of one batch."""
    step = DecodeStep(decoding_of(cls, sender), ("event",), False, False)
    batch = pa.record_batch([pa.array(events, pa.binary())], ["event"])
    found = pa.Table.from_batches(step(iter([batch]))).column(0).combine_chunks()
    found.validate(full=True)
    return found


def encoded(structs: Any, format_: echo.Format, abi: str = "native") -> list[bytes | None]:
    """The messages that a step makes of one batch."""
    batch = pa.record_batch([structs], ["event"])
    step = EncodeStep(format_.metadata, abi, ("event",))
    found: list[bytes | None] = pa.Table.from_batches(step(iter([batch]))).column(0).to_pylist()
    return found


def hollowed(value: Any) -> Any:
    """Lists in which there are only lists are empty: Python's say nothing of the dimensions inside them."""
    match type(value).__name__:
        case "dict":
            return {name: hollowed(item) for name, item in value.items()}
        case "list":
            items = [hollowed(item) for item in value]
            return [] if all(item == [] for item in items) else items
        case _:
            return value


# ---------------------------------------------------------------------------
# Every kind of field


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize(("cls", "make"), [(Fixed, fixed), (Varying, varying)])
@examples(25)
@given(seeds=SEEDS)
def test_events_become_the_values_that_a_decoder_gives(
    abi: str, cls: Any, make: Any, seeds: list[int]
) -> None:
    """Batch by batch or value by value, from any machine; and back to the same bytes."""
    sender, encode = echo.format_of(cls, abi=abi), echo.encoder(cls, abi=abi)
    messages: list[bytes | None] = [encode(make(seed)) for seed in seeds]
    decode = echo.decoder(cls, sender=sender)
    found = decoded(messages, cls, sender)
    record = echo.format_of(cls).record
    assert found.type == arrow_type(record)
    assert comparable(found.to_pylist()) == repr([plain(record, decode(it)) for it in messages if it])
    assert encoded(found, sender, abi) == messages


@examples(60)
@given(data=st.data())
def test_any_layout_is_read_as_its_decoder_reads_it(data: st.DataObject) -> None:
    """Packed, reordered, nested in every way, from every machine; the formats met on the wire alone."""
    layout = data.draw(layouts())
    format_ = echo.Format.from_metadata(echo.Format(layout).metadata)
    values = [data.draw(plain_values(layout)) for _ in range(data.draw(st.integers(0, 3)))]
    messages: list[bytes | None] = [write(value, layout) for value in values]
    decode = echo.decoder(None, sender=format_)
    found = decoded(messages, format_)
    expected = [plain(format_.record, decode(message)) for message in messages if message]
    assert comparable(hollowed(found.to_pylist())) == repr(hollowed(expected))


@examples(60)
@given(data=st.data())
def test_any_struct_survives_encoding_and_decoding(data: st.DataObject) -> None:
    """What was read from any layout is written in this machine's, and read again."""
    layout = data.draw(layouts())
    own = echo.format_of(echo.Format.from_metadata(echo.Format(layout).metadata).record_class())
    values = [data.draw(plain_values(layout)) for _ in range(data.draw(st.integers(0, 3)))]
    found = decoded([write(value, layout) for value in values], echo.Format(layout))
    again = decoded(encoded(found, own), own)
    assert comparable(again.to_pylist()) == comparable(found.to_pylist())


def test_nulls_stay_nulls() -> None:
    """On the way in and on the way out."""
    for cls, make in ((Fixed, fixed), (Varying, varying)):
        message = echo.encoder(cls)(make(1))
        structs = decoded([None, message, None], cls)
        assert structs.is_null().to_pylist() == [True, False, True]
        assert encoded(structs, echo.format_of(cls)) == [None, message, None]
        assert decoded([None], cls).to_pylist() == [None]
        assert decoded([], cls).to_pylist() == []


def test_what_is_finer_than_a_microsecond_is_cut_towards_zero() -> None:
    """As it is where an event becomes a Python object."""
    fmt = echo.Format.from_dtype(np.dtype([("t", "M8[ns]"), ("d", "m8[ns]")]))
    given = np.array([(1999, 1999), (-1999, -1999)], [("t", "i8"), ("d", "i8")])
    found = decoded([it.tobytes() for it in given], fmt)
    assert found.field("t").cast(pa.int64()).to_pylist() == [1, -1]
    assert found.field("d").cast(pa.int64()).to_pylist() == [1, -1]


# ---------------------------------------------------------------------------
# Senders


@echo.event
class Newer:
    """Fixed's channel in a later version."""

    label: echo.Chars[8]
    number: int
    gain: float = 1.5


@dataclass(slots=True)
class Made:
    """A class whose own factory stands in for what a sender lacks."""

    number: int
    tags: list[str] = field(default_factory=lambda: ["none"])


def test_a_sender_of_another_version_and_byte_order_is_understood() -> None:
    """Fields reordered, widened, and filled in; the sender is known by its metadata alone."""
    sender = echo.format_of(Channel, abi="s390x")
    message = echo.encoder(Channel, abi="s390x")(Channel(7, "ab"))
    structs = decoding_of(Newer, sender.metadata).structs(pa.array([message], pa.binary()))
    assert structs.to_pylist() == [{"label": "ab", "number": 7, "gain": 1.5}]


def test_a_default_that_only_its_class_can_make_is_made() -> None:
    """The one case in which executors need the class."""
    found = decoded([echo.encoder(Channel)(Channel(7, "ab"))], Made, echo.format_of(Channel))
    assert found.to_pylist() == [{"number": 7, "tags": ["none"]}]


def test_a_sender_from_which_no_path_leads_is_refused_at_once() -> None:
    """In the driver, before anything runs."""
    with pytest.raises(echo.IncompatibleError, match="Channel"):
        decoding_of(Fixed, echo.format_of(Channel))


# ---------------------------------------------------------------------------
# What is wrong


def tolerant(events: Sequence[bytes | None], cls: Any) -> tuple[list[Any], list[str | None]]:
    """The events and what is said of them."""
    step = DecodeStep(decoding_of(cls), ("event", "error"), True, True)
    batch = pa.record_batch([pa.array(events, pa.binary())], ["event"])
    table = pa.Table.from_batches(step(iter([batch])))
    return table.column("event").to_pylist(), table.column("error").to_pylist()


@pytest.mark.parametrize(("cls", "make"), [(Fixed, fixed), (Varying, varying)])
def test_a_damaged_event_is_a_wire_error_with_its_row(cls: Any, make: Any) -> None:
    """Whatever else is in the batch."""
    message = echo.encoder(cls)(make(1))
    with pytest.raises(echo.WireError, match=rf"got 3.* - at `{cls.__name__}` \(row 2 of 4 in its batch\)"):
        decoded([message, None, message[:3], message], cls)


@pytest.mark.parametrize(("cls", "make"), [(Fixed, fixed), (Varying, varying)])
def test_damaged_events_can_be_nulls_that_say_why(cls: Any, make: Any) -> None:
    """The others in the batch are as they were."""
    message = echo.encoder(cls)(make(1))
    events, errors = tolerant([message[:3], message, None, message + b"\0", message], cls)
    assert [event is None for event in events] == [True, False, True, True, False]
    assert events[1] == events[4] == decoded([message], cls).to_pylist()[0]
    assert [error is None for error in errors] == [False, True, True, False, True]


@pytest.mark.parametrize(("cls", "make"), [(Fixed, fixed), (Varying, varying)])
def test_no_damage_does_harm(cls: Any, make: Any) -> None:
    """A byte changed anywhere, or the end missing: null where the decoder refuses, else what it gives."""
    message = echo.encoder(cls)(make(6))
    changed = [message[:i] + bytes([message[i] ^ 0x81]) + message[i + 1 :] for i in range(len(message))]
    messages = changed + [message[:i] for i in range(len(message))]
    found, _ = tolerant(messages, cls)
    decode, record = echo.decoder(cls), echo.format_of(cls).record
    for damaged, event in zip(messages, found, strict=True):
        try:
            expected = plain(record, decode(damaged))
        except (echo.WireError, UnicodeDecodeError):
            expected = None
        assert comparable(event) == repr(expected)


def test_bytes_that_are_no_text_and_numbers_that_are_no_member_are_refused() -> None:
    """A conversion leaves both to its reader, so the reader looks."""
    format_ = echo.format_of(Fixed)
    at = {member.name: member.offset for member in format_.fields}
    for name in ("text", "quality"):
        message = bytearray(echo.encoder(Fixed)(fixed(1)))
        message[at[name]] = 0xFF
        with pytest.raises(echo.WireError, match=f"at `Fixed.{name}`"):
            decoded([bytes(message)], Fixed)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("u8", pa.array([-1], pa.int16()), "Expected a number within the range of `uint8`, got -1"),
        ("u64", pa.array([-1], pa.int64()), "Expected a number within the range of `uint64`, got -1"),
        ("i8", pa.array([200]), "Expected `int8`, got .*200"),
        ("f16", pa.array([1e9]), "Expected a number within the range of `float16`"),
        ("text", pa.array(["sixsix"]), "Expected text of at most 5 bytes, got 6"),
        ("text", pa.array(["a\0b"]), "Expected text without NUL characters"),
        ("data", pa.array([b"four"]), "Expected exactly 3 bytes, got 4"),
        ("quality", pa.array(["BAD"]), "Expected a member of `enum Quality`, got `BAD`"),
        ("key", pa.array(["no"]), "Expected a UUID"),
        ("key", pa.array(["0" * 36]), "Expected a UUID"),
        ("when", pa.array([2**62], pa.timestamp("us", "UTC")), "within 292 years"),
        ("flag", pa.array([None], pa.bool_()), "Expected `bool`, got null"),
        ("grid", pa.array([[[1.0, 2.0]]]), "Expected 2 elements, got 1"),
        ("grid", pa.array([3.5]), r"Expected `float32\[2\]\[3\]`, got `double`"),
    ],
)
def test_a_value_that_its_field_cannot_hold_is_an_encode_error(name: str, value: Any, said: str) -> None:
    """With the field's path."""
    structs = decoded([echo.encoder(Fixed)(fixed(1))], Fixed)
    columns = [value if it.name == name else structs.field(it.name) for it in structs.type]
    wrong = pa.StructArray.from_arrays(columns, [it.name for it in structs.type])
    with pytest.raises(echo.EncodeError, match=rf"{said}.* - at `Fixed\.{name}`"):
        encoded(wrong, echo.format_of(Fixed))


def test_rows_of_several_lengths_are_refused() -> None:
    """An array has one length in each dimension."""
    structs = decoded([echo.encoder(Varying)(varying(1))], Varying)
    columns = [
        pa.array([[[1, 2], [3]]]) if it.name == "rows" else structs.field(it.name) for it in structs.type
    ]
    wrong = pa.StructArray.from_arrays(columns, [it.name for it in structs.type])
    with pytest.raises(echo.EncodeError, match=r"Expected 2 elements, got 1 - at `Varying\.rows`"):
        encoded(wrong, echo.format_of(Varying))


# ---------------------------------------------------------------------------
# Batches


@pytest.mark.parametrize(("cls", "make"), [(Fixed, fixed), (Varying, varying)])
def test_a_part_of_a_batch_is_itself(cls: Any, make: Any) -> None:
    """Arrow's slices share their buffers with what they are of."""
    messages = [echo.encoder(cls)(make(i)) for i in range(5)]
    events = pa.array(messages, pa.binary()).slice(2, 2)
    structs = decoding_of(cls).structs(events)
    assert structs.equals(decoded(messages, cls).slice(2, 2))
    assert encoded(decoded(messages, cls).slice(2, 2), echo.format_of(cls)) == messages[2:4]


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_batches_are_bounded_by_bytes(sizes: list[int], limit: int) -> None:
    """All rows, in order; more than the limit only for a single row."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    runs = list(bounded(ends, limit))
    assert [first + i for first, count in runs for i in range(count)] == list(range(len(sizes)))
    assert all(count <= 1 or ends[first + count] - ends[first] <= limit for first, count in runs)


# ---------------------------------------------------------------------------
# In Spark


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("cls", "make"), [(Fixed, fixed), (Varying, varying)])
def test_a_column_of_events_becomes_structs_and_comes_back(spark: Any, cls: Any, make: Any) -> None:
    """Kept columns beside it, nulls in it, from and to a big-endian machine."""
    encode, sender = echo.encoder(cls, abi="s390x"), echo.format_of(cls, abi="s390x")
    messages = [None if i == 3 else bytearray(encode(make(i))) for i in range(20)]
    frame = spark.createDataFrame(list(enumerate(messages)), "id int, payload binary")
    events = decode_column(frame, "payload", cls, sender=sender.metadata, keep=["id"])
    assert [row.id for row in events.where("event is null").collect()] == [3]
    back = encode_column(events, cls, "event", keep=["id"], as_column="payload", abi="s390x")
    assert sorted(back.collect()) == sorted(frame.collect())


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_events_are_made_of_a_frame_s_own_columns(spark: Any) -> None:
    """Numbers of other types are cast where nothing is lost; the class need not be importable there."""

    @echo.event
    class Local:
        id: echo.UInt32
        quality: Quality

    frame = spark.range(5).selectExpr("id", "if(id % 2 = 0, 'GOOD', 'SUSPECT') quality")
    events = decode_column(encode_column(frame, Local), "event", Local).select("event.*")
    assert sorted(events.collect()) == sorted(frame.collect())
    with pytest.raises(echo.FormatError, match="none for number, label"):
        encode_column(frame, Channel)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_times_are_the_same_in_every_time_zone(spark: Any) -> None:
    """Spark hands timestamps to Python in the session's zone."""
    message = echo.encoder(Fixed)(fixed(4))
    frame = spark.createDataFrame([(bytearray(message),)], "payload binary")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        events = decode_column(frame, "payload", Fixed)
        micros = events.selectExpr("unix_micros(event.when)").collect()[0][0]
        (back,) = encode_column(events, Fixed, "event").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert micros == plain(echo.format_of(Fixed).record, echo.decoder(Fixed)(message))["when"]
    assert back.event == message


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_damaged_events_are_counted_and_named_in_spark(spark: Any) -> None:
    """The error column is one to group by."""
    message = bytearray(echo.encoder(Channel)(Channel(1, "a")))
    frame = spark.createDataFrame([(message,), (message[:2],), (None,)], "payload binary")
    events = decode_column(frame, "payload", Channel, on_error="null", error_column="why")
    assert events.where("why is not null").select("why").collect()[0].why.startswith("Expected")
    assert events.where("event is null").count() == 2
    with pytest.raises(Exception, match=r"echo_core\.errors\.WireError: Expected"):
        decode_column(frame, "payload", Channel).collect()


def test_records_are_told_by_their_class() -> None:
    """What `schema.form` relies on: the classes of types are called what they are."""
    assert type(echo.format_of(Channel).record).__name__ == Record.__name__ == "Record"


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_column_itself_can_be_kept(spark: Any) -> None:
    """Beside what was made of it; and a column that holds no bytes is refused at once."""
    made = bytearray(echo.encoder(Varying)(varying(1)))
    frame = spark.createDataFrame([(1, made)], "id int, payload binary")
    events = decode_column(frame, "payload", Varying, keep=["id", "payload"])
    row = events.collect()[0]
    assert (row.id, row.payload) == (1, made)
    back = encode_column(events, Varying, "event", keep=["event"], as_column="again").collect()[0]
    assert (back.event, back.again) == (row.event, made)
    with pytest.raises(echo.FormatError, match="Expected a binary column, got `n` of int"):
        decode_column(spark.createDataFrame([(1,)], "n int"), "n", Varying)
