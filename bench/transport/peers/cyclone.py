"""Eclipse Cyclone DDS: dataclasses with IDL types, or octets for those who pack arrays themselves."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import time
import types
from collections.abc import Sequence
from typing import Any

from bench.codec.peer import FIELDS, values
from bench.transport.endpoint import End, Part, Peer, Role
from bench.transport.forms import Form, numpy_form
from bench.workload import Particle, particle

# Loopback, unicast, and the largest datagrams.
os.environ.setdefault(
    "CYCLONEDDS_URI",
    """<CycloneDDS><Domain><General><AllowMulticast>false</AllowMulticast><Interfaces>
    <NetworkInterface address="127.0.0.1" multicast="false"/></Interfaces>
    <MaxMessageSize>65500B</MaxMessageSize></General>
    <Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>20</MaxAutoParticipantIndex>
    <Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>""",
)

core: Any = importlib.import_module("cyclonedds.core")  # it need not be installed
idl: Any = importlib.import_module("cyclonedds.idl")
idl_types: Any = importlib.import_module("cyclonedds.idl.types")
domain: Any = importlib.import_module("cyclonedds.domain")
pub: Any = importlib.import_module("cyclonedds.pub")
sub: Any = importlib.import_module("cyclonedds.sub")
topic: Any = importlib.import_module("cyclonedds.topic")

_TAG_BYTES = 16
_MATCH_S = 8.0
_SAMPLES = 200


def _idl_struct(name: str, members: dict[str, Any]) -> Any:
    def fill(namespace: dict[str, Any]) -> None:
        namespace["__annotations__"] = members
        namespace["__module__"] = __name__

    made: Any = types.new_class(name, (idl.IdlStruct,), {"typename": name}, fill)
    return dataclasses.dataclass(made)


def _member_types() -> dict[str, Any]:
    """The particle's fields in IDL's types, at their sizes in C."""
    sized = {
        "id": idl_types.int64,
        "cell": idl_types.int32,
        "kind": idl_types.int16,
        "flags": idl_types.uint8,
        "owner": idl_types.uint32,
        "active": bool,
        "tag": idl_types.array[idl_types.uint8, _TAG_BYTES],
    } | dict.fromkeys(("vx", "vy", "vz", "temp"), idl_types.float32)
    return {name: sized.get(name, float) for name in FIELDS}


DdsParticle = _idl_struct("DdsParticle", _member_types())
DdsBatch = _idl_struct(
    "DdsBatch",
    {"step": idl_types.int64, "count": idl_types.int32, "particles": idl_types.sequence[DdsParticle]},
)
DdsBytes = _idl_struct("DdsBytes", {"data": idl_types.sequence[idl_types.byte]})


def dds_particle(it: Particle) -> Any:
    """The particle with its text as octets, which is what IDL has for char[16]."""
    members = dict(zip(FIELDS, values(it), strict=True))
    members["tag"] = list(it.tag.encode().ljust(_TAG_BYTES, b"\0"))
    return DdsParticle(**members)


def typed_form(n: int) -> Form:
    """IDL dataclasses, which the library encodes."""
    if n == 0:
        return Form("typed", dds_particle(particle(0)), "{it}.id", None, None, None)
    message = DdsBatch(0, n, [dds_particle(particle(i)) for i in range(n)])
    return Form("typed", message, "{it}.step", "{it}.particles[-1].id", None, None)


class DdsEnd(End):
    """Reliable, and nothing is thrown away."""

    def __init__(self, role: Role, form: Form, *, is_typed: bool) -> None:
        super().__init__(role, form)
        self._kind: Any = type(self.form.message) if is_typed else DdsBytes
        self._is_typed = is_typed
        self._writer: Any = None
        self._taken: list[Any] = []
        self.receive = self._receive

    def offer(self) -> Any:
        if not self.role.sends:
            return None
        return f"EchoBench{os.getpid()}"

    def join(self, offers: Sequence[Any]) -> None:
        policy, wait = core.Policy, importlib.import_module("cyclonedds.util").duration(seconds=5)
        quality = core.Qos(
            policy.Reliability.Reliable(wait),
            policy.History.KeepAll,
            policy.ResourceLimits(max_samples=_SAMPLES, max_instances=-1, max_samples_per_instance=_SAMPLES),
        )
        participant = domain.DomainParticipant(71)
        if self.role.sends:
            its_topic = topic.Topic(participant, offers[self.role.index], self._kind, qos=quality)
            self._writer = pub.DataWriter(pub.Publisher(participant), its_topic, qos=quality)
            self.send = self._writer.write if self._is_typed else self._send
        if self.role.receives:
            sender = 1 - self.role.index if self.role.part in (Part.PING, Part.PONG) else 0
            its_topic = topic.Topic(participant, offers[sender], self._kind, qos=quality)
            self._reader = sub.DataReader(sub.Subscriber(participant), its_topic, qos=quality)
            self._waits = core.WaitSet(participant)
            any_state = core.ViewState.Any | core.SampleState.Any | core.InstanceState.Any
            self._waits.attach(core.ReadCondition(self._reader, any_state))
        self._second = importlib.import_module("cyclonedds.util").duration(seconds=1)
        self._await_match()

    def _await_match(self) -> None:
        deadline_s = time.monotonic() + _MATCH_S
        while not self._is_matched():
            if time.monotonic() > deadline_s:
                msg = "The DDS readers and writers did not find each other"
                raise TimeoutError(msg)
            time.sleep(0.01)

    def _is_matched(self) -> bool:
        if self.role.sends and len(self._writer.get_matched_subscriptions()) < self.role.receivers:
            return False
        return not self.role.receives or len(self._reader.get_matched_publications()) > 0

    def _send(self, data: Any) -> None:
        self._writer.write(DdsBytes(data))

    def _receive(self) -> Any:
        while not self._taken:
            self._waits.wait(self._second)
            self._taken = self._reader.take(64)[::-1]
        sample = self._taken.pop()
        return sample if self._is_typed else bytes(sample.data)


PEERS = [
    Peer("dds", "typed", typed_form, functools.partial(DdsEnd, is_typed=True)),
    Peer("dds", "numpy", numpy_form, functools.partial(DdsEnd, is_typed=False)),
]
