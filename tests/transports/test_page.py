"""docs/link-protocol.md is enough to write a peer from: one is, below, from nothing but the page."""

from __future__ import annotations

import hashlib
import re
import struct
from pathlib import Path

import pytest

from echo_core.transports import limits
from echo_core.transports.handshake.words import Words
from echo_core.transports.protocol import joining, messages
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import ChannelState, Declaration, Heard, PeerStream
from echo_core.transports.protocol.messages import Farewell, Message, Refusal, encode
from tests.transports.frames import scan, write_frame
from tests.transports.samples import (
    CHANNEL,
    FAR,
    KEY,
    MESSAGES,
    established,
    feed,
    handshake,
    on_link,
    responder,
)

PAGE = (Path(__file__).parents[2] / "docs" / "link-protocol.md").read_text(encoding="utf-8")


def dump(name: str) -> bytes:
    """The bytes of a dump in the page; every line must begin where the one before ended."""
    block = PAGE.partition(f"<!-- dump: {name} -->\n```\n")[2].partition("```")[0]
    data = b""
    for line in block.splitlines():
        found = re.match(r"([0-9a-f]{4})  ((?:[0-9a-f]{2} )+) +\S", line)
        assert found is not None, line
        assert int(found[1], 16) == len(data), line
        data += bytes.fromhex(found[2])
    return data


def test_the_handshake_in_the_page_is_what_is_said() -> None:
    """The annotated dumps are the code's own output, and so is the secret below them."""
    assert [dump(name) for name in ("HELLO", "WELCOME", "PROOF", "READY")] == handshake()
    assert f"`{established()[0].secret.hex()}`" in PAGE


@pytest.mark.parametrize("cls", [messages.Source, messages.Gap, messages.Credit])
def test_messages_in_the_page_are_what_is_sent(cls: type[Message]) -> None:
    """Frame and all."""
    (message,) = [message for message in MESSAGES if type(message) is cls]
    assert write_frame(cls.kind, encode(message)) == dump(cls.word)


def test_every_number_has_its_row() -> None:
    """Kinds, steps and codes."""
    for said in (*Words.by_kind.values(), *Message.by_kind.values()):
        assert f"\n| {said.kind} | {said.word} |" in PAGE
    for refusal in Refusal:
        assert f"\n| {refusal.value} | {refusal.name} |" in PAGE
    for farewell in Farewell:
        assert f"{farewell.value} {farewell.name} (" in PAGE


def test_the_states_of_a_channel_in_the_page_are_the_table_that_is_executed() -> None:
    """Where this fails, put what `printed_states` returns in the page."""
    assert f"\n\n{printed_states()}\n" in PAGE


def printed_states() -> str:
    """The table, as the page has it."""
    rows = [["what happens", *(state.name for state in ChannelState)], ["---"] * (1 + len(ChannelState))]
    for input_, steps in joining.TRANSITIONS.items():
        rows.append([input_.value, *(printed_step(state, steps.get(state)) for state in ChannelState)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def printed_step(state: ChannelState, step: joining.Step | None) -> str:
    if step is None:
        return ""
    moves = [] if step.state is state else [step.state.name]
    says = ["says " + " and ".join(message.word for message in step.says)] if step.says else []
    return ", ".join(moves + says) or "-"


@pytest.mark.parametrize(
    ("limit", "row"),
    [
        (limits.MAX_HANDSHAKE_BYTES, "a message of the handshake"),
        (limits.MAX_SILENT, "connections to a node"),
        (limits.MAX_HALF_OPEN, "handshakes of a node"),
        (limits.MAX_CONTROL_BYTES, "a message's payload"),
        (limits.MAX_CHANNELS, "channels of a link"),
        (limits.MAX_STREAMS, "streams of a link"),
        (limits.MAX_FORMATS, "formats of a link"),
        (limits.MAX_LINK_METADATA_BYTES, "formats of a link"),
        (limits.MAX_MEMBERS, "members of one channel"),
        (limits.MAX_VERSION, "`version` of a member"),
        (limits.MAX_FLUSHES, "flushes"),
        (limits.MAX_DERIVED, "channels that are derived from one channel"),
        (limits.MAX_DERIVED_DEPTH, "channels that are derived from one another"),
        (limits.MAX_EPOCH, "`epoch` of ADJUST"),
    ],
)
def test_limits_in_the_page_are_those_of_the_code(limit: int, row: str) -> None:
    """Each in its row of the table."""
    (line,) = re.findall(rf"\n\| {row}.*", PAGE)
    assert str(limit) in line


# ---------------------------------------------------------------------------------------------------
# A peer, from the page: it knows struct and hashlib, and nothing of the code


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def said(step: int, fields: bytes) -> bytes:
    return b"ECHO" + struct.pack("<HH", step, 8 + len(fields)) + fields


def proof(person: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32, key=KEY, person=person).digest()


def framed(kind: int, payload: bytes) -> bytes:
    return struct.pack("<II", len(payload), kind) + payload + bytes(-len(payload) % 8)


def hello() -> bytes:
    identity = bytes([7] * 16) + bytes(16) + struct.pack("<III", 77, 131072, 0) + text("page")
    identity += struct.pack("<I", 1) + text("tcp://127.0.0.1:1")
    unproven = said(1, struct.pack("<HH", 1, 1) + CHANNEL + bytes([5] * 16) + identity + bytes(32))[:-32]
    return unproven + proof(b"echo hello", unproven)


def test_a_peer_that_was_written_from_the_page_is_understood() -> None:
    """It proves the key, joins the channel, and offers a source."""
    far = responder()
    feed(far, hello())
    welcome = far.bytes_to_send()
    assert welcome[26:42] == FAR.node_id
    assert welcome[-32:] == proof(b"echo welcome", hello() + welcome[:-32])
    last = said(3, proof(b"echo proof", hello() + welcome))
    feed(far, last)
    assert far.bytes_to_send() == said(4, b"")
    found = far.established
    assert found is not None
    assert found.peer.name == "page"
    assert found.peer.addresses == ("tcp://127.0.0.1:1",)

    secret = proof(b"echo secret", hello() + welcome + last)
    link = LinkProtocol(
        role=found.role, secret=found.secret, declaration_of={CHANNEL: Declaration(KEY, "p", (b"type",))}.get
    )
    alias = struct.pack("<I", 0)
    join = framed(3, alias + CHANNEL + proof(b"echo join", secret + CHANNEL + alias))
    ((heard, channel),) = received(link, join)
    assert isinstance(heard, messages.Join)
    assert channel is on_link(link)
    assert on_link(link).is_shared
    answer = b"".join(framed(kind, payload) for kind, payload in link.take_frames())
    joined = framed(4, alias + proof(b"echo joined", secret + CHANNEL + alias))
    format_ = framed(9, struct.pack("<II", 0, 4) + b"type")
    declared = framed(6, alias + text("p") + struct.pack("<II", 1, 0))
    assert answer == joined + format_ + declared

    offer = framed(6, alias + text("") + struct.pack("<I", 0))
    offer += framed(9, struct.pack("<II", 0, 5) + b"other")
    offer += framed(
        10, struct.pack("<IIII", 64, 0, 0, 0) + bytes(16) + text("source") + struct.pack("<III", 1, 0, 0)
    )
    declared_by_it, (source, stream) = received(link, offer)
    assert declared_by_it == (messages.Declared(0, "", ()), channel)
    assert source == messages.Source(64, 0, 0, 0, bytes(16), "source", times=True)
    assert isinstance(stream, PeerStream)
    assert (stream.number, stream.metadata, stream.name) == (64, b"other", "source")


def received(link: LinkProtocol, data: bytes) -> list[Heard]:
    frames, used = scan(data, limits.MAX_CONTROL_BYTES)
    assert used == len(data)
    return [heard for kind, payload in frames for heard in link.receive(kind, payload)]
