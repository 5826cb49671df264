"""Records that other machines' compilers made, decoded here: not a byte of them was laid out by the product.

C initialisers fill structs, and what the compiler makes of them is taken from a section of its object file,
without running it. A record with variable parts is one struct: the fixed part, then each part, and slots are
filled with `offsetof` of their parts; so it is the compiler again that says where everything lies. Where qemu
is installed, programs also run that fill their structs as programs do.
"""

from __future__ import annotations

import math
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen.conversion import Conversion
from echo_core.codegen.machine.cache import default_cache, disable_cache, set_cache
from echo_core.codegen.plain.records import read
from echo_core.formats.abi import ABI_BY_NAME, NATIVE, Abi
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)
from tests.codegen import independent
from tests.codegen.pairs import INT32
from tests.formats.samples import Odd, Particle
from tests.formats.strategies import comparable
from tests.formats.test_compilers import PROLOGUE, compiler_for, run, section

pytestmark = pytest.mark.compilers


@pytest.fixture(autouse=True)
def fixture_no_cache() -> Iterator[None]:
    """Code is compiled here, whatever other runs have kept."""
    before = default_cache()
    disable_cache()
    yield
    set_cache(before)


RECORDS = 30  # random ones for each machine
ABIS = pytest.mark.parametrize("abi", ABI_BY_NAME.values(), ids=lambda abi: abi.name)

# ---------------------------------------------------------------------------------------------------
# Values, as C writes them


def integer(value: int) -> str:
    """A literal of 64 bits; the least number has none of its own."""
    if value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    return f"{value}ULL" if value >= 2**63 else f"{value}LL"


def real(value: float, suffix: str = "") -> str:
    """A hexadecimal literal, exact."""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return value.hex() + suffix


def braces(items: list[str]) -> str:
    """An initialiser of several."""
    return "{ " + ", ".join(items) + " }"


def characters(data: bytes) -> str:
    """Bytes, whatever they are; `char` may be signed."""
    return braces([f"(char){byte}" for byte in data])


@dataclass(frozen=True)
class Member:
    """A member of a struct: its C with `{}` for the name, what initialises it, and what both mean.

    `theirs` is its type on the foreign machine, `ours` here.
    """

    text: str
    value: str
    plain: Any
    theirs: Type
    ours: Type


@dataclass(frozen=True)
class Part:
    """A variable part: its element's C type, its elements, and their natural alignment."""

    text: str
    values: list[str]
    alignment: int


@dataclass
class Program:
    """Structs, and one object of each: what the tests compile."""

    abi: Abi
    dice: random.Random
    text: list[str] = field(default_factory=lambda: [PROLOGUE, "#define AT __builtin_offsetof"])
    senders: list[Format] = field(default_factory=list[Format])
    receivers: list[Format] = field(default_factory=list[Format])
    plains: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _parts: list[Part] = field(default_factory=list[Part])
    _cells: int = 0

    # -----------------------------------------------------------------------
    # Members

    def scalar(self) -> Member:
        """A number, or characters, of any kind."""
        long = Scalar(Kind.INT, self.abi.long_size), Scalar(Kind.INT, NATIVE.long_size)
        if self.dice.randrange(12) == 0:
            number = self._integer(self.abi.long_size, signed=True)
            return Member("long {}", integer(number), number, *long)
        text, type_ = self.dice.choice(SCALARS)
        value, plain = self._value(type_)
        return Member(text, value, plain, type_, type_)

    def _value(self, type_: Type) -> tuple[str, Any]:
        match type_:
            case Enumeration():
                number = self.dice.choice([number for _, number in type_.members])
                return integer(number), number
            case Scalar(kind=Kind.BOOL):
                number = self.dice.randrange(2)
                return str(number), bool(number)
            case Scalar(kind=Kind.FLOAT):
                value = self._float(type_.size)
                return real(value, "f" if type_.size == 4 else ""), value
            case Scalar(kind=Kind.COMPLEX):
                suffix = "f" if type_.size == 8 else ""
                parts = [self._float(type_.size // 2) for _ in range(2)]
                texts = ", ".join(real(part, suffix) for part in parts)
                return f"__builtin_complex({texts})", complex(*parts)
            case Scalar(kind=Kind.CHARS):
                text = self._text().encode()[: type_.size].decode(errors="ignore")
                return characters(text.encode().ljust(type_.size, b"\0")), text
            case Scalar(kind=Kind.UUID | Kind.BYTES):
                data = self.dice.randbytes(type_.size)
                return braces([str(byte) for byte in data]), data
            case Scalar():
                number = self._integer(type_.size, signed=type_.kind is not Kind.UINT)
                return integer(number), number
            case _:
                raise AssertionError(type_)

    def _integer(self, size: int, *, signed: bool) -> int:
        low, high = (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) if signed else (0, 2 ** (8 * size) - 1)
        numbers: list[int] = [low, high, 0, 1, high // 3, self.dice.randint(low, high)]
        return self.dice.choice(numbers)

    def _float(self, size: int) -> float:
        code, edges = (
            ("<f", [1e-45, 3.4028234663852886e38]) if size == 4 else ("<d", [5e-324, 1.7976931348623157e308])
        )
        numbers = [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, *edges, self.dice.uniform(-1e6, 1e6)]
        number: float = self.dice.choice(numbers)
        rounded: float = struct.unpack(code, struct.pack(code, number))[0]
        return rounded

    def _text(self) -> str:
        return "".join(self.dice.choices("abc äé数😀", k=self.dice.randrange(6)))

    def array(self) -> Member:
        """Numbers or characters side by side."""
        text, type_ = self.dice.choice(SCALARS)
        shape = tuple(self.dice.randint(1, 3) for _ in range(self.dice.randint(1, 2)))
        found = [self._value(type_) for _ in range(math.prod(shape))]
        values, plain = [value for value, _ in found], [plain for _, plain in found]
        for n in reversed(shape[1:]):
            values = [braces(values[i : i + n]) for i in range(0, len(values), n)]
            plain = [plain[i : i + n] for i in range(0, len(plain), n)]
        dimensions = "".join(f"[{n}]" for n in shape)
        array = StaticArray(type_, shape)
        return Member(text.replace("{}", "{}" + dimensions), braces(values), plain, array, array)

    def optional(self) -> Member:
        """A value and a byte that says whether it is there."""
        text, type_ = self.dice.choice(SCALARS)
        value, plain = self._value(type_)
        optional = Nullable(type_)
        padding = optional.size - type_.size - 1
        rest = f" char c[{padding}];" if padding else ""
        there = self.dice.randrange(2)
        return Member(
            f"struct {{ {text.replace('{}', 'v')}; bool b;{rest} }} {{}}",
            f"{{ {value}, {there} }}",
            plain if there else None,
            optional,
            optional,
        )

    def nested(self) -> Member:
        """A struct in a struct, or an array of them."""
        count = self.dice.choice((1, 1, 2, 3))
        text, values, plains, theirs, ours = self._cell(count, with_text=False)
        if count == 1:
            return Member(f"{text} {{}}", values[0], plains[0], theirs, ours)
        arrays = StaticArray(theirs, (count,)), StaticArray(ours, (count,))
        return Member(f"{text} {{}}[{count}]", braces(values), plains, *arrays)

    def _cell(
        self, count: int, *, with_text: bool
    ) -> tuple[str, list[str], list[dict[str, Any]], Type, Type]:
        """So many values of a struct of its own; the texts in them come as parts behind all of them."""
        self._cells += 1
        name = f"Cell{self._cells}"
        kinds = [self.dice.choice(SCALARS) for _ in range(self.dice.randint(1, 4))]
        texts = [text.replace("{}", f"m{i}") for i, (text, _) in enumerate(kinds)]
        values: list[str] = []
        plains: list[dict[str, Any]] = []
        for _ in range(count):
            found = [self._value(type_) for _, type_ in kinds]
            value, plain = [value for value, _ in found], {f"m{i}": p for i, (_, p) in enumerate(found)}
            if with_text:
                member = self.text_slot()
                value.append(member.value)
                plain["t"] = member.plain
            values.append(braces(value))
            plains.append(plain)
        fields = [Field(f"m{i}", type_) for i, (_, type_) in enumerate(kinds)]
        members = "; ".join([*texts, *(["char *t"] if with_text else [])])
        self.text.append(f"struct {name} {{ {members}; }};")
        theirs, ours = (
            place(name, [*fields, *([Field("t", Text(abi.pointer_size))] if with_text else [])], abi)
            for abi in (self.abi, NATIVE)
        )
        return f"struct {name}", values, plains, theirs, ours

    # -----------------------------------------------------------------------
    # Members with parts

    def _part(self, text: str, values: list[str], alignment: int) -> str:
        """A pointer to a new part."""
        self._parts.append(Part(text, values, alignment))
        return f"(void *)AT(struct W{len(self.plains)}, p{len(self._parts) - 1})"

    def text_slot(self) -> Member:
        """A pointer to characters, or no pointer."""
        types: list[Type] = [Text(abi.pointer_size) for abi in (self.abi, NATIVE)]
        text = self._text()
        data = [str(byte) for byte in text.encode() + b"\0"]
        return Member("char *{}", self._part("unsigned char {}", data, 1), text, *types)

    def optional_text(self) -> Member:
        """The same, and null is None."""
        if self.dice.randrange(2):
            member = self.text_slot()
        else:
            types: list[Type] = [Text(abi.pointer_size) for abi in (self.abi, NATIVE)]
            member = Member("char *{}", "0", None, *types)
        return Member(member.text, member.value, member.plain, Nullable(member.theirs), Nullable(member.ours))

    def blob(self) -> Member:
        """A pointer and a size."""
        data = self.dice.randbytes(self.dice.randrange(5))
        at = self._part("unsigned char {}", [str(byte) for byte in data], 1)
        types: list[Type] = [Blob(abi.pointer_size) for abi in (self.abi, NATIVE)]
        return Member("struct { void *p; size_t n; } {}", f"{{ {at}, {len(data)} }}", data, *types)

    def numbers(self) -> Member:
        """A pointer and a length, to numbers."""
        text, type_ = self.dice.choice(NUMBERS)
        found = [self._value(type_) for _ in range(self.dice.randrange(5))]
        at = self._part(text, [value for value, _ in found], type_.alignment)
        types: list[Type] = [Sequence(type_, (None,), abi.pointer_size) for abi in (self.abi, NATIVE)]
        value = f"{{ {at}, {{ {len(found)} }} }}"
        return Member("struct { void *p; size_t n[1]; } {}", value, [plain for _, plain in found], *types)

    def counted(self, count: int) -> list[Member]:
        """A pointer, its length being in a field before it: to structs with pointers of their own."""
        at_parts = len(self._parts)
        place_of_cells = self._part("", [], 1)
        text, values, plains, theirs, ours = self._cell(count, with_text=True)
        self._parts[at_parts] = Part(f"{text} {{}}", values, theirs.alignment)
        types: list[Type] = [
            Sequence(cell, ("n",), abi.pointer_size) for cell, abi in ((theirs, self.abi), (ours, NATIVE))
        ]
        return [
            Member("int {}", str(count), count, INT32, INT32),
            Member(f"{text} *{{}}", place_of_cells, plains, *types),
        ]

    # -----------------------------------------------------------------------
    # Records

    def add_random(self) -> None:
        """One more struct with an object of it."""
        self._parts = []
        simple: list[Callable[[], Member]] = [
            self.scalar,
            self.scalar,
            self.scalar,
            self.array,
            self.optional,
        ]
        slots: list[Callable[[], Member]] = [self.text_slot, self.optional_text, self.blob, self.numbers]
        choices = [*simple, self.nested, *(slots if self.dice.randrange(3) else [])]
        members = [self.dice.choice(choices)() for _ in range(self.dice.randint(1, 8))]
        named = {f"m{i}": member for i, member in enumerate(members)}
        if self.dice.randrange(2):
            count, cells = self.counted(self.dice.randrange(4))
            named = {"n": count, **named, "cells": cells}
        self.add(named)

    def add(self, members: dict[str, Member]) -> None:
        """A struct of these members, and the one object."""
        i = len(self.plains)
        body = " ".join(f"{member.text.replace('{}', name)};" for name, member in members.items())
        wrapped = [f"struct R{i} fixed;", *(_declared(j, part) for j, part in enumerate(self._parts))]
        values = [braces([m.value for m in members.values()]), *(braces(part.values) for part in self._parts)]
        self.text += [
            f"struct R{i} {{ {body} }};",
            f"struct __attribute__((packed)) W{i} {{ {' '.join(wrapped)} char end[1]; }};",
            f'const struct W{i} object{i} __attribute__((section(".echo{i}"))) = {braces(values)};',
        ]
        for formats, abi, which in ((self.senders, self.abi, "theirs"), (self.receivers, NATIVE, "ours")):
            fields = [Field(name, getattr(member, which)) for name, member in members.items()]
            formats.append(Format(Layout(abi.byte_order, abi.pointer_size, place("R", fields, abi))))
        self.plains.append({name: member.plain for name, member in members.items()})

    def compiled(self, command: tuple[str, ...], folder: Path) -> Iterator[bytes]:
        """The compiler's bytes of each object, up to the end of its last part."""
        ends = ", ".join(f"AT(struct W{i}, end)" for i in range(len(self.plains)))
        numbers = f'const uint32_t numbers[] __attribute__((section(".echo_numbers"))) = {{ {ends} }};'
        source, target = folder / "objects.c", folder / "objects.o"
        source.write_text("\n".join([*self.text, numbers]))
        run([*command, "-std=gnu11", "-ffreestanding", "-w", "-c", "-o", str(target), str(source)])
        data = target.read_bytes()
        order, held = section(data, b".echo_numbers")
        for i, (end,) in enumerate(struct.iter_unpack(f"{order}I", held)):
            yield section(data, b".echo%d" % i)[1][:end]


def _declared(index: int, part: Part) -> str:
    name = f"p{index}[{len(part.values)}]"
    aligned = f" __attribute__((aligned({part.alignment})))" if part.alignment > 1 else ""
    return f"{part.text.replace('{}', name)}{aligned};"


COLOR = Enumeration("color", 4, (("RED", 0), ("GREEN", 5)))
NUMBERS: tuple[tuple[str, Scalar], ...] = (
    ("int8_t {}", Scalar(Kind.INT, 1)),
    ("short {}", Scalar(Kind.INT, 2)),
    ("int {}", Scalar(Kind.INT, 4)),
    ("long long {}", Scalar(Kind.INT, 8)),
    ("unsigned char {}", Scalar(Kind.UINT, 1)),
    ("uint16_t {}", Scalar(Kind.UINT, 2)),
    ("uint32_t {}", Scalar(Kind.UINT, 4)),
    ("uint64_t {}", Scalar(Kind.UINT, 8)),
    ("float {}", Scalar(Kind.FLOAT, 4)),
    ("double {}", Scalar(Kind.FLOAT, 8)),
)
SCALARS: tuple[tuple[str, Scalar | Enumeration], ...] = (
    *NUMBERS,
    ("bool {}", Scalar(Kind.BOOL, 1)),
    ("float _Complex {}", Scalar(Kind.COMPLEX, 8)),
    ("double _Complex {}", Scalar(Kind.COMPLEX, 16)),
    ("int64_t {}", Scalar(Kind.TIMESTAMP, 8)),
    ("unsigned char {}[16]", Scalar(Kind.UUID, 16)),
    ("char {}[7]", Scalar(Kind.CHARS, 7)),
    ("unsigned char {}[5]", Scalar(Kind.BYTES, 5)),
    ("enum color {}", COLOR),
)


def assert_decodes(sender: Format, receiver: Format, data: bytes, plain: dict[str, Any]) -> None:
    """The foreign bytes are the values, as they are and converted, interpreted and compiled."""
    wanted = comparable(plain)
    assert comparable(read(data, sender.layout)) == wanted
    conversion = Conversion(sender, receiver)
    interpreted = conversion.call(data)
    conversion.compile()
    assert conversion.call(data) == interpreted
    assert (conversion.routine.interpreted, conversion.routine.compiled) == (1, 1)
    found = independent.decode(interpreted, independent.Description(receiver.metadata))
    assert comparable(found) == wanted


@ABIS
def test_random_structs_of_a_foreign_compiler_are_decoded(abi: Abi, tmp_path: Path) -> None:
    """Every kind of member and slot: each value is the one that the initialiser gives."""
    command = compiler_for(abi)
    program = Program(abi, random.Random(f"foreign {abi.name}"))
    for _ in range(RECORDS):
        program.add_random()
    objects = list(program.compiled(command, tmp_path))
    assert len(objects) == RECORDS
    found = zip(program.senders, program.receivers, objects, program.plains, strict=True)
    for sender, receiver, data, plain in found:
        assert_decodes(sender, receiver, data, plain)


PARTICLE = Particle(
    -(2**40),
    0.1,
    -2.5,
    1e300,
    0.5,
    -1.5,
    3.25,
    300.0,
    -70000,
    -300,
    200,
    True,
    1.67e-27,
    -1.6e-19,
    "grün",
    2**31,
)
ODD = Odd(-5, -(2**31), 0.1, 2**40, -300, "größer", 3, np.array([1.5, -2.5, 1e-40], np.float32))

STRUCTS = """
struct Particle {
    int64_t id; double x, y, z; float vx, vy, vz, temp;
    int32_t cell; int16_t kind; uint8_t flags; bool active; double mass, charge; char tag[16]; uint32_t owner;
};
struct Odd {
    int8_t c; long l; double d; int64_t ll; int16_t s; char *text; int32_t n; float *values;
};
struct __attribute__((packed)) Whole {
    struct Odd fixed; char text[9]; float values[3] __attribute__((aligned(4))); char end[1];
};
"""

INITIALISED = """
const struct Particle particle __attribute__((section(".echo0"))) = {
    -1099511627776LL, 0.1, -2.5, 1e300, 0.5f, -1.5f, 3.25f, 300.0f, -70000, -300, 200, 1,
    1.67e-27, -1.6e-19, "gr\\xc3\\xbcn", 2147483648u
};
const struct Whole odd __attribute__((section(".echo1"))) = {
    { -5, -2147483647L - 1, 0.1, 1099511627776LL, -300, (char *)__builtin_offsetof(struct Whole, text), 3,
      (float *)__builtin_offsetof(struct Whole, values) },
    "gr\\xc3\\xb6\\xc3\\x9f" "er", { 1.5f, -2.5f, 1e-40f }
};
const uint32_t numbers[] __attribute__((section(".echo_numbers"))) = {
    sizeof(struct Particle), __builtin_offsetof(struct Whole, end)
};
"""


def assert_events(abi: Abi, particle: bytes, odd: bytes) -> None:
    """Both records are both events, whichever way they are decoded."""
    for event, data in ((PARTICLE, particle), (ODD, odd)):
        cls: type[Any] = type(event)
        sender = echo.format_of(cls, abi=abi.name)
        assert echo.encoder(cls, abi=abi.name)(event) == data
        conversion = Conversion(sender, echo.format_of(cls))
        assert conversion.call(data) == echo.encoder(cls)(event)
        conversion.compile()
        assert conversion.call(data) == echo.encoder(cls)(event)
        decoded = echo.decoder(cls, sender=sender)(data)
        for name in (found.name for found in sender.fields):
            assert np.array_equal(getattr(decoded, name), getattr(event, name))


@ABIS
def test_particle_and_odd_of_a_foreign_compiler_are_decoded(abi: Abi, tmp_path: Path) -> None:
    """The goals' events, from every machine; to the byte what our encoder for that machine writes."""
    command = compiler_for(abi)
    source, target = tmp_path / "events.c", tmp_path / "events.o"
    source.write_text(PROLOGUE + STRUCTS + INITIALISED)
    run([*command, "-std=gnu11", "-ffreestanding", "-w", "-c", "-o", str(target), str(source)])
    data = target.read_bytes()
    order, held = section(data, b".echo_numbers")
    sizes = struct.unpack(f"{order}2I", held)
    assert_events(abi, *(section(data, b".echo%d" % i)[1][:size] for i, size in enumerate(sizes)))


# ---------------------------------------------------------------------------------------------------
# Programs that run

FILLED = """
static struct Particle particle;
static struct Whole odd;
static const char tag[] = "gr\\xc3\\xbcn", text[] = "gr\\xc3\\xb6\\xc3\\x9f" "er";

/* Through volatile, so that the compiler stores values where it says they lie, and calls no memcpy. */
static void fill(volatile struct Particle *p, volatile struct Whole *o)
{
    p->id = -1099511627776LL; p->x = 0.1; p->y = -2.5; p->z = 1e300;
    p->vx = 0.5f; p->vy = -1.5f; p->vz = 3.25f; p->temp = 300.0f;
    p->cell = -70000; p->kind = -300; p->flags = 200; p->active = true;
    p->mass = 1.67e-27; p->charge = -1.6e-19; p->owner = 2147483648u;
    for (unsigned i = 0; i < sizeof tag; i++)
        p->tag[i] = tag[i];
    o->fixed.c = -5; o->fixed.l = -2147483647L - 1; o->fixed.d = 0.1; o->fixed.ll = 1099511627776LL;
    o->fixed.s = -300; o->fixed.n = 3;
    o->fixed.text = (char *)((uintptr_t)&o->text - (uintptr_t)o);
    o->fixed.values = (float *)((uintptr_t)&o->values - (uintptr_t)o);
    o->values[0] = 1.5f; o->values[1] = -2.5f; o->values[2] = 1e-40f;
    for (unsigned i = 0; i < sizeof text; i++)
        o->text[i] = text[i];
}

void _start(void)
{
    fill(&particle, &odd);
    put(&particle, sizeof particle);
    put(&odd, __builtin_offsetof(struct Whole, end));
    stop();
}
"""

# write(1, ...) and exit(0), as each kernel is asked for them without a C library.
SYSTEM_CALLS = {
    "s390x": """
static void put(const void *at, unsigned long size)
{
    register long number __asm__("2") = 1;
    register const void *r3 __asm__("3") = at;
    register unsigned long r4 __asm__("4") = size;
    __asm__ volatile("svc 4" : "+d"(number) : "d"(r3), "d"(r4) : "memory");
}
static void stop(void)
{
    register long status __asm__("2") = 0;
    __asm__ volatile("svc 1" : : "d"(status));
}
""",
    "ppc": """
static void put(const void *at, unsigned long size)
{
    register long number __asm__("r0") = 4;
    register long file __asm__("r3") = 1;
    register const void *r4 __asm__("r4") = at;
    register unsigned long r5 __asm__("r5") = size;
    __asm__ volatile("sc" : "+r"(number), "+r"(file) : "r"(r4), "r"(r5) : "memory", "cr0");
}
static void stop(void)
{
    register long number __asm__("r0") = 1;
    register long status __asm__("r3") = 0;
    __asm__ volatile("sc" : : "r"(number), "r"(status));
}
""",
}


@pytest.mark.parametrize("name", SYSTEM_CALLS)
def test_program_on_a_foreign_machine_writes_records_that_are_decoded(name: str, tmp_path: Path) -> None:
    """Its own stores put the values there; it runs under qemu, where that is installed."""
    qemu, abi = f"qemu-{name}-static", ABI_BY_NAME[name]
    command = compiler_for(abi)
    if shutil.which(qemu) is None:
        pytest.skip(f"{qemu} is not installed")
    source, target = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROLOGUE + STRUCTS + SYSTEM_CALLS[name] + FILLED)
    flags = ("-std=gnu11", "-O1", "-ffreestanding", "-nostdlib", "-static", "-w")
    run([*command, *flags, "-o", str(target), str(source)])
    written = subprocess.run([qemu, str(target)], check=True, stdout=subprocess.PIPE, timeout=60).stdout
    size = echo.format_of(Particle, abi=name).size_bytes
    assert_events(abi, written[:size], written[size:])
