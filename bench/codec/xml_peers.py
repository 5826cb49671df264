"""XML, the way the standard library makes it easy and the way it is fastest."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat
from xml.sax.saxutils import escape

from bench.codec.peer import FIELDS, Peer, Plain, field_type, plain


def xml_peers() -> list[Peer]:
    """An element for each field by ElementTree; an attribute for each, written as text and read by expat."""
    return [_element_tree(), _expat()]


def _element_tree() -> Peer:
    def element(it: Any) -> ElementTree.Element:
        root = ElementTree.Element("particle")
        for name in FIELDS:
            ElementTree.SubElement(root, name).text = repr(getattr(it, name)) if name != "tag" else it.tag
        return root

    def back(root: ElementTree.Element) -> Any:
        texts = {child.tag: child.text or "" for child in root}
        return Plain(*(FROM_TEXT[name](texts[name]) for name in FIELDS))

    def encode(it: Any) -> bytes:
        return ElementTree.tostring(element(it))

    def decode(data: Any) -> Any:
        return back(ElementTree.fromstring(data))

    def encode_list(given: list[Any]) -> bytes:
        root = ElementTree.Element("particles")
        root.extend(map(element, given))
        return ElementTree.tostring(root)

    def decode_list(data: Any) -> list[Any]:
        return [back(child) for child in ElementTree.fromstring(data)]

    return Peer("XML by ElementTree", plain, (encode, decode), (encode_list, decode_list))


FROM_TEXT: dict[str, Any] = {
    name: {bool: "True".__eq__}.get(field_type(name), field_type(name)) for name in FIELDS
}
READERS = tuple(FROM_TEXT.values())


def _expat() -> Peer:
    def text(it: Any) -> str:
        tag = escape(it.tag, {'"': "&quot;"})
        return (
            f'<p id="{it.id}" x="{it.x!r}" y="{it.y!r}" z="{it.z!r}" vx="{it.vx!r}" vy="{it.vy!r}"'
            f' vz="{it.vz!r}" temp="{it.temp!r}" cell="{it.cell}" kind="{it.kind}" flags="{it.flags}"'
            f' active="{it.active}" mass="{it.mass!r}" charge="{it.charge!r}" tag="{tag}"'
            f' owner="{it.owner}"/>'
        )

    def decode_list(data: bytes) -> list[Any]:
        found: list[Any] = []

        def start(name: str, attributes: list[str]) -> None:
            if name == "p":
                found.append(Plain(*[read(it) for read, it in zip(READERS, attributes[1::2], strict=True)]))

        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.StartElementHandler = start
        parser.Parse(data, True)
        return found

    def encode(it: Any) -> bytes:
        return text(it).encode()

    def encode_list(given: list[Any]) -> bytes:
        return f"<ps>{''.join(map(text, given))}</ps>".encode()

    return Peer(
        "XML by expat", plain, (encode, lambda data: decode_list(data)[0]), (encode_list, decode_list)
    )
