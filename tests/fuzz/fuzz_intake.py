"""Fuzzing what a peer sends: any bytes are frames for handlers, or end the link by a named error.

    make fuzz FUZZ=intake

The first byte of an input says what the rest is. With bit 0: rows of {stream, size, filling}, so that a few
bytes become large frames. With bit 1: it comes in pieces, to a thread that leads. What a loan's block holds
is the rest too. The streams have a sink of each kind; the oracle is a scanner in Python.
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

import echo_core as echo
from echo_core._c.links import BLOCK, Block, Delivery, IncomingStream, Link, Mapping, Pool, Queue, SocketWire
from echo_core.errors import LinkError, WireError
from tests.echo_core.channel_events import Plain, Reading2, Story
from tests.native.test_link_frames import frame_bytes

MAX_PAYLOAD = 1 << 17
BLOCK_BYTES = 4096
BLOCKS = 4
PIECE_BYTES = 37
MOST_BYTES = 1 << 18
KIND_LOAN, KIND_GAP = 1, 2

POOL = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
HOLDER = POOL.attach()
MAPPING = Mapping(POOL.fileno(), HOLDER)
DECODE_READING, DECODE_PLAIN, DECODE_STORY = (echo.decoder(cls) for cls in (Reading2, Plain, Story))
READING, PLAIN = (echo.format_of(cls).size_bytes for cls in (Reading2, Plain))


def expanded(data: bytes) -> bytes:
    """Frames as the rows say."""
    frames = bytearray()
    for stream, low, middle, high, filling in struct.iter_unpack("5B", data[: len(data) // 5 * 5]):
        size = low | middle << 8 | (high & 3) << 16
        if len(frames) + size > MOST_BYTES:
            break
        frames += struct.pack("<II", size, stream) + bytes([filling]) * size + bytes(-size % 8)
    return bytes(frames)


def counted(data: bytes) -> dict[int, int]:
    """The bytes that come to each stream, at most."""
    bytes_by_stream: dict[int, int] = {}
    at = 0
    while at + 8 <= len(data):
        size, stream = struct.unpack_from("<II", data, at)
        at += 8 + (size + 7) // 8 * 8
        if size > MAX_PAYLOAD or stream == 0 or at > len(data):
            break
        bytes_by_stream[stream] = bytes_by_stream.get(stream, 0) + size
    return bytes_by_stream


def bind_all(link: Link, queue: Queue, errors: list[BaseException]) -> dict[int, IncomingStream]:
    """A stream for each kind of sink; 70 has had one. A decoder's WireError is the link's."""
    kept: list[Any] = []

    def delivery(target: Any, decode: Any, record_size: int = 0, *, is_array: bool = False) -> Delivery:
        return Delivery(target, decode, errors.append, record_size=record_size, is_array=is_array)

    deliveries = {
        64: [delivery(queue, bytes)],
        65: [delivery(kept.append, DECODE_READING, READING)],
        66: [delivery(kept.append, memoryview, 24, is_array=True), delivery(queue, bytes, 24)],
        67: [delivery(kept.append, DECODE_PLAIN, PLAIN), delivery(queue, DECODE_PLAIN, PLAIN)],
        68: [delivery(kept.append, DECODE_STORY)],
        69: [delivery(queue, DECODE_STORY), delivery(kept.append, bytes)],
        70: [],
    }
    record_sizes = {65: READING, 66: 24, 67: PLAIN}
    incoming_by_stream = {
        stream: IncomingStream(record_size=record_sizes.get(stream, 0)) for stream in deliveries
    }
    for stream, incoming in incoming_by_stream.items():
        incoming.deliveries = tuple(deliveries[stream])
        link.bind(stream, incoming)
    link.unbind(70)
    return incoming_by_stream


def lend(data: bytes) -> Block:
    """What a loan may name."""
    block = POOL.loan(min(2 * BLOCK_BYTES, max(1, len(data))))
    assert block is not None
    memory = memoryview(block)
    memory[:] = data[: len(memory)].ljust(len(memory), b"\0")
    block.lend(HOLDER, 64)
    return block


def take(link: Link, queue: Queue, peer: socket.socket, sent: bytes, *, is_led: bool) -> None:
    """All of it, to the end."""
    pieces = [sent[at : at + PIECE_BYTES] for at in range(0, min(len(sent), 2000), PIECE_BYTES)]
    if is_led:
        queue.lead(link)
        link.follow(queue)
        for piece in pieces:
            peer.sendall(piece)
            while queue.get(0) is not None:
                pass
        sent = sent[len(pieces) * PIECE_BYTES :]
    peer.sendall(sent)
    peer.shutdown(socket.SHUT_WR)
    while is_led and queue.get(0) is not None:
        pass
    link.run()  # a control frame is left to it, with all that follows


def one(data: bytes) -> None:
    """One input; what was delivered is no more than what was sent."""
    what, rest = data[:1], data[1:]
    is_expanded, is_led = bool(what and what[0] & 1), bool(what and what[0] & 2)
    sent = expanded(rest) if is_expanded else rest
    end, peer = socket.socketpair()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MOST_BYTES)
    peer.setblocking(False)
    queue = Queue(max_events=1 << 30, max_bytes=1 << 40, policy=BLOCK, timeout_ns=-1)
    controls: list[tuple[int, bytes]] = []
    link = Link(
        SocketWire(end.detach()),
        lambda kind, payload: controls.append((kind, payload)),
        max_payload=MAX_PAYLOAD,
        control_bytes=1 << 16,
        delay_ns=100_000,
        stall_ns=1_000_000_000,
        mapping=MAPPING,
    )
    block = lend(rest)
    errors: list[BaseException] = []
    incoming_by_stream = bind_all(link, queue, errors)
    with peer:
        try:
            take(link, queue, peer, sent, is_led=is_led)
        except (WireError, LinkError, BrokenPipeError):
            assert not link.is_open
        link.shut()
    found = counted(sent)
    if KIND_LOAN not in found:
        assert all(incoming.bytes <= found.get(stream, 0) for stream, incoming in incoming_by_stream.items())
    assert all(kind < 64 and kind not in (KIND_LOAN, KIND_GAP) for kind, _ in controls)
    assert not errors
    for number in range(BLOCKS):
        POOL.take_back(HOLDER, struct.pack("<IIQ", 0, number, 0))
    del block


def seeds(folder: Path) -> None:
    """Frames as they should be, each by itself and all in a row."""
    records: dict[int, bytes] = {
        KIND_LOAN: struct.pack("<IIQ", 66, 0, 48),
        KIND_GAP: struct.pack("<IIQ", 64, 0, 3),
        9: b"message",
        64: b"event",
        65: echo.encoder(Reading2)(Reading2("tag", 0.5, 1)),
        66: bytes(24),
        67: echo.encoder(Plain)(Plain(1, 0.5)),
        68: echo.encoder(Story)(Story(1, "title", b"body", np.zeros(3, np.float32), ["a", "b"], "note")),
    }
    frames = {stream: frame_bytes(stream, record) for stream, record in records.items()}
    frames[67] += frame_bytes(67, 3 * records[67])
    for what in b"\0\2":
        for stream, frame in frames.items():
            folder.joinpath(f"{what}-{stream}").write_bytes(bytes([what]) + frame)
        folder.joinpath(f"{what}-all").write_bytes(bytes([what]) + b"".join(frames.values()))
    folder.joinpath("3-large").write_bytes(b"\3" + bytes((66, 0, 96, 0, 1)) * 3)


if __name__ == "__main__":
    seeds(Path(sys.argv[1]))
