"""Programs as LLVM IR.

    i64 @judge(ptr record, i64 size, ptr parameters, ptr states, ptr results)
    i64 @filter(ptr rows, i64 count, ptr parameters, ptr indices)       how many rows pass; their numbers
    void @copy(ptr rows, ptr indices, i64 count, ptr target)
    i64 @table(ptr record, i64 size, ptr columns, i64 words, ptr mask)  64 rows of parameters in each word

A record is at least as large as its fixed part. Where a step fails, the function returns -1 at once, also
where a guard says that nobody asks for that step: the caller then interprets all of them, which knows. So
compiled code has no branches but for what can fail, and no errors to carry.

In @table what depends on parameters is a vector of eight rows, and all else is computed once.
"""

from __future__ import annotations

from collections.abc import Callable

from echo_core.codegen.emit.ir import LIKELY, Function
from echo_core.codegen.expressions.emit_steps import Steps
from echo_core.codegen.expressions.emit_values import LANES
from echo_core.codegen.expressions.program import Program, Step
from echo_core.codegen.expressions.sorts import Sort
from echo_core.errors import CompileError

_DECLARATIONS = (
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "declare i16 @llvm.bswap.i16(i16)",
    "declare i32 @llvm.bswap.i32(i32)",
    "declare i64 @llvm.bswap.i64(i64)",
    "declare i32 @echo_compare_int(i64, double)",
    "declare i32 @echo_compare_uint(i64, double)",
    "declare double @echo_floor_divide(double, double)",
    "declare double @echo_remainder(double, double)",
    "declare double @echo_power(double, i64)",
    "declare double @echo_floor(double)",
    "declare double @echo_ceil(double)",
    "declare i32 @echo_compare_bytes(ptr, i64, ptr, i64)",
    "declare i32 @echo_starts(ptr, i64, ptr, i64)",
    "declare i32 @echo_ends(ptr, i64, ptr, i64)",
    "declare i32 @echo_contains(ptr, i64, ptr, i64)",
    "declare i64 @echo_count_characters(ptr, i64)",
    "declare i64 @echo_digest(ptr, i64)",
    "declare i64 @echo_chars_size(ptr, i64)",
    "declare i64 @echo_slot_text_size(ptr, i64, i64)",
)


IN_LOOP = 64
"""So many steps are emitted once more within the loop of rows; of more, the compiler would take most of its
time for that, and the call that is saved is little beside them."""


def emit(program: Program) -> str:
    """The module that judges records one by one, and rows where that is possible."""
    functions = [_judge(program)]
    if has_filter(program):
        functions.append(_filter(program) if len(program.steps) <= IN_LOOP else _filter_by_calls(program))
    return _module(program, [*functions, _copy(program)])


def emit_judge(program: Program) -> str:
    """The module that judges records one by one, and nothing else: a third of the time to compile."""
    return _module(program, [_judge(program)])


def emit_text(program: Program) -> str:
    """The module that says where the one text is that a program reads: its @judge gives address and size."""
    function = Function(_JUDGE, failure="i64 -1")
    steps = Steps(function, program)
    steps.run(range(len(program.steps)))
    text = steps.values[program.roots[0][0]]
    function.store("ptr", text.name, "%results")
    function.store("i64", text.count, function.at("%results", 8))
    function.do("ret i64 0")
    return _module(program, [function])


def has_filter(program: Program) -> bool:
    """Whether rows can be judged by themselves: all roots are conditions, and nothing is remembered."""
    return not program.states and all(sort is Sort.BOOL for _, sort in program.roots)


def emit_table(program: Program) -> str:
    """The module that judges a record by many rows of parameters; CompileError where vectors cannot."""
    return _module(program, [_table(program)])


def _module(program: Program, functions: list[Function]) -> str:
    pool = "".join(f"\\{byte:02X}" for byte in program.pool)
    constants = (
        [f'@pool = private unnamed_addr constant [{len(program.pool)} x i8] c"{pool}"'] if pool else []
    )
    vectors = sorted(
        {name for function in functions for line in function.lines for name in _vectors_in(line)}
    )
    texts = (function.text() for function in functions)
    return "\n".join([*_DECLARATIONS, *vectors, *constants]) + "\n\n" + "\n\n".join([*texts, LIKELY]) + "\n"


def _vectors_in(line: str) -> list[str]:
    """The declarations of intrinsics that a line calls, of numbers and of vectors."""
    found: list[str] = []
    _, call, rest = line.partition("call ")
    if call and "@llvm." in rest and "bswap" not in rest and "memcpy" not in rest:
        type_, _, signature = rest.partition(" @")
        name, _, arguments = signature.partition("(")
        types = [part.rsplit(" ", 1)[0].strip() for part in _split(arguments.rstrip(")"))]
        found.append(f"declare {type_} @{name}({', '.join(types)})")
    return found


def _split(arguments: str) -> list[str]:
    """Arguments of a call; the commas within vectors are not between them."""
    parts: list[str] = []
    depth, part = 0, ""
    for character in arguments:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [*parts, part]


# ---------------------------------------------------------------------------
# Functions


_JUDGE = "i64 @judge(ptr %record, i64 %size, ptr %parameters, ptr %states, ptr %results)"


def _judge(program: Program) -> Function:
    function = Function(_JUDGE, failure="i64 -1")
    steps = Steps(function, program)
    steps.run(range(len(program.steps)))
    mask = "0"
    for i, (step, sort) in enumerate(program.roots):
        if sort is Sort.BOOL:
            bit = function.value(f"zext i1 {steps.get(step, 'i1')} to i64")
            shifted = function.value(f"shl i64 {bit}, {i}")
            mask = shifted if mask == "0" else function.value(f"or i64 {mask}, {shifted}")
        elif sort not in (Sort.TEXT, Sort.BYTES):
            function.store("i64", steps.bits(step), function.at("%results", 8 * i))
    for i, update in enumerate(program.updates, len(program.roots)):
        function.store("i64", steps.bits(update.step), function.at("%results", 8 * i))
    function.do(f"ret i64 {mask}")
    return function


def _filter(program: Program) -> Function:
    function = Function("i64 @filter(ptr %rows, i64 %count, ptr %parameters, ptr %indices)", failure="i64 -1")
    steps = Steps(function, program, record="%row", size=str(program.record_size))
    reading = _depending(program, lambda step: step.op.startswith(_OF_RECORD))
    steps.run(i for i in range(len(program.steps)) if i not in reading)
    with function.loop("%count", ["0"]) as loop:
        steps.record = function.at("%rows", function.multiply(loop.index, program.record_size))
        steps.run(i for i in range(len(program.steps)) if i in reading)
        number = function.value(f"trunc i64 {loop.index} to i32")
        at = function.value(f"getelementptr i32, ptr %indices, i64 {loop.carried[0]}")
        function.store("i32", number, at)
        passes = ""
        for step, _ in program.roots:
            holds = steps.get(step, "i1")
            passes = holds if not passes else function.value(f"and i1 {passes}, {holds}")
        loop.carried = [function.add(loop.carried[0], function.value(f"zext i1 {passes} to i64"))]
    function.do(f"ret i64 {loop.carried[0]}")
    return function


def _filter_by_calls(program: Program) -> Function:
    function = Function("i64 @filter(ptr %rows, i64 %count, ptr %parameters, ptr %indices)", failure="i64 -1")
    size = program.record_size
    with function.loop("%count", ["0"]) as loop:
        row = function.at("%rows", function.multiply(loop.index, size))
        arguments = f"ptr {row}, i64 {size}, ptr %parameters, ptr null, ptr null"
        mask = function.value(f"call i64 @judge({arguments})")
        function.fail_unless(function.value(f"icmp sge i64 {mask}, 0"))
        number = function.value(f"trunc i64 {loop.index} to i32")
        at = function.value(f"getelementptr i32, ptr %indices, i64 {loop.carried[0]}")
        function.store("i32", number, at)
        passes = function.value(f"icmp eq i64 {mask}, {(1 << len(program.roots)) - 1}")
        loop.carried = [function.add(loop.carried[0], function.value(f"zext i1 {passes} to i64"))]
    function.do(f"ret i64 {loop.carried[0]}")
    return function


def _copy(program: Program) -> Function:
    size = program.record_size
    function = Function(
        "void @copy(ptr noalias %rows, ptr noalias %indices, i64 %count, ptr noalias %target)"
    )
    with function.loop("%count", []) as loop:
        at = function.value(f"getelementptr i32, ptr %indices, i64 {loop.index}")
        number = function.value(f"zext i32 {function.load('i32', at)} to i64")
        source = function.at("%rows", function.multiply(number, size))
        target = function.at("%target", function.multiply(loop.index, size))
        function.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
    function.do("ret void")
    return function


def _table(program: Program) -> Function:
    signature = "i64 @table(ptr %record, i64 %size, ptr %columns, i64 %words, ptr %mask)"
    function = Function(signature, failure="i64 -1")
    steps = Steps(function, program)
    varying = _depending(program, lambda step: step.op == "PARAM")
    loops = [i for i, step in enumerate(program.steps) if step.op == "FOR"]
    if any(i in varying for loop in loops for i in range(loop, program.steps[loop].b + 1)):
        msg = "Expected parameters outside of loops, got some within"
        raise CompileError(msg)
    steps.run(i for i in range(len(program.steps)) if i not in varying)
    blocks = function.multiply("%words", 64 // LANES)
    with function.loop(blocks, []) as loop:
        word = function.value(f"lshr i64 {loop.index}, {(64 // LANES).bit_length() - 1}")
        rest = function.value(f"and i64 {loop.index}, {64 // LANES - 1}")
        begin = function.multiply(word, 64 * 8 * len(program.slots))
        steps.columns = function.at("%columns", function.add(begin, function.multiply(rest, 8 * LANES)))
        steps.run(i for i in range(len(program.steps)) if i in varying)
        holds = steps.get(program.roots[0][0], "i1", lanes=LANES)
        byte = function.value(f"bitcast <{LANES} x i1> {holds} to i{LANES}")
        function.store(f"i{LANES}", byte, function.at("%mask", loop.index))
    function.do("ret i64 0")
    return function


_OF_RECORD = ("LOAD", "CHARS", "FIXED", "TEXT", "REGION", "ARRAY")


def _depending(program: Program, begins: Callable[[Step], bool]) -> set[int]:
    """The steps that depend on such ones. A loop that holds one does as a whole: it is emitted at once."""
    found: set[int] = set()
    for i, step in enumerate(program.steps):
        is_constant = step.op in ("TEXT_CONST", "TEXT_PARAM")
        if (begins(step) and not is_constant) or any(it in found for it in step.operands()):
            found.add(i)
    for i, step in enumerate(program.steps):
        if step.op == "FOR" and any(it in found for it in range(i, step.b + 1)):
            found.update(range(i, step.b + 1))
    return _closed(program, found)


def _closed(program: Program, found: set[int]) -> set[int]:
    for i, step in enumerate(program.steps):
        if i not in found and any(it in found for it in step.operands()):
            found.add(i)
    return found
