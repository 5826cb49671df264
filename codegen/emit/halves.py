"""16-bit floats to and from wider ones as LLVM IR, by integer arithmetic.

LLVM's own `half` becomes a call into a library, which a process may lack, wherever the CPU has no instruction
for it (x86-64 below F16C); and from a double many CPUs have none, so that it would be rounded twice. What is
here is the same on every CPU, and vectors of it are as good as single numbers.

A NaN stays one, is made quiet, and keeps the upper bits of its payload, as CPUs do it. Nothing depends on
whether a CPU is set to take subnormal numbers for zero: none arises, and those that do come in are zero in
16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from echo_core.codegen.emit.ir import Function, float_bits, float_constant, splat, vector_type

FRACTION = 10
BIAS = 15
INFINITY = 0x7C00
LEAST_NORMAL = 2.0**-14
LEAST = 2.0**-24
TOO_LARGE = 65520.0  # half way between the largest number and what would be next


@dataclass(frozen=True, slots=True)
class Wide:
    """A float that a 16-bit one is converted to or from."""

    name: str
    size: int
    fraction: int
    bias: int

    @property
    def bits(self) -> int:
        return 8 * self.size

    @property
    def shift(self) -> int:
        """How far its fraction reaches beyond that of 16 bits."""
        return self.fraction - FRACTION

    def image(self, number: float) -> int:
        """A number's bits."""
        return float_bits(number, self.size)


FLOAT = Wide("float", 4, 23, 127)
DOUBLE = Wide("double", 8, 52, 1023)


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """Operations on integers of one width, alone or in vectors of so many lanes."""

    function: Function
    bits: int
    lanes: int

    def type(self, name: str = "") -> str:
        return vector_type(name or f"i{self.bits}", self.lanes)

    def do(self, operation: str, a: str, b: str | int) -> str:
        operand = b if isinstance(b, str) else self.constant(b)
        return self.function.value(f"{operation} {self.type()} {a}, {operand}")

    def constant(self, number: int) -> str:
        return splat(number, f"i{self.bits}", self.lanes)

    def choose(self, condition: str, a: str, b: str) -> str:
        given = f"{self.type('i1')} {condition}, {self.type()} {a}, {self.type()} {b}"
        return self.function.value(f"select {given}")

    def cast(self, operation: str, given: str, value: str, wanted: str) -> str:
        return self.function.value(f"{operation} {self.type(given)} {value} to {self.type(wanted)}")


def widened(function: Function, half: str, lanes: int = 0) -> str:
    """The float of a half that is given as an i16; of so many, where there are lanes."""
    on, wide = _Arithmetic(function, FLOAT.bits, lanes), FLOAT
    bits = on.cast("zext", "i16", half, "i32")
    sign = on.do("shl", on.do("and", bits, 0x8000), 16)
    size = on.do("and", bits, 0x7FFF)
    moved = on.do("shl", size, wide.shift)
    # A subnormal number counts in units of the least.
    units = on.cast("sitofp", "i32", size, "float")
    least = splat(float_constant(LEAST), "float", lanes)
    small = on.cast("bitcast", "float", function.value(f"fmul {on.type('float')} {units}, {least}"), "i32")
    normal = on.do("add", moved, (wide.bias - BIAS) << wide.fraction)
    infinite = on.do("or", moved, wide.image(float("inf")))
    unknown = on.do("or", moved, wide.image(float("nan")))
    result = on.choose(on.do("icmp ult", size, 1 << FRACTION), small, normal)
    result = on.choose(on.do("icmp uge", size, INFINITY), infinite, result)
    result = on.choose(on.do("icmp ugt", size, INFINITY), unknown, result)
    return on.cast("bitcast", "i32", on.do("or", result, sign), "float")


def narrowed(function: Function, value: str, wide: Wide) -> str:
    """The half next to a number, as an i16: the even one of two, and infinity for what is too large."""
    on = _Arithmetic(function, wide.bits, 0)
    bits = on.cast("bitcast", wide.name, value, on.type())
    sign = on.do("and", on.do("lshr", bits, wide.bits - 16), 0x8000)
    size = on.do("and", bits, (1 << (wide.bits - 1)) - 1)
    # Where numbers are as far apart as the least half, an addition rounds to those.
    unit = LEAST * 2.0**wide.fraction
    absolute = on.cast("bitcast", on.type(), size, wide.name)
    summed = function.value(f"fadd {wide.name} {absolute}, {float_constant(unit)}")
    small = on.do("sub", on.cast("bitcast", wide.name, summed, on.type()), wide.image(unit))
    moved = on.do("sub", size, (wide.bias - BIAS) << wide.fraction)
    odd = on.do("and", on.do("lshr", moved, wide.shift), 1)
    raised = on.do("add", on.do("add", moved, (1 << (wide.shift - 1)) - 1), odd)
    normal = on.do("lshr", raised, wide.shift)
    payload = on.do("and", on.do("lshr", size, wide.shift), (1 << FRACTION) - 1)
    unknown = on.do("or", payload, INFINITY | 1 << (FRACTION - 1))
    result = on.choose(on.do("icmp ult", size, wide.image(LEAST_NORMAL)), small, normal)
    result = on.choose(on.do("icmp uge", size, wide.image(TOO_LARGE)), on.constant(INFINITY), result)
    result = on.choose(on.do("icmp ugt", size, wide.image(float("inf"))), unknown, result)
    return on.cast("trunc", on.type(), on.do("or", result, sign), "i16")
