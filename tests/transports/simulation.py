"""Nodes that talk over simulated connections: seeded, with a virtual clock, checked against a small model.

A connection delivers bytes in pieces of any size and ends at any byte. A node here does what a real one does
with handshakes, messages and commands, in as few lines as can be; what it checks is stated where it asserts.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict

from echo_core.errors import EchoError, LinkError, RefusedError
from echo_core.transports import limits
from echo_core.transports.handshake.exchange import Handshake, Initiator, Responder, duplicate
from echo_core.transports.handshake.words import Identity
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import ChannelOnLink, Declaration, Heard, OwnStream, PeerStream
from echo_core.transports.protocol.messages import Farewell, Gap, Refusal, encode
from tests.transports.frames import scan, write_frame
from tests.transports.samples import is_shared

Named = tuple[bytes, str]  # a source: its channel, its name


def identifier(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class Endpoint:
    """One node's side of a connection: first a handshake, then a link."""

    def __init__(self, node: Node, handshake: Handshake | None, *, is_initiator: bool) -> None:
        self.node = node
        self.handshake = handshake
        self.is_initiator = is_initiator
        self.protocol: LinkProtocol | None = None
        self.other: Endpoint
        self.peer_id = b""
        self.proving = b""  # the node that own PROOF was sent to
        self.arriving = bytearray()  # on its way to this side
        self.is_cut = False  # nothing arrives behind that
        self.is_over = False
        self.is_mute = False  # takes nothing and says nothing
        self.deadline_s = node.world.now_s + limits.HANDSHAKE_TIMEOUT_S
        self.unscanned = b""
        self.budget = -1  # bytes that this side may still send; -1: any number
        self.sent = 0
        self.error: EchoError | None = None
        self.streams: dict[Named, OwnStream] = {}  # own sources
        self.attached: dict[OwnStream, int] = {}
        self.offered: dict[PeerStream, Named] = {}  # the peer's sources
        self.wanted: dict[PeerStream, int] = {}  # sinks that the peer was told of
        self.expected: dict[int, int] = {}  # by the number of a stream: the number of its next event
        self.ever_offered: set[int] = set()

    # --- bytes ---

    def write(self, data: bytes) -> None:
        if self.is_over or self.is_mute:
            return
        if 0 <= self.budget < self.sent + len(data):
            data = data[: self.budget - self.sent]
            self.sent += len(data)
            self.other.arriving += data
            self.cut()
            return
        self.sent += len(data)
        self.other.arriving += data

    def cut(self) -> None:
        """The connection breaks; what is under way still arrives."""
        self.is_cut = self.other.is_cut = True

    def arrive(self, size: int) -> None:
        """So many bytes arrive, or the end."""
        data = bytes(self.arriving[:size])
        del self.arriving[:size]
        if self.is_over or self.is_mute:
            return
        try:
            self._take(data)
        except EchoError as error:
            self.end(error)

    def _take(self, data: bytes) -> None:
        if not data:
            if self.handshake is not None:
                self.handshake.receive(b"")
            msg = "The peer closed the connection"
            raise LinkError(msg)
        while data and self.handshake is not None:
            piece, data = data[: self.handshake.wanted_bytes], data[self.handshake.wanted_bytes :]
            try:
                self.handshake.receive(piece)
            finally:
                self.write(self.handshake.bytes_to_send())
            self._look_at_handshake(self.handshake)
        if self.protocol is not None:
            frames, used = scan(self.unscanned + data, limits.MIN_PAYLOAD_BYTES)
            self.unscanned = (self.unscanned + data)[used:]
            for stream, payload in frames:
                if not self.is_over:
                    self._take_frame(self.protocol, stream, payload)

    def _look_at_handshake(self, handshake: Handshake) -> None:
        found = handshake.established
        if found is not None:
            self.handshake = None
            self.peer_id = found.peer.node_id
            self.protocol = LinkProtocol(
                role=found.role, secret=found.secret, declaration_of=self.node.declaration_of
            )
            self.node.linked(self)

    def _take_frame(self, protocol: LinkProtocol, stream: int, payload: bytes) -> None:
        if stream < limits.FIRST_STREAM:
            for heard in protocol.receive(stream, payload):
                self.node.hear(self, protocol, heard)
            self.pump()
            return
        assert stream in self.ever_offered, "events of a source that was never offered"
        if stream in self.expected:
            number = int.from_bytes(payload, "little")
            assert number == self.expected[stream], "an event is lost, doubled or out of order"
            self.expected[stream] += 1

    def pump(self) -> None:
        if self.protocol is not None:
            for kind, payload in self.protocol.take_frames():
                self.write(write_frame(kind, payload))

    def end(self, error: EchoError | None) -> None:
        if not self.is_over:
            self.error = error
            self.is_over = True
            self.cut()
            self.node.unlinked(self)


class Node:
    """What it has (channels, sources, sinks) and its links to others."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.identity = Identity(
            node_id=identifier(name), process_id=1, host_id=bytes(16), max_payload=2**20, name=name
        )
        self.channels: dict[bytes, Declaration] = {}
        self.sources: dict[Named, int] = {}  # with the number of the next event
        self.sinks: dict[bytes, int] = defaultdict(int)
        self.endpoints: list[Endpoint] = []
        self.links: dict[bytes, Endpoint] = {}

    def declaration_of(self, uid: bytes) -> Declaration | None:
        return self.channels.get(uid)

    def key_of(self, uid: bytes) -> bytes | None:
        declaration = self.channels.get(uid)
        return declaration.key if declaration else None

    def admit(self, endpoint: Endpoint, peer: Identity) -> Refusal | None:
        others = [e for e in self.endpoints if e is not endpoint and e.proving == peer.node_id]
        is_linked = peer.node_id in self.links
        if endpoint.is_initiator:
            refusal = duplicate(
                self.identity.node_id, peer.node_id, is_linked=is_linked or bool(others), is_proving=False
            )
            endpoint.proving = b"" if refusal else peer.node_id
            return refusal
        return duplicate(self.identity.node_id, peer.node_id, is_linked=is_linked, is_proving=bool(others))

    # --- links ---

    def linked(self, endpoint: Endpoint) -> None:
        assert endpoint.peer_id not in self.links, "two links to one node"
        endpoint.proving = b""
        self.links[endpoint.peer_id] = endpoint
        assert endpoint.protocol is not None
        for uid in self.channels:
            endpoint.protocol.join(uid)
        endpoint.pump()

    def unlinked(self, endpoint: Endpoint) -> None:
        self.endpoints.remove(endpoint)
        if self.links.get(endpoint.peer_id) is endpoint:
            del self.links[endpoint.peer_id]

    def hear(self, endpoint: Endpoint, protocol: LinkProtocol, heard: Heard) -> None:
        match heard:
            case (messages.Join() | messages.Joined(), ChannelOnLink() as channel):
                assert channel.uid in self.channels, "shared without having been joined"
                assert protocol.channel(channel.uid) is channel
                for named in self.sources:
                    if named[0] == channel.uid:
                        self._offer(endpoint, protocol, channel, named)
            case (messages.Leave(), ChannelOnLink() as channel):
                self._forget(endpoint, channel.uid)
            case (messages.Source(), PeerStream() as stream):
                assert stream.metadata == b"format " + stream.channel.uid
                assert stream not in endpoint.offered
                endpoint.offered[stream] = (stream.channel.uid, stream.name)
                endpoint.ever_offered.add(stream.number)
                endpoint.expected.pop(stream.number, None)
                self._attach(endpoint, stream, self.sinks[stream.channel.uid])
            case (messages.Attach(sinks=sinks), OwnStream() as own):
                named = next(n for n, s in endpoint.streams.items() if s is own)
                if sinks and not endpoint.attached.get(own):
                    protocol.start(own, self.sources[named])
                endpoint.attached[own] = sinks
            case (messages.Started(_, _, sequence), PeerStream() as stream):
                endpoint.expected[stream.number] = sequence
            case (messages.Gap(_, events), PeerStream() as stream):
                endpoint.expected[stream.number] += events
            case (messages.Closed(), PeerStream() as stream):
                self._forget_stream(endpoint, stream)
                if stream.is_open:  # else its channel was left
                    protocol.release(stream)
            case (messages.Flush(number), None):
                protocol.answer_flush(number)
            case (messages.Bye(), None):
                endpoint.end(None)
            case _:
                pass

    def _offer(
        self, endpoint: Endpoint, protocol: LinkProtocol, channel: ChannelOnLink, named: Named
    ) -> None:
        endpoint.streams[named] = protocol.offer(channel, b"format " + named[0], named[1], bytes(16))

    def _attach(self, endpoint: Endpoint, stream: PeerStream, sinks: int) -> None:
        if endpoint.wanted.get(stream, 0) != sinks and endpoint.protocol is not None:
            endpoint.wanted[stream] = sinks
            endpoint.protocol.attach(stream, sinks, (65536, 1 << 24))

    def _forget(self, endpoint: Endpoint, uid: bytes) -> None:
        for named, stream in list(endpoint.streams.items()):
            if named[0] == uid:
                del endpoint.streams[named]
                endpoint.attached.pop(stream, None)
        for theirs, named in list(endpoint.offered.items()):
            if named[0] == uid:
                self._forget_stream(endpoint, theirs)

    def _forget_stream(self, endpoint: Endpoint, stream: PeerStream) -> None:
        del endpoint.offered[stream]
        endpoint.wanted.pop(stream, None)
        endpoint.expected.pop(stream.number, None)

    def _each(self) -> list[tuple[Endpoint, LinkProtocol]]:
        return [(e, e.protocol) for e in self.links.values() if e.protocol is not None]

    # --- what its user does ---

    def open(self, uid: bytes, *, key: bytes = b"k" * 16) -> None:
        if uid not in self.channels:
            self.channels[uid] = Declaration(key, self.name, (b"format " + uid,))
            for endpoint, protocol in self._each():
                protocol.join(uid)
                endpoint.pump()

    def close(self, uid: bytes) -> None:
        if self.channels.pop(uid, None) is not None:
            self.sources = {named: n for named, n in self.sources.items() if named[0] != uid}
            self.sinks[uid] = 0
            for endpoint, protocol in self._each():
                self._forget(endpoint, uid)
                channel = protocol.channel(uid)
                if channel is not None:
                    protocol.leave(channel)
                endpoint.pump()

    def add_source(self, named: Named) -> None:
        if named[0] in self.channels and named not in self.sources:
            self.sources[named] = 0
            for endpoint, protocol in self._each():
                channel = protocol.channel(named[0])
                if channel is not None and channel.is_shared:
                    self._offer(endpoint, protocol, channel, named)
                    endpoint.pump()

    def close_source(self, named: Named) -> None:
        if self.sources.pop(named, None) is not None:
            for endpoint, protocol in self._each():
                stream = endpoint.streams.pop(named, None)
                if stream is not None:
                    endpoint.attached.pop(stream, None)
                    protocol.close(stream)
                    endpoint.pump()

    def set_sinks(self, uid: bytes, sinks: int) -> None:
        if uid in self.channels:
            self.sinks[uid] = sinks
            for endpoint, _ in self._each():
                for stream, named in endpoint.offered.items():
                    if named[0] == uid:
                        self._attach(endpoint, stream, sinks)
                endpoint.pump()

    def submit(self, named: Named, *, is_dropped: bool = False) -> None:
        number = self.sources.get(named)
        if number is None:
            return
        self.sources[named] = number + 1
        for endpoint, _ in self._each():
            stream = endpoint.streams.get(named)
            if stream is not None and endpoint.attached.get(stream):
                if is_dropped:
                    endpoint.write(write_frame(Gap.kind, encode(Gap(stream.number, 1))))
                else:
                    endpoint.write(write_frame(stream.number, number.to_bytes(8, "little")))

    def flush(self) -> None:
        for endpoint, protocol in self._each():
            protocol.flush()
            endpoint.pump()

    def say_bye(self) -> None:
        for endpoint, protocol in self._each():
            protocol.bye(Farewell.UNUSED, "unused")
            endpoint.pump()
            endpoint.end(None)


class World:
    """Nodes, the connections between them, and time."""

    def __init__(self, seed: int, names: str = "ab") -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.nodes = [Node(self, name) for name in names]
        self.endpoints: list[Endpoint] = []

    def connect(self, a: Node, b: Node, uid: bytes) -> Endpoint | None:
        """A new connection, over which `a` begins a handshake."""
        key = a.key_of(uid)
        if key is None:
            return None
        near = Endpoint(a, None, is_initiator=True)
        far = Endpoint(b, None, is_initiator=False)
        near.other, far.other = far, near
        near.handshake = Initiator(
            a.identity,
            uid,
            key,
            admit=lambda peer, _: a.admit(near, peer),
            nonce=self.random.randbytes(16),
        )
        far.handshake = Responder(
            b.identity, b.key_of, admit=lambda peer, _: b.admit(far, peer), nonce=self.random.randbytes(16)
        )
        a.endpoints.append(near)
        b.endpoints.append(far)
        self.endpoints += [near, far]
        near.write(near.handshake.bytes_to_send())
        return near

    def deliver(self) -> bool:
        """Something arrives somewhere; whether there was anything."""
        self.endpoints = [e for e in self.endpoints if not (e.is_over and e.other.is_over)]
        waiting = [e for e in self.endpoints if e.arriving or (e.is_cut and not e.is_over)]
        waiting = [e for e in waiting if not e.is_mute or e.arriving]
        if not waiting:
            return False
        endpoint = self.random.choice(waiting)
        endpoint.arrive(self.random.choice((1, 7, 50, 10_000)))
        return True

    def run_dry(self) -> None:
        """All arrives that is under way, and no handshake waits any longer than it may."""
        while True:
            while self.deliver():
                pass
            late = [e for e in self.endpoints if not e.is_over and (e.handshake is not None or e.is_mute)]
            if not late:
                return
            self.now_s = min(e.deadline_s for e in late)
            for endpoint in [e for e in late if e.deadline_s <= self.now_s]:
                endpoint.end(LinkError("time is up"))

    def settle(self) -> None:
        """Whoever has a channel in common gets linked."""
        for _ in range(4):
            self.run_dry()
            pairs = [
                (a, b, next(iter(common)))
                for a in self.nodes
                for b in self.nodes
                if a is not b
                and (common := a.channels.keys() & b.channels.keys())
                and b.identity.node_id not in a.links
            ]
            if not pairs:
                return
            for a, b, uid in pairs:  # both sides of a pair start
                self.connect(a, b, uid)
        msg = "two nodes find no way to have one link"
        raise AssertionError(msg)

    def check(self) -> None:
        """When nothing is under way, both sides of each link believe the same, and it is the truth."""
        for a in self.nodes:
            for b in self.nodes:
                if a is not b:
                    _check_pair(a, b)


def _check_pair(a: Node, b: Node) -> None:
    link = a.links.get(b.identity.node_id)
    back = b.links.get(a.identity.node_id)
    if link is None or back is None:
        assert link is back is None
        return
    assert link.other is back, "they are linked twice"
    assert link.protocol is not None
    for uid in a.channels.keys() | b.channels.keys():
        is_common = uid in a.channels and uid in b.channels
        assert is_shared(link.protocol, uid) == is_common
    common = a.channels.keys() & b.channels.keys()
    assert set(link.streams) == {named for named in a.sources if named[0] in common}
    theirs = {(named, stream.number): stream for stream, named in back.offered.items()}
    assert theirs.keys() == {(named, stream.number) for named, stream in link.streams.items()}
    for named, stream in link.streams.items():
        wanted = back.wanted.get(theirs[named, stream.number], 0)
        assert link.attached.get(stream, 0) == wanted == b.sinks[named[0]]
        if b.sinks[named[0]]:
            assert back.expected[stream.number] == a.sources[named], "an event is missing at the end"


def is_ordinary(error: EchoError | None) -> bool:
    """Whether an honest peer over a bad connection may see it: anything but a broken rule."""
    return error is None or isinstance(error, LinkError | RefusedError)
