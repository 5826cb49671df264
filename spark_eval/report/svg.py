"""Prepares an SVG of matplotlib for embedding: classes instead of inline styles, and unique ids.

Colours become classes, so that the page's colour scheme applies; the light colour remains as an attribute for
viewers without CSS. A colour without a role raises an error, because it could be unreadable in the dark
scheme.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from echo_core.spark_eval.report import palette

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
_HREF = f"{{{XLINK}}}href"
_COLOURED = ("fill", "stroke")


def _declarations(style: str) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in style.split(";") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def _restyle(element: ElementTree.Element) -> None:
    declarations = _declarations(element.attrib.pop("style", ""))
    declarations.pop("font-family", None)
    if "font" in declarations:
        found = re.search(r"[\d.]+px", declarations.pop("font"))
        declarations["font-size"] = found.group() if found else "11px"
    if element.tag == f"{{{SVG}}}text":
        declarations.setdefault("fill", palette.light("ink"))
    classes: list[str] = []
    for name in _COLOURED:
        colour = declarations.pop(name, element.get(name))
        if colour is None:
            continue
        element.set(name, colour)
        if colour != "none":
            classes.append(f"{name}-{_role(colour)}")
    if classes:
        element.set("class", " ".join(classes))
    for name, value in declarations.items():
        element.set(name, value)


def _role(colour: str) -> str:
    try:
        return palette.ROLE_BY_LIGHT[colour]
    except KeyError:
        message = f"Expected a colour of the palette, got `{colour}` - in a plot"
        raise ValueError(message) from None


def _rename(element: ElementTree.Element, name: str) -> None:
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    for attribute, value in element.attrib.items():
        if attribute in (_HREF, "href"):
            element.set(attribute, value.replace("#", f"#{name}-", 1))
        elif "url(#" in value:
            element.set(attribute, value.replace("url(#", f"url(#{name}-"))


def _prune(root: ElementTree.Element) -> None:
    """Remove metadata, and style sheets, whose rules would apply to the whole page."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)


def _describe(root: ElementTree.Element, name: str, title: str, description: str) -> None:
    for tag, text in (("desc", description), ("title", title)):
        element = ElementTree.Element(f"{{{SVG}}}{tag}", {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(0, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")


def clean(source: str, *, name: str, title: str, description: str) -> str:
    """The SVG for a page whose style sheet contains `palette.properties()`."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(source)
    _prune(root)
    for element in root.iter():
        _rename(element, name)
        _restyle(element)
    _, _, width, height = root.attrib["viewBox"].split()
    root.set("width", f"{float(width):g}")
    root.set("height", f"{float(height):g}")
    root.set("stroke-linejoin", "round")
    root.attrib.pop("version", None)
    _describe(root, name, title, description)
    return ElementTree.tostring(root, encoding="unicode")


def standalone(figure: str) -> str:
    """The SVG with its own style sheet and background, for a separate file."""
    head, rest = figure.split(">", 1)
    style = f"<style>{palette.properties()}text{{font-family:system-ui,sans-serif}}</style>"
    surface = f'<rect width="100%" height="100%" class="fill-surface" fill="{palette.light("surface")}"/>'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>{style}{surface}{rest}\n'
