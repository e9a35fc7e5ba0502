"""Nothing is lost, and nothing ends twice, though the program or its workers are killed at random.

A supervisor runs `survivor.py` again and again on one journal, kills it and its workers at moments
that nobody chose, lets it finish in the end, and then reads the book that it kept.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.journal import survivor
from tests.support import procs
from tests.support.loops import LOOPS
from tests.support.scripts import Script

SOAK_ROUNDS = int(os.environ.get("ASYNCPOOL_SOAK_ROUNDS", "2000"))
ROUNDS = 7
"""How often a journal's owner is killed before it may finish."""

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.005

PROGRAM = "from tests.journal import survivor; survivor.main()"


class Supervisor:
    """Runs the program, and is the one who kills."""

    def __init__(self, directory: Path, loop: str, seed: str) -> None:
        self.killed_workers: set[int] = set()
        self._chance = random.Random(seed)
        self._directory = directory
        self._book = directory / "book"
        self._loop = loop
        self._seed = seed
        self._life = 0

    def lines(self) -> list[str]:
        return self._book.read_text().splitlines() if self._book.exists() else []

    def live_and_be_killed(self) -> None:
        """Start the program, and kill it and maybe workers before it ends."""
        with self._program("killed").running() as program:
            for _ in range(self._chance.choice([0, 0, 1, 3])):
                self._let_pass(program)
                self._kill_a_worker(program.pid)
            self._let_pass(program)
            assert program.poll() is None, program.communicate()
            os.kill(program.pid, signal.SIGKILL)
            program.wait()

    def live(self) -> None:
        """Start the program, and let it come to its end."""
        finished = self._program("last").run(within=90.0)
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")

    def _program(self, end: str) -> Script:
        self._life += 1
        seed = f"{self._life} {self._seed}"
        argv = [self._loop, str(self._directory / "jobs.log"), str(self._book), seed, end]
        return Script(PROGRAM, self._directory, argv=argv, env={"LIFE": str(self._life)})

    def _let_pass(self, program: subprocess.Popen[str]) -> None:
        """Let the program go on until some more jobs have begun, or for a moment."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        if self._chance.random() < 0.3:
            give_up = time.monotonic() + self._chance.uniform(0.0, 0.4)
        wanted = self._runs() + self._chance.randint(1, 25)
        while time.monotonic() < give_up and program.poll() is None and self._runs() < wanted:
            if self.lines()[-1:] == ["finished"]:
                return
            time.sleep(POLL_SECONDS)

    def _runs(self) -> int:
        return sum(line.startswith("run ") for line in self.lines())

    def _kill_a_worker(self, program: int) -> None:
        if workers := procs.kids(program):
            pid = self._chance.choice(workers)
            self.killed_workers.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class Story:
    """What the book says of one job."""

    acknowledged: bool = False
    runs: list[tuple[int, int, str]] = field(default_factory=list)
    outcome: str | None = None


def check(lines: list[str], killed_workers: set[int]) -> dict[str, Story]:
    """Read the book, and complain of what must not stand in it."""
    stories: dict[str, Story] = {}
    for line in lines:
        kind, *words = line.split()
        if kind == "finished":
            continue
        story = stories.setdefault(words[0], Story())
        if kind == "acknowledged":
            story.acknowledged = True
        elif kind == "run":
            assert story.outcome is None, f"ran again after its end was told: {line}, {story}"
            story.runs.append((int(words[1]), int(words[2]), words[3]))
        elif kind == "seen":
            assert story.outcome in (None, words[1]), f"ended differently: {line}, {story}"
            story.outcome = words[1]
        else:
            pytest.fail(f"{line}: {story}")
    for job_id, story in stories.items():
        _check_story(job_id, story, killed_workers)
    return stories


def _check_story(job_id: str, story: Story, killed_workers: set[int]) -> None:
    about = f"{job_id}: {story}"
    assert story.outcome or not story.acknowledged, f"lost {about}"
    for (life, pid, _), (next_life, _, _) in pairwise(story.runs):
        assert life < next_life or pid in killed_workers, f"ran again without need {about}"
    if story.outcome not in (None, "cancelled"):
        assert story.outcome.endswith(f"-{story.runs[-1][2]}"), (
            f"not the end of its last run {about}"
        )


def campaign(directory: Path, loop: str, seed: str) -> dict[str, Story]:
    """Let the program be killed many times and then finish; return what came of its jobs."""
    supervisor = Supervisor(directory, loop, seed)
    for _ in range(ROUNDS):
        supervisor.live_and_be_killed()
    supervisor.live()
    return check(supervisor.lines(), supervisor.killed_workers)


@pytest.mark.parametrize(
    ("loop", "seed"),
    [
        ("asyncio", "1 plain"),
        ("uvloop", "2 durable"),
        ("uvloop", "3 tidy"),
        ("asyncio", "4 tidy durable"),
    ],
)
def test_jobs_survive_kills_at_random_moments(tmp_path: Path, loop: str, seed: str) -> None:
    """R-INFLIGHT, J-TORN, J-GROW."""
    stories = campaign(tmp_path, loop, seed)
    assert sum(job_id.startswith("named-") for job_id in stories) == survivor.NAMED
    assert all(story.outcome for story in stories.values())


@pytest.mark.soak
@pytest.mark.parametrize("number", range(SOAK_ROUNDS // ROUNDS))
def test_jobs_survive_thousands_of_kills(tmp_path: Path, number: int) -> None:
    kind = ["plain", "durable", "tidy", "tidy durable"][number % 4]
    loop = list(LOOPS)[number // 4 % len(LOOPS)]
    campaign(tmp_path, loop, f"{number} {kind}")
