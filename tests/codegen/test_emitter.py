"""Plans as LLVM IR: what is written for each operation, as text. What the code does is tested compiled."""

from __future__ import annotations

import re

import pytest

from echo_core.codegen.emit.convert import covers
from echo_core.codegen.emit.emitter import emit, emit_streamed
from echo_core.codegen.emit.moves import Machine
from echo_core.codegen.machine.engine import compile_ir, native_target
from echo_core.codegen.plans.plan import Cast, Each, Fill, Move, Operation
from echo_core.formats.abi import Abi
from echo_core.formats.types import (
    Blob,
    Default,
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
from tests.codegen.pairs import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    I386,
    INT8,
    INT16,
    INT32,
    INT64,
    S390X,
    UINT8,
    UINT16,
    X86_64,
    Pair,
    format_of_types,
    format_with,
)

PLAIN, WIDE = Machine("little", 0), Machine("little", 32)


def written(pair: Pair, machine: Machine = PLAIN) -> dict[str, str]:
    """The functions of a pair's module by name, each line without its indentation; LLVM has taken them."""
    text = emit(pair.plan, pair.verification, machine)
    if machine.byte_order == "little":
        assert compile_ir(text, native_target())
    functions = re.findall(r"^define [^@]*@(\w+)\((?s:.*?)^\}", text, re.MULTILINE)
    bodies = re.findall(r"^define (?s:.*?)^\}", text, re.MULTILINE)
    lines = ["\n".join(line.strip() for line in body.splitlines()) for body in bodies]
    return dict(zip(functions, lines, strict=True))


def one(
    theirs: Type, ours: Type, *, sender: Abi = X86_64, receiver: Abi = X86_64, machine: Machine = PLAIN
) -> dict[str, str]:
    """The module for records of one field."""
    return written(Pair(format_of_types(sender, a=theirs), format_of_types(receiver, a=ours)), machine)


def only(functions: dict[str, str]) -> str:
    """The function of a module for records of fixed size."""
    assert set(functions) == {"convert_many"}
    return functions["convert_many"]


LIST = Sequence(INT32, (None,), 8)

# ---------------------------------------------------------------------------------------------------
# Modules


def test_pair_of_fixed_size_is_one_function_for_many_records() -> None:
    """There is nothing to verify and nothing to measure."""
    assert set(one(INT32, INT64)) == {"convert_many"}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(LIST, LIST), (LIST, StaticArray(INT32, (3,))), (StaticArray(INT32, (3,)), LIST)],
    ids=str,
)
def test_pair_with_variable_parts_is_three_functions(theirs: Type, ours: Type) -> None:
    """Whichever end has them."""
    assert set(one(theirs, ours)) == {"verify", "measure", "convert"}


def test_elements_that_are_more_than_a_move_have_a_function_of_their_own() -> None:
    """Internal to the module, and called with their number."""
    functions = one(LIST, Sequence(INT64, (None,), 8))
    assert set(functions) == {"verify", "measure", "convert", "many0"}
    assert re.search(r"call i32 @many0\(ptr %v\d+, ptr %v\d+, i64 %v\d+\)", functions["convert"])


def test_source_and_target_are_declared_apart() -> None:
    """The caller has seen to it."""
    assert "ptr noalias %source, ptr noalias %target" in only(one(INT32, INT64))
    assert "ptr noalias %record, ptr noalias %target" in one(LIST, LIST)["convert"]


def test_names_of_a_peer_never_reach_the_compiler() -> None:
    """The text is ASCII and has no word of a format in it."""
    color = Enumeration("Farbe", 1, (("GRÜN", 1),))
    pair = Pair(
        format_with(X86_64, Field("größe", color), Field("text", Text(8)), name="Zelle"),
        format_with(X86_64, Field("text", Text(8)), Field("größe", color), name="Zelle"),
    )
    text = emit(pair.plan, pair.verification, WIDE)
    assert text.isascii()
    assert not {"text", "Zelle", "Farbe"} & set(re.findall(r"\w+", text))


@pytest.mark.parametrize(("theirs", "ours"), [(FLOAT16, FLOAT32), (FLOAT64, FLOAT16)], ids=str)
def test_16_bit_floats_are_cast_without_their_type(theirs: Type, ours: Type) -> None:
    """LLVM's casts of it are calls into a library that a process may lack."""
    text = only(one(theirs, ours, machine=WIDE))
    assert "half" not in text
    assert "call" not in text.replace("@llvm.fabs", "").replace("call double", "")


def test_machine_of_the_other_byte_order_swaps_the_other_way() -> None:
    """What is foreign depends on where the code runs."""
    big = Machine("big", 0)
    grown = only(one(INT16, INT32, sender=S390X, receiver=S390X, machine=big))
    assert "bswap" not in grown
    assert "bswap" in only(one(INT16, INT32, sender=S390X, receiver=S390X))
    assert "bswap" in only(one(INT16, INT32, machine=big))


# ---------------------------------------------------------------------------------------------------
# Operations in place


def fields(*types: Type, sender: Abi = X86_64, receiver: Abi = X86_64) -> Pair:
    """The same fields in both, behind one that only the sender has, so that all are elsewhere."""
    named = {f"m{i}": type_ for i, type_ in enumerate(types)}
    return Pair(format_of_types(sender, z=INT8, **named), format_of_types(receiver, **named))


def test_same_records_are_one_copy() -> None:
    """However many there are."""
    text = only(one(StaticArray(INT64, (4,)), StaticArray(INT64, (4,))))
    assert "mul i64 %count, 32" in text
    assert "call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %v1, i1 false)" in text
    assert "phi" not in text


def test_move_is_a_copy() -> None:
    """Of a constant size, which LLVM turns into loads and stores."""
    assert "i64 12, i1 false)" in only(written(fields(INT32, INT32, INT32)))


def test_short_swapped_move_is_swapped_one_by_one() -> None:
    """Up to eight, in a line."""
    text = only(written(fields(INT32, INT32, sender=S390X)))
    assert text.count("call i32 @llvm.bswap.i32") == 2


def test_long_swapped_move_is_a_loop() -> None:
    """Of vectors where the machine has them, then of single values."""
    pair = fields(StaticArray(INT16, (100,)), Text(8), sender=S390X)
    assert "@llvm.bswap.v16i16" in written(pair, WIDE)["convert"]
    plain = written(pair)["convert"]
    assert "bswap.v" not in plain
    assert plain.count("call i16 @llvm.bswap.i16") == 1


def test_fill_is_stores_of_the_widest_integers() -> None:
    """15 bytes are 8, 4, 2 and 1."""
    receiver = format_with(
        X86_64, Field("a", INT8), Field("b", Scalar(Kind.BYTES, 15), default=Default(bytes(range(1, 16))))
    )
    text = only(written(Pair(format_of_types(X86_64, a=INT8), receiver)))
    stores = re.findall(r"store (i\d+) (\d+), ptr", text)
    assert stores == [
        ("i64", str(0x0807060504030201)),
        ("i32", str(0x0C0B0A09)),
        ("i16", str(0x0E0D)),
        ("i8", str(0x0F)),
    ]


def test_cast_of_a_field_is_its_instruction() -> None:
    """See test_casts.py for all of them."""
    assert "sext i16 %v" in only(
        written(Pair(format_of_types(X86_64, z=INT8, a=INT16), format_of_types(X86_64, a=INT32)))
    )


def test_records_that_are_one_number_are_one_run_of_casts() -> None:
    """As long as there are records."""
    text = only(one(INT16, INT32, machine=WIDE))
    assert "sext <8 x i16>" in text
    assert "and i64 %count, -8" in text


def test_number_is_looked_up_in_a_table() -> None:
    """A comparison and a choice for each member; no member at all fails."""
    theirs = Enumeration("E", 2, (("A", 1), ("B", -2)))
    ours = Enumeration("E", 4, (("B", 7), ("A", 8)))
    text = only(one(theirs, ours))
    assert re.search(r"icmp eq i16 %v\d+, 1\n", text)
    assert re.search(r"select i1 %v\d+, i32 8, i32 0", text)
    assert re.search(r"icmp eq i16 %v\d+, -2\n", text)
    assert re.search(r"select i1 %v\d+, i32 7, i32 %v\d+", text)
    assert text.count("label %fail") == 1
    assert text.endswith("fail:\nret i32 1\n}")


def test_static_array_of_records_is_a_loop() -> None:
    """With the strides of both ends."""
    text = only(one(StaticArray(Nullable(INT32), (5,)), StaticArray(Nullable(INT64), (5,))))
    assert re.search(r"icmp ult i64 %v\d+, 5\n", text)
    assert "mul i64 %v" in text
    assert len(re.findall(r"phi i64", text)) == 2  # the records, and the array in each


def test_value_that_may_be_absent_is_a_branch() -> None:
    """Its flag is set where it is present; else the zeros stay."""
    text = only(one(Nullable(INT32), Nullable(INT64)))
    assert re.search(r"icmp ne i8 %v\d+, 0\nbr i1 %v\d+, label %then\d+, label %end\d+", text)
    assert re.search(r"store i8 1, ptr %v\d+, align 1\nbr label %end", text)
    assert "call void @llvm.memset" in text


def test_value_that_must_be_present_fails_without() -> None:
    """No branch around it then."""
    text = only(one(Nullable(INT32), INT64))
    assert "label %then" not in text
    assert text.count("label %fail") == 1


def test_only_what_is_not_written_is_zeroed_before() -> None:
    """Padding, and what may stay absent."""
    assert "memset" not in only(one(INT32, INT64))
    padded = Pair(format_of_types(X86_64, a=INT8, b=INT16), format_of_types(X86_64, a=INT8, b=INT64))
    assert "memset" in only(written(padded))


@pytest.mark.parametrize(
    ("operations", "size", "covered"),
    [
        ((Move(0, 0, 8),), 8, True),
        ((Move(0, 0, 7),), 8, False),
        ((Move(0, 0, 2), Fill(2, b"ab"), Cast(2, 4, 1, INT16, INT32, is_checked=False)), 8, True),
        ((Each(0, 0, 2, 4, 4, 1), Move(0, 0, 4)), 8, False),
    ],
)
def test_record_is_covered_by_what_is_always_written(
    operations: tuple[Operation, ...], size: int, covered: bool
) -> None:
    """A loop's elements may have padding."""
    assert covers(operations, size) is covered


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_record_of_many_fields_is_shuffled(vector_bytes: int) -> None:
    """As wide as the machine does it; without vectors each value goes by itself."""
    types = (INT64, INT32, INT16, UINT8, FLOAT64, FLOAT32, INT64, INT64, INT64, INT64, INT64)
    pair = fields(*types, sender=S390X)
    text = only(written(pair, Machine("little", vector_bytes)))
    assert f"load <{vector_bytes} x i8>" in text
    assert "bswap" not in text
    assert "shufflevector" not in only(written(pair))


def test_rest_of_a_shuffled_record_is_done_after_it() -> None:
    """The shuffle writes whole vectors, over everything."""
    pair = fields(INT64, INT64, INT64, FLOAT32, INT64)
    receiver = format_of_types(X86_64, m0=INT64, m1=INT64, m2=INT64, m3=FLOAT64, m4=INT64)
    text = only(written(Pair(pair.sender, receiver), WIDE))
    assert text.index("store <32 x i8>") < text.index("fpext")


# ---------------------------------------------------------------------------------------------------
# Past the caches


def streamed(*types: Type, machine: Machine = WIDE) -> str | None:
    """The text of a conversion that drops a field and swaps the others."""
    return emit_streamed(fields(*types, sender=S390X).plan, machine)


def test_streamed_record_is_whole_aligned_vectors() -> None:
    """As wide as divide a record, and as the machine has them."""
    text = streamed(*[INT64] * 12)  # 96 bytes
    assert text is not None
    assert text.count("store <32 x i8>") == text.count("align 32, !nontemporal") == 3
    narrow = streamed(*[INT64] * 10, machine=Machine("little", 64))
    assert narrow is not None
    assert narrow.count("store <16 x i8>") == narrow.count("align 16, !nontemporal") == 5


def test_streamed_batch_ends_with_a_fence() -> None:
    """Before anyone learns that it is there."""
    text = streamed(*[INT64] * 8)
    assert text is not None
    assert text.index("store") < text.index("fence seq_cst") < text.index("ret void")


@pytest.mark.parametrize(
    ("pair", "machine"),
    [
        (fields(*[INT64] * 8, sender=S390X), PLAIN),
        (fields(*[INT64] * 9, sender=S390X), WIDE),
        (Pair(format_of_types(X86_64, a=FLOAT32), format_of_types(X86_64, a=FLOAT64)), WIDE),
        (
            Pair(
                format_of_types(X86_64, a=StaticArray(INT64, (7,)), b=FLOAT32),
                format_of_types(X86_64, a=StaticArray(INT64, (7,)), b=FLOAT64),
            ),
            WIDE,
        ),
    ],
    ids=["no vectors", "72 bytes", "a number", "a number among bytes"],
)
def test_what_is_not_whole_vectors_of_bytes_is_not_streamed(pair: Pair, machine: Machine) -> None:
    """It would touch lines again that are on their way to memory."""
    assert emit_streamed(pair.plan, machine) is None


# ---------------------------------------------------------------------------------------------------
# Variable parts


def test_verify_begins_with_the_size_and_ends_with_it() -> None:
    """Nothing is read of a record that is too short, and nothing may follow the last part."""
    text = one(LIST, LIST)["verify"]
    lines = text.splitlines()
    assert lines[:3] == [
        "define i32 @verify(ptr %record, i64 %size) {",
        "entry:",
        "%v1 = icmp uge i64 %size, 16",
    ]
    assert re.search(r"icmp eq i64 %size, %v\d+\nbr i1 %v\d+, label %on\d+, label %fail", text)


def test_verify_demands_a_part_where_the_one_before_it_ended() -> None:
    """Aligned as its elements are, and within the record."""
    text = one(Sequence(FLOAT64, (None,), 4), Sequence(FLOAT64, (None,), 8), sender=I386)["verify"]
    assert "zext i32" in text  # in 64 bits, whatever the sender's pointers are
    assert re.search(r"and i64 15, -8\n", text)
    assert re.search(r"icmp ule i64 %v\d+, %size", text)
    assert re.search(r"udiv i64 %v\d+, 8\n", text)


def test_verify_looks_for_the_end_of_a_text_within_the_record() -> None:
    """And never with strlen."""
    text = one(Text(8), Text(8))["verify"]
    assert re.search(
        r"call i64 @echo_text_size\(ptr %v\d+, i64 %v\d+\)\n%v\d+ = icmp sge i64 %v\d+, 0\n", text
    )
    assert "strlen" not in text


@pytest.mark.parametrize(("size", "words"), [(1, 1), (8, 1), (11, 3), (64, 8), (65, 0), (65535, 0)])
def test_verify_calls_for_chars_that_are_not_ascii(size: int, words: int) -> None:
    """Which it sees by itself, unless there are many."""
    chars = Sequence(Scalar(Kind.CHARS, size), (None,), 8)
    body = one(chars, chars)["verify"].partition("\nbody")[2]
    assert len(re.findall(rf"call i32 @echo_is_utf8\(ptr %v\d+, i64 {size}\)\n", body)) == 1
    assert len(re.findall(r"load i\d+, ptr", body)) == words
    assert body.count("and i64") == (1 if words else 0)


def test_chars_of_fixed_records_are_verified_where_the_result_is_not_fixed() -> None:
    """Many in a row are left to who reads them."""
    chars = Scalar(Kind.CHARS, 8)
    assert "@echo_is_utf8" in one(chars, Text(8))["verify"]
    assert "@echo_is_utf8" not in only(one(chars, Scalar(Kind.CHARS, 9)))


def test_verify_multiplies_lengths_with_a_look_at_overflow() -> None:
    """One length cannot overflow: it is bounded by what is left."""
    many = Sequence(INT32, (None, None), 8)
    assert one(many, many)["verify"].count("@llvm.umul.with.overflow.i64") == 2
    assert "overflow" not in one(LIST, LIST)["verify"]


def test_verify_wants_no_length_beside_nothing() -> None:
    """An absent sequence has neither an offset nor a length."""
    text = one(Nullable(LIST), Nullable(LIST))["verify"]
    assert re.search(r"or i1 %v\d+, %v\d+\nbr i1 %v\d+, label %on\d+, label %fail", text)
    assert re.search(r"phi i64 \[ 16, %on\d+ \]", text)


def test_measure_adds_up_what_the_target_needs() -> None:
    """A size for each part; it fails where 4-byte offsets would not reach."""
    text = one(LIST, Sequence(INT64, (None,), 8))["measure"]
    assert re.search(r"and i64 23, -8\n", text)
    assert re.search(r"mul i64 %v\d+, 8\n", text)
    assert "fail" not in text
    assert f"icmp ult i64 %v5, {2**32}" in one(LIST, Sequence(INT32, (None,), 4), receiver=I386)["measure"]


def test_elements_that_are_moved_are_one_copy() -> None:
    """As many bytes as there are elements times their size."""
    text = one(LIST, LIST)["convert"]
    assert re.search(r"mul i64 %v\d+, 4\n", text)
    assert text.count("@llvm.memcpy") == 1


def test_part_is_aligned_over_zeros() -> None:
    """The gap before it holds no old bytes of ours."""
    text = one(LIST, LIST)["convert"]
    assert re.search(r"store i8 0, ptr %v\d+, align 1", text)
    assert "store i8 0" not in one(Blob(8), Blob(8))["convert"]


def test_sequence_fails_where_a_known_length_differs() -> None:
    """Before anything is written there."""
    text = one(LIST, StaticArray(INT32, (3,)))["convert"]
    assert re.search(r"icmp eq i64 %v\d+, 3\nbr i1 %v\d+, label %on\d+, label %fail", text)
    assert text.index("label %fail") < text.index("@llvm.memcpy")


def test_known_length_may_differ_where_there_are_no_elements() -> None:
    """If another length, which the target takes over, is 0."""
    text = one(Sequence(INT32, (None, None), 8), Sequence(INT32, (None, 3), 8))["convert"]
    assert re.search(r"icmp eq i64 %v\d+, 3\n%v\d+ = icmp eq i64 %v\d+, 0\n%v\d+ = or i1", text)


def test_count_fails_where_its_field_is_too_narrow() -> None:
    """A length of 256 does not go into a byte, nor one of 128 into a signed one."""
    for scalar, limit in ((UINT8, 256), (INT8, 128), (UINT16, 65536), (INT64, 2**63)):
        pair = Pair(
            format_of_types(X86_64, a=LIST),
            format_of_types(X86_64, n=scalar, a=Sequence(INT32, ("n",), 8)),
        )
        assert re.search(rf"icmp ult i64 %v\d+, {limit}\n", written(pair)["convert"])


def test_lengths_of_one_count_are_compared() -> None:
    """What is absent counts as 0."""
    counted = Sequence(INT8, ("n",), 8)
    pair = Pair(
        format_of_types(X86_64, a=LIST, b=Nullable(StaticArray(INT8, (3,)))),
        format_of_types(X86_64, n=INT64, a=Sequence(INT32, ("n",), 8), b=Nullable(counted)),
    )
    text = written(pair)["convert"]
    assert re.search(r"select i1 %v\d+, i64 3, i64 0\n%v\d+ = icmp eq i64 %v\d+, %v\d+\nbr i1", text)


def test_text_is_copied_with_its_end() -> None:
    """As long as strlen says of a text that verify has seen end."""
    text = one(Text(8), Text(8))["convert"]
    assert "call i64 @strlen" in text
    assert re.search(r"store i8 0, ptr %v\d+, align 1", text)


def test_text_of_a_fixed_place_ends_with_the_place() -> None:
    """Where it has no NUL; what does not fit fails."""
    chars8, chars4 = Scalar(Kind.CHARS, 8), Scalar(Kind.CHARS, 4)
    text = only(one(chars8, chars4))
    assert "call ptr @memchr(ptr %v" in text
    assert re.search(r"select i1 %v\d+, i64 8, i64 %v\d+", text)
    assert re.search(r"icmp ule i64 %v\d+, 4\nbr i1 %v\d+, label %on\d+, label %fail", text)


def test_default_of_a_text_is_appended() -> None:
    """Its bytes are in the code."""
    receiver = format_with(X86_64, Field("a", INT32), Field("t", Text(8), default=Default(b"abc")))
    functions = written(Pair(format_of_types(X86_64, a=INT32), receiver))
    assert f"store i32 {int.from_bytes(b'abc' + bytes(1), 'little')}, ptr" in functions["convert"]
    assert "ret i64 20" in functions["measure"]


def test_parts_in_a_loop_are_appended_where_the_last_one_ended() -> None:
    """The end is carried round the loop."""
    text = one(Sequence(Text(8), (None,), 8), Sequence(Text(8), (None,), 8))["convert"]
    assert text.count("phi i64") >= 3
    assert "call void @llvm.memset" in text
