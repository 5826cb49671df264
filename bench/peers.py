"""The codecs that a Python user would take today, each at its best on the same particle.

Every peer turns a particle into bytes and back into an object of its own or of the same class, alone and in
lists of a thousand, and is checked to keep every value.
"""

from __future__ import annotations

import dataclasses
import importlib
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import msgspec

from bench.workload import Particle

# These come without types.
msgpack: Any = importlib.import_module("msgpack")
descriptor_pb2: Any = importlib.import_module("google.protobuf.descriptor_pb2")
descriptor_pool: Any = importlib.import_module("google.protobuf.descriptor_pool")
message_factory: Any = importlib.import_module("google.protobuf.message_factory")


FIELDS = tuple(field.name for field in dataclasses.fields(Particle))
WHOLE = ("id", "cell", "kind", "flags", "owner")


def field_type(name: str) -> type[Any]:
    """The Python type of a field, which is all that other codecs know of it."""
    return {"active": bool, "tag": str}.get(name) or (int if name in WHOLE else float)


MEMBERS: list[Any] = [(name, field_type(name)) for name in FIELDS]

# The particle as any dataclass library sees it, and as msgspec likes it best: an array without names.
Plain: Any = dataclasses.make_dataclass("Plain", MEMBERS, slots=True, namespace={"__module__": __name__})
Row: Any = msgspec.defstruct("Row", MEMBERS, array_like=True, gc=False)

values: Callable[[Any], tuple[Any, ...]] = operator.attrgetter(*FIELDS)  # of a particle of whatever class


@dataclass(frozen=True, slots=True)
class Peer:
    """Four functions, and how to make what they encode out of a particle."""

    name: str
    made: Callable[[Particle], Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    encode_list: Callable[[list[Any]], Any]
    decode_list: Callable[[Any], list[Any]]

    def check(self, particles: list[Particle]) -> None:
        """Every value comes back, alone and in a list."""
        given = [self.made(particle) for particle in particles]
        assert [values(it) for it in self.decode_list(self.encode_list(given))] == list(
            map(values, particles)
        )
        assert values(self.decode(self.encode(given[3]))) == values(particles[3])


def plain(particle: Particle) -> Any:
    """The same in a plain dataclass."""
    return Plain(*values(particle))


def peers() -> list[Peer]:
    """All of them."""
    return [_pickle(), _msgpack(), _msgspec(), _msgspec_rows(), _protobuf(), _xml()]


def _pickle() -> Peer:
    def dump(it: Any) -> bytes:
        return pickle.dumps(it, 5)

    return Peer("pickle", plain, dump, pickle.loads, dump, pickle.loads)


def _msgpack() -> Peer:
    """The fastest that msgpack does with a class: its values as an array, and its constructor."""
    packer = msgpack.Packer()

    def encode(it: Any) -> Any:
        return packer.pack(values(it))

    def decode(data: Any) -> Any:
        return Plain(*msgpack.unpackb(data))

    def encode_list(given: list[Any]) -> Any:
        return packer.pack([values(it) for it in given])

    def decode_list(data: Any) -> list[Any]:
        return [Plain(*row) for row in msgpack.unpackb(data)]

    return Peer("msgpack", plain, encode, decode, encode_list, decode_list)


def _msgspec() -> Peer:
    encode = msgspec.msgpack.Encoder().encode
    one, many = msgspec.msgpack.Decoder(Plain).decode, msgspec.msgpack.Decoder(list[Plain]).decode
    return Peer("msgspec", plain, encode, one, encode, many)


def _msgspec_rows() -> Peer:
    encode = msgspec.msgpack.Encoder().encode
    one, many = msgspec.msgpack.Decoder(Row).decode, msgspec.msgpack.Decoder(list[Row]).decode
    return Peer("msgspec array_like", lambda it: Row(*values(it)), encode, one, encode, many)


def _protobuf() -> Peer:
    """Messages made from dataclasses and back; `parse_only` below leaves the objects out."""
    one, many = protobuf_messages()

    def message(it: Any) -> Any:
        return one(
            id=it.id,
            x=it.x,
            y=it.y,
            z=it.z,
            vx=it.vx,
            vy=it.vy,
            vz=it.vz,
            temp=it.temp,
            cell=it.cell,
            kind=it.kind,
            flags=it.flags,
            active=it.active,
            mass=it.mass,
            charge=it.charge,
            tag=it.tag,
            owner=it.owner,
        )

    def encode_list(given: list[Any]) -> Any:
        return many(particles=[message(it) for it in given]).SerializeToString()

    def decode(data: Any) -> Any:
        return Plain(*values(one.FromString(data)))

    def decode_list(data: Any) -> list[Any]:
        return [Plain(*values(it)) for it in many.FromString(data).particles]

    return Peer(
        "protobuf", plain, lambda it: message(it).SerializeToString(), decode, encode_list, decode_list
    )


def protobuf_messages() -> tuple[Any, Any]:
    """The classes of a particle and of a list of them, without a compiler for .proto files."""
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {int: kinds.TYPE_SINT64, float: kinds.TYPE_DOUBLE, bool: kinds.TYPE_BOOL, str: kinds.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="particle.proto", package="bench", syntax="proto3")
    one = file.message_type.add(name="Particle")
    for number, name in enumerate(FIELDS, 1):
        type_ = types[field_type(name)]
        one.field.add(name=name, number=number, type=type_, label=kinds.LABEL_OPTIONAL)
    many = file.message_type.add(name="Particles")
    many.field.add(
        name="particles",
        number=1,
        type=kinds.TYPE_MESSAGE,
        label=kinds.LABEL_REPEATED,
        type_name=".bench.Particle",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"bench.{name}") for name in ("Particle", "Particles"))
    first, second = (message_factory.GetMessageClass(descriptor) for descriptor in found)
    return first, second


def _xml() -> Peer:
    def element(it: Any) -> ElementTree.Element:
        root = ElementTree.Element("particle")
        for name in FIELDS:
            ElementTree.SubElement(root, name).text = repr(getattr(it, name)) if name != "tag" else it.tag
        return root

    def back(root: ElementTree.Element) -> Any:
        texts = {child.tag: child.text or "" for child in root}
        return Plain(*(_from_text(name, texts[name]) for name in FIELDS))

    def encode_list(given: list[Any]) -> bytes:
        root = ElementTree.Element("particles")
        root.extend(map(element, given))
        return ElementTree.tostring(root)

    return Peer(
        "XML",
        plain,
        lambda it: ElementTree.tostring(element(it)),
        lambda data: back(ElementTree.fromstring(data)),
        encode_list,
        lambda data: [back(child) for child in ElementTree.fromstring(data)],
    )


def _from_text(name: str, text: str) -> Any:
    type_ = field_type(name)
    return text == "True" if type_ is bool else type_(text)
