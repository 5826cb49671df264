"""Peers that are told the particle's fields beforehand, as we are: struct, construct, protobuf, Avro."""

from __future__ import annotations

import importlib
import io
import operator
import struct
from collections.abc import Callable
from typing import Any, cast

from bench.codec.peer import FIELDS, SINGLE, Peer, Plain, field_type, plain, row, values


def _struct() -> list[Peer]:
    """By hand: what the module is told nothing of are the class and that the tag is text."""
    layout = struct.Struct("@q3d4fihB?2d16sI")
    pack, unpack, each = layout.pack, layout.unpack, layout.iter_unpack

    def encode(it: Any) -> bytes:
        return pack(
            it.id,
            it.x,
            it.y,
            it.z,
            it.vx,
            it.vy,
            it.vz,
            it.temp,
            it.cell,
            it.kind,
            it.flags,
            it.active,
            it.mass,
            it.charge,
            it.tag.encode(),
            it.owner,
        )

    def back(given: tuple[Any, ...]) -> Any:
        id_, x, y, z, vx, vy, vz, temp, cell, kind, flags, active, mass, charge, tag, owner = given
        return Plain(
            id_,
            x,
            y,
            z,
            vx,
            vy,
            vz,
            temp,
            cell,
            kind,
            flags,
            active,
            mass,
            charge,
            tag.rstrip(b"\0").decode(),
            owner,
        )

    def decode(data: bytes) -> Any:
        return back(unpack(data))

    def encode_list(given: list[Any]) -> bytes:
        return b"".join(map(encode, given))

    def decode_list(data: bytes) -> list[Any]:
        return list(map(back, each(data)))

    return [Peer("struct", plain, (encode, decode), (encode_list, decode_list))]


def _construct() -> list[Peer]:
    """Compiled, which it does for a record but not for a range of them: those go one by one."""
    construct: Any = importlib.import_module("construct")  # it comes without types
    kinds: dict[str, Any] = {
        "id": construct.Int64sl,
        "cell": construct.Int32sl,
        "kind": construct.Int16sl,
        "flags": construct.Int8ul,
        "active": construct.Flag,
        "tag": construct.PaddedString(16, "ascii"),
        "owner": construct.Int32ul,
        **dict.fromkeys(SINGLE, construct.Float32l),
    }
    layout = construct.Struct(*(name / kinds.get(name, construct.Float64l) for name in FIELDS))
    one, size = layout.compile(), layout.sizeof()
    items = cast("Callable[[Any], tuple[Any, ...]]", operator.itemgetter(*FIELDS))

    def encode(it: Any) -> Any:
        return one.build(dict(zip(FIELDS, row(it), strict=True)))

    def decode(data: Any) -> Any:
        return Plain(*items(one.parse(data)))

    def encode_list(given: list[Any]) -> Any:
        return b"".join(map(encode, given))

    def decode_list(data: Any) -> list[Any]:
        return [decode(data[at : at + size]) for at in range(0, len(data), size)]

    return [Peer("construct", plain, (encode, decode), (encode_list, decode_list))]


def _protobuf() -> list[Peer]:
    """Messages made from dataclasses and back."""
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

    def encode(it: Any) -> Any:
        return message(it).SerializeToString()

    def decode(data: Any) -> Any:
        return Plain(*values(one.FromString(data)))

    def encode_list(given: list[Any]) -> Any:
        return many(particles=[message(it) for it in given]).SerializeToString()

    def decode_list(data: Any) -> list[Any]:
        return [Plain(*values(it)) for it in many.FromString(data).particles]

    return [Peer("protobuf", plain, (encode, decode), (encode_list, decode_list))]


def protobuf_messages() -> tuple[Any, Any]:
    """The classes of a particle and of a list of them, without a compiler for .proto files."""
    descriptor_pb2: Any = importlib.import_module("google.protobuf.descriptor_pb2")
    descriptor_pool: Any = importlib.import_module("google.protobuf.descriptor_pool")
    message_factory: Any = importlib.import_module("google.protobuf.message_factory")
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {int: kinds.TYPE_SINT64, float: kinds.TYPE_DOUBLE, bool: kinds.TYPE_BOOL, str: kinds.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="particle.proto", package="bench", syntax="proto3")
    one = file.message_type.add(name="Particle")
    for number, name in enumerate(FIELDS, 1):
        type_ = kinds.TYPE_FLOAT if name in SINGLE else types[field_type(name)]
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


def _fastavro() -> list[Peer]:
    """Without a header, as the schema is known to both sides."""
    fastavro: Any = importlib.import_module("fastavro")
    types = {int: "long", float: "double", bool: "boolean", str: "string"}
    fields = [{"name": it, "type": "float" if it in SINGLE else types[field_type(it)]} for it in FIELDS]
    record: dict[str, Any] = {"type": "record", "name": "Particle", "fields": fields}
    one = fastavro.parse_schema(record)
    many = fastavro.parse_schema({"type": "array", "items": record})
    write, read = fastavro.schemaless_writer, fastavro.schemaless_reader

    def fields_of(it: Any) -> dict[str, Any]:
        return dict(zip(FIELDS, row(it), strict=True))

    def encode(it: Any) -> bytes:
        file = io.BytesIO()
        write(file, one, fields_of(it))
        return file.getvalue()

    def decode(data: bytes) -> Any:
        return Plain(**read(io.BytesIO(data), one, None))

    def encode_list(given: list[Any]) -> bytes:
        file = io.BytesIO()
        write(file, many, [fields_of(it) for it in given])
        return file.getvalue()

    def decode_list(data: bytes) -> list[Any]:
        return [Plain(**it) for it in read(io.BytesIO(data), many, None)]

    return [Peer("fastavro", plain, (encode, decode), (encode_list, decode_list))]


SCHEMA_PEERS: dict[str, Callable[[], list[Peer]]] = {
    "struct": _struct,
    "construct": _construct,
    "protobuf": _protobuf,
    "fastavro": _fastavro,
}
