"""What every codec under test has in common, ours and the others: the particle and four functions."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.workload import Particle

FIELDS = tuple(field.name for field in dataclasses.fields(Particle))
WHOLE = ("id", "cell", "kind", "flags", "owner")
SINGLE = ("vx", "vy", "vz", "temp")


def field_type(name: str) -> type[Any]:
    """The Python type of a field, which is all that most other codecs know of it."""
    return {"active": bool, "tag": str}.get(name) or (int if name in WHOLE else float)


MEMBERS: list[Any] = [(name, field_type(name)) for name in FIELDS]

# The particle as any dataclass library sees it.
Plain: Any = dataclasses.make_dataclass("Plain", MEMBERS, slots=True, namespace={"__module__": __name__})

# And with the event's own types, as a component would declare it.
Slots: Any = dataclasses.make_dataclass(
    "Slots", [(name, Particle.__annotations__[name]) for name in FIELDS], slots=True
)

values: Callable[[Any], tuple[Any, ...]] = operator.attrgetter(*FIELDS)  # of a particle of whatever class


def row(it: Any) -> tuple[Any, ...]:
    """The values of an instance of `Plain`: CPython reads slots that are written out three times faster."""
    return (
        it.id,
        it.x,
        it.y,
        it.z,
        it.vx,
        it.vy,
        it.vz,
        it.temp,
        it.cell,
        it.kind,
        it.flags,
        it.active,
        it.mass,
        it.charge,
        it.tag,
        it.owner,
    )


Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Task:
    """One call to be timed: `call(argument)` does `count` particles."""

    call: Function
    argument: Any
    count: int


@dataclass(frozen=True, slots=True)
class Peer:
    """Four functions, and how to make what they encode out of a particle.

    `one` is what encodes and decodes a particle alone; None where a codec is for lists only.
    """

    name: str
    made: Callable[[Particle], Any]
    one: tuple[Function, Function] | None
    many: tuple[Function, Function]

    def check(self, particles: list[Particle]) -> None:
        """Every value comes back, alone and in a list, and of the type that it had."""
        expected = [values(it) for it in particles]
        given = [self.made(particle) for particle in particles]
        encode_list, decode_list = self.many
        _agree(decode_list(encode_list(given)), expected)
        if self.one is not None:
            encode, decode = self.one
            _agree([decode(encode(it)) for it in given[:10]], expected[:10])

    def tasks(self, particles: list[Particle]) -> dict[str, Task]:
        """What there is to time, by operation."""
        given = [self.made(it) for it in particles]
        count = len(given)
        encode_list, decode_list = self.many
        tasks = {
            f"encode {count}": Task(encode_list, given, count),
            f"decode {count}": Task(decode_list, encode_list(given), count),
        }
        if self.one is not None:
            encode, decode = self.one
            tasks["encode"] = Task(encode, given[3], 1)
            tasks["decode"] = Task(decode, encode(given[3]), 1)
        return tasks


def _agree(found: list[Any], expected: list[tuple[Any, ...]]) -> None:
    rows = [values(it) for it in found]
    assert rows == expected
    assert [list(map(type, row)) for row in rows] == [list(map(type, row)) for row in expected]


def plain(particle: Particle) -> Any:
    """The same in a plain dataclass."""
    return Plain(*values(particle))
