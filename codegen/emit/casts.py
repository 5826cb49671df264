"""Numbers from one type to another, as LLVM IR: one by one, or as vectors where nothing has to be checked.

Precision may go, range may not: a checked cast fails on what does not fit. The rules are those of
`interpreter.cast_number`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from echo_core.codegen.emit.halves import DOUBLE, FLOAT, INFINITY, TOO_LARGE, narrowed, widened
from echo_core.codegen.emit.ir import Function, float_constant, vector_type
from echo_core.codegen.plans.plan import Cast
from echo_core.formats.leaves import integer_range
from echo_core.formats.types import Kind, Scalar

# The type in which arithmetic on a 16-bit float is done.
SINGLE = Scalar(Kind.FLOAT, 4)


def ir_type(scalar: Scalar) -> str:
    """The IR type of a number; 16-bit floats are handled as their bits."""
    if scalar.kind is Kind.FLOAT and scalar.size > 2:
        return {4: "float", 8: "double"}[scalar.size]
    return f"i{8 * scalar.size}"


def _is_half(scalar: Scalar) -> bool:
    return scalar.kind is Kind.FLOAT and scalar.size == 2


def load_number(function: Function, scalar: Scalar, pointer: str, *, is_swapped: bool, lanes: int = 0) -> str:
    """Loads a number, or a vector of so many."""
    bits = vector_type(f"i{8 * scalar.size}", lanes)
    value = function.load(bits, pointer)
    if is_swapped and scalar.size > 1:
        value = function.swap(bits, value)
    return _as(function, value, bits, vector_type(ir_type(scalar), lanes))


def store_number(
    function: Function, scalar: Scalar, value: str, pointer: str, *, is_swapped: bool, lanes: int = 0
) -> None:
    """Stores a number, or a vector of so many."""
    bits = vector_type(f"i{8 * scalar.size}", lanes)
    value = _as(function, value, vector_type(ir_type(scalar), lanes), bits)
    if is_swapped and scalar.size > 1:
        value = function.swap(bits, value)
    function.store(bits, value, pointer)


def _as(function: Function, value: str, given: str, wanted: str) -> str:
    return value if given == wanted else function.value(f"bitcast {given} {value} to {wanted}")


def cast_values(
    function: Function,
    cast: Cast,
    source: str,
    target: str,
    count: str,
    swaps: tuple[bool, bool],
    vector_bytes: int,
) -> None:
    """Converts `count` adjacent numbers: in vectors while there are enough, then one by one."""
    if count == "1":
        _cast_at(function, cast, source, target, "0", swaps)
        return
    lanes = vector_bytes // max(cast.sender.size, cast.receiver.size) if _is_plain(cast) else 0
    for index, is_vector in function.in_steps(count, lanes if lanes > 1 else 0):
        _cast_at(function, cast, source, target, index, swaps, lanes if is_vector else 0)


def _is_plain(cast: Cast) -> bool:
    return not cast.is_checked and Kind.BOOL not in (cast.sender.kind, cast.receiver.kind)


def _cast_at(
    function: Function,
    cast: Cast,
    source: str,
    target: str,
    index: str,
    swaps: tuple[bool, bool],
    lanes: int = 0,
) -> None:
    """Converts the number at an index, or so many from there on."""
    place = function.at(source, function.multiply(index, cast.sender.size))
    value = load_number(function, cast.sender, place, is_swapped=swaps[0], lanes=lanes)
    value = cast_value(function, cast, value, lanes)
    place = function.at(target, function.multiply(index, cast.receiver.size))
    store_number(function, cast.receiver, value, place, is_swapped=swaps[1], lanes=lanes)


def cast_value(function: Function, cast: Cast, value: str, lanes: int = 0) -> str:
    """A number, or a vector of so many, in the receiver's type; fails where a check does."""
    if _is_half(cast.sender):
        cast, value = replace(cast, sender=SINGLE), widened(function, value, lanes)
    types = [vector_type(ir_type(scalar), lanes) for scalar in (cast.sender, cast.receiver)]
    if cast.sender.kind is Kind.BOOL:  # any byte but 0 is true
        is_true = function.value(f"icmp ne i8 {value}, 0")
        return function.value(f"zext i1 {is_true} to {types[1]}")
    if cast.is_checked:
        _check(function, cast, value)
    if _is_half(cast.receiver):
        result = _halved(function, cast, value)
    elif types[0] == types[1]:
        return value
    else:
        result = function.value(f"{_instruction(cast)} {types[0]} {value} to {types[1]}")
    if cast.is_checked and cast.sender.kind is cast.receiver.kind is Kind.FLOAT:
        _check_finite(function, cast, value, result)
    return result


def _halved(function: Function, cast: Cast, value: str) -> str:
    """To a half. A double is converted at once: by way of a float it would be rounded twice."""
    type_ = ir_type(cast.sender)
    if cast.sender.kind is not Kind.FLOAT:
        value = function.value(f"{_instruction(cast)} {type_} {value} to float")
    return narrowed(function, value, DOUBLE if type_ == "double" else FLOAT)


def _instruction(cast: Cast) -> str:
    """The IR instruction for two types that differ."""
    sender, receiver = cast.sender, cast.receiver
    if sender.kind is Kind.FLOAT:
        if receiver.kind is Kind.FLOAT:
            return "fpext" if receiver.size > sender.size else "fptrunc"
        return "fptosi" if receiver.kind is Kind.INT else "fptoui"
    if receiver.kind is Kind.FLOAT:
        return "sitofp" if sender.kind is Kind.INT else "uitofp"
    if receiver.size < sender.size:
        return "trunc"
    return "sext" if sender.kind is Kind.INT else "zext"


def _check(function: Function, cast: Cast, value: str) -> None:
    """Fails unless the value lies within the receiver's range."""
    receiver = cast.receiver
    if receiver.kind is Kind.FLOAT and (cast.sender.kind is Kind.FLOAT or not _is_half(receiver)):
        return  # a float is checked when it has been rounded; an integer always lies within all but halves
    low, high = _range_of(receiver)
    if cast.sender.kind is Kind.FLOAT:
        _check_float(function, cast, value, low, high)
        return
    least, most = integer_range(cast.sender.kind, cast.sender.size)
    signed = "s" if cast.sender.kind is Kind.INT else "u"
    type_ = ir_type(cast.sender)
    if low > least:
        function.fail_unless(function.value(f"icmp {signed}ge {type_} {value}, {low}"))
    if high < most:
        function.fail_unless(function.value(f"icmp {signed}le {type_} {value}, {high}"))


def _range_of(scalar: Scalar) -> tuple[int, int]:
    """The integers that a number may be cut or rounded from."""
    match scalar.kind:
        case Kind.BOOL:
            return 0, 1
        case Kind.FLOAT:
            return 1 - int(TOO_LARGE), int(TOO_LARGE) - 1
        case _:
            return integer_range(scalar.kind, scalar.size)


def _check_float(function: Function, cast: Cast, value: str, low: int, high: int) -> None:
    """What is cut to an integer must lie between the integers next beyond the range, both excluded."""
    type_ = ir_type(cast.sender)
    precision = 24 if cast.sender.size == 4 else 53
    if (low - 1).bit_length() <= precision:
        function.fail_unless(function.value(f"fcmp ogt {type_} {value}, {float_constant(low - 1)}"))
    else:  # the number below the range has no float: the range's own end is included instead
        function.fail_unless(function.value(f"fcmp oge {type_} {value}, {float_constant(low)}"))
    function.fail_unless(function.value(f"fcmp olt {type_} {value}, {float_constant(high + 1)}"))


def _check_finite(function: Function, cast: Cast, value: str, result: str) -> None:
    """Fails if rounding has made a finite number infinite."""
    infinite = [
        _is_infinite(function, scalar, number)
        for scalar, number in ((cast.sender, value), (cast.receiver, result))
    ]
    function.fail_unless(function.value(f"icmp eq i1 {infinite[0]}, {infinite[1]}"))


def _is_infinite(function: Function, scalar: Scalar, number: str) -> str:
    type_ = ir_type(scalar)
    if _is_half(scalar):
        size = function.value(f"and i16 {number}, {0x7FFF}")
        return function.value(f"icmp eq i16 {size}, {INFINITY}")
    size = function.value(f"call {type_} @llvm.fabs.f{8 * scalar.size}({type_} {number})")
    return function.value(f"fcmp oeq {type_} {size}, {float_constant(math.inf)}")
