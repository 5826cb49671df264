"""FFS, the descendant of PBIO, as a library: the one that comes in the package adios2, called by ctypes.

It decodes what any sender might have sent, so a sender of another byte order is no more than a description
of a format and bytes in that order. What FFS calls an encoded message is a header and the record:

    12  the format's ID            8  the record's length, in the sender's order
     4  unused                     .. the record as it lies in memory, offsets in place of pointers
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from bench.convert.loops import decode_ns
from bench.convert.senders import placed

ID_BYTES = 12
_KINDS = {"i": "integer", "u": "unsigned integer", "b": "unsigned integer", "f": "float"}


class _Field(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("offset", ctypes.c_int),
    )


class _Struct(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("fields", ctypes.POINTER(_Field)),
        ("size", ctypes.c_int),
        ("options", ctypes.c_void_p),
    )


@functools.cache
def library() -> Any:
    """The library, its compiler switched on, which it leaves off by itself; None where it is not there."""
    spec = importlib.util.find_spec("adios2")
    folders = (spec and spec.submodule_search_locations) or ()
    paths = [path for folder in folders if (path := Path(folder) / "libadios2_ffs.so").exists()]
    if not paths:
        return None
    os.environ["FFS_CONVERSION_GENERATION"] = "1"  # read once, before the first conversion
    loaded: Any = ctypes.CDLL(str(paths[0]))
    for name in (
        "FFSTypeHandle_from_encode",
        "create_FFSContext_FM",
        "create_local_FMcontext",
        "get_server_ID_FMformat",
        "get_server_rep_FMformat",
        "load_external_format_FMcontext",
        "register_data_format",
    ):
        getattr(loaded, name).restype = ctypes.c_void_p
    return loaded


def batch(particle: np.dtype[Any]) -> Any:
    """The description of a `Batch` of such particles. Truth values are bytes, texts arrays of characters."""
    members = [
        _Field(name.encode(), *_type_and_size(type_), offset)
        for name, (type_, offset, *_) in (particle.fields or {}).items()
    ]
    fields = [
        _Field(b"step", b"integer", 8, 0),
        _Field(b"count", b"integer", 4, 8),
        _Field(b"particles", b"Particle[count]", particle.itemsize, 16),
    ]
    structs = ((b"Batch", fields, 24), (b"Particle", members, particle.itemsize))
    return (_Struct * 3)(
        *(_Struct(name, (_Field * (len(all_) + 1))(*all_), size, None) for name, all_, size in structs)
    )


def _type_and_size(type_: np.dtype[Any]) -> tuple[bytes, int]:
    if type_.kind == "S":
        return f"char[{type_.itemsize}]".encode(), 1
    return _KINDS[type_.kind].encode(), type_.itemsize


class Decoder:
    """FFS's conversion from one sender's batches to native ones, and a message to time it with."""

    def __init__(self, sender: np.dtype[Any], receiver: np.dtype[Any], record: bytes, *, big: bool) -> None:
        ffs = self._ffs = library()
        self._described = batch(receiver)  # FFS keeps pointers into it
        id_, metadata = _described_format(batch(sender))
        if big:
            id_, metadata = _another(id_), _as_big_endian(metadata)
        context = ctypes.c_void_p(ffs.create_local_FMcontext())
        self._metadata = ctypes.create_string_buffer(metadata, len(metadata))
        assert ffs.load_external_format_FMcontext(context, id_, ID_BYTES, self._metadata)
        self._context = ctypes.c_void_p(ffs.create_FFSContext_FM(context))
        self._message = placed(id_ + struct.pack(">Q4x" if big else "<Q4x", len(record)) + record)
        self._sent = self._message.tobytes()
        at = ctypes.c_void_p(self._message.ctypes.data)
        handle = ctypes.c_void_p(ffs.FFSTypeHandle_from_encode(self._context, at))
        ffs.establish_conversion(self._context, handle, self._described)
        assert ffs.FFShas_conversion(handle)
        self._room = np.zeros(4 * len(record) + 4096, np.uint8)  # what does not depend on FFS's own estimate
        self._receiver = receiver

    def nanoseconds(self, calls: int) -> float:
        """For a message, in a loop of C."""
        address = ctypes.cast(self._ffs.FFSdecode_to_buffer, ctypes.c_void_p).value or 0
        return decode_ns(address, self._context, self._message, self._room, calls=calls, repeats=1)

    def particles(self) -> np.ndarray[Any, Any]:
        """What was decoded last; the message is as it was."""
        assert self._message.tobytes() == self._sent
        _, count, pointer = struct.unpack("=qi4xQ", self._room[:24].tobytes())
        return np.frombuffer(ctypes.string_at(pointer, count * self._receiver.itemsize), self._receiver)


def _described_format(structs: Any) -> tuple[bytes, bytes]:
    """The ID and the description that a sender of this machine would make known."""
    ffs, size = library(), ctypes.c_int()
    format_ = ctypes.c_void_p(
        ffs.register_data_format(ctypes.c_void_p(ffs.create_local_FMcontext()), structs)
    )
    id_ = ctypes.string_at(ffs.get_server_ID_FMformat(format_, ctypes.byref(size)), ID_BYTES)
    return id_, ctypes.string_at(ffs.get_server_rep_FMformat(format_, ctypes.byref(size)), size.value)


def _another(id_: bytes) -> bytes:
    """An ID that no other format has; its last bytes are a hash, which receivers do not check."""
    return id_[:-1] + bytes([id_[-1] ^ 0x55])


def _as_big_endian(metadata: bytes) -> bytes:
    """The description as a big-endian sender would have written it: its numbers are in the sender's order.

    A head of 8 bytes (byte 2: the order, byte 4: how many structs besides the first), then each struct:

        0  size, big-endian, high half at 24     18  float format (1 big, 2 little), 20 and 26: options
        3  order                                 28  four numbers of 4 bytes for each field, then names
        4  name, number of fields, record size
    """
    made = bytearray(metadata)
    made[2], at = 1, 8
    for _ in range(1 + metadata[4]):
        low, high = struct.unpack_from(">H22xH", metadata, at)
        (count,) = struct.unpack_from("<I", metadata, at + 8)
        made[at + 3] = 1
        for place in (4, 8, 12, *range(28, 28 + 16 * count, 4)):
            made[at + place : at + place + 4] = made[at + place : at + place + 4][::-1]
        made[at + 18 : at + 20] = b"\0\1"
        for place in (20, 26):
            made[at + place : at + place + 2] = made[at + place : at + place + 2][::-1]
        at += low + (high << 16)
    assert at == len(made)
    return bytes(made)
