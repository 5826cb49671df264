"""XML in the usual ways of Python: an element per field by ElementTree or lxml, or attributes read by expat,
which is the fastest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from echo_core.spark_eval.measure.codecs.codec import (
    Costs,
    Function,
    MeasuredCodec,
    Target,
)
from echo_core.spark_eval.measure.codecs.handwritten import batch_objects, compiled
from echo_core.spark_eval.measure.codecs.members import NUMBERS, MemberKind, dtypes, members
from echo_core.spark_eval.measure.workloads import EventShape, Particle, Sender

ROOT = "event"
ITEM = "item"


def _numbers_to_text(value: Any) -> str:
    return " ".join(map(repr, value.tolist()))


def _text_to_numbers(text: str) -> Any:
    return np.fromstring(text, NUMBERS, sep=" ")


TO_TEXT: dict[str, Callable[[Any], str]] = {
    "bool": repr,
    "int": repr,
    "float": repr,
    "text": str,
    "numbers": _numbers_to_text,
}
FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "bool": "True".__eq__,
    "int": int,
    "float": float,
    "text": str,
    "numbers": _text_to_numbers,
}


@dataclass(frozen=True, slots=True)
class Trees(MeasuredCodec):
    """Elements, by a module with the interface of ElementTree. None has no element."""

    module: str

    def load(self) -> None:
        self._etree()

    def _etree(self) -> Any:
        return importlib.import_module(self.module)

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        etree = self._etree()
        element, text = _element_writer(etree, shape.sender_class(sender), ROOT), etree.tostring
        if target == "columns" and sender == "same":
            return lambda columns: text(element(batch_objects(columns)))
        return lambda it: text(element(it))

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        parse = self._etree().fromstring
        if target == "columns":
            columns = _columns_of_texts()
            return lambda data: columns([{it.tag: it.text for it in one} for one in _particles(parse(data))])
        read = _element_reader(shape.cls)
        return lambda data: read(parse(data))


def _particles(root: Any) -> Any:
    return root.find("particles")


def _element_writer(etree: Any, cls: type[Any], tag: str) -> Function:
    sub_element = etree.SubElement
    texts = [(name, TO_TEXT[k.what]) for name, k in members(cls).items() if k.what in TO_TEXT]
    lists = [(name, _item_writer(etree, k.element)) for name, k in members(cls).items() if k.what == "list"]

    def write(it: Any) -> Any:
        root = etree.Element(tag)
        for name, to_text in texts:
            value = getattr(it, name)
            if value is not None:
                sub_element(root, name).text = to_text(value)
        for name, make in lists:
            sub_element(root, name).extend(map(make, getattr(it, name)))
        return root

    return write


def _item_writer(etree: Any, kind: MemberKind) -> Function:
    if kind.what == "record":
        return _element_writer(etree, kind.record, ITEM)

    def write(it: str) -> Any:
        root = etree.Element(ITEM)
        root.text = it
        return root

    return write


def _element_reader(cls: type[Any]) -> Function:
    if any(kind.what == "list" for kind in members(cls).values()):
        return _reader_of_lists(cls)
    parts: list[str] = []
    names: dict[str, Any] = {"cls": cls}
    for name, kind in members(cls).items():
        names[f"read_{name}"] = FROM_TEXT[kind.what]
        parts.append(_from_text(f"texts[{name!r}]", f"texts.get({name!r})", f"read_{name}", kind))
    build = compiled(f"cls({', '.join(parts)})".replace("texts", "it"), names)
    return lambda element: build({child.tag: child.text for child in element})


def _from_text(required: str, optional: str, read: str, kind: MemberKind) -> str:
    """The expression of a value, given that of its text. An element without text means empty text."""
    if kind.what == "text":
        return optional if kind.is_optional else f"({required} or '')"
    if kind.is_optional:
        return f"(None if {optional} is None else {read}({required}))"
    return f"{read}({required})"


def _reader_of_lists(cls: type[Any]) -> Function:
    """A reader for records with lists."""
    readers = [(name, _child_reader(kind)) for name, kind in members(cls).items()]

    def read(element: Any) -> Any:
        children = {child.tag: child for child in element}
        return cls(*[None if name not in children else one(children[name]) for name, one in readers])

    return read


def _child_reader(kind: MemberKind) -> Function:
    if kind.what != "list":
        from_text = FROM_TEXT[kind.what]
        return lambda child: from_text(child.text or "")
    item = kind.element
    one = _element_reader(item.record) if item.what == "record" else _child_reader(item)
    return lambda child: list(map(one, child))


def _columns_of_texts() -> Function:
    """A function from the texts of each particle to columns."""
    kinds = [(name, FROM_TEXT[members(Particle)[name].what], it) for name, it in dtypes(Particle).items()]

    def columns(found: Any) -> dict[str, Any]:
        return {
            name: np.fromiter([read(texts[name]) for texts in found], dtype, len(found))
            for name, read, dtype in kinds
        }

    return columns


@dataclass(frozen=True, slots=True)
class Expat(MeasuredCodec):
    """Attributes: an element per record, named by its list, and an expat handler that builds objects."""

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        names = {"escape": _escape, "optional": _optional, "numbers": _numbers_to_text, "join": "".join}
        write = compiled(_written(MemberKind("record", cls=shape.sender_class(sender)), "it", ROOT, 0), names)
        if target == "columns" and sender == "same":
            return lambda columns: write(batch_objects(columns)).encode()
        return lambda it: write(it).encode()

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        if target == "columns":
            columns = _columns_of_texts()
            return lambda data: columns(_attributes(data, "particles"))
        return _handler_of(shape.cls)


def _escape(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def _optional(name: str, value: Any) -> str:
    return "" if value is None else f' {name}="{_escape(value) if isinstance(value, str) else repr(value)}"'


def _written(kind: MemberKind, it: str, tag: str, depth: int) -> str:
    """The expression of a record's text; the operator `%` is as fast as an f-string."""
    if kind.what == "text":
        return f"'<{tag} v=\"%s\"/>' % escape({it})"
    attributes = ""
    values: list[str] = []
    children: list[str] = []
    for name, k in members(kind.record).items():
        value = f"{it}.{name}"
        if k.what == "list":
            each = f"x{depth}"
            children.append(f"join([{_written(k.element, each, name, depth + 1)} for {each} in {value}])")
        elif k.is_optional:
            attributes += "%s"
            values.append(f"optional({name!r}, {value})")
        else:
            attributes += f' {name}="%{"s" if k.what in ("text", "numbers") else "r"}"'
            values.append({"text": f"escape({value})", "numbers": f"numbers({value})"}.get(k.what, value))
    end = f">{'%s' * len(children)}</{tag}>" if children else "/>"
    return f"'<{tag}{attributes}{end}' % ({', '.join([*values, *children])},)"


@dataclass(slots=True)
class _Element:
    """How elements of a name are handled: `make` an object, and append it to a list of the last `parent`."""

    make: Function
    parent: str
    is_parent: bool


def _elements(cls: type[Any], tag: str, parent: str) -> dict[str, _Element]:
    its = members(cls)
    found = {tag: _Element(_attribute_reader(cls), parent, any(k.what == "list" for k in its.values()))}
    for name, kind in its.items():
        if kind.holds_records:
            found |= _elements(kind.element.record, name, tag)
        elif kind.what == "list":
            found[name] = _Element(lambda attributes: attributes["v"], tag, is_parent=False)
    return found


def _attribute_reader(cls: type[Any]) -> Function:
    """A function from attributes to an instance with empty lists, to be filled by child elements."""
    names: dict[str, Any] = {"cls": cls}
    parts: list[str] = []
    for name, kind in members(cls).items():
        if kind.what == "list":
            parts.append("[]")
        elif kind.what == "text":
            parts.append(f"it.get({name!r})" if kind.is_optional else f"it[{name!r}]")
        else:
            names[f"read_{name}"] = FROM_TEXT[kind.what]
            parts.append(_from_text(f"it[{name!r}]", f"it.get({name!r})", f"read_{name}", kind))
    return compiled(f"cls({', '.join(parts)})", names)


def _handler_of(cls: type[Any]) -> Function:
    elements = {name: (it.make, it.parent, it.is_parent) for name, it in _elements(cls, ROOT, "").items()}

    def decode(data: bytes) -> Any:
        last: dict[str, Any] = {}

        def start(name: str, attributes: dict[str, str]) -> None:
            make, parent, is_parent = elements[name]
            made = make(attributes)
            if parent:
                getattr(last[parent], name).append(made)
            if is_parent or not parent:
                last[name] = made

        _parse(data, start)
        return last[ROOT]

    return decode


def _attributes(data: bytes, tag: str) -> list[dict[str, str]]:
    """The attributes of all elements of a name."""
    found: list[dict[str, str]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == tag:
            found.append(attributes)

    _parse(data, start)
    return found


def _parse(data: bytes, start: Callable[[str, dict[str, str]], None]) -> None:
    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.Parse(data, True)


XML: tuple[Trees | Expat, ...] = (
    Trees("xml etree", "xml.etree.ElementTree"),
    Expat("xml expat"),
    Trees("xml lxml", "lxml.etree"),
)
