"""One source and four sinks; and what a sink that stops, or one that is slow, does to the others."""

from __future__ import annotations

from bench.report import Row
from bench.transport.choice import chosen, ours
from bench.transport.forms import payload_bytes
from bench.transport.outcome import Options, Outcome, stream_table
from bench.transport.rounds import in_rounds, stream_of, stream_of_floor
from bench.transport.suites import overload
from bench.transport.suites.throughput import per_s

SINKS = 4
OURS = (
    "echo-tcp/dataclass",
    "echo-tcp/record",
    "echo-unix/dataclass",
    "echo-shm/dataclass",
    "echo-shm/record",
)
_PEERS = ("zmq-pubsub/msgspec", "zmq-pubsub/pickle", "zenoh/msgspec", "iceoryx2-event/msgspec", "tcp/msgspec")
_BAR = "zmq-pubsub/msgspec"
# Pairs have one other end.
_NO_FANOUT = ("zmq-pair", "zmq-pair-ipc")


def measure(options: Options) -> Outcome:
    """Messages of the source that every sink got, then the sinks that misbehave."""
    outcome = Outcome()
    peers = chosen(_PEERS, options, without=_NO_FANOUT)
    contenders = [stream_of(peer, 0, options.budget_s, receivers=SINKS) for peer in (*ours(OURS), *peers)]
    floor = stream_of_floor("tcp-gathered", 0, options.budget_s, receivers=SINKS)
    results = in_rounds([floor, *contenders], options.rounds)
    heading = f"one source, {SINKS} sinks, particles alone, two cores"
    outcome.tables.append(stream_table(heading, results, payload_bytes(0)))
    for name in OURS if _BAR in results.rounds_by_name else ():
        ratio = results.ratio(name, _BAR, per_s)
        outcome.rows.append(Row(f"{name} beside {_BAR}", ratio, 4.0, "x", at_least=True, group=heading))
    overload.measure(options, outcome)
    return outcome
