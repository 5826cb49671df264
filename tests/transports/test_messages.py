"""Messages: exact, the same for ever, bounded, and hostile-proof."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core.errors import EncodeError, WireError
from echo_core.transports import limits
from echo_core.transports.fields import shown
from echo_core.transports.handshake.exchange import VERSION
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message, decode, encode
from echo_core.values.parameters import MAX_CHOICE_BYTES, MAX_CHOICES
from tests.transports.frames import write_frame
from tests.transports.samples import MESSAGES, member

GOLDEN = Path(__file__).parent / "golden"

_u32, _u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
_u63 = st.integers(0, 2**63 - 1)


def _texts(limit: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=("C", "Z")), max_size=limit // 4)


_addresses = st.lists(_texts(limits.MAX_ADDRESS_BYTES), max_size=limits.MAX_ADDRESSES).map(tuple)
_ids, _proofs = st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32)
_words = st.binary(min_size=8, max_size=8)
_choices = st.lists(_texts(MAX_CHOICE_BYTES), max_size=MAX_CHOICES)
_names, _reasons = _texts(limits.MAX_NAME_BYTES), _texts(limits.MAX_REASON_BYTES)

any_message: st.SearchStrategy[Message] = st.one_of(
    st.builds(messages.Loan, _u32, _u32, _u64),
    st.builds(messages.Gap, _u32, _u64),
    st.builds(messages.Join, _u32, _ids, _proofs),
    st.builds(messages.Joined, _u32, _proofs),
    st.builds(messages.Refused, _u32, _u32, _reasons),
    st.builds(messages.Declared, _u32, _names, st.lists(_u32, max_size=limits.MAX_TYPES).map(tuple)),
    st.builds(messages.Leave, _u32),
    st.builds(messages.Member, _u32, _ids, _u64, _u32, _ids, _names, _addresses),
    st.builds(messages.Format, _u32, st.binary()),
    st.builds(messages.Source, _u32, _u32, _u32, _u32, _ids, _names),
    st.builds(messages.Attach, _u32, _u32, _u64, _u63, _u63),
    st.builds(messages.Credit, _u32, _u64, _u64, _u63, _u63),
    st.builds(messages.Started, _u32, _u32, _u64),
    st.builds(messages.Closed, _u32),
    st.builds(messages.Released, _u32),
    st.builds(messages.Dropped, _u32, _u64),
    st.builds(messages.Unreachable, _u32, st.text().map(partial(shown, keep="\n"))),
    st.builds(messages.Flush, _u64),
    st.builds(messages.Flushed, _u64),
    st.builds(messages.Bye, _u32, _reasons),
    st.builds(messages.Ping),
    st.builds(messages.Derive, _u32, _ids, _names, st.binary(max_size=4096)),
    st.builds(messages.Adjust, _u32, _ids, _u64, _ids, st.binary(max_size=4096)),
    st.builds(messages.Judged, _u32, _u64, _ids, _u64, _u63),
    st.builds(
        messages.Parameter, _u32, _u32, st.booleans(), _words, _words, _words, _names, _choices.map(tuple)
    ),
    st.builds(messages.Request, _u32, st.booleans(), _u64, _words, _names),
    st.builds(messages.Requested, _u32, _u64),
    st.builds(messages.Underivable, _u32, _ids, _names, st.text().map(partial(shown, keep="\n"))),
    st.builds(messages.Ask, _u32, _u64, _u64),
    st.builds(messages.Ack, _u32, _u32, _u64, _u64),
    st.builds(messages.Missed, _u32, _u32, _u64, _u64),
    st.builds(messages.Handled, _u32, _u64),
)


@given(any_message)
@settings(max_examples=500)
def test_a_message_comes_back(message: Message) -> None:
    """Every field of every kind."""
    assert decode(message.kind, encode(message)) == message


@given(st.integers(0, 70), st.binary(max_size=80))
@settings(max_examples=500)
def test_any_bytes_are_one_message_or_a_wire_error(kind: int, payload: bytes) -> None:
    """There is one way to write a message, and nothing else is read."""
    try:
        message = decode(kind, payload)
    except WireError:
        return
    assert encode(message) == payload


def test_there_is_a_message_for_every_kind() -> None:
    """And a sample of it, and a kind is no stream."""
    assert [message.kind for message in MESSAGES] == list(range(1, 33)) == sorted(Message.by_kind)
    assert max(Message.by_kind) < limits.FIRST_STREAM


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.word)
def test_messages_are_those_of_this_version(message: Message) -> None:
    """If this fails the wire has changed: give it a new VERSION, and a new file beside the old one."""
    golden = json.loads(GOLDEN.joinpath(f"messages-{VERSION}.json").read_text(encoding="utf-8"))
    assert write_frame(message.kind, encode(message)).hex() == golden[message.word]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.word)
def test_every_truncation_is_refused(message: Message) -> None:
    """However much is missing, or added; the error says which message it was."""
    payload = encode(message)
    for size in range(len(payload)):
        with pytest.raises(WireError, match=type(message).__name__):
            decode(message.kind, payload[:size])
    with pytest.raises(WireError, match=type(message).__name__):
        decode(message.kind, payload + b"\0")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.word)
def test_every_changed_byte_is_refused_or_another_message(message: Message) -> None:
    """Never two spellings of one, and never another error."""
    payload = encode(message)
    for position in range(len(payload)):
        for bit in range(8):
            changed = bytearray(payload)
            changed[position] ^= 1 << bit
            with contextlib.suppress(WireError):
                assert decode(message.kind, bytes(changed)) != message


# The limit, the message with so much of a field, and the field.
LIMITED: dict[str, tuple[int, Callable[[int], Message], str]] = {
    "source": (limits.MAX_NAME_BYTES, lambda n: messages.Source(64, 0, 0, 0, bytes(16), "x" * n), "name"),
    "channel": (limits.MAX_NAME_BYTES, lambda n: messages.Declared(0, "x" * n, ()), "name"),
    "types": (limits.MAX_TYPES, lambda n: messages.Declared(0, "", (7,) * n), "types"),
    "metadata": (limits.MAX_METADATA_BYTES, lambda n: messages.Format(0, bytes(n)), "metadata"),
    "parameters": (
        limits.MAX_PARAMETER_BYTES,
        lambda n: messages.Adjust(0, bytes(16), 1, bytes(16), bytes(n)),
        "values",
    ),
    "reason": (limits.MAX_REASON_BYTES, lambda n: messages.Bye(0, "x" * n), "text"),
    "report": (limits.MAX_REPORT_BYTES, lambda n: messages.Unreachable(64, "x" * n), "text"),
    "choices": (
        MAX_CHOICES,
        lambda n: messages.Parameter(70, 5, False, bytes(8), bytes(8), bytes(8), "x", ("a",) * n),
        "choices",
    ),
    "addresses": (
        limits.MAX_ADDRESSES,
        lambda n: member(bytes(16), *("unix:@a",) * n),
        "addresses",
    ),
}


@pytest.mark.parametrize("what", LIMITED)
def test_a_limit_holds_on_both_sides(what: str) -> None:
    """One less and as many are fine; one more is the sender's fault here, and the peer's there."""
    limit, make, field = LIMITED[what]
    for size in (limit - 1, limit):
        message = make(size)
        assert decode(message.kind, encode(message)) == message
    with pytest.raises(EncodeError, match=field):
        encode(make(limit + 1))
    message = make(limit)
    payload = encode(message).replace(limit.to_bytes(4, "little"), (limit + 1).to_bytes(4, "little"), 1)
    with pytest.raises(WireError, match=f"at most {limit}"):
        decode(message.kind, payload + bytes(64))


def test_an_address_has_a_limit_too() -> None:
    """Inside the list as well."""
    text = "a" * limits.MAX_ADDRESS_BYTES
    message = member(bytes(16), text)
    assert decode(message.kind, encode(message)) == message
    with pytest.raises(EncodeError, match="addresses"):
        encode(member(bytes(16), text + "a"))


def test_every_message_fits_into_a_control_frame() -> None:
    """The longest are formats and reports."""
    longest: list[Message] = [
        messages.Format(0, bytes(limits.MAX_METADATA_BYTES)),
        messages.Unreachable(64, "x" * limits.MAX_REPORT_BYTES),
        messages.Declared(0, "x" * limits.MAX_NAME_BYTES, (0,) * limits.MAX_TYPES),
        member(bytes(16), *("x" * limits.MAX_ADDRESS_BYTES,) * limits.MAX_ADDRESSES),
    ]
    assert max(len(encode(message)) for message in longest) <= limits.MAX_CONTROL_BYTES


def test_a_number_that_is_too_large_is_the_senders_fault() -> None:
    """With the field's name."""
    with pytest.raises(EncodeError, match=r"Attach\.sinks"):
        encode(messages.Attach(64, 2**32, 0, 65536, 1 << 24))
    with pytest.raises(EncodeError, match=r"Join\.proof"):
        encode(messages.Join(0, bytes(16), bytes(31)))
    with pytest.raises(EncodeError, match=r"Bye\.text"):
        encode(messages.Bye(0, "\ud800"))


def test_what_cannot_be_seen_is_escaped() -> None:
    """Else a peer could write lines of a log, or colour a terminal; text of any language stays as it is."""
    assert shown("läser 粒子 é 🙂") == "läser 粒子 é 🙂"
    assert shown("\x1b[2J\n\r\t\0\u202e\u2028\x85") == r"\x1b[2J\n\r\t\x00\u202e\u2028\x85"
    assert shown("a\nb\r", keep="\n") == "a\nb\\r"
