"""Eclipse iceoryx2: memory that is lent and read in place, by polling or woken by its events."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.transport.endpoint import End, Peer, Role
from bench.transport.forms import DTYPE, HEADER, MAKERS, Batch, Form

iox: Any = importlib.import_module("iceoryx2")  # it need not be installed

_SAMPLE_BYTES = 1 << 17
_SLOTS = 64

iox.set_log_level(iox.LogLevel.Error)


class IceoryxEnd(End):
    """Each process that sends has a service named after it."""

    def __init__(self, role: Role, form: Form, *, wakes: bool) -> None:
        super().__init__(role, form)
        self._wakes = wakes
        self._node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)
        self._in_place = form.encode is None
        self.send = self._send_array if self._in_place else self._send_bytes
        self.receive = self._receive_array if self._in_place else self._receive_bytes
        self._notifier: Any = None
        self._ports: list[Any] = []
        self._held: Any = None  # the sample whose memory the last event is a view of

    def offer(self) -> Any:
        if not self.role.sends:
            return None
        name = f"echo-bench/{os.getpid()}"
        self._service = self._messages(name)
        waits = iox.BackpressureStrategy.RetryUntilDelivered
        self._publisher = self._kept(
            self._service.publisher_builder()
            .initial_max_slice_len(_SAMPLE_BYTES)
            .backpressure_strategy(waits)
            .create()
        )
        if self._wakes:
            self._notifier = self._kept(self._events(name).notifier_builder().create())
        return name

    def join(self, offers: Sequence[Any]) -> None:
        if self.role.receives:
            name = offers[1 - self.role.index if self.role.sends else 0]
            self._subscriber = self._kept(
                self._messages(name).subscriber_builder().buffer_size(_SLOTS).create()
            )
            if self._wakes:
                self._listener = self._kept(self._events(name).listener_builder().create())
        if self.role.sends:
            while self._service.dynamic_config.number_of_subscribers < self.role.receivers:
                os.sched_yield()

    def close(self) -> None:
        """Views of lent memory must be gone by now: what it lends is given back first."""
        if self._held is not None:
            self._held.delete()
        for port in self._ports:
            port.delete()

    def _kept(self, port: Any) -> Any:
        self._ports.append(port)
        return port

    def _messages(self, name: str) -> Any:
        return (
            self._node.service_builder(iox.ServiceName.new(name))
            .publish_subscribe(iox.Slice[ctypes.c_uint8])
            .enable_safe_overflow(False)
            .subscriber_max_buffer_size(_SLOTS)
            .subscriber_max_borrowed_samples(4)
            .max_subscribers(8)
            .open_or_create()
        )

    def _events(self, name: str) -> Any:
        return self._node.service_builder(iox.ServiceName.new(name)).event().max_listeners(8).open_or_create()

    def _send_bytes(self, data: bytes) -> None:
        sample = self._publisher.loan_slice_uninit(len(data))
        ctypes.memmove(sample.payload_ptr, data, len(data))
        self._give(sample)

    def _send_array(self, message: Any) -> None:
        if isinstance(message, Batch):
            size = message.particles.nbytes
            sample = self._publisher.loan_slice_uninit(HEADER.size + size)
            address = sample.payload_ptr
            ctypes.memmove(address, HEADER.pack(message.step, message.count), HEADER.size)
            ctypes.memmove(address + HEADER.size, message.particles.ctypes.data, size)
        else:
            sample = self._publisher.loan_slice_uninit(DTYPE.itemsize)
            ctypes.memmove(sample.payload_ptr, message.ctypes.data, DTYPE.itemsize)
        self._give(sample)

    def _give(self, sample: Any) -> None:
        sample.assume_init().send()
        if self._notifier is not None:
            self._notifier.notify()

    def _take(self) -> Any:
        receive = self._subscriber.receive
        while (sample := receive()) is None:
            if self._wakes:
                self._listener.timed_wait(iox.Duration.from_secs(1))
        return sample

    def _receive_bytes(self) -> bytes:
        sample = self._take()
        data = bytes(sample.payload().as_memory_view())
        sample.delete()
        return data

    def _receive_array(self) -> Any:
        self._held = self._take()
        view = self._held.payload().as_memory_view()
        if isinstance(self.form.message, Batch):
            step, count = HEADER.unpack_from(view)
            return Batch(step, count, np.frombuffer(view, DTYPE, count, HEADER.size))
        return np.frombuffer(view, DTYPE)


PEERS = [
    Peer(name, form, MAKERS[form], functools.partial(IceoryxEnd, wakes=wakes))
    for name, wakes in (("iceoryx2-event", True), ("iceoryx2-poll", False))
    for form in ("in place", "msgspec")
]
