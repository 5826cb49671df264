"""What is kept in memory: by a conversion, by a class's code, by an event, and by nothing else."""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.codec.messages import message_codecs
from bench.codec.our_messages import OURS, message
from bench.codec.ours import ours, particles
from bench.codec.peer import Slots
from bench.codec.peers import peers
from bench.convert.senders import stranger
from bench.private_cache import private_cache
from bench.report import Row
from bench.workload import Message, Particle, particle
from echo_core.codegen.conversion import Conversion

CALLS = 100_000


def measure(*, quick: bool) -> Iterator[Row]:
    """Compiled code from a cache of its own; events by what Python's allocator has given out."""
    with private_cache():
        yield live_conversions(50 if quick else 200)
        yield class_codes(20 if quick else 100)
    yield from _held()
    calls = CALLS // 10 if quick else CALLS
    for what, call in everyday_calls().items():
        grown = growth_kib(call, calls)
        yield Row(what, grown, 64, "KiB", group=f"growth over {calls} times encode and decode")


def live_conversions(count: int) -> Row:
    """Resident memory for each."""
    pairs = [stranger(Particle, 10_000 + i) for i in range(count + 5)]  # classes and formats are not counted
    warm = [Conversion(*pair) for pair in pairs[:5]]
    for conversion in warm:
        conversion.compile()
    before = resident_kib()
    live = [Conversion(*pair) for pair in pairs[5:]]
    for conversion in live:
        conversion.compile()
    data = echo.encoder(Particle, abi="s390x")(particle())
    assert all(len(conversion.call(data + bytes(8))) == 96 for conversion in live)
    return Row(f"memory for each of {count} live conversions", (resident_kib() - before) / count, 64, "KiB")


def class_codes(count: int) -> Row:
    """Resident memory for the code that reads and makes instances, of classes that are there."""
    fields = [(name, Particle.__annotations__[name]) for name in Particle.__annotations__]
    classes = [dataclasses.make_dataclass("Particle", fields, slots=True) for _ in range(count + 5)]
    for cls in classes:
        assert echo.format_of(cls).size_bytes == 96
    warm: list[echo.Codec[Any]] = [echo.codec(cls, tier="compiled") for cls in classes[:5]]
    before = resident_kib()
    live: list[echo.Codec[Any]] = [echo.codec(cls, tier="compiled") for cls in classes[5:]]
    kib = (resident_kib() - before) / count
    for codec in (*warm, *live):
        data = bytes(codec.format.size_bytes)
        assert codec.encode(codec.decode(data)) == data
    return Row(f"memory for the code and codec of each of {count} classes", kib, None, "KiB")


def _held() -> Iterator[Row]:
    """Bytes for an event that was decoded and is kept, its values and its share of a list included."""
    group = "memory for each particle of a decoded list of 1000"
    for peer in (*ours(), *peers()):
        task = peer.tasks(particles())["decode 1000"]
        yield Row(
            peer.name, allocated_bytes(task.call, task.argument) / task.count, None, "bytes", group=group
        )
    group = "memory for a decoded message with variable parts"
    for codec in message_codecs():
        if codec.name != OURS[2]:  # it decodes as the first does
            data = codec.encode(codec.made(message()))
            yield Row(codec.name, allocated_bytes(codec.decode, data), None, "bytes", group=group)


def allocated_bytes(call: Callable[[Any], object], argument: Any) -> int:
    """What a call's result holds on to."""
    kept = [call(argument)]  # whatever is made once is made by now
    kept.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept.append(call(argument))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def everyday_calls() -> dict[str, Callable[[], object]]:
    """Encoding and decoding, for every kind of class, and a conversion."""
    calls: dict[str, Callable[[], object]] = {
        peer.name: _round_trip(*peer.one, peer.made(particle())) for peer in ours() if peer.one
    }
    for codec in message_codecs():
        if codec.name in OURS:
            name = f"variable parts, {codec.name}"
            calls[name] = _round_trip(codec.encode, codec.decode, codec.made(message()))
    foreign = echo.encoder(Particle, abi="s390x")(particle())
    for cls in (Slots, Particle):
        decode = echo.decoder(cls, sender=echo.format_of(Particle, abi="s390x"), tier="compiled")
        name = "@echo.event" if cls is Particle else "dataclass"
        calls[f"{name}, big-endian sender"] = _decoding(decode, foreign)
    message_ = echo.encoder(Message, abi="s390x")(message())
    convert = echo.converter(echo.format_of(Message, abi="s390x"), echo.format_of(Message), tier="compiled")
    return calls | {"converter, variable parts": _decoding(convert, message_)}


def _round_trip(
    encode: Callable[[Any], Any], decode: Callable[[Any], Any], event: Any
) -> Callable[[], object]:
    return lambda: decode(encode(event))


def _decoding(decode: Callable[[Any], Any], data: bytes) -> Callable[[], object]:
    return lambda: decode(data)


def growth_kib(call: Callable[[], object], calls: int) -> int:
    """How much more is resident after so many calls whose results nobody keeps."""
    for _ in range(calls // 10):
        call()
    gc.collect()
    before = resident_kib()
    for _ in range(calls):
        call()
    gc.collect()
    return resident_kib() - before


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
