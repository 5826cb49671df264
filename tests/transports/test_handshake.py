"""The handshake: who may be linked, what is said, and that nothing of it can be changed."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from echo_core.errors import EncodeError, LinkError, RefusedError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.exchange import (
    VERSION,
    Handshake,
    Initiator,
    Responder,
    duplicate,
    proven,
)
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.handshake.words import (
    HEADER,
    UID,
    Hello,
    Identity,
    Proof,
    Refused,
    read_words,
    write_words,
)
from echo_core.transports.protocol.messages import Refusal, word_of
from tests.transports.samples import (
    CHANNEL,
    FAR,
    KEY,
    NEAR,
    OTHER_KEY,
    established,
    feed,
    handshake,
    initiator,
    responder,
)

GOLDEN = Path(__file__).parent / "golden"


def test_both_sides_learn_who_the_other_is() -> None:
    """And have the same secret, and roles that differ."""
    near, far = established()
    assert (near.peer, far.peer) == (FAR, NEAR)
    assert (near.role, far.role) == (Role.INITIATOR, Role.RESPONDER)
    assert near.secret == far.secret
    assert near.version == far.version == VERSION
    assert near.uid == far.uid == CHANNEL
    assert far.peer.can_share_memory
    assert not near.peer.can_share_memory


def test_a_responder_tells_another_host_no_address_that_means_nothing_there() -> None:
    """A guest of its own host is told all."""
    everywhere = ("tcp://10.0.0.1:1", "tcp://example.org:1")
    far = replace(FAR, addresses=("unix:@echo-far", "tcp://127.0.0.1:1", *everywhere))

    def let_in(peer: Identity, uid: bytes) -> None:
        """Anybody."""

    for host_id, told in ((bytes([8] * 16), everywhere), (FAR.host_id, far.addresses)):
        guest = Initiator(replace(NEAR, host_id=host_id), CHANNEL, KEY, admit=let_in)
        host = Responder(far, lambda _: KEY, admit=let_in)
        assert exchange(guest, host) == []
        assert guest.established is not None
        assert guest.established.peer.addresses == told


def test_the_handshake_is_that_of_this_version() -> None:
    """If this fails the wire has changed: give it a new VERSION, and a new file beside the old one."""
    golden = json.loads(GOLDEN.joinpath(f"handshake-{VERSION}.json").read_text(encoding="utf-8"))
    said = dict(zip(("HELLO", "WELCOME", "PROOF", "READY"), handshake(), strict=True))
    assert {step: data.hex() for step, data in said.items()} == {step: golden[step] for step in said}
    assert established()[0].secret.hex() == golden["secret"]
    assert write_words(Refused(Refusal.BUSY, "later")).hex() == golden["REFUSED"]


def test_a_handshake_goes_well_byte_by_byte() -> None:
    """However little arrives at once, no more is wanted than belongs to it."""
    near, far = initiator(), responder()
    for data in handshake():
        hearer: Handshake = far if data[4] in {Hello.kind, Proof.kind} else near
        for byte in data:
            assert 0 < hearer.wanted_bytes <= len(data)
            hearer.receive(bytes([byte]))
    assert near.established is not None
    assert far.established is not None
    assert near.wanted_bytes == far.wanted_bytes == 0


def exchange(near: Handshake, far: Handshake) -> list[RefusedError]:
    """Both talk until neither has anything to say; who was refused, or did refuse."""
    refused: list[RefusedError] = []
    while True:
        moved = False
        for speaker, hearer in ((near, far), (far, near)):
            if data := speaker.bytes_to_send():
                moved = True
                try:
                    feed(hearer, data)
                except RefusedError as error:
                    refused.append(error)
        if not moved:
            return refused


def test_a_wrong_key_is_refused_to_both() -> None:
    """Each has an error that says so, and nobody is linked."""
    near, far = initiator(OTHER_KEY), responder(KEY)
    refused = exchange(near, far)
    assert [error.code for error in refused] == ["wrong_key"] * 2
    assert near.established is far.established is None


def test_a_responder_tells_who_has_no_key_nothing_but_that() -> None:
    """HELLO is proven before anything else of it is read: one that cannot be is refused in the same words."""
    hello, _, _, _ = handshake()
    unread = hello[: UID.stop] + bytes(len(hello) - UID.stop)
    for data in (hello, unread):
        far = responder(OTHER_KEY)
        with pytest.raises(RefusedError) as caught:
            feed(far, data)
        assert caught.value.code == "wrong_key"
        assert isinstance(read_words(far.bytes_to_send()), Refused)
        assert far.heard == b""


def test_who_says_a_hello_again_that_was_overheard_gets_no_further() -> None:
    """It is answered, as it is right; its proof of this handshake cannot be made without the key."""
    hello, _, proof, _ = handshake()
    far = Responder(FAR, lambda _: KEY, admit=lambda _, __: None)
    feed(far, hello)
    assert far.heard == hello[-limits.PROOF_BYTES :]
    with pytest.raises(RefusedError) as caught:
        feed(far, proof)
    assert caught.value.code == "wrong_key"
    assert far.established is None


def test_a_proof_cannot_be_sent_back_or_used_twice() -> None:
    """The responder's proof is none of the initiator's, nor is that of another handshake."""
    hello, welcome, proof, _ = handshake()
    far = responder()
    feed(far, hello)
    with pytest.raises(RefusedError):
        feed(far, proof[: HEADER.size] + welcome[-limits.PROOF_BYTES :])
    later = Responder(FAR, lambda _: KEY, admit=lambda _, __: None)
    feed(later, hello)
    with pytest.raises(RefusedError):
        feed(later, proof)


def test_an_unknown_channel_is_refused() -> None:
    """With a code of its own: an id cannot be guessed, and a user wants to know."""
    refused = exchange(initiator(), responder(None))
    assert [error.code for error in refused] == ["unknown_channel"] * 2


def test_a_node_is_not_linked_to_itself() -> None:
    """Whoever dials its own address learns it."""
    far = Responder(NEAR, lambda _: KEY, admit=lambda _, __: None)
    assert [error.code for error in exchange(initiator(), far)] == ["same_node"] * 2


@pytest.mark.parametrize("code", [Refusal.DUPLICATE, Refusal.BUSY, Refusal.CLOSING])
def test_either_node_may_say_no_once_it_knows_the_peer(code: Refusal) -> None:
    """The initiator before it proves anything, the responder after the initiator has."""

    def admit(peer: Identity, uid: bytes) -> Refusal:
        assert peer in {NEAR, FAR}
        assert uid == CHANNEL
        return code

    near = Initiator(NEAR, CHANNEL, KEY, admit=admit)
    assert [error.code for error in exchange(near, responder())] == [word_of(code)] * 2
    far = Responder(FAR, lambda _: KEY, admit=admit)
    assert [error.code for error in exchange(initiator(), far)] == [word_of(code)] * 2


def test_a_driver_may_refuse_before_anything_was_said() -> None:
    """A node with too many connections does not read what they say."""
    near, far = initiator(), responder()
    far.refuse(Refusal.BUSY)
    assert far.is_over
    with pytest.raises(RefusedError, match="too many") as caught:
        feed(near, far.bytes_to_send())
    assert caught.value.code == "busy"


@pytest.mark.parametrize(("lowest", "highest"), [(VERSION + 1, VERSION + 3), (0, VERSION - 1)])
def test_a_version_that_is_not_spoken_is_refused(lowest: int, highest: int) -> None:
    """Even if the rest of HELLO cannot be read."""
    hello = Hello(lowest, highest, CHANNEL, bytes(16), NEAR, bytes(32))
    for data in (write_words(hello), write_words(hello)[:12]):
        whole = data[:6] + len(data).to_bytes(2, "little") + data[8:]
        far = responder()
        with pytest.raises(RefusedError) as caught:
            feed(far, whole)
        assert caught.value.code == "version"
        assert isinstance(read_words(far.bytes_to_send()), Refused)


def test_a_later_version_is_talked_to_in_this_one() -> None:
    """The highest that both speak is chosen."""
    far = responder()
    feed(far, write_words(proven(Hello(VERSION, VERSION + 5, CHANNEL, bytes(16), NEAR, bytes(32)), KEY)))
    welcome = read_words(far.bytes_to_send())
    assert getattr(welcome, "version", None) == VERSION


def test_one_link_remains_when_both_start() -> None:
    """The attempt of the smaller node id counts; a link that is there always does."""
    small, large = bytes(16), bytes([1] * 16)
    assert duplicate(small, large, is_linked=False, is_proving=True) is Refusal.DUPLICATE
    assert duplicate(large, small, is_linked=False, is_proving=True) is None
    assert duplicate(small, large, is_linked=False, is_proving=False) is None
    assert duplicate(large, small, is_linked=True, is_proving=False) is Refusal.DUPLICATE


# ---------------------------------------------------------------------------------------------------
# Hostile


@pytest.mark.parametrize("step", range(4))
def test_every_truncation_is_a_lost_connection(step: int) -> None:
    """Half a message is waited for, until the connection ends."""
    data = handshake()[step]
    for size in range(len(data)):
        near, far = initiator(), responder()
        for i, words in enumerate(handshake()[:step]):
            feed(far if i % 2 == 0 else near, words)
        hearer: Handshake = far if step % 2 == 0 else near
        feed(hearer, data[:size])
        assert not hearer.is_over
        with pytest.raises(LinkError, match="closed the connection"):
            hearer.receive(b"")
        assert hearer.is_over


def relayed(step: int, position: int, mask: int) -> tuple[Handshake, Handshake]:
    """A handshake of which somebody on the way changes one byte of one message."""
    near, far = initiator(), responder()
    hearers: list[Handshake] = [far, near, far, near]
    for i, hearer in enumerate(hearers):
        data = bytearray(hearers[i - 1].bytes_to_send())
        if i == step:
            data[position] ^= mask
        with contextlib.suppress(WireError, LinkError):
            while data and not hearer.is_over:
                size = hearer.wanted_bytes
                hearer.receive(bytes(data[:size]))
                del data[:size]
    return near, far


@pytest.mark.parametrize("step", range(4))
def test_nobody_is_linked_over_words_that_were_changed(step: int) -> None:
    """Any bit of any message: a named error, or a side that waits until its time is up."""
    for position in range(len(handshake()[step])):
        for bit in range(8):
            near, far = relayed(step, position, 1 << bit)
            assert near.established is None
            assert far.established is None or step == 3  # READY comes when the responder has made up its mind


def test_words_that_were_not_changed_link_both() -> None:
    """What the test above changes is nothing else."""
    near, far = relayed(0, 0, 0)
    assert near.established is not None
    assert far.established is not None


def test_a_stranger_is_recognised_by_the_first_byte() -> None:
    """Whoever speaks another protocol is not waited for."""
    for data in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"EC\0"):
        with pytest.raises(WireError, match="begins with"):
            responder().receive(data[:3])


@pytest.mark.parametrize("step", range(4))
def test_no_size_makes_a_side_hold_more_than_the_limit(step: int) -> None:
    """A size is refused by the header; at the limit it is waited for."""
    data = handshake()[step]
    for size, is_fine in ((4095, True), (4096, True), (4097, False), (7, False), (0, False)):
        near, far = initiator(), responder()
        for i, words in enumerate(handshake()[:step]):
            feed(far if i % 2 == 0 else near, words)
        hearer: Handshake = far if step % 2 == 0 else near
        header = data[:6] + size.to_bytes(2, "little")
        if is_fine:
            hearer.receive(header)
            assert hearer.wanted_bytes == size - HEADER.size
        else:
            with pytest.raises(WireError, match="4096 bytes"):
                hearer.receive(header)


def test_messages_come_in_their_order() -> None:
    """A step that is not due is refused by its header."""
    _, welcome, proof, ready = handshake()
    for data in (welcome, proof, ready):
        with pytest.raises(WireError, match="HELLO"):
            responder().receive(data[: HEADER.size])


def test_a_peer_that_takes_too_little_is_refused() -> None:
    """Every message has to fit into a frame."""
    for size, is_fine in ((-1, False), (0, True), (1, True)):
        identity = replace(NEAR, max_payload=limits.MIN_PAYLOAD_BYTES + size)
        data = write_words(proven(Hello(1, 1, CHANNEL, bytes(16), identity, bytes(32)), KEY))
        if is_fine:
            feed(responder(), data)
        else:
            with pytest.raises(WireError, match="Expected a limit"):
                feed(responder(), data)


def test_a_key_is_long_enough_to_be_a_secret() -> None:
    """And no longer than the hash takes."""
    for size in (16, 17, 63, 64):
        initiator(bytes(size))
    for size in (0, 15, 65):
        with pytest.raises(LinkError, match="key"):
            initiator(bytes(size))


def test_what_an_identity_cannot_say_is_refused_where_it_is_made() -> None:
    """A name that is too long is the caller's fault."""
    identity = replace(NEAR, name="x" * 256)
    with pytest.raises(EncodeError, match="name"):
        Initiator(identity, CHANNEL, KEY, admit=lambda _, __: None)


def test_a_handshake_that_is_over_takes_nothing() -> None:
    """What follows READY belongs to the link."""
    near = initiator()
    with pytest.raises(LinkError, match="at most 8"):
        near.receive(bytes(9))
    far = responder()
    far.refuse(Refusal.CLOSING)
    for data in (b"x", b""):
        with pytest.raises(LinkError, match="at most 0"):
            far.receive(data)


def test_a_refusal_in_unprintable_words_is_shown_escaped() -> None:
    """Nobody writes into a log of somebody else's."""
    with pytest.raises(RefusedError) as caught:
        feed(initiator(), write_words(Refused(77, "\x1b[31m")))
    assert "\x1b" not in str(caught.value)
    assert caught.value.code == "77"
