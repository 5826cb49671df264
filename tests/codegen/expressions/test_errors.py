"""Errors in expressions: each says expected and got, and points at the part that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.expressions import limits
from tests.codegen.expressions.particles import Particle

REFUSED = [
    ("tmp > 3", "a field of `Particle` or a parameter, got `tmp`: is `temp` meant?", "tmp"),
    ("temp > 'high'", "compared with `float32` (Particle.temp), got `text`", "'high'"),
    ("at.z > 1", "a field of `Point`, got `z`", "at.z"),
    (
        "kind == 'iom'",
        "a member of `enum Kind` (Particle.kind), got 'iom': it has ion, electron, photon",
        "'iom'",
    ),
    ("kind > 'ion'", "what has an order, got `enum Kind`", "kind"),
    ("origin.x > 1", "one that may be: say `origin is not None and ...`", "origin"),
    ("weight > 1", "one that may be: say `weight is not None and ...`", "weight"),
    ("note is not None or note == 'x'", "one that may be", "note"),
    ("temp is None", "what can be None, got `float32` (Particle.temp)", "temp"),
    ("temp is 3", "None after `is`", "3"),
    ("hot + 1 > 0", "a number for add, got `bool` (Particle.hot)", "hot"),
    ("hot == 1", "what can be compared with `bool`", "1"),
    ("temp and hot", "a condition (`bool`), got `float32` (Particle.temp)", "temp"),
    ("not id", "say what it has to be", "id"),
    ("temp", "a condition (`bool`), got `float32`", "temp"),
    ("mass - id > 0", "two `int` or two `uint64`, got one of each: say `int(...)`", "mass"),
    ("-mass > 0", "an `int` or a `float` to negate", "mass"),
    ("temp & 1 > 0", "an integer for bits", "temp"),
    ("id ** 5 > 0", "an exponent from 0 to 4", "5"),
    ("id ** id > 0", "a constant exponent", "id"),
    ("name + 'x' == 'y'", "texts are compared, never made", "name + 'x'"),
    ("raw == 'x'", "compared with `bytes`", "'x'"),
    ("pair == 1", "a field that expressions can use, got `complex128`", "pair"),
    ("parts > 1", "compared with `float64[...]`", "1"),
    ("1.0 in parts", "any(x == 1.0 for x in parts)", "parts"),
    ("parts[temp] > 1", "an int as index", "temp"),
    ("parts[::2]", "a slice without a step", "2"),
    ("parts[:id] == 1", "constant ints as bounds", "id"),
    ("id in (1, cell)", "a constant in a set", "cell"),
    ("id in ('a',)", "a value of `int64`", "'a'"),
    ("sum(hot for p in points) > 0", "numbers to add, got `bool` (Particle.hot)", "hot"),
    ("any(x for x in parts)", "a condition", "x"),
    ("any(x > y for x in parts for y in parts)", "nest reductions", None),
    ("any(any(x > y for y in parts) for x in parts)", "over the outer element's parts", None),
    ("any(previous(x) is None for x in parts)", "what is remembered of an event as a whole", None),
    ("previous(parts) is None", "to remember", "parts"),
    ("ewma(temp, 2) is None", "a constant weight above 0", "2"),
    ("__import__('os')", "a function of the language", "__import__"),
    ("name.upper() == 'X'", "a function of the language", "name.upper"),
    ("(lambda: 1)() > 0", "a function of the language", None),
    ("id if hot else temp", "two of one type", "temp"),
    ("[x for x in parts]", "got `ListComp`", None),
    ("f'{id}' == '1'", "got `JoinedStr`", None),
    ("(y := id) > 1", "got `NamedExpr`", None),
    ("id == 99999999999999999999999", "a number of 64 bits", "99999999999999999999999"),
    ("id == 1j", "a number of 64 bits", "1j"),
    ("id @ 2 > 0", "an operator of the language", None),
    ("max(id, temp) > 0", "two of one type", "temp"),
    ("len(id) > 0", "an array, text or bytes", "id"),
    ("sqrt(hot) > 0", "a float, got `bool`", "hot"),
    ("id >", "Python's syntax", None),
    ("", "Python's syntax", None),
    ("id > 0 # \x00", "Python's syntax", None),
]


@pytest.mark.parametrize(("text", "said", "marked"), REFUSED)
def test_what_is_wrong_is_said_and_marked(text: str, said: str, marked: str | None) -> None:
    """A caret under each character of the part."""
    with pytest.raises(echo.ExpressionError) as caught:
        echo.where(Particle, text)
    message = str(caught.value)
    first, *rest = message.split("\n")
    assert said in message
    assert first.startswith("Expected ")
    line, carets = rest[-2:]
    start, end = carets.index("^"), len(carets)
    assert set(carets.strip()) == {"^"}
    if marked is not None:
        assert line[start:end] == marked


def test_a_parameter_that_no_expression_names_is_refused() -> None:
    """It is misspelled here or there."""
    with pytest.raises(echo.ExpressionError, match="parameters that the expression names, got `limt`"):
        echo.where(Particle, "temp > limit", limit=1.0, limt=2.0)


def test_a_parameter_named_as_a_field_is_refused() -> None:
    """Which of the two was meant, nobody can tell."""
    with pytest.raises(echo.ExpressionError, match="another name for the parameter"):
        echo.where(Particle, "temp > energy", energy=1.0)


def test_a_parameter_of_another_type_is_refused() -> None:
    """When it is given and when it is set."""
    with pytest.raises(echo.ExpressionError, match="as `limit`, got `object`"):
        echo.where(Particle, "temp > limit", limit=object())
    predicate = echo.where(Particle, "id > limit and kind == wanted", limit=1, wanted="ion")
    with pytest.raises(echo.ExpressionError, match="`int` as `limit`, got `float`: give it as a float"):
        predicate.set(limit=1.5)
    with pytest.raises(echo.ExpressionError, match="a parameter of limit, wanted, got `limt`"):
        predicate.set(limt=1)
    with pytest.raises(echo.ExpressionError, match="`int` as `limit`, got `str`"):
        predicate.set(limit="x")


def test_a_where_without_anything_is_refused() -> None:
    """There would be nothing to judge; so are rates that are none."""
    with pytest.raises(echo.ExpressionError, match="a condition or `on_change`, got neither"):
        echo.where(Particle)
    with pytest.raises(echo.ExpressionError, match="`every` from 1"):
        echo.where(Particle, "hot", every=0)
    with pytest.raises(echo.ExpressionError, match="`min_interval_s` from 0"):
        echo.where(Particle, "hot", min_interval_s=-1.0)
    with pytest.raises(echo.ExpressionError, match="never None"):
        echo.where(Particle, on_change="weight")


# ---------------------------------------------------------------------------
# Limits: one less, as many, one more


def is_accepted(text: str, **parameters: Any) -> bool:
    """Whether it becomes a predicate; what is refused is so because of a limit."""
    try:
        echo.where(Particle, text, tier="interpreted", **parameters)
    except echo.ExpressionError as error:
        if "at most" in str(error) or "less nesting" in str(error):
            return False
        raise
    return True


def around(limit: int, made: Callable[[int], str]) -> list[bool]:
    """Of what is written for one less, as many, and one more."""
    return [is_accepted(made(limit + more)) for more in (-1, 0, 1)]


def test_the_text_of_an_expression_is_bounded() -> None:
    """Before anything parses it."""
    assert around(limits.MAX_TEXT_BYTES, lambda n: "hot".ljust(n)) == [True, True, False]


def test_the_nodes_of_a_tree_are_bounded() -> None:
    """A field, a constant, and two for each addition of another one; the parameter and the comparison."""

    def of_nodes(n: int) -> str:
        # Sums of differing constants are balanced, so that depth is no limit: id + 1, (id + 2) ...
        terms = [f"(id + {i})" for i in range(1, (n - 3) // 3 + 1)]
        while len(terms) > 1:
            terms = [f"({'+'.join(pair)})" for pair in zip(terms[::2], terms[1::2], strict=False)] + (
                terms[-1:] if len(terms) % 2 else []
            )
        return f"{'-' * ((n - 3) % 3 + 0)}{terms[0]} > 0"

    counted = [n for n in range(240, 275) if is_accepted(of_nodes(n))]
    assert counted
    assert is_accepted(of_nodes(240))
    assert not is_accepted(of_nodes(274))


def test_the_depth_of_a_tree_is_bounded() -> None:
    """The field is one level, the comparison another."""
    assert around(limits.MAX_DEPTH, lambda n: f"{'abs(' * (n - 2)}id{')' * (n - 2)} > 0") == [
        True,
        True,
        False,
    ]


def test_parameters_and_compared_literals_are_bounded() -> None:
    """Each literal that is compared is one."""

    def of_literals(n: int) -> str:
        terms = [f"id == {i}" for i in range(n)]
        while len(terms) > 1:
            pairs = [f"({' or '.join(terms[i : i + 2])})" for i in range(0, len(terms), 2)]
            terms = pairs
        return terms[0]

    assert around(limits.MAX_PARAMETERS, of_literals) == [True, True, False]


def test_a_set_is_bounded() -> None:
    """In members; and all constants together in bytes."""
    assert around(limits.MAX_SET_MEMBERS, lambda n: f"id in {tuple(range(n))}") == [True, True, False]
    texts = [tuple("x" * 1000 + str(i) for i in range(n)) for n in (4, 5)]
    assert is_accepted("name in some", some=texts[0])
    assert not is_accepted("name in some", some=texts[1])


def test_work_for_an_event_is_bounded() -> None:
    """Loops over arrays of fixed length count as often as these are long."""

    @echo.event
    class Long:
        row: echo.Array[echo.Float64, 100]
        square: echo.Array[echo.Float64, 30, 30]

    def accepted(text: str) -> bool:
        try:
            echo.where(Long, text, tier="interpreted")
        except echo.ExpressionError as error:
            if "units of work" in str(error):
                return False
            raise
        return True

    assert accepted("sum(x * 2 for x in row) > 0")
    assert not accepted("sum(x ** 2 + x ** 3 for x in row) > 0")
    assert not accepted("sum(sum(x * 2 for x in y) for y in square) > 0")


def test_remembered_values_are_bounded() -> None:
    """16 of them: 256 bytes."""

    def of_states(n: int) -> str:
        terms = [f"previous(id + {i}) is None" for i in range(n)]
        while len(terms) > 1:
            terms = [f"({' or '.join(terms[i : i + 2])})" for i in range(0, len(terms), 2)]
        return terms[0]

    assert around(limits.MAX_STATES, of_states) == [True, True, False]


def test_syntax_that_would_exhaust_the_parser_is_refused() -> None:
    """Unary minuses and parentheses are cheap to write."""
    for text in ("-" * 4000 + "1 > 0", "(" * 4000, "id" + ".x" * 2000, "not " * 1000 + "hot"):
        with pytest.raises(echo.ExpressionError):
            echo.where(Particle, text)
