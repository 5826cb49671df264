"""Limits on formats, so that a peer's metadata has a bounded cost.

They hold for declared formats too: what could not be received is refused where it is declared.
"""

MAX_METADATA_BYTES = 64 * 1024
MAX_RECORD_BYTES = 16 * 1024 * 1024  # the fixed part of a record, nested records and arrays included
MAX_FIELDS = 1024  # of a whole format: a nested record counts with all of its fields
MAX_WRAPPERS = 2048  # arrays, sequences and optionals in the metadata of a whole format
MAX_NESTING = 16  # records, arrays, sequences and optionals inside one another
MAX_DIMENSIONS = 8  # of one array or sequence
MAX_NAME_BYTES = 255  # of any name, in UTF-8; also of a unit
MAX_ALIASES = 16  # of one field, and of one record
MAX_ENUM_MEMBERS = 1024  # of one enumeration
MAX_DEFAULT_BYTES = 4096  # of one field's default
MAX_ALIGNMENT = 16
