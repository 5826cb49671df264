"""Two hosts with a cable between them, for tests: network namespaces, which only root can make."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Generator
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Host:
    """A network namespace: its own loopback, abstract Unix sockets, and one end of the cable."""

    namespace: str
    device: str
    ipv4: str
    ipv6: str
    link_local: str  # with the device as its scope


@dataclass(frozen=True)
class Cable:
    """Between two hosts; while it is pulled, nothing comes through, and nobody is told."""

    left: Host
    right: Host

    def pull(self) -> None:
        _ip("-n", self.right.namespace, "link", "set", self.right.device, "down")

    def plug_in(self) -> None:
        _ip("-n", self.right.namespace, "link", "set", self.right.device, "up")


@contextlib.contextmanager
def two_hosts() -> Generator[Cable]:
    """Skips the test where there can be none; leaves nothing behind."""
    name = f"echo-{secrets.token_hex(3)}"
    left, right = (
        Host(f"{name}-{i}", "cable", f"10.213.7.{i}", f"fd00:213::{i}", f"fe80::{i}%cable") for i in (1, 2)
    )
    with contextlib.ExitStack() as made:
        try:
            for host in (left, right):
                _ip("netns", "add", host.namespace)
                made.callback(_ip, "netns", "delete", host.namespace)
            _lay_cable(left, right)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', '') or error}")
        yield Cable(left, right)


def _lay_cable(left: Host, right: Host) -> None:
    peer = ("peer", "name", right.device, "netns", right.namespace)
    _ip("-n", left.namespace, "link", "add", left.device, "type", "veth", *peer)
    for host in (left, right):
        network = ("-n", host.namespace)
        _ip(*network, "link", "set", "lo", "up")
        _ip(*network, "link", "set", host.device, "addrgenmode", "none")
        _ip(*network, "link", "set", host.device, "up")
        _ip(*network, "address", "add", f"{host.ipv4}/24", "dev", host.device)


def give_ipv6(cable: Cable) -> None:
    """Skips the test where the kernel has none."""
    try:
        for host in (cable.left, cable.right):
            for address in (host.ipv6, host.link_local.partition("%")[0]):
                _ip(
                    *("-n", host.namespace, "-6", "address", "add", f"{address}/64"),
                    *("dev", host.device, "nodad"),
                )
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no IPv6 here: {error.stderr}")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)
