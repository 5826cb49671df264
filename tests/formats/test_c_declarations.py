"""Reading C: what is understood, what is refused and how, and texts that nobody meant well."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from echo_core.errors import FormatError
from echo_core.formats import limits
from echo_core.formats.abi import Abi
from echo_core.formats.c.declarations import layout_of
from echo_core.formats.c.header import header_of
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)

INT32 = Scalar(Kind.INT, 4)
FLOAT32 = Scalar(Kind.FLOAT, 4)
DOUBLE = Scalar(Kind.FLOAT, 8)

EVERYTHING = """\
#ifndef PARTICLE_H
#define PARTICLE_H
#pragma once
#include <stdint.h>
#define TAG 0x10 /* bytes */
// a line comment
enum { ROWS = 2, COLUMNS };
struct Cell { double x, y, z; unsigned long int id; };
typedef struct Cell Cell;
typedef enum color { RED, GREEN = 5, BLUE = -3, } Color;
typedef struct _Particle {
    char tag[TAG], names[4][16];
    const char *note; char *_Nullable maybe;
    Cell cells[ROWS][COLUMNS];
    Color color;
    int32_t n, rows, cols;
    const double *values __counted_by(n);
    char **_Nullable words __counted_by(rows, cols);
    struct Cell *others __counted_by(n);
    struct { int a; } inner;
    struct { uint8_t *data; size_t size; } blob;
    struct { double (*items)[4]; size_t count[2]; } many[3];
    struct { double value; bool present; } optional;
} Particle;
_Static_assert(sizeof(Particle) > 0, "not ) the end;");
#endif
"""


def record_of(text: str, name: str | None = None, abi: str | Abi = "x86_64") -> Record:
    return layout_of(text, name, abi).record


def member(declaration: str, abi: str | Abi = "x86_64") -> Type:
    """The type of a member that is called `x`."""
    text = f"struct Cell {{ int c; }}; struct A {{ int n, m; {declaration} }};"
    found = {field.name: field.type for field in record_of(text, "A", abi).fields}
    return found["x"]


def refusal(text: str, abi: str = "x86_64") -> str:
    with pytest.raises(FormatError) as caught:
        layout_of(text, None, abi)
    return str(caught.value)


def read_or_refuse(text: str) -> None:
    """Any other error is the test's failure."""
    with contextlib.suppress(FormatError):
        layout_of(text, None, "native")


# ---------------------------------------------------------------------------------------------------
# Types


@pytest.mark.parametrize(
    ("spelling", "kind", "size"),
    [
        ("signed char", Kind.INT, 1),
        ("char unsigned", Kind.UINT, 1),
        ("short", Kind.INT, 2),
        ("int short unsigned", Kind.UINT, 2),
        ("unsigned", Kind.UINT, 4),
        ("signed int", Kind.INT, 4),
        ("long unsigned int", Kind.UINT, 8),
        ("long int long", Kind.INT, 8),
        ("unsigned long long int", Kind.UINT, 8),
        ("float", Kind.FLOAT, 4),
        ("const volatile double", Kind.FLOAT, 8),
        ("double const", Kind.FLOAT, 8),
        ("_Float16", Kind.FLOAT, 2),
        ("_Bool", Kind.BOOL, 1),
        ("bool", Kind.BOOL, 1),
        ("float _Complex", Kind.COMPLEX, 8),
        ("double complex", Kind.COMPLEX, 16),
        ("int8_t", Kind.INT, 1),
        ("uint64_t", Kind.UINT, 8),
        ("size_t", Kind.UINT, 8),
        ("ptrdiff_t", Kind.INT, 8),
        ("char", Kind.CHARS, 1),
    ],
)
def test_scalars_are_known_by_any_order_of_their_words(spelling: str, kind: Kind, size: int) -> None:
    """As in C, `int long unsigned` is `unsigned long`."""
    assert member(f"{spelling} x;") == Scalar(kind, size)


@pytest.mark.parametrize("spelling", ["long", "size_t", "intptr_t", "unsigned long int"])
def test_the_abi_says_how_wide_a_long_is(spelling: str) -> None:
    """The one family of scalars that is not the same on every machine."""
    assert member(f"{spelling} x;", "i386").size == 4
    assert member(f"{spelling} x;", "s390x").size == 8


@pytest.mark.parametrize(
    ("declaration", "type_"),
    [
        ("double x[3][4];", StaticArray(DOUBLE, (3, 4))),
        ("char x[16];", Scalar(Kind.CHARS, 16)),
        ("char x[4][16];", StaticArray(Scalar(Kind.CHARS, 16), (4,))),
        ("char x[1];", Scalar(Kind.CHARS, 1)),
        ("char *x;", Text(8)),
        ("const char *const x;", Text(8)),
        ("char *_Nullable x;", Nullable(Text(8))),
        ("char *x[3];", StaticArray(Text(8), (3,))),
        ("double *x __counted_by(n);", Sequence(DOUBLE, ("n",), 8)),
        ("float *x __counted_by(n, m);", Sequence(FLOAT32, ("n", "m"), 8)),
        ("float *x __counted_by(n, 3);", Sequence(FLOAT32, ("n", 3), 8)),
        ("float (*x)[3] __counted_by(n);", Sequence(StaticArray(FLOAT32, (3,)), ("n",), 8)),
        ("int *_Nullable x __counted_by(n);", Nullable(Sequence(INT32, ("n",), 8))),
        ("char **x __counted_by(n);", Sequence(Text(8), ("n",), 8)),
        ("char *x __counted_by(n);", Sequence(Scalar(Kind.CHARS, 1), ("n",), 8)),
        ("struct { unsigned char *data; size_t size; } x;", Blob(8)),
        ("struct { uint8_t *_Nullable data; size_t size; } x;", Nullable(Blob(8))),
        ("struct { int *items; size_t count; } x;", Sequence(INT32, (None,), 8)),
        ("struct { int *items; size_t count[1]; } x;", Sequence(INT32, (None,), 8)),
        ("struct { int *items; size_t count[2]; } x;", Sequence(INT32, (None, None), 8)),
        ("struct { int (*items)[2]; size_t count; } x;", Sequence(StaticArray(INT32, (2,)), (None,), 8)),
        (
            "struct { int *items __counted_by(..., 2, n); size_t count; } x;",
            Sequence(INT32, (None, 2, "n"), 8),
        ),
        ("struct { int value; bool present; } x[2];", StaticArray(Nullable(INT32), (2,))),
    ],
)
def test_a_declaration_is_one_type(declaration: str, type_: Type) -> None:
    """Arrays, text, counted pointers, and the slots of sequences, bytes and optional values."""
    assert member(declaration) == type_


@pytest.mark.parametrize(
    "fields",
    [
        "double value; bool present;",  # on i386 smaller than an optional double
        "int value; bool present; uint8_t padding[9];",
        "int value; bool present; int padding;",
        "int value; bool present; bool certain; bool known;",
        "char *items; size_t count;",
        "char *data; size_t size;",
        "char *value; bool present;",
        "int value; int present;",
    ],
)
def test_a_struct_that_only_looks_like_a_slot_stays_a_struct(fields: str) -> None:
    """The layout of C comes first; a form is read where it has the same layout."""
    assert isinstance(member(f"struct {{ {fields} }} x;", "i386"), Record)


def test_everything_at_once_has_its_places() -> None:
    """Guards, constants, typedefs, several declarators and every kind of slot in one text."""
    record = record_of(EVERYTHING)
    assert record.name == "Particle"
    offsets = {field.name: field.offset for field in record.fields}
    assert offsets["cells"] == 96
    assert record.fields[4].type == StaticArray(record_of(EVERYTHING, "Cell"), (2, 3))
    color = (("RED", 0), ("GREEN", 5), ("BLUE", -3))
    assert record.fields[5].type == Enumeration("Color", 4, color)
    assert record.size == record.fields[-1].end


def test_a_struct_is_found_by_its_tag_and_by_its_typedef() -> None:
    """Without a name it is the last one."""
    text = "typedef struct _A { int x; } A; struct B { A a; };"
    assert record_of(text).name == "B"
    assert record_of(text, "A") is not None
    assert record_of(text, "A") == record_of(text, "_A")
    with pytest.raises(FormatError, match="got `C`: the text defines _A, B, A"):
        layout_of(text, "C", "native")


def test_a_typedef_may_come_before_its_struct() -> None:
    """`typedef struct A A;` stands at the top of many headers."""
    text = "typedef struct A A; struct A { int x; }; typedef A B[3]; struct C { B b[2]; A a; };"
    record = record_of(text)
    assert record.fields[0].type == StaticArray(record_of(text, "A"), (2, 3))
    assert record_of("typedef struct A A; struct A { int x; };", "A").size == 4


def test_packed_and_aligned_structs_keep_their_attributes() -> None:
    """Padding that is a member is no field."""
    text = (
        "struct A { char c[1]; uint8_t padding_0[2]; double x; uint8_t padding_1[1]; } "
        "__attribute__((packed, aligned(4)));"
    )
    record = record_of(text)
    assert [(f.name, f.offset) for f in record.fields] == [("c", 0), ("x", 3)]
    assert (record.size, record.alignment) == (12, 4)
    assert record_of("struct __attribute__((__packed__)) A { char c; int x; };").size == 5
    assert record_of("struct A { int x; } __attribute__((aligned(8)));").size == 8


@pytest.mark.parametrize("abi", ["x86_64", "i386", "m68k"])
def test_an_aligned_struct_stays_aligned_as_a_member(abi: str) -> None:
    """Also in an array and in an optional value; only a packed struct around it takes no heed."""
    text = (
        "struct A { int x; } __attribute__((aligned(16)));"
        "struct B { char c; struct A a[2]; struct { struct A value; bool present; } b; };"
        "struct C { char c; struct B b; } __attribute__((packed));"
    )
    b, c = record_of(text, "B", abi), record_of(text, "C", abi)
    assert b.fields[2].type == Nullable(record_of(text, "A", abi))
    assert [field.offset for field in b.fields] == [0, 16, 48]
    assert (b.size, b.alignment) == (80, 16)
    assert [field.offset for field in c.fields] == [0, 1]
    assert (c.size, c.alignment) == (81, 1)


def test_preprocessed_text_is_read() -> None:
    """Line markers say where a line came from, and nothing else."""
    assert record_of('# 1 "a.h" 2\nstruct A { int x; };\r\n').size == 4


def test_a_name_for_an_array_of_text_keeps_its_last_dimension() -> None:
    """The size of the text stays the innermost one through a typedef."""
    text = "typedef char Tag[16]; struct A { Tag tags[4]; };"
    assert record_of(text).fields[0].type == StaticArray(Scalar(Kind.CHARS, 16), (4,))


# ---------------------------------------------------------------------------------------------------
# Refusals


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("union { int a; } x;", "got `union` - at `A.x`: declare the largest member"),
        ("int x : 3;", "got `:` - at `A.x`: use an integer"),
        ("int (*x)(int);", "got `a function` - at `A.x`"),
        ("void *x;", "got `void` - at `A.x`: point to a type that has a size"),
        ("double x[];", "got `[]` - at `A.x`: give it a size"),
        ("long double x;", "got `long double` - at `A.x`: use `double`"),
        ("unsigned double x;", "got `unsigned double` - at `A.x`"),
        ("foo_t x;", "got `foo_t` - at `A.x`: define it above"),
        ("double *x;", "got `float64 *` - at `A.x`: add `__counted_by(n)`"),
        ("double **x __counted_by(n);", "got `float64 *` - at `A.x`"),
        ("double *x[3];", "got `float64 *` - at `A.x`"),
        ("double *x __counted_by(...);", "got `float64 *` - at `A.x`"),
        ("double *x __counted_by(k);", "Expected an integer field `k`"),
        ("double x __counted_by(n);", "got `__counted_by` - at `A.x`"),
        ("struct A *x;", "got `struct A` - at `A.x`: define it above"),
        ("struct B x;", "got `struct B` - at `A.x`: define it above"),
        ("enum b x;", "got `b` - at `A.x`: define it before"),
        ("struct x;", "got `;` - at `A`"),
        ("struct { int a; };", "got `struct {` - at `A`: give it a tag or a member's name"),
        ("struct {} x;", "Expected at least one member, got `{}` - at `x`"),
        ("double x", "Expected `;`, got `}` - at `A.x`"),
        ("double x[010];", "got `010` - at `A.x`"),
        ("double x[2 * 3];", "Expected `]`, got `*` - at `A.x`"),
        ("double x[0];", "Expected dimensions of 1"),
        ("double x" + "[1]" * 9 + ";", "Expected at most 8 dimensions, got `9` - at `A.x`"),
        ("_Alignas(8) int x;", "got `_Alignas`"),
        ("int x __attribute__((packed));", "Expected `;`"),
        ("struct { int a; } __attribute__((weak)) x;", "got `weak`"),
        ("int class;", "got 'class' - at `A`"),
        ("int x; int x;", "got `x` twice"),
        ("_Static_assert 1;", "Expected `(`, got `1`"),
    ],
)
def test_a_refusal_names_the_member_and_the_way_out(declaration: str, message: str) -> None:
    """Nothing is guessed: what has no layout is refused where it stands."""
    assert message in refusal(f"struct A {{ int n; {declaration} }};")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got `a text without one`: the text defines none"),
        ("int x;", "got `x`: in line 1"),
        ("struct A { int x; }; struct A { int y; };", "got `A`: rename one of the two"),
        ("typedef int A; typedef float A;", "got `A` - at `A`: rename one of the two"),
        ("struct A { int x; };\nenum A a;", "got `A` - at `a`: define it before"),
        ("struct A {\nint x;", "Expected an end for `{`, got `the end of the text`: in line 1"),
        ("struct A { int x; )", "Expected brackets in pairs, got `)`"),
        ("}", "Expected brackets in pairs, got `}`"),
        ("struct A { int x; /* };", "Expected text that is complete, got `/* };`"),
        ("/*/", "Expected text that is complete"),
        ('"', 'got `"`: in line 1'),
        ("typedef int *A __counted_by(n);", "got `__counted_by`"),
        ("#pragma pack(1)\n", "got `#pragma pack(1)`"),
        ("#define N (4 + 4)\n", "got `#define N (4 + 4)`"),
        ("#define double\n", "got `#define double`"),
        ("#define A\n#ifndef A\nstruct A { int x; };\n#endif", "got `#ifndef A`"),
        ("#if 0\n", "got `#if 0`"),
        ("enum color { RED = x };", "Expected a decimal or hexadecimal integer, got `x`"),
        ("enum color { RED = 1, BLUE = 1 };", "got one twice"),
        ("enum color { RED BLUE };", "Expected `,`, got `BLUE`"),
        ("struct A { int x; } __attribute__((aligned(6)));", "Expected an alignment of 1 to"),
    ],
)
def test_a_text_that_is_not_understood_is_refused(text: str, message: str) -> None:
    """The message says what was expected, and where or what to do."""
    assert message in refusal(text)


def test_only_known_machines_have_a_layout() -> None:
    """A name that is not in the table, or pointers of no known width, are refused."""
    with pytest.raises(FormatError, match="Expected an ABI"):
        layout_of("struct A { int x; };", None, "pdp11")
    with pytest.raises(FormatError, match=r"size of pointers of \(4, 8\), got 2"):
        layout_of("struct A { int x; };", None, Abi("small", "little", 2, 4))


# ---------------------------------------------------------------------------------------------------
# Hostile text


@pytest.mark.parametrize(("depth", "allowed"), [(-1, True), (0, True), (1, False)])
def test_structs_nest_to_a_limit(depth: int, allowed: bool) -> None:
    """Inline or by name, the record says how deep it is."""
    levels = limits.MAX_NESTING + depth
    inline = "struct A { " + "struct { " * (levels - 1) + "int x;" + " } x;" * (levels - 1) + " };"
    named = "struct S1 { int x; };" + "".join(
        f"struct S{i} {{ struct S{i - 1} x; }};" for i in range(2, levels + 1)
    )
    for text in (inline, named):
        if allowed:
            assert record_of(text).depth == levels
        else:
            assert "levels of nesting" in refusal(text)


HOSTILE = {
    "braces": "struct A {" + "struct {" * 100_000,
    "parentheses": "struct A { int " + "(" * 100_000,
    "comments": "/*" * 200_000,
    "comments in a directive": "#" + "/*" * 200_000,
    "quotes": '"\\' * 200_000,
    "spaces in a directive": "#define N" + " " * 200_000 + "!",
    "continued lines": "#\\\n" * 100_000,
    "stars": "struct A { int " + "*" * 200_000 + "x; };",
    "dimensions": "struct A { int x" + "[9]" * 100_000 + "; };",
    "members": "struct A { " + "int x;" * 50_000 + "};",
    "declarators": "struct A { int " + "x," * 100_000 + "x; };",
    "long name": "struct A { int " + "x" * 400_000 + "; };",
    "long number": "struct A { int x[" + "9" * 400_000 + "]; };",
    "qualifiers": "struct A { " + "const " * 100_000 + "};",
    "typedefs": "typedef int T0[9];" + "".join(f"typedef T{i} T{i + 1}[9];" for i in range(20_000)),
    "structs": "struct S0 { int x; };"
    + "".join(f"struct S{i + 1} {{ struct S{i} a, b; }};" for i in range(20_000)),
    "enumerators": "enum a {" + "".join(f"A{i}," for i in range(100_000)) + "};",
    "bodies": "struct A " + "{ }" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_is_refused_in_time_linear_in_its_length(text: str) -> None:
    """A few hundred kilobytes made to be slow cost a minute at most, where a square would cost hours."""
    before = time.thread_time()
    assert len(refusal(text)) < 1000
    assert time.thread_time() - before < 60


@given(st.text(max_size=200))
@example("struct")
@example("typedef")
@example("struct A { int x[")
@settings(deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but FormatError."""
    read_or_refuse(text)


MARKS = "{ } ( ) [ ] ; , = * : ... - #define # union _Nullable packed __attribute__ 0 7 99999999"
WORDS = sorted({*EVERYTHING.split(), *MARKS.split(" ")})


@given(st.lists(st.sampled_from(WORDS), max_size=40))
@example(["__attribute__", "__attribute__"])  # found once by 5,000 examples, not by 100
@settings(deadline=None)
def test_any_sequence_of_words_is_read_or_refused(words: list[str]) -> None:
    """Nearer to C than random letters are."""
    for text in (" ".join(words), "struct A { " + " ".join(words) + " };"):
        read_or_refuse(text)


HEADER = header_of(layout_of(EVERYTHING, None, "native"))


@given(st.sampled_from([EVERYTHING, HEADER]), st.data())
@settings(deadline=None)
def test_a_mutated_declaration_is_read_or_refused(text: str, data: st.DataObject) -> None:
    """Parts of a real text are cut, doubled, replaced or moved."""
    for _ in range(data.draw(st.integers(1, 3))):
        begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        end = min(end, begin + data.draw(st.integers(0, 30)))
        middle = data.draw(st.one_of(st.just(""), st.text(max_size=3), st.sampled_from(WORDS)))
        text = text[:begin] + middle + text[end:]
        read_or_refuse(text)


def test_a_text_cut_anywhere_is_read_or_refused() -> None:
    """Every prefix of a real header ends in a layout or in FormatError."""
    for end in range(len(EVERYTHING)):
        read_or_refuse(EVERYTHING[:end])
