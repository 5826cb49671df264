import builtins
from collections.abc import Callable
from typing import Any, Protocol, Self, final

from echo_core._c.expressions import Index, Judge, Table

# How a full backlog is treated; the numbers of enum policy in native/core/outbox/policy.h.
PACE: int
BLOCK: int
DROP_OLDEST: int
DROP_NEWEST: int
ERROR: int

def scan(buffer: Any, limit: int, /) -> tuple[list[tuple[int, bytes]], int]:
    """The frames (stream, payload) that are complete, and how many bytes they take."""

class Wire:
    """Bytes from process to process. A Link takes it over."""

    @property
    def name(self) -> str: ...
    def write(self, data: Any, /) -> int:
        """How many of the bytes were taken, at once; 0: there is no room. OSError: the wire is broken."""
    def read(self, size: int, timeout_ns: int = -1, /) -> bytes:
        """What is there, when something is; b"" at the end. BlockingIOError: time is up."""
    def await_bytes(self, timeout_ns: int = -1, /) -> bool:
        """Whether read would return at once; False: time is up, or a nudge came."""
    def await_room(self, timeout_ns: int = -1, /) -> bool:
        """Whether write would take something."""
    def nudge(self) -> None:
        """Ends an await_bytes that is under way, or the next one."""
    def rouse(self) -> None:
        """Has all that wait look again whether they still must: the peer may have forgotten them."""
    def shut(self) -> None:
        """Ends both directions; what was written before can still be read."""
    def close(self) -> None:
        """Ends it and lets go of it, unless a Link has taken it over."""

@final
class SocketWire(Wire):
    """A connected stream socket; takes the descriptor over."""

    def __new__(cls, fd: int) -> SocketWire: ...

@final
class RingWire(Wire):
    """Two rings in shared memory, one for each direction. `side` is 0 for who made it, 1 for the other.

    The descriptor stays the caller's, who may close it. WireError: it is no memory that can be trusted.
    `bell`: a socket to the other side, which the wire takes over. Without one (-1) it cannot rest.
    """

    def __new__(cls, memory_fd: int, side: int, *, spin_ns: int = 0, bell: int = -1) -> RingWire: ...

def ring_memory(ring_bytes: int, /) -> int:
    """A descriptor of new memory for a RingWire; each ring has a power of two bytes, from 4096 on."""

@final
class Link:
    """What one process has of its connection to another: frames in, frames out."""

    def __new__(
        cls,
        wire: Wire,
        control: Callable[[int, bytes], object],
        *,
        max_payload: int,
        control_bytes: int,
        delay_ns: int,
        stall_ns: int,
        pool: Pool | None = None,
        holder: int = 0,
        mapping: Mapping | None = None,
    ) -> Link: ...
    def run(self) -> bool:
        """Reads and delivers. True: until the end of the link; WireError, LinkError: why. False: another
        thread has taken over."""
    def take_over(self) -> bool:
        """As `run`, for a link that rests, or in place of a thread whose handler is slow. False: also if
        neither is so, and when it rests again."""
    def rest(self, read: Callable[[], object], /) -> None:
        """Has it read by threads that stand by, from here on: by nobody until something comes.

        Then one of them calls `read`, which calls `take_over`. It is let go of at the link's end.
        """
    def is_read_here(self) -> bool:
        """Whether the calling thread is the one that reads it now."""
    def call_behind(self, called: Callable[[], object], stream: IncomingStream | None = None, /) -> int:
        """Has it called by each thread at a slow sink, when that has all that came before: by how many.

        Where a stream is named, by those alone that are not done with what it has brought. A thread that has
        to drop some of it never calls.
        """
    def send(self, kind: int, payload: bytes) -> None:
        """A control frame, in order with the events that were submitted before."""
    def bind(self, stream: int, incoming: IncomingStream) -> None: ...
    def unbind(self, stream: int) -> None: ...
    def forbid(self, stream: int) -> None: ...
    def follow(self, queue: Queue) -> None:
        """Who waits for this queue may read the link."""
    def unfollow(self, queue: Queue) -> None: ...
    def drain(self, timeout_ns: int) -> bool:
        """Whether all that was sent has been given to the system in time."""
    def rouse(self) -> None:
        """Has all that wait look again: a peer may have forgotten them. To be called from time to time."""
    def shut(self) -> None:
        """Ends it in both directions, at once; `run` returns."""
    def conclude(self) -> None:
        """The peer is gone: nothing more is sent; `run` delivers what it has written, and returns."""
    def abandon(self) -> None:
        """In a forked child: lets go of everything, and the other side does not notice."""
    @property
    def is_open(self) -> bool: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...
    @property
    def sent_frames(self) -> int: ...
    @property
    def received_frames(self) -> int: ...
    @property
    def overlooked(self) -> int:
        """How often nobody had come to read it, though there was something, from one `rouse` to the next."""
    @property
    def queued_bytes(self) -> int: ...
    @property
    def queued_events(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def confirmed(self) -> int:
        """Events that the peer has finished with."""
    @property
    def unconfirmed(self) -> int:
        """Events that it is not known to have, of streams that have ended."""
    @property
    def writes(self) -> int: ...
    @property
    def reads(self) -> int: ...

class OutgoingStream:
    """The sending end of one source's way over one link; Python code may have it as a base class."""

    def __new__(
        cls,
        link: Link,
        stream: int,
        name: str,
        outlet: Outlet | None = None,
        /,
        *,
        max_events: int,
        max_bytes: int,
        policy: int,
        timeout_ns: int,
        delay_ns: int = 0,
        max_payload: int = 0xFFFFFFFF,
    ) -> Self:
        """What it drops is counted by the outlet too, also when the stream is gone."""
    def send(self, kind: int, payload: bytes) -> None:
        """A control frame behind the stream's events; a closed stream still takes it."""
    def close(self) -> None:
        """Further events are dropped and counted, also one whose submit waits; what is queued is sent.

        No frame of the stream's events, and no gap, follows what is sent after this.
        """
    def grant(self, events: int, size_bytes: int, /) -> None:
        """The receiver takes so much in all, before it grants more. It has granted nothing before."""
    def drain(self, timeout_ns: int, /) -> bool:
        """Whether all that was sent, and all that waits of this stream, was given to the system in time."""
    def give_up(self) -> None:
        """Drops what has to wait for credit, now or later. Of a link that has ended nothing is confirmed."""
    @property
    def sent(self) -> int:
        """Events that have gone, or are about to."""
    @property
    def confirmed(self) -> int:
        """Events that the receiver has finished with."""
    @property
    def unconfirmed(self) -> int:
        """Events that were sent, and not confirmed when it ended with its link."""
    @property
    def link(self) -> Link: ...
    @property
    def stream(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def queued_events(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...

class IncomingStream:
    """The receiving end of one stream; Python code may have it as a base class.

    `sequence` counts events and gaps.
    """

    def __new__(
        cls,
        *,
        record_size: int = 0,
        sequence: int = 0,
        window_events: int = ...,
        window_bytes: int = ...,
        keep_events: int = 0,
        keep_bytes: int = 0,
        key: tuple[int, ...] | None = None,
        has_times: bool = False,
        is_local: bool = False,
    ) -> Self:
        """`window_events` and `window_bytes` may be under way at most; without them nobody has to wait.
        `key`: as that of an Outlet.
        `has_times`: its frames say when their events were submitted.
        `is_local`: it stands for a source of this process, and knows what its sinks are done with."""
    def miss_pending(self, delivery: Delivery, /) -> None:
        """Its sink is closed: of what is pending there its source is told, if it asks."""
    def await_done(self, function: Callable[[bool], object] | None, /) -> bool:
        """Calls that with True once sinks are done with all that has come by now, and with False before that,
        as they go on. True: they are done, and nobody is called."""
    def pending_from(self) -> int | None:
        """The number of the oldest event that sinks are not done with; None: there is none."""
    def take_missed(self) -> list[tuple[int, int, int]]:
        """The first and the last event that a sink does not have, and why, since this was last asked."""
    def stored_from(self) -> int | None:
        """From that event on what sinks are done with is on a disk; None: nothing is."""
    def follow(self, more: bool, /) -> None:
        """One sink more, or less, is handed what is kept. Much more is kept until none is."""
    def hold(self, change: int, /) -> None:
        """One sink more (1) or less (-1) comes up with the source, or still does (0): for a second at most it
        is granted event by event."""
    def grant(self) -> tuple[int, int]:
        """The limits of events and bytes, which the caller tells the source."""
    def confirm(self, link: Link = ..., /) -> bool:
        """Tells the source what is done with by now, if it does not know. Whether that is all that came.

        `link`: that it was bound to, and is no more.
        """
    def restart(self, sequence: int, /) -> None:
        """The next event has that number; nothing is kept."""
    @property
    def kept_bytes(self) -> int:
        """Of the records that it keeps."""
    def forget_kept(self) -> None:
        """Keeps nothing of what has come by now."""
    def kept_since(
        self, number: int, is_following: bool = False, /
    ) -> tuple[list[tuple[int, builtins.bytes, int]], int]:
        """What it keeps from a number on: number, record, when submitted or 0. And the next number."""
    def add_delivery(self, delivery: Delivery, sequence: int | None, /) -> int | None:
        """What comes from number `sequence` on goes to this sink too; None: that is not the next one.

        Where `sequence` is None, what comes from the next one on, whichever it is. Returns its number.
        """
    def add_derived(self, delivery: Delivery, /) -> None:
        """What is derived from its events here goes to that sink, and is pending there as its own."""
    def remove_derived(self, delivery: Delivery, /) -> None:
        """It does no longer."""
    def count_lost(self, events: int, /) -> None:
        """So many events more never came."""
    deliveries: tuple[Delivery, ...]
    sequence: int
    @property
    def events(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def lost(self) -> int: ...

class Taker(Protocol):
    """What copies records as they lie, from C: native/logs/taking.h."""

    @property
    def __echo_record_taker_1__(self) -> object: ...

@final
class Delivery:
    """From the records of one stream to one sink."""

    def __new__(
        cls,
        target: Callable[..., object] | Queue | Taker | Outlet,
        decode: Callable[..., Any] | None,
        on_error: Callable[[BaseException], object],
        *,
        record_size: int = 0,
        is_array: bool = False,
        dtype: Any = None,
        convert: Callable[..., Any] | None = None,
        on_refusal: Callable[[BaseException], object] = ...,
        sink: object = ...,
        describe: Callable[..., object] | None = None,
        on_gap: Callable[[int, int], object] | None = None,
        on_held: Callable[[], object] | None = None,
        await_room: Callable[[int], bool] | None = None,
    ) -> Delivery:
        """`on_error` is called with whatever is raised; what is no Exception goes on unless it returns True.
        `on_refusal`: called instead with what `decode` raises. `convert`: what `decode` converts arrays by;
        it counts what is left to Python code. `sink`: which all deliveries to one sink have in common.
        `describe`: called with an event's number, and its time in ns where that is told, says where it is
        from; a handler gets this too.

        A `Taker` copies records as they lie, and `decode` is unused. `on_gap`: called with the first and the
        last number of events that are left out of what it is given. `on_held`: what it has taken is pending
        until it is `done`, and this is called when there is some again. `await_room`: called where it has no
        room for so many bytes, whether to look again; None: they are dropped.

        An Outlet gets records as they are; those that vary in size once `decode` has verified them, and
        `describe` is called with the number of what comes next until it returns True."""
    def hand(self, records: Any, number: int = 0, submitted_ns: int = 0, /) -> None:
        """As if a frame with these records had come."""
    def pass_over(self, number: int, /) -> None:
        """Of the records that come it has had the events below that number, by another link."""
    def hand_event(self, event: object, /) -> None:
        """An event of the sink's own type, by reference."""
    def held(self) -> tuple[int, int] | None:
        """Events of another process, and bytes of them, that are pending; None: nothing was taken since the
        last look."""
    def done(self, events: int, size_bytes: int, /) -> None:
        """Of what is pending so much is done with."""
    def close(self) -> None:
        """Nothing more is handed on; what is left of a batch that is under way is dropped, and counted."""
    @property
    def next_number(self) -> int | None:
        """Of a taker's: what it is given has numbers from this on, others were had; None: none was."""
    @next_number.setter
    def next_number(self, number: int) -> None: ...
    def look(self) -> int:
        """How many ns ago the call of the handler that is longest at work was first seen; -1: none is,
        -2: nor has one been since the last look."""
    @property
    def events(self) -> int:
        """How many have come to this sink, failures included."""
    @property
    def compiled(self) -> int:
        """How many of them native code has made of records."""
    @property
    def interpreted(self) -> int:
        """How many of them were left to Python code."""
    @property
    def bytes(self) -> int:
        """Of their records, in the sender's layout. Events that vary in size and came by reference count
        where their sizes had to be known."""
    @property
    def failures(self) -> int:
        """How many of them ended in an exception."""
    @property
    def dropped(self) -> int:
        """How many events found no room in the queue, or were skipped."""
    @property
    def skipped(self) -> int:
        """How many were left of a batch when the delivery was closed."""
    @property
    def is_busy(self) -> bool:
        """Whether a batch is under way."""

@final
class Sharers:
    """The streams that share what may wait for one handler: as `sink` of its deliveries."""

    @property
    def streams(self) -> int: ...

@final
class Queue:
    """Events that wait for a thread, bounded."""

    def __new__(
        cls,
        *,
        max_events: int,
        max_bytes: int,
        policy: int,
        timeout_ns: int,
        with_info: bool = False,
        until_next: bool = False,
    ) -> Queue:
        """`with_info`: who iterates gets what `get_with_info` gives. `until_next`: and is done with an event
        when it asks for the next one, not as soon as it has it."""
    def put(self, event: object, size: int = 0, events: int = 1) -> None:
        """One event, or an array of so many. Treated by the policy where there is no room."""
    def get(self, timeout_ns: int = -1, /) -> Any:
        """The next event; None: time is up. ClosedError at the end, BacklogError if the queue has failed.

        ChannelError where it would wait for what this thread reads, in a handler of the same link.
        """
    def get_nowait(self) -> Any:
        """The next event; None: there is none now. Never reads the link."""
    def get_with_info(self, timeout_ns: int = -1, /) -> Any:
        """As `get`, a pair: the event, and what its delivery's `describe` says, or None."""
    def get_nowait_with_info(self) -> Any:
        """As `get_nowait`, likewise."""
    def __iter__(self) -> Queue: ...
    def __next__(self) -> Any: ...
    def lead(self, link: Link | None, /) -> None:
        """The one link that feeds this queue, for whoever waits to read; None: there is no one such."""
    def fail_held(self) -> None:
        """Who iterates has failed to handle the event that it is at."""
    def close(self) -> None:
        """No more is taken; what is there can still be got."""
    def clear(self) -> None:
        """Drops what is there, uncounted."""
    def fileno(self) -> int:
        """A descriptor that is readable when there is something to get, or nothing to wait for."""
    @property
    def is_closed(self) -> bool: ...
    @property
    def depth_events(self) -> int:
        """How many wait, in however many arrays."""
    @property
    def depth_bytes(self) -> int: ...
    @property
    def dropped(self) -> int: ...

@final
class Outlet:
    """Where the events of one source leave: encoded once, for all streams; by reference to deliveries."""

    def __new__(
        cls,
        event_class: type[Any] | None,
        encode: Callable[[Any], bytes],
        *,
        record_size: int = 0,
        dtype: Any = None,
        max_payload: int = 1048576,
        adopt: Callable[[Any], Any] | None = None,
        keep_events: int = 0,
        keep_bytes: int = 0,
        key: tuple[int, ...] | None = None,
        has_times: bool = False,
        first_number: int = 0,
    ) -> Outlet:
        """`adopt` makes an event of the class of one of another class, or gives None, which refuses it.
        `key`: a field: its offset, its size, whether it is text, whether its slot is big-endian; and how many
        values there may be: `keep_events` are those of each of them.
        `has_times`: events go with the time at which they were submitted.
        `first_number`: of the first event. Not 0: it is derived from an outlet that keeps as many."""
    outgoing: tuple[OutgoingStream, ...]
    direct: tuple[Delivery, ...]
    """Sinks in this process that take the event itself."""
    converting: tuple[Delivery, ...]
    """Sinks in this process that take its record."""
    branches: tuple[Follower, ...]
    """By which events go to outlets that are derived from this one."""
    pool: Pool | None
    """Like the four above, empty once the outlet is closed; to set one is ClosedError then."""
    def begin(
        self,
        stream: OutgoingStream,
        first: int,
        earlier: list[tuple[builtins.bytes, int]] = ...,
        following: int = 0,
        /,
    ) -> tuple[int, int]:
        """Events leave by this stream too, behind STARTED and what is kept from number `first` on.

        Where that was judged anew it is `earlier`, records and when they were submitted, whose numbers end
        before `following`; and what has passed since.
        Returns the number of the next event, and how many were kept.
        """
    def add_delivery(self, delivery: Delivery, sequence: int | None, is_direct: bool, /) -> int | None:
        """Events from number `sequence` on go to this sink here too, as such or as records.

        None: that is not the next one. Where `sequence` is None, from the next one on. Returns its number.
        """
    def kept_since(
        self, number: int, is_following: bool = False, /
    ) -> tuple[list[tuple[int, builtins.bytes, int]], int]:
        """What it keeps from a number on: number, record, when submitted or 0. And the next number."""
    def kept_at(self, root: Outlet, /) -> tuple[list[tuple[int, builtins.bytes, int]], int]:
        """What another one keeps, which this one is derived from, and the number of its own next event."""
    def forget_kept(self) -> None:
        """Sinks that come later get nothing of what was submitted by now."""
    @property
    def kept_bytes(self) -> int:
        """Of what it keeps."""
    def follow(self, more: bool, /) -> None:
        """One sink more, or less, is handed what is kept. Much more is kept until none is."""
    def hold(self, change: int, /) -> None:
        """One sink more (1) or less (-1) comes up with it, or still does (0): other threads that submit wait
        meanwhile, for 0.1 s at most."""
    def submit(self, event: object, /) -> None: ...
    def submit_records(self, records: Any, /) -> None:
        """Records of fixed size side by side, in the source's layout."""
    def submit_array(self, array: Any, /) -> None:
        """The records of an array of exactly that dtype, side by side or not."""
    def close(self) -> None: ...
    @property
    def sequence(self) -> int:
        """The number of the next event."""
    @property
    def bytes(self) -> int: ...
    @property
    def dropped(self) -> int:
        """Events that streams which were made for it have dropped."""
    @property
    def confirmed(self) -> int:
        """Events that receivers have finished with, once for each."""
    @property
    def unconfirmed(self) -> int:
        """Events that were sent, and not known to have arrived when their streams ended."""
    @property
    def forgotten_keys(self) -> int:
        """Values of the key that nothing is kept of any more."""
    @property
    def may_drop(self) -> bool:
        """Whether such a stream, or what it has queued, is left: somebody may be putting more into it."""

class Follower:
    """What follows the events of an outlet: a Branch, or a Fan of many."""

@final
class Branch(Follower):
    """From the events of the outlet that has it to those of another one, which is derived from it."""

    def __new__(
        cls,
        judge: Judge | None,
        outlet: Outlet,
        *,
        takes_objects: bool = False,
        has_clock: bool = False,
        convert: Callable[[Any], Any] | None = None,
        computing: Judge | None = None,
        offsets: tuple[int, ...] = (),
        derived_size: int = 0,
    ) -> Branch:
        """`judge`: says which events pass; None: all. `takes_objects`: without their records.
        `derived_size`: of the fixed part of a derived record, of which `convert` makes what is taken over,
        and `computing` writes the rest at `offsets`; 0: events pass as they are."""
    def set(self, judged: builtins.bytes | None, computed: builtins.bytes | None, /) -> int:
        """Other parameters. The number from which on they judge what passes, in one thread."""
    @property
    def outlet(self) -> Outlet: ...
    @property
    def filtered(self) -> int:
        """Events that did not pass."""
    @property
    def failed(self) -> int:
        """Of them, those whose derived record could not be made."""
    @property
    def come_to(self) -> int:
        """The number of the source's event behind the last that was judged."""

@final
class Fan(Follower):
    """Many branches of one outlet, whose judges differ from this one in their parameters alone.

    Those are the rows of the table, into which nobody else puts any.
    """

    def __new__(cls, judge: Judge, table: Table | Index, *, takes_objects: bool = False) -> Fan: ...
    def put(self, branch: Branch, /) -> None:
        """A branch takes part, by the parameters that its judge has. It has no clock, and is in no Fan."""
    def remove(self, branch: Branch, /) -> None:
        """It takes part no longer, if it did."""
    @property
    def branches(self) -> int:
        """How many take part."""
    @property
    def judged(self) -> int:
        """Events, for all of them at once."""

@final
class Pool:
    """Memory of this process that others read in place. A loan takes one block, or several side by side."""

    def __new__(cls, *, block_bytes: int, blocks: int) -> Pool: ...
    def fileno(self) -> int: ...
    def loan(self, size: int, /) -> Block | None:
        """A writable buffer in free blocks, or None. Nobody writes into it any more once it was lent."""
    def place(self, data: Any, /) -> Block | None:
        """The Block that the data begin, or one with a copy; None: none is free, or the data are small."""
    def attach(self, process_fd: int = -1, /) -> int:
        """A holder for one more link; -1: there are none. `process_fd`: of os.pidfd_open; is duplicated."""
    def detach(self, holder: int, /) -> None:
        """That link is gone. What it held is free when the peer's Mapping or process has gone.

        Without a `process_fd`: at once, whoever still reads. In a forked child nothing happens.
        """
    def take_back(self, holder: int, payload: bytes, /) -> None:
        """Undoes Block.lend for a frame that is not sent."""
    def close(self) -> None:
        """Lends no more; the memory goes with the last Block."""
    @property
    def blocks(self) -> int: ...
    @property
    def used(self) -> int: ...

@final
class Block:
    """A writable buffer in a Pool; it is not used for another as long as it is referred to, or lent."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def lend(self, holder: int, stream: int, /) -> bytes | None:
        """What a frame says of it; None: the holder has it already, or half of the pool."""

@final
class Mapping:
    """A peer's Pool, as this process reads it. The descriptor stays the caller's, who may close it.

    WireError: it cannot be trusted, or is larger than `max_bytes`, which so bounds a loan.
    """

    def __new__(cls, memory_fd: int, holder: int, max_bytes: int = ...) -> Mapping: ...
    def open(self, payload: bytes, /) -> tuple[int, Loan]:
        """The stream that a frame is for, and the bytes. WireError: there is no such loan."""

@final
class Loan:
    """Bytes in a peer's pool: the buffer protocol, read-only. Given back when the last reference goes."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def stand_by() -> Callable[[], object] | None:
    """Waits for a link on which something comes while it rests, or whose reader is held up by a handler.

    Returns what reads it, which the caller has to call: what `rest` was given, else the link's `take_over`.

    Several threads may. Credit for links that rest is taken meanwhile, without the GIL. None: the
    thread was not needed for some seconds, or there is no link.
    """

def wants_standby() -> bool:
    """Whether there are links, and too few threads stand by."""

def is_dispatching() -> bool:
    """Whether this thread is handing over what it has read from a link."""

class Span:
    """Bytes that something else owns: the buffer protocol, read-only."""
