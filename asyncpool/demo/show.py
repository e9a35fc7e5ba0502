"""The show: runs the jobs, and has somebody tell what happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..events import Event, WorkerExited, WorkerStarted
from ..job import Job
from ..jobs import Attempt, Stats
from ..pool import Pool
from ..retry import Retry
from ..testing import Chaos
from .fib import fib, fib_quickly


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """What is to be played; `jobs` has the argument of each job by its id."""

    jobs: Mapping[str, int]
    workers: int
    crash_rate: float
    seed: int
    loop: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one job: a value or an error."""

    job_id: str
    n: int
    value: int | None
    error: str | None
    attempts: tuple[Attempt, ...]

    @property
    def right(self) -> bool:
        """Whether it is the right value, by another way to compute it."""
        return self.value is not None and self.value == fib_quickly(self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """All that a show adds up to."""

    results: tuple[Result, ...]
    stats: Stats
    replacements: int
    seconds: float

    @property
    def right(self) -> int:
        """How many results are right."""
        return sum(result.right for result in self.results)

    @property
    def all_right(self) -> bool:
        """Whether the show was a success."""
        return self.right == len(self.results)


class Teller(Protocol):
    """Turns what happens into lines of text."""

    def opening(self) -> list[str]:
        """Return what comes before all events."""

    def event(self, event: Event, elapsed: float, predecessors: Mapping[int, int]) -> list[str]:
        """Tell an event; `predecessors` has the dead worker that each replacement stands in for."""

    def ending(self, ending: Ending) -> list[str]:
        """Return what comes after all events."""


class Places:
    """Who replaced whom: a worker takes a new place, or the one that was vacant for longest."""

    def __init__(self, size: int) -> None:
        self.predecessors: dict[int, int] = {}
        self._new = size
        self._taken: set[int] = set()
        self._vacant: deque[int] = deque()

    def note(self, event: Event) -> None:
        """Learn who came and who went."""
        match event:
            case WorkerStarted(pid=int(pid)):
                self._taken.add(pid)
                if self._new:
                    self._new -= 1
                elif self._vacant:
                    self.predecessors[pid] = self._vacant.popleft()
            case WorkerExited(pid=int(pid)) if pid in self._taken:
                self._taken.remove(pid)
                self._vacant.append(pid)


def named(numbers: Iterable[int]) -> dict[str, int]:
    """Give each job an id: `fib-30-1`, `fib-30-2`, `fib-31-1`."""
    seen: Counter[int] = Counter()
    jobs = {}
    for n in numbers:
        seen[n] += 1
        jobs[f"fib-{n}-{seen[n]}"] = n
    return jobs


async def play(show: Show, teller: Teller, say: Callable[[str], object]) -> Ending:
    """Run the jobs to their ends, and say what the teller tells meanwhile."""
    began, began_at, places = time.monotonic(), time.time(), Places(show.workers)
    _say_all(say, teller.opening())
    chaos = Chaos(
        crash_rate=show.crash_rate, seed=show.seed, points=("before_result",), deaths=("SIGSEGV",)
    )
    async with Pool(show.workers, retry=Retry(max_crashes=None), chaos=chaos) as pool:
        events = pool.events()
        jobs = [pool.options(id=name).submit(fib, n) for name, n in show.jobs.items()]
        outcomes = asyncio.gather(*jobs, return_exceptions=True)
        closing = asyncio.create_task(pool.close())  # waits for the jobs, then ends the events
        async for event in events:
            places.note(event)
            _say_all(say, teller.event(event, event.time - began_at, places.predecessors))
        await closing
    trios = zip(jobs, show.jobs.values(), await outcomes, strict=True)
    ending = Ending(
        results=tuple(_result(job, n, outcome) for job, n, outcome in trios),
        stats=pool.stats(),
        replacements=len(places.predecessors),
        seconds=time.monotonic() - began,
    )
    _say_all(say, teller.ending(ending))
    return ending


def _say_all(say: Callable[[str], object], lines: list[str]) -> None:
    for line in lines:
        say(line)


def _result(job: Job[int], n: int, outcome: int | BaseException) -> Result:
    value, error = None, None
    if isinstance(outcome, BaseException):
        error = f"{type(outcome).__name__}: {outcome}"
    else:
        value = outcome
    return Result(job_id=job.id, n=n, value=value, error=error, attempts=job.attempts)
