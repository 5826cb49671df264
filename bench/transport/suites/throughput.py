"""One way, as fast as it goes: messages from the first that was sent to the last that was received."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report import Row
from bench.transport.choice import chosen, ours
from bench.transport.forms import payload_bytes
from bench.transport.outcome import Options, Outcome, stream_table
from bench.transport.rounds import Results, Stream, in_rounds, stream_of, stream_of_floor

ALONE = (
    "echo-tcp/dataclass",
    "echo-tcp/record",
    "echo-unix/dataclass",
    "echo-unix/record",
    "echo-shm/dataclass",
    "echo-shm/record",
)
_ALONE_PEERS = (
    "zmq-pair-ipc/msgspec",
    "zmq-pair/msgspec",
    "zmq-pair-ipc/pickle",
    "zmq-pair/pickle",
    "zenoh/msgspec",
    "tcp/msgspec",
    "dds/typed",
    "iceoryx2-event/msgspec",
    "mpi/msgspec",
)
# The goal was set beside a floor that looks at the clock for every message, as its Python peers did.
_LOOKING_FLOOR = "floor tcp-gathered, clock every 1"
ARRAYS_TCP = ("echo-tcp/array", "echo-tcp/batch")
_ARRAYS_TCP_PEERS = ("tcp/numpy", "zmq-pair/numpy", "zenoh/numpy")
IN_PLACE = ("echo-shm/array", "echo-shm/batch", "echo-shm-spin/array")
_IN_PLACE_PEERS = ("iceoryx2-event/in-place", "iceoryx2-poll/in-place")
_PICKLES = ("zmq-pair-ipc/pickle", "zmq-pair/pickle")


def per_s(stream: Stream) -> float:
    return stream.per_s


def best(results: Results[Stream], names: list[str]) -> str | None:
    """Who sent most, of these."""
    there = [name for name in names if name in results.rounds_by_name]
    return max(there, key=lambda name: results.median(name, per_s), default=None)


def measure(options: Options) -> Outcome:
    """Objects alone, arrays over TCP, arrays in shared memory."""
    outcome = Outcome()
    _measure_alone(options, outcome)
    _measure_arrays(options, outcome)
    _measure_in_place(options, outcome)
    return outcome


def _measure_alone(options: Options, outcome: Outcome) -> None:
    peers = chosen(_ALONE_PEERS, options)
    floors = [
        stream_of_floor("tcp-gathered", 0, options.budget_s, looks_every=1),
        stream_of_floor("tcp-gathered", 0, options.budget_s),
        stream_of_floor("shm-futex", 0, options.budget_s),
    ]
    contenders = [stream_of(peer, 0, options.budget_s) for peer in (*ours(ALONE), *peers)]
    results = in_rounds([*floors, *contenders], options.rounds)
    heading = "one way, particles alone, two cores"
    outcome.tables.append(stream_table(heading, results, payload_bytes(0)))
    peer_names = [peer.name for peer in peers]
    for name in ALONE:
        outcome.rows += _rows_alone(name, results, peer_names, heading)
    outcome.rows += _added(results, heading)


def _rows_alone(name: str, results: Results[Stream], peers: list[str], heading: str) -> Iterator[Row]:
    """Over TCP there are goals."""
    is_dataclass, has_goal = name.endswith("dataclass"), name.startswith("echo-tcp")
    beside: list[tuple[str | None, float, str]] = [
        (best(results, peers), 5.0 if is_dataclass else 8.0, "the best peer, "),
        (best(results, [it for it in peers if it in _PICKLES]), 25.0, ""),
        (_LOOKING_FLOOR, 0.30, ""),
    ]
    for other, goal, prefix in beside:
        if other is not None:
            what = f"{name} beside {prefix}{other}"
            ratio = results.ratio(name, other, per_s)
            goal_here = goal if has_goal and (is_dataclass or prefix) else None
            yield Row(what, ratio, goal_here, "x", at_least=True, group=heading)


def _added(results: Results[Stream], heading: str) -> Iterator[Row]:
    for name in ("echo-tcp/dataclass", "echo-tcp/record"):
        added = results.rounds_by_name[name][-1].added_bytes
        if added is not None:
            yield Row(f"{name}: bytes added to each event", added, 16, "bytes", group=heading)


def _measure_arrays(options: Options, outcome: Outcome) -> None:
    n = 1000
    peers = chosen(_ARRAYS_TCP_PEERS, options)
    contenders = [stream_of(peer, n, options.budget_s) for peer in (*ours(ARRAYS_TCP), *peers)]
    floor = stream_of_floor("tcp", n, options.budget_s)
    results = in_rounds([floor, *contenders], options.rounds)
    heading = "one way, arrays of 1000 over TCP, two cores"
    outcome.tables.append(stream_table(heading, results, payload_bytes(n)))
    for name in results.rounds_by_name:
        if name != floor.name:
            goal = 0.95 if name in ARRAYS_TCP else None
            ratio = results.ratio(name, floor.name, per_s)
            outcome.rows.append(
                Row(f"{name} beside the floor", ratio, goal, "x", at_least=True, group=heading)
            )


def _measure_in_place(options: Options, outcome: Outcome) -> None:
    n = 1000
    peers = chosen(_IN_PLACE_PEERS, options)
    contenders = [stream_of(peer, n, options.budget_s) for peer in (*ours(IN_PLACE), *peers)]
    floors = [stream_of_floor(carrier, n, options.budget_s) for carrier in ("shm-spin", "shm-futex")]
    results = in_rounds([*floors, *contenders], options.rounds)
    heading = "one way, arrays of 1000 read in place, two cores"
    outcome.tables.append(stream_table(heading, results, payload_bytes(n)))
    other = best(results, [peer.name for peer in peers])
    for name in IN_PLACE:
        megabytes = results.median(name, per_s) * payload_bytes(n) / 1e6
        outcome.rows.append(Row(name, megabytes, None, "MB/s", at_least=True, group=heading))
        if other is not None:
            goal = 1.0 if name == "echo-shm/array" else None
            ratio = results.ratio(name, other, per_s)
            outcome.rows.append(Row(f"{name} beside {other}", ratio, goal, "x", at_least=True, group=heading))
