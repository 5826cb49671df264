"""Nodes of one channel, each with its real attendance, between which links come, break and are silent.

Seeded, with a virtual clock. What a node says arrives later, in order, as long as its link is whole; each
side notices the end of a link at a time of its own. Nodes are cut off from each other, paused,
killed and added.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from echo_core.roster.attendance import Attendance
from echo_core.transports.protocol.messages import Member, Standing

FORGET_S = 600.0
TICK_S = 0.25
STALL_S = 5.0
ATTEMPT_S = 3.0


@dataclass(eq=False)
class Link:
    """Both its ends may differ on whether it is there."""

    ends: set[bytes]
    is_cut: bool = False
    held_up: dict[bytes, float] = field(default_factory=dict[bytes, float])  # by receiver: not before then


class Node:
    """What a process does with its attendance, without the process."""

    def __init__(self, world: World, number: int, standing: int) -> None:
        self.world = world
        self.id = number.to_bytes(16, "big")
        self.own = Member(0, self.id, 1, standing, b"h" * 16, f"node {number}", (f"tcp://10.0.0.1:{number}",))
        self.attendance = Attendance(self.own, forget_s=FORGET_S, chance=world.random)
        self.links: dict[bytes, Link] = {}
        self.is_alive = True
        self.paused_until = 0.0
        self.attempts = 0

    @property
    def standing(self) -> int:
        return self.attendance.own.standing

    def tick(self) -> None:
        if not self.is_alive:
            return
        if self.is_paused:
            self.world.after(TICK_S, self.tick)
            return
        now = self.world.now
        if self.attendance.is_due(now):
            for member in self.attendance.due(now, 16):
                self.attempts += 1
                self.world.attempt(self, member)
        self.say()
        self.world.after(TICK_S, self.tick)

    @property
    def is_paused(self) -> bool:
        return self.world.now < self.paused_until

    def say(self) -> None:
        for to, member in self.attendance.take_words():
            self.world.send(self, to, member)

    def lose(self, other: bytes, link: Link) -> None:
        """This side notices that the link is over."""
        if self.links.get(other) is link:
            del self.links[other]
            self.attendance.lose(other, self.world.now)
            self.say()

    def leave(self) -> None:
        """A goodbye on every link."""
        self.is_alive = False
        for other, link in self.links.items():
            self.world.deliver(link, self.id, other, _farewell_of(self.id))

    def hear_farewell(self, other: bytes) -> None:
        self.links.pop(other, None)
        self.attendance.part(other, self.world.now)


class World:
    """Time, and what is under way."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.nodes: dict[bytes, Node] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._islands: dict[bytes, int] = {}

    # --- time ---

    def after(self, delay_s: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay_s, next(self._numbers), do))

    def run(self, duration_s: float) -> None:
        end = self.now + duration_s
        while self._events and self._events[0][0] <= end:
            self.now, _, do = heapq.heappop(self._events)
            do()
        self.now = end

    # --- nodes ---

    def add(self, standing: int = 0, *, through: Node | None = None) -> Node:
        node = Node(self, self.random.getrandbits(40), standing)
        self.nodes[node.id] = node
        if through is not None:  # `open_channel` has returned
            node.attendance.name(through.id, through.own.addresses)
            self._link(node, through)
        self.after(self.random.uniform(0, TICK_S), node.tick)
        return node

    def alive(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_alive]

    def kill(self, node: Node) -> None:
        node.is_alive = False
        for other, link in list(node.links.items()):
            self.end(link, self.random.uniform(0, 0.1), other)

    # --- partitions ---

    def part(self, islands: int) -> None:
        """Links across are silent, and their ends notice that in the time of a stall."""
        self._islands = {node_id: self.random.randrange(islands) for node_id in self.nodes}
        for node in self.alive():
            for other, link in list(node.links.items()):
                if not self.are_connected(node.id, other):
                    link.is_cut = True
                    self.end(link, self.random.uniform(0, STALL_S), node.id)

    def heal(self) -> None:
        self._islands = {}

    def are_connected(self, one: bytes, other: bytes) -> bool:
        return self._islands.get(one, 0) == self._islands.get(other, 0)

    # --- links ---

    def attempt(self, node: Node, member: Member) -> None:
        self.after(self.random.uniform(0.001, 0.05), lambda: self._connect(node, member))

    def _connect(self, node: Node, member: Member) -> None:
        other = self.nodes.get(member.node_id)
        if other is None or not self.are_connected(node.id, other.id) or other.is_paused:
            self.after(ATTEMPT_S, lambda: self._fail(node, member))
        elif not other.is_alive or other.id in node.links or node.id in other.links:
            self._fail(node, member)
        else:
            self._link(node, other)

    def _fail(self, node: Node, member: Member) -> None:
        node.attendance.fail(member.node_id, self.now)

    def _link(self, node: Node, other: Node) -> None:
        link = Link({node.id, other.id})
        for near, far in ((node, other), (other, node)):
            near.links[far.id] = link
            near.attendance.meet(replace(far.own, version=0, standing=0), self.now)
            near.say()

    def end(self, link: Link, delay_s: float, *noticing: bytes) -> None:
        link.is_cut = True
        for node_id in noticing:
            [other] = link.ends - {node_id}
            self.after(delay_s, partial(self._notice, node_id, other, link))

    def _notice(self, node_id: bytes, other: bytes, link: Link) -> None:
        node = self.nodes[node_id]
        if node.is_alive and node.is_paused:
            self.after(node.paused_until - self.now, lambda: self._notice(node_id, other, link))
        elif node.is_alive:
            node.lose(other, link)

    def send(self, node: Node, to: bytes, member: Member) -> None:
        link = node.links.get(to)
        if link is not None:
            self.deliver(link, node.id, to, lambda it: self._hear(it, node.id, member))

    def deliver(self, link: Link, sender: bytes, to: bytes, do: Callable[[Node], None]) -> None:
        at = max(self.now + self.random.expovariate(200.0), link.held_up.get(to, 0.0))
        link.held_up[to] = at
        self.after(at - self.now, lambda: self._arrive(link, sender, to, do))

    def _arrive(self, link: Link, sender: bytes, to: bytes, do: Callable[[Node], None]) -> None:
        node = self.nodes[to]
        if link.is_cut or not node.is_alive or node.links.get(sender) is not link:
            return
        if node.is_paused:
            self.after(node.paused_until - self.now, lambda: self._arrive(link, sender, to, do))
            return
        do(node)
        node.say()

    def _hear(self, node: Node, teller: bytes, member: Member) -> None:
        node.attendance.hear(teller, member, self.now)

    # --- what must hold ---

    def unlinked(self) -> list[tuple[Node, Node]]:
        """Pairs that have to be linked and are not."""
        pairs = itertools.combinations(self.alive(), 2)
        return [(one, other) for one, other in pairs if need(one, other) and other.id not in one.links]


def _farewell_of(node_id: bytes) -> Callable[[Node], None]:
    return lambda node: node.hear_farewell(node_id)


def need(one: Node, other: Node) -> bool:
    sends, takes = Standing.SENDS.value, Standing.TAKES.value
    forth = one.standing & sends and other.standing & takes
    back = one.standing & takes and other.standing & sends
    return bool(forth or back)
