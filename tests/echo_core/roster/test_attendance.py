"""Who has to be linked is, after whatever faults; and who need not be is left alone."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from echo_core.roster.attendance import LEAP, Attendance, usable
from echo_core.transports.limits import MAX_VERSION
from echo_core.transports.protocol.messages import Member, Standing
from tests.echo_core.roster.attendances import FORGET_S, Node, World

SENDS, TAKES, HOLDS, LEFT = (standing.value for standing in Standing)
HEALED_S = 40.0


def _world(seed: int, members: int) -> tuple[World, Node]:
    world = World(seed)
    creator = world.add(HOLDS | world.random.choice((0, SENDS, TAKES)))
    for _ in range(members):
        world.add(world.random.choice((0, SENDS, TAKES, TAKES, SENDS | TAKES)), through=creator)
        world.run(world.random.uniform(0, 1))
    return world, creator


def _disturb(world: World) -> None:
    """One fault or change, out of all that there are."""
    chance, nodes = world.random, world.alive()
    node = chance.choice(nodes)
    match chance.randrange(8):
        case 0:
            world.part(chance.choice((2, 3)))
        case 1:
            world.heal()
        case 2:
            node.paused_until = world.now + chance.uniform(0, 12)
        case 3 if len(nodes) > 4:
            world.kill(node)
        case 4 if len(nodes) > 4:
            node.leave()
        case 5 if not node.is_paused:
            world.add(chance.choice((SENDS, TAKES)), through=node)
        case 6:
            node.attendance.stand(node.standing & HOLDS | chance.choice((0, SENDS, TAKES)))
            node.say()
        case _:
            for other, link in list(node.links.items()):
                if chance.random() < 0.5:
                    world.end(link, chance.uniform(0, 1), node.id)
                    world.end(link, chance.uniform(0, 5), other)


def _calm(world: World) -> None:
    world.heal()
    for node in world.alive():
        node.paused_until = 0.0


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_after_faults_all_that_have_to_be_linked_are(first: int) -> None:
    """Whatever was cut, paused, killed, added and changed meanwhile."""
    for seed in range(first, first + 50):
        world, _ = _world(seed, members=world_size(seed))
        for _ in range(world_size(seed) * 2):
            _disturb(world)
            world.run(world.random.expovariate(0.5))
        _calm(world)
        world.run(HEALED_S)
        demand_linked(world, seed)


def world_size(seed: int) -> int:
    return random.Random(seed).choice((2, 3, 5, 8, 12))


def demand_linked(world: World, seed: int) -> None:
    assert not world.unlinked(), seed
    for node in world.alive():
        alive = {other.id for other in world.alive() if other is not node}
        known = node.attendance._known  # pyright: ignore[reportPrivateUsage]
        assert alive <= known.keys(), seed
        assert not alive or node.links, seed


def test_attendance_keeps_calm_once_all_is_well() -> None:
    world, _ = _world(3, members=10)
    world.run(HEALED_S)
    attempts = [node.attempts for node in world.alive()]
    world.run(FORGET_S)
    assert [node.attempts for node in world.alive()] == attempts
    assert isinstance(world.alive()[0].attendance, Attendance)


def _attendance(*named: tuple[bytes, bytes]) -> Attendance:
    """Of a sink on host h; `named`: nodes that its channel's id names, and their hosts."""
    own = Member(0, b"o" * 16, 1, TAKES, b"h" * 16, "own", ("tcp://10.0.0.1:1",))
    attendance = Attendance(own, forget_s=FORGET_S, chance=random.Random(1))
    for node_id, host_id in named:
        attendance.name(node_id, ("tcp://10.0.0.2:1",), host_id)
    return attendance


def _attempts(attendance: Attendance, start: float, end: float) -> list[tuple[float, bytes]]:
    """Those that are made, all in vain: when, and to whom."""
    tried: list[tuple[float, bytes]] = []
    for step in range(int((end - start) / 0.25)):
        now = start + step * 0.25
        for member in attendance.due(now, 16) if attendance.is_due(now) else []:
            tried.append((now, member.node_id))
            attendance.fail(member.node_id, now)
    return tried


@pytest.mark.parametrize(("host", "pause_s"), [(b"h" * 16, 0.75), (b"i" * 16, 6.5)])
def test_who_comes_to_hold_a_channel_again_is_found_within_a_second_on_the_same_host(
    host: bytes, pause_s: float
) -> None:
    """However long it was gone; on another host, where an attempt costs more, within some seconds."""
    holder = b"c" * 16
    attendance = _attendance((holder, host))
    attendance.meet(Member(0, holder, 1, HOLDS, host, "holder", ("tcp://10.0.0.2:1",)), 0.0)
    attendance.lose(holder, 10.0)
    times = [when for when, _ in _attempts(attendance, 10.0, 10.0 + FORGET_S)]
    assert (
        max(after - before for before, after in itertools.pairwise([10.0, *times, 10.0 + FORGET_S]))
        <= pause_s
    )


@pytest.mark.parametrize("is_crossed", [False, True])
def test_a_member_that_answers_is_not_said_to_be_out_of_reach(is_crossed: bool) -> None:
    """On a busy machine another link to it may take its time; one that does not answer is told of."""
    attendance = _attendance()
    attendance.meet(Member(0, b"t" * 16, 1, HOLDS, b"h" * 16, "holder", ("tcp://10.0.0.3:1",)), 0.0)
    source = Member(0, b"s" * 16, 1, SENDS, b"h" * 16, "source", ("tcp://10.0.0.4:1",))
    attendance.hear(b"t" * 16, source, 0.0)
    for now in range(60):
        for member in attendance.due(float(now), 16):
            attendance.fail(member.node_id, float(now), problem="it says no", is_crossed=is_crossed)
    assert len(attendance.unlinkable(60.0)) == (not is_crossed)


@pytest.mark.parametrize("is_goodbye", [False, True])
def test_members_that_nobody_who_is_linked_tells_of_any_more_are_forgotten(is_goodbye: bool) -> None:
    """Until then they are tried less and less often, however many there are."""
    teller = Member(0, b"t" * 16, 1, TAKES, b"h" * 16, "teller", ("tcp://10.0.0.3:1",))
    attendance = _attendance()
    attendance.meet(teller, 0.0)
    for number in range(1000):
        node_id = (number + 1).to_bytes(16, "big")
        attendance.hear(
            teller.node_id, Member(0, node_id, 1, SENDS, b"h" * 16, "", ("tcp://10.0.0.4:1",)), 0.0
        )
    if is_goodbye:
        attendance.part(teller.node_id, 1.0)
    else:
        attendance.lose(teller.node_id, 1.0)
    tried = [when for when, node_id in _attempts(attendance, 1.0, 2 * FORGET_S) if node_id != teller.node_id]
    assert 50 < len(tried) < 150
    assert max(tried) <= 1.0 + FORGET_S
    assert attendance.members <= 1  # who was linked is known for some time
    assert attendance.missing == 0


def test_of_a_members_addresses_only_those_that_mean_something_on_a_host_are_used_there() -> None:
    """Which is all that others there are told of it, too."""
    everywhere = ("tcp://10.0.0.1:1", "tcp://[fd00::1]:1", "tcp://example.org:1")
    on_its_host = ("unix:@echo-1", "tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1")
    member = Member(0, bytes(16), 1, 0, b"h" * 16, "member", on_its_host + everywhere)
    assert usable(member, b"h" * 16) == on_its_host + everywhere
    assert usable(member, b"i" * 16) == everywhere


def test_who_was_linked_before_goes_before_strangers() -> None:
    """However often that has failed, and however little room is left."""
    attendance = _attendance()
    liar, lost = (
        Member(0, name * 16, 1, SENDS, b"h" * 16, "", ("tcp://10.0.0.3:1",)) for name in (b"l", b"z")
    )
    for member in (liar, lost):
        attendance.meet(member, 0.0)
        attendance.hear(member.node_id, replace(member, version=2), 0.0)
    for number in range(100):
        attendance.hear(liar.node_id, replace(liar, node_id=number.to_bytes(16, "big")), 0.0)
    attendance.lose(lost.node_id, 1.0)
    for now in (20.0, 40.0):
        assert [member.node_id for member in attendance.due(now, 1)] == [lost.node_id]
        attendance.fail(lost.node_id, now)
    found = attendance.due(60.0, 16, 3)
    assert found[0].node_id == lost.node_id
    assert len(found) == 4


@pytest.mark.parametrize(("members", "pause_s"), [(10, 0.0), (4000, 0.2)])
def test_among_many_members_there_is_a_pause_between_two_looks_at_all(members: int, pause_s: float) -> None:
    """However often something happens meanwhile, so that they take a tenth of the time at most."""
    attendance, teller = _attendance(), _member(b"t", SENDS)
    attendance.meet(teller, 0.0)
    for number in range(members):
        attendance.hear(teller.node_id, replace(teller, node_id=number.to_bytes(16, "big")), 0.0)
    looks = [0.0]
    for now in (step * 0.001 for step in range(1000)):
        for tried in attendance.due(now, 16) if attendance.is_due(now) else []:
            attendance.fail(tried.node_id, now)
            looks.append(now)
    ends = sorted(set(looks))
    assert len(ends) > 1
    assert min(after - before for before, after in itertools.pairwise(ends)) >= pause_s


@pytest.mark.parametrize("version", [LEAP - 1, LEAP, MAX_VERSION])
@pytest.mark.parametrize("standing", [0, SENDS | LEFT])
def test_nobody_vanishes_by_a_word_of_others(version: int, standing: int) -> None:
    """However high its number is: the node's own word, which anybody may pass on, counts again."""
    here, there = _attendance(), Attendance(_member(b"s", SENDS), forget_s=FORGET_S, chance=random.Random(2))
    liar, honest = (_member(name, 0) for name in (b"l", b"m"))
    for attendance in (here, there):
        attendance.meet(liar, 0.0)
    here.hear(liar.node_id, there.own, 0.0)
    here.meet(honest, 0.0)
    lie = replace(there.own, version=version, standing=standing)
    for attendance in (here, there):
        attendance.hear(liar.node_id, lie, 1.0)
    here.hear(honest.node_id, there.own, 2.0)
    assert there.own.node_id in [member.node_id for member in here.due(3.0, 16)]
    assert here.missing == 1


def _member(name: bytes, standing: int) -> Member:
    return Member(0, name * 16, 1, standing, b"h" * 16, "", (f"tcp://10.0.0.{name[0]}:1",))


def test_who_is_lost_takes_nothing_until_it_is_there_again() -> None:
    """By its own link, or by the word of another one who is linked."""
    own, other, third = (Member(0, bytes([i]) * 16, 1, TAKES, bytes(16), "", ()) for i in range(3))
    attendance = Attendance(replace(own, standing=0), forget_s=FORGET_S, chance=random.Random(1))
    takes = [attendance.is_taken]
    attendance.meet(other, 0.0)
    attendance.hear(other.node_id, other, 0.0)
    takes.append(attendance.is_taken)
    attendance.lose(other.node_id, 1.0)
    takes.append(attendance.is_taken)
    attendance.meet(replace(third, standing=0), 2.0)
    attendance.hear(third.node_id, replace(third, version=2, standing=0), 2.0)
    takes.append(attendance.is_taken)
    attendance.hear(third.node_id, other, 3.0)
    takes.append(attendance.is_taken)
    assert takes == [False, True, False, False, True]
