"""mpi4py on MPICH, whose processes spin on shared memory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from bench.transport.endpoint import End, Part, Peer, Role
from bench.transport.forms import MAKERS, Form, payload_bytes

importlib.import_module("mpi4py")  # it need not be installed

_LAUNCHER = Path(sys.executable).with_name("mpiexec")  # of the package mpich
if not _LAUNCHER.exists():
    msg = "No module named 'mpich' (mpiexec)"
    raise ImportError(msg)


class MpiEnd(End):
    """Bytes in a buffer of the receiver's, the fastest that it has."""

    def __init__(self, role: Role, form: Form) -> None:
        super().__init__(role, form)
        mpi: Any = importlib.import_module("mpi4py.MPI")
        self._world = mpi.COMM_WORLD
        self._byte = mpi.BYTE
        self._status = mpi.Status()
        self._buffer = bytearray(payload_bytes(2000))
        self._view = memoryview(self._buffer)
        others = range(1, role.receivers + 1) if role.part is Part.SOURCE else (1 - role.index,)
        self._receivers = tuple(others)
        self._sender = 0 if role.part is Part.SINK else 1 - role.index
        self.send = self._send
        self.receive = self._receive

    def _send(self, data: Any) -> None:
        for rank in self._receivers:
            self._world.Send([data, self._byte], rank)

    def _receive(self) -> memoryview:
        self._world.Recv([self._buffer, self._byte], self._sender, 0, self._status)
        return self._view[: self._status.Get_count(self._byte)]


PEERS = [
    Peer("mpi", form, MAKERS[form], MpiEnd, launcher=(str(_LAUNCHER), "-launcher", "fork", "-iface", "lo"))
    for form in ("msgspec", "numpy")
]
