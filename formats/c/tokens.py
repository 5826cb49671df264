"""C text as tokens, and a cursor that goes over them once, from left to right.

Comments and include guards are dropped and integer constants are replaced here. Any other preprocessor line
is refused, because it could change the text after it. The meaning of words is not known here: the cursor is
given the words of types, and only makes sure that they are not redefined.

One regular expression with possessive repetitions splits the text. Brackets are paired and their nesting is
limited before anything is read. So every text takes linear time and a bounded stack.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from echo_core.errors import FormatError, unexpected
from echo_core.formats import limits

# A comment without an end reaches to the end of the text: were it no match, `/*/*/*` would be read
# once for each of its slashes.
_BLOCK = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_TOKEN = re.compile(
    rf"""
      (?P<blank>     \s++ | //[^\n]*+ )
    | (?P<comment>   {_BLOCK} )
    | (?P<directive> \#(?:\\\n|//[^\n]*+|{_BLOCK}|[^\n])*+ )
    | (?P<word>      [^\W\d]\w*+ )
    | (?P<number>    [0-9]\w*+ )
    | (?P<string>    "(?:\\.|[^"\\\n])*+" )
    | (?P<mark>      \.\.\.|. )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENTS = re.compile(rf"//.*+|{_BLOCK}", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18}))[uUlL]{0,3}")
_IGNORED = re.compile(
    r"(?:include\b.*|pragma (?:once|GCC diagnostic .*)|endif|define __counted_by\(\.\.\.\)|\d+ \".*)?"
)
_DEFINE = re.compile(r"define (\w+)(?: \(?(-?\w+)\)?)?")


class Token(NamedTuple):
    """A part of the text, and where in it the part begins; `kind` is a group of `_TOKEN`, or "end"."""

    kind: str
    text: str
    at: int


# ---------------------------------------------------------------------------
# From text to tokens


def _tokens(text: str, type_words: Collection[str]) -> Iterator[Token]:
    """The tokens, with the constants that the text defines put in their places."""
    defined: dict[str, str] = {}
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match.group()
        if kind == "directive":
            _obey(token, defined, type_words)
        elif token == '"' or (kind == "comment" and not token.endswith("*/", 2)):
            _refuse("text that is complete", token, text, match.start())
        elif kind == "word" and defined.get(token):
            yield Token("number", defined[token], match.start())
        elif kind not in ("blank", "comment"):
            yield Token(kind, token, match.start())
    yield Token("end", "", len(text))


def _obey(directive: str, defined: dict[str, str], type_words: Collection[str]) -> None:
    """An include guard or an integer constant."""
    line = _COMMENTS.sub(" ", directive.replace("\\\n", " ")).lstrip("# \t")
    words = " ".join(line.split())
    if _IGNORED.fullmatch(words):
        return
    if words.startswith("ifndef ") and words.removeprefix("ifndef ") not in defined:
        return
    if match := _DEFINE.fullmatch(words):
        name, number = match[1], match[2] or ""
        if name not in type_words and (not number or _NUMBER.fullmatch(number)):
            defined[name] = number
            return
    raise unexpected(
        FormatError,
        "an include guard or an integer constant",
        f"`#{words[:64]}`",
        hint="give the text as the preprocessor leaves it (`gcc -E -P`)",
    )


def _closing(tokens: list[Token], text: str) -> dict[int, int]:
    """Where each brace and parenthesis is closed; the text is refused if one is not."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.text in ("{", "("):
            opened.append(i)
            if len(opened) > 2 * limits.MAX_NESTING:
                _refuse("less nesting", token.text, text, token.at)
        elif token.text in ("}", ")"):
            if not opened or tokens[opened[-1]].text + token.text not in ("{}", "()"):
                _refuse("brackets in pairs", token.text, text, token.at)
            closing[opened.pop()] = i
    if opened:
        at = tokens[opened[-1]].at
        _refuse(f"an end for `{text[at]}`", "", text, at)
    return closing


def _refuse(expected: str, got: str, text: str, at: int, path: str = "") -> NoReturn:
    raise unexpected(
        FormatError,
        expected,
        f"`{got[:64] or 'the end of the text'}`",
        path=path,
        hint=f"in line {text.count(chr(10), 0, at) + 1}",
    )


# ---------------------------------------------------------------------------
# Over the tokens


class Cursor:
    """A place among the tokens. `owner` and `member` name what is being read there, for messages."""

    def __init__(self, source: str, type_words: Collection[str]) -> None:
        self._source = source.replace("\r\n", "\n")
        self._tokens = list(_tokens(self._source, type_words))
        self._closing = _closing(self._tokens, self._source)
        self._at = 0
        self.owner = self.member = ""
        self.constants: dict[str, int] = {}  # the enumerators that have been read

    @property
    def text(self) -> str:
        """The token to be read next; empty at the end of the text."""
        return self._tokens[self._at].text

    @property
    def kind(self) -> str:
        return self._tokens[self._at].kind

    def advance(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text

    def take(self, text: str) -> bool:
        found = self.text == text
        self._at += found
        return found

    def expect(self, *texts: str) -> None:
        for text in texts:
            if not self.take(text):
                self.refuse_token(f"`{text}`")

    def word(self, what: str = "a name") -> str:
        if self.kind != "word":
            self.refuse_token(what)
        return self.advance()

    def integer(self) -> int:
        sign = -1 if self.take("-") else 1
        number = _NUMBER.fullmatch(self.text)
        if number is None and self.text not in self.constants:
            self.refuse_token("a decimal or hexadecimal integer")
        text = self.advance()
        return sign * (int(number[1], 0) if number else self.constants[text])

    def skip_parentheses(self) -> None:
        if self.text != "(":
            self.refuse_token("`(`")
        self._at = self._closing[self._at] + 1

    def word_after(self, skipped: Collection[str], start: int = 0) -> str:
        """The word that follows any of these tokens, each brace with its body; empty if none does.

        Looks ahead from `start` tokens on, and stays where it is.
        """
        at = self._at + start
        while (text := self._tokens[at].text) in skipped:
            with_body = text == "{" or self._tokens[at - 1].text == "__attribute__"
            at = self._closing.get(at, at) + 1 if with_body else at + 1
        return self._tokens[at].text if self._tokens[at].kind == "word" else ""

    @contextmanager
    def inside(self, owner: str) -> Generator[None]:
        """While a struct is read; left as it is by an error, which has its path already."""
        outer, self.owner = self.owner, owner
        yield
        self.owner, self.member = outer, ""

    def refuse_token(self, expected: str) -> NoReturn:
        _refuse(expected, self.text, self._source, self._tokens[self._at].at, self._path())

    def refuse(self, expected: str, got: str, hint: str) -> NoReturn:
        raise unexpected(FormatError, expected, f"`{got[:64]}`", path=self._path(), hint=hint)

    def _path(self) -> str:
        return ".".join(part for part in (self.owner, self.member) if part)
