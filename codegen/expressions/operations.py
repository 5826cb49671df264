"""The operations of expressions, and which operands each takes. The numbers are those of the wire form."""

from __future__ import annotations

import enum


class Op(enum.IntEnum):
    """What a node of a tree does."""

    FIELD = 1  # place or none, number of the field
    ELEMENT = 2  # array, number of the loop: each element in turn
    CONSTANT = 3  # number of the constant
    PARAMETER = 4  # number of the parameter; for the name of a member, a value of its enumeration
    LENGTH = 5
    INDEX = 6  # array, int
    SLICE = 7  # array, constants or none: start, stop
    IS_NONE = 8

    PREVIOUS = 10  # the value at the event before
    LAST = 11  # the value at the last event that passed
    COUNT = 12  # of events before
    MEAN = 13
    EWMA = 14  # value, constant
    DIGEST = 16  # text or bytes, as what is remembered of them
    REACHED = 15  # the value at the last event that was selected: what `on_change` compares with

    NEGATE = 20
    NOT = 21
    INVERT = 22
    ABS = 23
    SQRT = 24
    FLOOR = 25
    CEIL = 26
    IS_NAN = 27
    IS_INF = 28
    IS_FINITE = 29
    TO_INT = 30
    TO_FLOAT = 31

    ADD = 40
    SUBTRACT = 41
    MULTIPLY = 42
    DIVIDE = 43
    FLOOR_DIVIDE = 44
    MODULO = 45
    POWER = 46  # value, exponent
    BIT_AND = 47
    BIT_OR = 48
    BIT_XOR = 49
    SHIFT_LEFT = 50
    SHIFT_RIGHT = 51
    MIN = 52
    MAX = 53

    EQ = 60
    NE = 61
    LT = 62
    LE = 63
    GT = 64
    GE = 65
    STARTS = 66
    ENDS = 67
    CONTAINS = 68
    IN = 69  # value, number of the constant that is a set

    AND = 80
    OR = 81
    CHOOSE = 82  # condition, value, other value

    SUM = 90  # element, value for it, condition or none; so are those below
    ANY = 91
    ALL = 92
    LEAST = 93
    GREATEST = 94


NONE = 0xFFFF  # an operand that is not there

# Of each operand: n a node, o a node or none, i a number, - nothing.
_OPERANDS: dict[Op, str] = {
    Op.FIELD: "oi-",
    Op.ELEMENT: "ni-",
    Op.CONSTANT: "i--",
    Op.PARAMETER: "io-",
    Op.SLICE: "noo",
    Op.COUNT: "---",
    Op.POWER: "ni-",
    Op.IN: "ni-",
    Op.CHOOSE: "nnn",
    **dict.fromkeys((Op.SUM, Op.ANY, Op.ALL, Op.LEAST, Op.GREATEST), "nno"),
    **dict.fromkeys((Op.INDEX, Op.EWMA, Op.AND, Op.OR), "nn-"),
    **{op: "nn-" for op in Op if Op.ADD <= op <= Op.CONTAINS and op is not Op.POWER},
}

OPERANDS: dict[Op, str] = {op: _OPERANDS.get(op, "n--") for op in Op}

REDUCTIONS = frozenset({Op.SUM, Op.ANY, Op.ALL, Op.LEAST, Op.GREATEST})
STATES = frozenset({Op.PREVIOUS, Op.LAST, Op.COUNT, Op.MEAN, Op.EWMA, Op.REACHED})

# How much more than 1 some operations cost. Frozen with the version of the wire form, so that what is
# accepted stays accepted.
COSTS: dict[Op, int] = {
    **dict.fromkeys((Op.DIVIDE, Op.FLOOR_DIVIDE, Op.MODULO, Op.SQRT), 4),
    **dict.fromkeys((Op.POWER, Op.STARTS, Op.ENDS, Op.CONTAINS, Op.DIGEST), 8),
}
