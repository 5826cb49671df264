"""The colours of the report by role, in a light and a dark version.

A family of codecs has one hue; its codecs differ by marker and dash. The hues are distinguishable for the
colour-blind, and have a contrast of 4.5 or more with the surface, so that labels can use them.
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    light: str
    dark: str


COLOURS = {
    "surface": Colour("#fdfdfc", "#15181c"),
    "ink": Colour("#1d2126", "#e6e8eb"),
    "muted": Colour("#5a6370", "#a3acb8"),
    "rule": Colour("#d9dce1", "#363c45"),
    "shade": Colour("#f2f3f5", "#1e2329"),
    "echo": Colour("#0a5fb4", "#6cb4ff"),
    "xml": Colour("#b4470c", "#ff9a62"),
    "msgpack": Colour("#00765a", "#45cfa5"),
    "pickle": Colour("#8e3a9d", "#dd9cea"),
    "msgspec": Colour("#7a5c00", "#e2bc4a"),
    "protobuf": Colour("#b0255f", "#ff8fb8"),
    "arrow": Colour("#4a5568", "#b4bfcd"),
}
FAMILIES = tuple(COLOURS)[5:]
ROLE_BY_LIGHT = {colour.light: role for role, colour in COLOURS.items()}


def family(codec: str) -> str:
    """The role of a codec, by the first word of its name; unknown codecs are neutral."""
    first = codec.split()[0]
    return first if first in FAMILIES else "muted"


def light(role: str) -> str:
    return COLOURS[role].light


def properties() -> str:
    """CSS custom properties for both colour schemes, and the classes of plots."""
    day = "".join(f"--{role}:{colour.light};" for role, colour in COLOURS.items())
    night = "".join(f"--{role}:{colour.dark};" for role, colour in COLOURS.items())
    classes = "".join(
        f".fill-{role}{{fill:var(--{role})}}.stroke-{role}{{stroke:var(--{role})}}" for role in COLOURS
    )
    return (
        f":root{{color-scheme:light dark;{day}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{night}}}}}"
        f"@media print{{:root{{color-scheme:light;{day}}}}}{classes}"
    )
