"""The table of ABIs, held to the compilers of those machines.

No program runs: each compiler puts sizes and offsets into a section of an object file, and that section
is read here, with a reader of ELF that needs no tool of the target. The C text is written by this module,
so that `c_header` is not judge in its own cause; the last test gives `c_header` its own day.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from echo_core.formats.abi import ABI_BY_NAME, Abi
from echo_core.formats.c.header import header_of
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)

pytestmark = pytest.mark.compilers

STRUCTS = 400
HEADERS = 60

COMMANDS = {
    "native": ("gcc",),
    "x86_64": ("x86_64-linux-gnu-gcc",),
    "i386": ("i686-linux-gnu-gcc",),
    "aarch64": ("aarch64-linux-gnu-gcc",),
    "armhf": ("arm-linux-gnueabihf-gcc",),
    "s390x": ("s390x-linux-gnu-gcc",),
    "ppc64": ("powerpc64-linux-gnu-gcc",),
    "ppc64le": ("powerpc64le-linux-gnu-gcc",),
    "ppc": ("powerpc-linux-gnu-gcc",),
    "sparc64": ("sparc64-linux-gnu-gcc",),
    "sparc": ("sparc64-linux-gnu-gcc", "-m32"),
    "mips": ("mips-linux-gnu-gcc",),
    "riscv64": ("riscv64-linux-gnu-gcc",),
    "m68k": ("m68k-linux-gnu-gcc",),
}

# ---------------------------------------------------------------------------------------------------
# Random structs, as C and as members

PROLOGUE = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __FLT16_MAX__
typedef _Float16 half;
#else
typedef uint16_t half;
#endif
enum color { RED, GREEN = 5 };
"""

SCALARS: tuple[tuple[str, Type], ...] = (
    ("bool {}", Scalar(Kind.BOOL, 1)),
    ("int8_t {}", Scalar(Kind.INT, 1)),
    ("short {}", Scalar(Kind.INT, 2)),
    ("int {}", Scalar(Kind.INT, 4)),
    ("long long {}", Scalar(Kind.INT, 8)),
    ("unsigned char {}", Scalar(Kind.UINT, 1)),
    ("uint16_t {}", Scalar(Kind.UINT, 2)),
    ("uint32_t {}", Scalar(Kind.UINT, 4)),
    ("uint64_t {}", Scalar(Kind.UINT, 8)),
    ("half {}", Scalar(Kind.FLOAT, 2)),
    ("float {}", Scalar(Kind.FLOAT, 4)),
    ("double {}", Scalar(Kind.FLOAT, 8)),
    ("float _Complex {}", Scalar(Kind.COMPLEX, 8)),
    ("double _Complex {}", Scalar(Kind.COMPLEX, 16)),
    ("int64_t {}", Scalar(Kind.TIMESTAMP, 8)),
    ("int64_t {}", Scalar(Kind.DURATION, 8)),
    ("unsigned char {}[16]", Scalar(Kind.UUID, 16)),
    ("char {}[7]", Scalar(Kind.CHARS, 7)),
    ("unsigned char {}[5]", Scalar(Kind.BYTES, 5)),
    ("enum color {}", Enumeration("color", 4, (("RED", 0), ("GREEN", 5)))),
)


@dataclass(frozen=True)
class Declared:
    """A type, and the C that declares a member of it in the place of `{}`."""

    text: str
    type: Type

    def member(self, name: str) -> str:
        return self.text.replace("{}", name) + ";"


@dataclass
class Generator:
    """Structs one after another; a later one may hold an earlier one."""

    abi: Abi
    random: random.Random
    records: list[Record]

    def structs(self, number: int) -> Iterator[tuple[str, Record]]:
        for i in range(number):
            members = [self.declared(depth=2) for _ in range(self.random.randint(1, 8))]
            names = [f"m{j}" for j in range(len(members))]
            body = " ".join(d.member(name) for d, name in zip(members, names, strict=True))
            fields = [Field(name, d.type) for d, name in zip(members, names, strict=True)]
            # 16 is above the ceiling of every ABI here, and no compiler caps a struct's own alignment.
            # 4 on m68k would be natural on mips, and a layout alone does not say which of the two it is.
            alignment = self.random.choice([1, 1, 1, 1, 1, 16])
            record = place(f"S{i}", fields, self.abi, alignment=alignment)
            if record.size < 4096 and record.leaves < 100 and record.depth < 10:
                self.records.append(record)
            aligned = f" __attribute__((aligned({alignment})))" if alignment > 1 else ""
            yield f"struct S{i} {{ {body} }}{aligned};", record

    def declared(self, depth: int) -> Declared:
        choices: list[Callable[[int], Declared]] = [self.slot, self.long, self.pointer]
        choices += [self.scalar, self.scalar, self.scalar, self.scalar]
        if depth:
            choices += [self.array, self.optional]
        if self.records:
            choices += [self.nested]
        return self.random.choice(choices)(depth)

    def scalar(self, _depth: int) -> Declared:
        text, type_ = self.random.choice(SCALARS)
        return Declared(text, type_)

    def long(self, _depth: int) -> Declared:
        sign, kind = self.random.choice([("", Kind.INT), ("unsigned ", Kind.UINT)])
        return Declared(f"{sign}long {{}}", Scalar(kind, self.abi.long_size))

    def pointer(self, _depth: int) -> Declared:
        text = Text(self.abi.pointer_size)
        types: list[Type] = [text, Nullable(text)]
        return Declared("char *{}", self.random.choice(types))

    def slot(self, _depth: int) -> Declared:
        size = self.abi.pointer_size
        dimensions = self.random.randint(1, 3)
        sequence = Sequence(self.scalar(0).type, (None,) * dimensions, size)
        blob = Declared("struct { void *p; size_t n; } {}", Blob(size))
        many = Declared(f"struct {{ void *p; size_t n[{dimensions}]; }} {{}}", sequence)
        absent = Declared(many.text, Nullable(sequence))
        return self.random.choice([blob, many, absent])

    def array(self, depth: int) -> Declared:
        element = self.declared(depth - 1)
        shape = tuple(self.random.randint(1, 4) for _ in range(self.random.randint(1, 2)))
        dimensions = "".join(f"[{n}]" for n in shape)
        text = element.text.replace("{}", "{}" + dimensions)
        return Declared(text, StaticArray(element.type, shape))

    def optional(self, depth: int) -> Declared:
        element = self.declared(depth - 1)
        if isinstance(element.type, Nullable | Text | Blob | Sequence):
            return element
        type_ = Nullable(element.type)
        padding = type_.size - element.type.size - 1
        rest = f" char c[{padding}];" if padding else ""
        return Declared(f"struct {{ {element.member('v')} bool b;{rest} }} {{}}", type_)

    def nested(self, _depth: int) -> Declared:
        record = self.random.choice(self.records)
        return Declared(f"struct {record.name} {{}}", record)


def random_structs(abi: Abi, number: int) -> list[tuple[str, Record]]:
    return list(Generator(abi, random.Random(f"structs {abi.name}"), []).structs(number))


def numbers_of(record: Record) -> list[int]:
    return [record.size, record.alignment, *(field.offset for field in record.fields)]


def c_numbers_of(record: Record) -> list[str]:
    name = f"struct {record.name}"
    offsets = [f"__builtin_offsetof({name}, {field.name})" for field in record.fields]
    return [f"sizeof({name})", f"_Alignof({name})", *offsets]


# ---------------------------------------------------------------------------------------------------
# Compilers and their objects


def compiler_for(abi: Abi) -> tuple[str, ...]:
    command = COMMANDS[abi.name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def section(data: bytes, wanted: bytes) -> tuple[str, bytes]:
    """The byte order of an ELF file, and what one of its sections holds."""
    assert data[:4] == b"\x7fELF"
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
    size, count, names = struct.unpack_from(order + "3H", data, 58 if wide else 46)
    layout = struct.Struct(order + ("IIQQQQ" if wide else "IIIIII"))
    headers = [layout.unpack_from(data, table + i * size) for i in range(count)]
    strings = headers[int(names)][4]
    for name, _, _, _, offset, length in headers:
        if data[strings + name :].startswith(wanted + b"\0"):
            return order, data[offset : offset + length]
    pytest.fail(f"no section {wanted!r}")


def compiled_numbers(command: tuple[str, ...], source: Path) -> list[int]:
    target = source.with_suffix(".o")
    run([*command, "-std=c11", "-ffreestanding", "-c", "-o", str(target), str(source)])
    order, data = section(target.read_bytes(), b".echo_numbers")
    return list(struct.unpack(f"{order}{len(data) // 4}I", data))


@pytest.mark.parametrize("abi", ABI_BY_NAME.values(), ids=lambda abi: abi.name)
def test_random_structs_lie_as_the_compiler_lays_them_out(abi: Abi, tmp_path: Path) -> None:
    """Sizes, alignments and offsets of hundreds of structs are those of the ABI's own compiler."""
    command = compiler_for(abi)
    structs = random_structs(abi, STRUCTS)
    texts = [text for text, _ in structs]
    numbers = ",\n".join(n for _, record in structs for n in c_numbers_of(record))
    source = tmp_path / "structs.c"
    attribute = '__attribute__((section(".echo_numbers")))'
    array = f"const uint32_t numbers[] {attribute} = {{\n{numbers}\n}};\n"
    source.write_text("\n".join([PROLOGUE, *texts, array]))
    found = iter(compiled_numbers(command, source))
    for text, record in structs:
        expected = numbers_of(record)
        assert [next(found) for _ in expected] == expected, text
    assert next(found, None) is None


@pytest.mark.parametrize("abi", ABI_BY_NAME.values(), ids=lambda abi: abi.name)
def test_a_long_and_a_pointer_are_as_wide_as_the_table_says(abi: Abi, tmp_path: Path) -> None:
    """The two widths that no struct of fixed-width members shows."""
    command = compiler_for(abi)
    source = tmp_path / "widths.c"
    attribute = '__attribute__((section(".echo_numbers")))'
    source.write_text(
        f"const unsigned numbers[] {attribute} = "
        "{ sizeof(long), sizeof(void *), sizeof(__SIZE_TYPE__), sizeof(enum { A }) };"
    )
    widths = [abi.long_size, abi.pointer_size, abi.pointer_size, 4]
    assert compiled_numbers(command, source) == widths


def scattered(record: Record, rng: random.Random) -> Record:
    """The same fields in another order, after a gap that no C compiler leaves by itself."""
    end, fields = rng.choice([1, 3, 8]), list(record.fields)
    rng.shuffle(fields)
    for i, field in enumerate(fields):
        offset = end + rng.choice([0, 0, 1, 3])
        fields[i] = dataclasses.replace(field, offset=offset)
        end = offset + field.type.size
    alignment = rng.choice([1, 1, 2, 4, 8])
    size = -(-(end + rng.choice([0, 1, 4])) // alignment) * alignment
    return dataclasses.replace(record, fields=tuple(fields), size=size, alignment=alignment)


@pytest.mark.parametrize("abi", ABI_BY_NAME.values(), ids=lambda abi: abi.name)
def test_headers_compile_for_the_machine_that_they_are_made_for(abi: Abi, tmp_path: Path) -> None:
    """Every static assertion of `header_of` holds, for plain structs and for scattered ones."""
    command = compiler_for(abi)
    rng = random.Random(f"headers {abi.name}")
    records = [record for _, record in random_structs(abi, STRUCTS)]
    chosen = rng.sample([r for r in records if r.leaves < 100 and r.depth < 10], HEADERS)
    files: list[str] = []
    for record in [*chosen[::2], *(scattered(r, rng) for r in chosen[1::2])]:
        path = tmp_path / f"{len(files)}.c"
        path.write_text(header_of(Layout(abi.byte_order, abi.pointer_size, record)))
        files.append(str(path))
    strict = ["-std=c11", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run([*command, *strict, *files])
