"""One message of each kind, one handshake and one session, the same in every run."""

from __future__ import annotations

from echo_core.transports.handshake.exchange import Established, Handshake, Initiator, Responder
from echo_core.transports.handshake.proofs import Role
from echo_core.transports.handshake.words import Feature, Identity
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import ChannelOnLink, Declaration, Heard, OwnStream, PeerStream
from echo_core.transports.protocol.messages import Message, Standing

CHANNEL = bytes(range(16))
KEY = bytes(range(100, 116))
OTHER_KEY = bytes(range(200, 216))
SECRET = bytes(range(32))


def word(number: int) -> bytes:
    """An int as a parameter's value."""
    return number.to_bytes(8, "little", signed=True)


MESSAGES: list[Message] = [
    messages.Loan(64, 3, 96_000),
    messages.Gap(64, 17),
    messages.Join(2, CHANNEL, bytes(range(32))),
    messages.Joined(2, bytes(range(32, 64))),
    messages.Refused(2, messages.Refusal.WRONG_KEY, "the key is not that of the channel"),
    messages.Declared(2, "particles", (0, 1)),
    messages.Leave(2),
    messages.Member(
        2, bytes(range(16, 32)), 7, 3, b"h" * 16, "far", ("tcp://127.0.0.1:4711", "unix:@echo-1")
    ),
    messages.Format(0, b"metadata"),
    messages.Source(64, 2, 0, 9, bytes(range(32, 48)), "läser", times=True, keys=4, per="id"),
    messages.Attach(64, 2, 5, 65536, 1 << 24),
    messages.Started(64, 3, 2**40),
    messages.Closed(64),
    messages.Released(64),
    messages.Dropped(64, 5),
    messages.Unreachable(64, "x: int64 is not in the sender's format"),
    messages.Flush(7),
    messages.Flushed(7),
    messages.Bye(messages.Farewell.CLOSING, "closing"),
    messages.Credit(64, 5, 500, 70000, 1 << 25),
    messages.Ping(),
    messages.Derive(2, bytes(range(48, 64)), "particles: hot", b"a tree"),
    messages.Adjust(2, bytes(range(64, 80)), 7, bytes(range(16, 32)), b"\x08\0\0\0\0\0\0\0\0\0t@"),
    messages.Judged(64, 7, bytes(range(16, 32)), 17, 300),
    messages.Parameter(
        64, 2, is_least=True, default=word(64), low=word(1), high=word(1024), name="resolution", choices=()
    ),
    messages.Request(64, is_asked=True, number=3, value=word(128), name="resolution"),
    messages.Requested(64, 3),
    messages.Underivable(2, bytes(range(32, 48)), "läser", "`Particle.temp`: the sender has no such field"),
    messages.Ask(64, 4, 1000),
    messages.Ack(64, messages.Level.HANDLED, 4, 900),
    messages.Missed(64, messages.Missing.FAILED, 1003, 1004),
    messages.Handled(64, 1006),
]

NEAR = Identity(
    node_id=bytes([1] * 16),
    process_id=1001,
    host_id=bytes([9] * 16),
    max_payload=2**26,
    features=Feature.SHARED_MEMORY,
    name="near",
    addresses=("tcp://127.0.0.1:4711", "unix:@echo-near"),
)
FAR = Identity(
    node_id=bytes([2] * 16), process_id=1002, host_id=bytes([9] * 16), max_payload=2**20, name="far"
)


def member(
    node_id: bytes,
    *addresses: str,
    standing: Standing = Standing.SENDS | Standing.TAKES,
    alias: int = 0,
    host_id: bytes = bytes(16),
    version: int = 1,
) -> messages.Member:
    """A member that everybody who has a source or a sink has to be linked to."""
    return messages.Member(alias, node_id, version, standing, host_id, "member", addresses)


def initiator(key: bytes = KEY) -> Initiator:
    return Initiator(NEAR, CHANNEL, key, admit=lambda _, __: None, nonce=bytes([3] * 16))


def responder(key: bytes | None = KEY) -> Responder:
    return Responder(FAR, lambda _: key, admit=lambda _, __: None, nonce=bytes([4] * 16))


def feed(handshake: Handshake, data: bytes) -> None:
    """All of it, as a driver does that reads no more than is wanted."""
    while data:
        piece, data = data[: handshake.wanted_bytes], data[handshake.wanted_bytes :]
        assert piece, "more than a handshake"
        handshake.receive(piece)


def handshake() -> list[bytes]:
    """What is said in one that goes well: HELLO, WELCOME, PROOF, READY."""
    near, far = initiator(), responder()
    said: list[bytes] = []
    sides: tuple[Handshake, Handshake] = (near, far)
    while near.established is None or far.established is None:
        speaker, hearer = sides
        said.append(speaker.bytes_to_send())
        feed(hearer, said[-1])
        sides = (hearer, speaker)
    return said


def established() -> tuple[Established, Established]:
    """What both sides of it have in the end."""
    near, far = initiator(), responder()
    for data in handshake():
        feed(far if data[4] in {1, 3} else near, data)
    assert near.established is not None
    assert far.established is not None
    return near.established, far.established


class Pair:
    """Two sides of one link, and what each has heard."""

    def __init__(self, near: Declaration | None = None, far: Declaration | None = None) -> None:
        self.declarations: list[dict[bytes, Declaration]] = [
            {CHANNEL: near or Declaration(KEY)},
            {CHANNEL: far or Declaration(KEY, "particles", (b"type",))},
        ]
        self.near = LinkProtocol(
            role=Role.INITIATOR, secret=SECRET, declaration_of=lambda i: self.declarations[0].get(i)
        )
        self.far = LinkProtocol(
            role=Role.RESPONDER, secret=SECRET, declaration_of=lambda i: self.declarations[1].get(i)
        )
        self.near_frames: list[tuple[int, bytes]] = []  # that near has received
        self.far_frames: list[tuple[int, bytes]] = []

    def exchange(self) -> tuple[list[Heard], list[Heard]]:
        """All that is to be sent arrives; what near and far have heard."""
        near: list[Heard] = []
        far: list[Heard] = []
        while True:
            to_far, to_near = self.near.take_frames(), self.far.take_frames()
            if not to_far and not to_near:
                return near, far
            for frame in to_far:
                far += self.far.receive(*frame)
            for frame in to_near:
                near += self.near.receive(*frame)
            self.far_frames += to_far
            self.near_frames += to_near

    def shared(self) -> Pair:
        """With the channel on it."""
        self.near.join(CHANNEL)
        self.exchange()
        return self

    @property
    def near_channel(self) -> ChannelOnLink:
        return on_link(self.near)

    @property
    def far_channel(self) -> ChannelOnLink:
        return on_link(self.far)

    def offer(self) -> tuple[OwnStream, PeerStream]:
        """A source that far has offered, as both sides have it."""
        own = self.far.offer(self.far_channel, b"type", "source", bytes(16))
        (heard,) = self.exchange()[0]
        assert isinstance(heard.about, PeerStream)
        return own, heard.about

    def attached(self) -> tuple[OwnStream, PeerStream]:
        """The same, with a sink at near, and started."""
        own, peers = self.offer()
        self.near.attach(peers, 1, (65536, 1 << 24))
        self.exchange()
        self.far.start(own, 0)
        self.exchange()
        return own, peers


def on_link(protocol: LinkProtocol, uid: bytes = CHANNEL) -> ChannelOnLink:
    channel = protocol.channel(uid)
    assert channel is not None
    return channel


def is_shared(protocol: LinkProtocol, uid: bytes = CHANNEL) -> bool:
    channel = protocol.channel(uid)
    return channel is not None and channel.is_shared


def said(heard: list[Heard]) -> list[Message]:
    """Without what it was about."""
    return [message for message, _ in heard]


def types_of(heard: list[Heard]) -> list[type[Message]]:
    return [type(message) for message, _ in heard]


def session() -> list[tuple[int, bytes]]:
    """What far has received in a session with a bit of everything; near is the initiator."""
    pair = Pair(near=Declaration(KEY, "particles", (b"type", b"other")))
    pair.shared()
    _, theirs = pair.attached()
    mine = pair.near.offer(pair.near_channel, b"type", "mine", bytes(16))
    pair.near.tell_member(pair.near_channel, member(bytes(16), "tcp://127.0.0.1:1"))
    offered, _ = pair.exchange()[1]
    assert isinstance(offered.about, PeerStream)
    pair.far.attach(offered.about, 3, (65536, 1 << 24))
    pair.exchange()
    pair.near.start(mine, 10)
    pair.near.report_dropped(theirs, 2)
    pair.near.report_unreachable(theirs, "no")
    pair.near.flush()
    pair.near.close(mine)
    pair.near.leave(pair.near_channel)
    pair.near.bye(1, "closing")
    pair.exchange()
    return pair.far_frames
