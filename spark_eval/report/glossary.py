"""One line on each codec and shape, for readers who have not seen the code."""

from __future__ import annotations

CODECS = {
    "echo dataclass": "plain dataclasses; decoding makes every object",
    "echo event": "`@echo.event` records; decoding makes a record that reads a field when it is asked for",
    "echo event, read": "`@echo.event` records, every field read once after decoding",
    "echo array": "a numpy array of records; its columns are views of the fields",
    "echo columns": "a contiguous numpy array for each field, gathered into records before encoding",
    "xml etree": "elements, by xml.etree.ElementTree",
    "xml lxml": "elements, by lxml",
    "xml expat": "attributes, read by a handler of expat",
    "msgpack map": "msgpack, a dict with field names for every record",
    "msgpack array": "msgpack, a row without names for every record",
    "pickle": "pickle of the instances as they are",
    "pickle of rows": "pickle of rows without names",
    "pickle numpy": "pickle of an event with a numpy array of records",
    "msgspec": "msgspec's msgpack with field names, into the dataclass itself",
    "msgspec struct": "msgspec's msgpack without names, into structs of its own",
    "protobuf": "protobuf messages, and instances made of them",
    "arrow ipc": "an Arrow record batch of one row, the particles a list column",
}

SHAPES = {
    "single": "one record of 16 fields, 96 bytes",
    "batch-1": "an event with a list of 1 such record",
    "batch-10": "an event with a list of 10 such records",
    "batch-100": "an event with a list of 100 such records",
    "batch-1000": "an event with a list of 1,000 such records",
    "odd": "one record of kinds that machines lay out differently",
    "wide": "one record of 200 fields",
    "story": "one record with strings, optional fields and nested lists",
}

SENDERS = {
    "same": "the reader's own layout",
    "big-endian": "a machine of the other byte order",
    "reordered": "the same fields in the opposite order",
    "extra": "fields that the reader does not know",
}
