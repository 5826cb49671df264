"""The public names of echo_core, each on one line: type checkers read this file, and so does `__init__.py`.

A name that is added here is public. Everything that is not here may change without notice.
"""

from echo_core.backlog import Backlog as Backlog
from echo_core.backlog import WhenFull as WhenFull
from echo_core.channels import Channel as Channel
from echo_core.channels import Watch as Watch
from echo_core.codegen.batches.arrays import array_decoder as array_decoder
from echo_core.codegen.batches.arrays import array_encoder as array_encoder
from echo_core.codegen.batches.arrays import column_decoder as column_decoder
from echo_core.codegen.codecs import Codec as Codec
from echo_core.codegen.codecs import codec as codec
from echo_core.codegen.codecs import decoder as decoder
from echo_core.codegen.codecs import encoder as encoder
from echo_core.codegen.conversion import converter as converter
from echo_core.codegen.diagnostics import diagnostics as diagnostics
from echo_core.errors import BacklogError as BacklogError
from echo_core.errors import ChannelError as ChannelError
from echo_core.errors import ClosedError as ClosedError
from echo_core.errors import CompileError as CompileError
from echo_core.errors import ConversionError as ConversionError
from echo_core.errors import EchoError as EchoError
from echo_core.errors import EncodeError as EncodeError
from echo_core.errors import FormatError as FormatError
from echo_core.errors import IncompatibleError as IncompatibleError
from echo_core.errors import LinkError as LinkError
from echo_core.errors import PlaintextWarning as PlaintextWarning
from echo_core.errors import RefusedError as RefusedError
from echo_core.errors import TimedOutError as TimedOutError
from echo_core.errors import WireError as WireError
from echo_core.events import event as event
from echo_core.events import field as field
from echo_core.formats.abi import Abi as Abi
from echo_core.formats.annotations import Array as Array
from echo_core.formats.annotations import Bytes as Bytes
from echo_core.formats.annotations import Chars as Chars
from echo_core.formats.annotations import Complex64 as Complex64
from echo_core.formats.annotations import Complex128 as Complex128
from echo_core.formats.annotations import Float16 as Float16
from echo_core.formats.annotations import Float32 as Float32
from echo_core.formats.annotations import Float64 as Float64
from echo_core.formats.annotations import Int8 as Int8
from echo_core.formats.annotations import Int16 as Int16
from echo_core.formats.annotations import Int32 as Int32
from echo_core.formats.annotations import Int64 as Int64
from echo_core.formats.annotations import Long as Long
from echo_core.formats.annotations import UInt8 as UInt8
from echo_core.formats.annotations import UInt16 as UInt16
from echo_core.formats.annotations import UInt32 as UInt32
from echo_core.formats.annotations import UInt64 as UInt64
from echo_core.formats.annotations import ULong as ULong
from echo_core.formats.compare import Entry as Entry
from echo_core.formats.compare import Report as Report
from echo_core.formats.compare import Verdict as Verdict
from echo_core.formats.compare import compare as compare
from echo_core.formats.declare import format_of as format_of
from echo_core.formats.format import Format as Format
from echo_core.formats.token import Token as Token
from echo_core.formats.types import Field as Field
from echo_core.nodes import Node as Node
from echo_core.nodes import create_channel as create_channel
from echo_core.nodes import default_node as default_node
from echo_core.nodes import open_channel as open_channel
from echo_core.notices import EventsLost as EventsLost
from echo_core.notices import Notice as Notice
from echo_core.notices import PeerJoined as PeerJoined
from echo_core.notices import PeerLeft as PeerLeft
from echo_core.notices import SourceClosed as SourceClosed
from echo_core.notices import SourceOpened as SourceOpened
from echo_core.notices import Unreachable as Unreachable
from echo_core.places import Limits as Limits
from echo_core.places import Transport as Transport
from echo_core.sinks import Sink as Sink
from echo_core.sources import Source as Source

__version__: str
