"""C headers, held to the host's compiler and to the reader of C declarations."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echo_core.formats import limits
from echo_core.formats.abi import ABI_BY_NAME, NATIVE, Abi
from echo_core.formats.c.declarations import layout_of
from echo_core.formats.c.header import header_of
from echo_core.formats.dtypes import layout_of as layout_of_dtype
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
    innermost,
)
from tests.formats.strategies import abis, layouts, records

INT32 = Scalar(Kind.INT, 4)
DOUBLE = Scalar(Kind.FLOAT, 8)
POINTER = NATIVE.pointer_size

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def layout(*members: tuple[str, Type], name: str = "Particle", abi: Abi = NATIVE) -> Layout:
    fields = [Field(member, type_) for member, type_ in members]
    return Layout(abi.byte_order, abi.pointer_size, place(name, fields, abi))


def body(header: str, tag: str) -> list[str]:
    """The lines between the braces of a struct."""
    found = re.search(rf"struct {tag} {{[^\n]*\n(.*?)^}}", header, re.DOTALL | re.MULTILINE)
    assert found, header
    return [line.strip() for line in found[1].splitlines()]


def compile_errors(text: str, *, standard: str = "c11") -> str:
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(["gcc", *flags], input=text, capture_output=True, text=True, check=False)
    return done.stderr


Geometry = tuple[int, int, list[tuple[int, int, object]]]


def geometry(record: Record) -> Geometry:
    """Sizes, alignments and offsets, of the records inside too, in the order of memory."""
    members: list[tuple[int, int, object]] = []
    for field in sorted(record.fields, key=lambda field: field.offset):
        inner, _ = innermost(field.type)
        nested = geometry(inner) if isinstance(inner, Record) else None
        members.append((field.offset, field.type.size, nested))
    return record.size, record.alignment, members


# ---------------------------------------------------------------------------------------------------
# Members


@pytest.mark.parametrize(
    ("type_", "line"),
    [
        (Scalar(Kind.BOOL, 1), "bool x;"),
        (INT32, "int32_t x;"),
        (Scalar(Kind.UINT, 8), "uint64_t x;"),
        (Scalar(Kind.FLOAT, 2), "uint16_t x; /* float16, as its bits */"),
        (Scalar(Kind.COMPLEX, 8), "float _Complex x;"),
        (Scalar(Kind.CHARS, 16), "char x[16];"),
        (Scalar(Kind.BYTES, 8), "uint8_t x[8];"),
        (Scalar(Kind.UUID, 16), "uint8_t x[16]; /* UUID */"),
        (Scalar(Kind.TIMESTAMP, 8), "int64_t x; /* nanoseconds since 1970-01-01 UTC */"),
        (Scalar(Kind.DURATION, 8), "int64_t x; /* nanoseconds */"),
        (StaticArray(Scalar(Kind.CHARS, 16), (4,)), "char x[4][16];"),
        (StaticArray(DOUBLE, (2, 3)), "double x[2][3];"),
        (Text(POINTER), "char *x;"),
        (StaticArray(Text(POINTER), (3,)), "char *x[3];"),
        (Nullable(Text(POINTER)), "char * _Nullable x;"),
        (Blob(POINTER), "struct { uint8_t *data; size_t size; } x;"),
        (Nullable(Blob(POINTER)), "struct { uint8_t * _Nullable data; size_t size; } x;"),
        (Sequence(DOUBLE, (None,), POINTER), "struct { double *items; size_t count; } x;"),
        (
            Nullable(Sequence(Text(POINTER), (None, None), POINTER)),
            "struct { char ** _Nullable items; size_t count[2]; } x;",
        ),
        (
            Sequence(StaticArray(DOUBLE, (4,)), (None,), POINTER),
            "struct { double (*items)[4]; size_t count; } x;",
        ),
        (
            Sequence(DOUBLE, (None, 3), POINTER),
            "struct { double *items __counted_by(..., 3); size_t count; } x;",
        ),
        (
            StaticArray(Sequence(Sequence(INT32, (None,), POINTER), (None,), POINTER), (2,)),
            "struct { struct { int32_t *items; size_t count; } *items; size_t count; } x[2];",
        ),
        (Nullable(INT32), "struct { int32_t value; bool present; uint8_t padding[3]; } x;"),
        (Nullable(Scalar(Kind.CHARS, 3)), "struct { char value[3]; bool present; } x;"),
    ],
    ids=str,
)
def test_each_type_has_one_declaration(type_: Type, line: str) -> None:
    """A member is written as a C programmer would."""
    header = header_of(layout(("x", type_)))
    assert body(header, "Particle") == [line]


def test_a_sequence_that_a_field_counts_is_a_counted_pointer() -> None:
    """The pointer names its count, by the name that the count has in C."""
    values = Sequence(DOUBLE, ("int",), POINTER)
    header = header_of(layout(("int", INT32), ("values", values), ("more", Nullable(values))))
    assert body(header, "Particle") == [
        "int32_t int_; /* named `int` */",
        "double *values __counted_by(int_);",
        "double * _Nullable more __counted_by(int_);",
    ]


def test_an_enumeration_is_an_integer_and_its_constants_carry_its_name() -> None:
    """C decides how large an enum is, so the member is an integer of known size."""
    color = Enumeration("Color", 8, (("RED", 0), ("GREEN", -5), ("FAR", 2**40)))
    header = header_of(layout(("color", color)))
    assert body(header, "Particle") == ["int64_t color; /* enum Color */"]
    assert "enum Color {\n    Color_RED = 0,\n    Color_GREEN = -5,\n" in header
    assert "/* Color_FAR = 1099511627776 */" in header


def test_an_enumeration_beyond_int_leaves_only_comments() -> None:
    """An enum in C needs a constant, and an int is all that a constant can be."""
    far = Enumeration("Far", 8, (("AWAY", 2**40),))
    header = header_of(layout(("far", far)))
    assert "enum Far {" not in header
    assert "/* Far_AWAY = 1099511627776 */" in header


def test_unit_and_documentation_are_comments_that_cannot_be_left() -> None:
    """Neither a comment's end nor a line's end in a doc reaches the compiler."""
    field = Field("x", DOUBLE, unit="K", doc="first */ int y; /*\nsecond\\")
    header = header_of(Layout(NATIVE.byte_order, POINTER, place("Particle", [field], NATIVE)))
    assert body(header, "Particle") == ["double x; /* [K]; first * / int y; / * second\\ */"]


# ---------------------------------------------------------------------------------------------------
# Names


def test_two_records_of_one_name_get_two_tags() -> None:
    """The outer record keeps the name, whichever is defined first."""
    inner = layout(("x", INT32), name="Cell").record
    header = header_of(layout(("cell", inner), ("cells", StaticArray(inner, (2,))), name="Cell"))
    assert body(header, "Cell") == ["struct Cell_2 cell;", "struct Cell_2 cells[2];"]
    assert header.count("struct Cell_2 { /* named `Cell` */") == 1


def test_an_enumeration_and_a_record_do_not_share_a_tag() -> None:
    """In C struct and enum tags are one namespace."""
    color = Enumeration("Color", 4, (("RED", 1),))
    header = header_of(layout(("color", color), name="Color"))
    assert "enum Color_2 { /* named `Color` */\n    Color_2_RED = 1," in header


@needs_gcc
def test_names_that_mean_something_in_c_are_changed() -> None:
    """Keywords, macros of headers and compilers, and letters beyond ASCII: gcc takes all of them."""
    names = "int double register inline bool NULL linux unix INT32_MAX size_t _Atomic padding_0 Δt 数 数量"
    members = [(name, INT32) for name in [*names.split(), "int_", "__x", "_C__y"]]
    header = header_of(layout(*members, name="struct"))
    assert "int32_t int__2; /* named `int` */" in header
    assert "int32_t x_t; /* named `Δt` */" in header
    assert "struct struct_ { /* named `struct` */" in header
    assert compile_errors(header, standard="gnu11") == ""
    assert geometry(layout_of(header, "struct_", "native").record)[0] == 4 * len(members)


# ---------------------------------------------------------------------------------------------------
# Layouts


def test_a_packed_dtype_becomes_a_packed_struct_with_its_gaps() -> None:
    """Every gap is a member, and the alignment is said."""
    dtype = np.dtype({"names": ["b", "a"], "formats": ["f8", "i4"], "offsets": [5, 0], "itemsize": 16})
    header = header_of(layout_of_dtype(dtype, "Particle"))
    assert body(header, "Particle") == [
        "int32_t a;",
        "uint8_t padding_0[1];",
        "double b;",
        "uint8_t padding_1[3];",
    ]
    assert "} __attribute__((packed));" in header


def test_fields_listed_in_another_order_need_no_packing() -> None:
    """Members stand in the order of memory, which is often all that it takes."""
    record = layout(("a", INT32), ("b", DOUBLE)).record
    header = header_of(Layout(NATIVE.byte_order, POINTER, replace(record, fields=record.fields[::-1])))
    assert body(header, "Particle") == ["int32_t a;", "double b;"]
    assert "__attribute__" not in header


def test_a_record_without_fields_is_one_byte_in_c_too() -> None:
    """C has no empty struct, and the layout has no record without a size."""
    header = header_of(layout())
    assert body(header, "Particle") == ["uint8_t padding_0[1];"]
    assert geometry(layout_of(header, None, "native").record) == (1, 1, [])


@needs_gcc
def test_a_packed_struct_may_hold_an_aligned_one() -> None:
    """gcc warns where an aligned struct lies askew; the header says that it is meant."""
    inner = replace(layout(("x", INT32), name="Inner").record, size=32, alignment=16)
    fields = (Field("inner", inner, 1), Field("maybe", Nullable(inner), 40))
    outer = Record("Outer", 144, 8, fields)
    header = header_of(Layout(NATIVE.byte_order, POINTER, outer))
    assert "} __attribute__((packed, aligned(16)));" in header
    assert compile_errors(header) == ""


@needs_gcc
def test_a_header_for_another_machine_does_not_compile() -> None:
    """Offsets may agree by chance; byte order and pointers are asserted too."""
    for abi in ABI_BY_NAME.values():
        header = header_of(layout(("x", INT32), abi=abi))
        same = (abi.byte_order, abi.pointer_size) == (NATIVE.byte_order, NATIVE.pointer_size)
        assert (compile_errors(header) == "") is same


def test_an_abi_that_nobody_knows_is_written_with_explicit_gaps() -> None:
    """Its rules are not those of a known compiler, so nothing is left to the compiler."""
    odd = Abi("odd", "big", 8, 8, max_alignment=4)
    header = header_of(layout(("a", INT32), ("b", DOUBLE), abi=odd))
    assert "} __attribute__((packed, aligned(4)));" in header


# ---------------------------------------------------------------------------------------------------
# Any layout


@given(st.data(), abis())
@settings(deadline=None)
def test_what_is_written_is_read_back(data: st.DataObject, abi: Abi) -> None:
    """The reader of declarations finds every size, alignment and offset again."""
    written = data.draw(layouts(abi))
    read = layout_of(header_of(written), None, abi)
    assert (read.byte_order, read.pointer_size) == (written.byte_order, written.pointer_size)
    assert geometry(read.record) == geometry(written.record)


@needs_gcc
@given(records(NATIVE, 3))
@settings(deadline=None, max_examples=60)
def test_the_host_compiler_agrees_with_every_header(record: Record) -> None:
    """Static assertions hold and nothing is warned of, whatever the layout."""
    header = header_of(Layout(NATIVE.byte_order, POINTER, record))
    assert compile_errors(header) == "", header


def test_the_longest_names_are_cut_to_what_can_be_read_back() -> None:
    """Whatever is put before or after a name, it stays within the limit on names."""
    longest = "n" * limits.MAX_NAME_BYTES
    color = Enumeration(longest, 4, ((longest, 1),))
    inner = layout((longest, color), name=longest).record
    header = header_of(layout(("inner", inner), name=longest))
    assert geometry(layout_of(header, None, "native").record) == (4, 4, [(0, 4, geometry(inner))])
