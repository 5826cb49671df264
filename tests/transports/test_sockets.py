"""What is said where a socket cannot be made, or no time is left to connect it."""

from __future__ import annotations

import contextlib
import inspect
import os
import resource
import socket
import sys
import warnings
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import pytest

from echo_core.errors import LinkError
from echo_core.transports.addresses import Address, TcpAddress, UnixAddress
from echo_core.transports.wires import sockets

LIMIT_S = 30.0
ADDRESSES = [TcpAddress("127.0.0.1", 1), TcpAddress("::1", 1), UnixAddress("echo-nobody")]


@contextlib.contextmanager
def no_descriptors() -> Generator[None]:
    """None is free meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("address", ADDRESSES, ids=str)
def test_a_connection_for_which_no_time_is_left_says_so(address: Address) -> None:
    """And not that it is under way."""
    with pytest.raises(LinkError, match="no time is left"):
        sockets.connect(address, 0.0)


@pytest.mark.parametrize("address", ADDRESSES, ids=str)
def test_a_process_without_descriptors_is_told_so(address: Address) -> None:
    too_many = r"Expected a socket for .*Too many open files"
    with pytest.raises(LinkError, match=too_many), no_descriptors():
        sockets.connect(address, 1.0)
    with pytest.raises(LinkError, match=too_many), no_descriptors():
        sockets.listen(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_host_is_tried_at_all_its_addresses(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """In the order in which the system gives them; here nobody answers at the first."""
    with contextlib.closing(sockets.listen(TcpAddress(host, 0))) as listener:
        port = listener.getsockname()[1]
        other = "127.0.0.2" if host == "127.0.0.1" else "127.0.0.1"
        found = [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            for each in (other, host)
        ]

        def look_up(*_: object, **options: object) -> list[object]:
            assert options == {"type": socket.SOCK_STREAM}
            return list(found)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with contextlib.closing(sockets.connect(TcpAddress("two-addresses", port), LIMIT_S)) as connection:
            assert connection.getpeername()[0] == host
        found.pop()
        with pytest.raises(LinkError, match=r"tcp://two-addresses:.*refused"):
            sockets.connect(TcpAddress("two-addresses", port), LIMIT_S)


def test_a_host_that_there_is_not_says_so() -> None:
    with pytest.raises(LinkError, match=r"Expected the address of a host at tcp://no\.\.host:1"):
        sockets.connect(TcpAddress("no..host", 1), LIMIT_S)


def test_a_listener_that_lets_nobody_in_is_said_to_have_timed_out() -> None:
    """Not that the connection is under way, or some resource unavailable."""
    address = sockets.new_unix_address()
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as waiting:
        listener.bind(f"\0{address.name}")
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                connection = waiting.enter_context(socket.socket(socket.AF_UNIX))
                connection.setblocking(False)
                connection.connect(f"\0{address.name}")
        with pytest.raises(LinkError, match=f"{address}: timed out"):
            sockets.connect(address, 0.1)


def test_a_link_local_address_of_an_interface_that_is_not_here_says_so() -> None:
    nowhere = TcpAddress("fe80::1%nowhere", 1)
    with pytest.raises(LinkError, match=r"tcp://\[fe80::1%nowhere\]:1: .*no interface"):
        sockets.connect(nowhere, 1.0)
    with pytest.raises(LinkError, match=r"tcp://\[fe80::1%nowhere\]:1: .*no interface"):
        sockets.listen(nowhere)


def interrupt_at(step: int, act: Callable[[], object]) -> bool:
    """Whether the act has so many steps in these modules; it is interrupted at that one."""
    before, count, here = sys.gettrace(), 0, inspect.currentframe()
    assert here is not None
    here.f_trace_opcodes = True  # CPython 3.12 asks for it before tracing begins

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal count
        if frame.f_code.co_filename not in (sockets.__file__, socket.__file__):
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        if count == step:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("address", [TcpAddress("127.0.0.1", 0), UnixAddress("echo-interrupted")], ids=str)
def test_an_interrupt_leaves_no_socket_open_wherever_it_comes(address: Address) -> None:
    """Nor a warning of one: nothing had been forgotten."""
    with (
        contextlib.closing(sockets.listen(address)) as listener,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        listened = sockets.bound_address(listener)
        before, step, made = os.listdir("/proc/self/fd"), 1, list[socket.socket]()
        while interrupt_at(step, lambda: made.append(sockets.connect(listened, LIMIT_S))):
            step += 1
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
        made.pop().close()
        assert step > 50
        assert len(os.listdir("/proc/self/fd")) == len(before)
    assert [str(warning.message) for warning in told] == []
