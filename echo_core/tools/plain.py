"""Text as a terminal may have it: names and texts of peers and files may hold what terminals obey."""

from __future__ import annotations


def plain(text: str) -> str:
    """In one line, with what is not printable written as Python would write it: `\\x1b`, `\\n`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def plain_lines(text: str) -> str:
    """Likewise, in as many lines as it has; later ones are indented, so none begins as ours do."""
    first, *others = text.rstrip("\n").split("\n")
    return "\n".join([plain(first), *(f"  {plain(line)}" for line in others)])


def plain_json(text: str) -> str:
    """JSON that holds the same: what is not printable stands in strings alone, and is escaped there."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _escaped_in_json(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _escaped_in_json(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
