"""The plant of the examples: five processes, each of which is killed in turn, and nobody else notices."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
ROLES = ("instrument", "processor", "dashboard", "recorder")
LIMIT_S = 60.0  # a busy machine starts five Pythons


class Plant:
    """The processes as they run, by what they say of themselves."""

    def __init__(self, folder: Path) -> None:
        run_time = folder / "run"
        run_time.mkdir(mode=0o700)
        self.record = folder / "record.txt"
        self.log = folder / "log.txt"
        self._environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(run_time),
            "PLANT_RECORD": str(self.record),
            "PYTHONPATH": str(ROOT),
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def supervise(self) -> None:
        """Starts a supervisor, in a session of its own, as a service would be."""
        with self.log.open("a") as log:
            command = [sys.executable, "-W", "error", "-m", "examples.plant.supervisor"]
            self.processes.append(
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=self._environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    def lines(self, pattern: str) -> list[str]:
        """What has been logged so far."""
        return [line for line in self.log.read_text().splitlines() if re.search(pattern, line)]

    def process_of(self, role: str) -> int:
        """The last one that has begun."""
        return int(self.lines(rf"{role}: process \d+ begins")[-1].split()[-2])

    def wait_for(self, is_met: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + LIMIT_S
        while not is_met():
            assert time.monotonic() < limit, f"{what} has not come:\n{self.log.read_text()}"
            time.sleep(0.02)

    def wait_for_more(self, pattern: str, than: int) -> None:
        self.wait_for(lambda: len(self.lines(pattern)) > than, pattern)

    def frames(self) -> list[int]:
        """The numbers of the frames that the recorder has written."""
        lines = (
            self.record.read_text().splitlines()[:-1] if self.record.exists() else []
        )  # the last may be partial
        return [int(line.split()[2]) for line in lines if not line.startswith("#")]

    def wait_for_frames(self) -> None:
        """Some more have come."""
        before = len(self.frames())
        self.wait_for(lambda: len(self.frames()) > before + 5, "a frame")

    def kill(self, role: str) -> None:
        os.kill(self.process_of(role), signal.SIGKILL)

    def is_alive(self, role: str) -> bool:
        try:
            os.kill(self.process_of(role), 0)
        except ProcessLookupError:
            return False
        return True


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    plant = Plant(tmp_path)
    plant.supervise()
    try:
        plant.wait_for(
            lambda: all(plant.lines(rf"supervisor: {role} is there") for role in ROLES), "all components"
        )
        plant.wait_for_frames()
        yield plant
    finally:
        for process in plant.processes:
            process.kill()
            process.wait()
        for role in ROLES:
            if plant.lines(rf"{role}: process \d+ begins") and plant.is_alive(role):
                plant.kill(role)


def test_each_component_is_killed_in_turn_and_nobody_else_notices(plant: Plant) -> None:
    """What was killed comes back and finds the others; these go on, and say nothing of trouble."""
    for victim in ROLES:
        others = {role: plant.process_of(role) for role in ROLES if role != victim}
        seen = len(plant.lines(rf"supervisor: {victim} is there"))
        frames = len(plant.frames())
        plant.kill(victim)
        plant.wait_for_more(rf"supervisor: {victim} is there", than=seen)
        plant.wait_for_frames()
        assert {role: plant.process_of(role) for role in others} == others
        if victim not in {"instrument", "recorder"}:
            recorded = plant.frames()[max(0, frames - 1) :]
            assert recorded == list(range(recorded[0], recorded[0] + len(recorded)))
    assert not plant.lines(r"Traceback|ERROR|Exception")


def test_a_supervisor_is_killed_and_the_next_one_finds_who_is_there(plant: Plant) -> None:
    """Components go on without it; the next one starts nobody, and all end when it is told to stop."""
    before = {role: plant.process_of(role) for role in ROLES}
    started = len(plant.lines("supervisor: starts the"))
    plant.processes[0].kill()
    plant.processes[0].wait()
    plant.wait_for_frames()
    seen = {role: len(plant.lines(rf"supervisor: {role} is there")) for role in ROLES}
    plant.supervise()
    for role in ROLES:
        plant.wait_for_more(rf"supervisor: {role} is there", than=seen[role])
    plant.wait_for_frames()
    assert {role: plant.process_of(role) for role in ROLES} == before, plant.log.read_text()
    assert len(plant.lines("supervisor: starts the")) == started
    plant.processes[1].send_signal(signal.SIGTERM)
    assert plant.processes[1].wait(LIMIT_S) == 0
    assert plant.lines("supervisor: all have ended"), plant.log.read_text()
    for role in ROLES:
        plant.wait_for_more(rf"{role}: ends after \d+ events", than=0)
    assert not plant.lines(r"Traceback|ERROR|Exception|not all was sent")
