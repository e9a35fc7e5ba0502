"""A program that is killed at any moment and run again, and the book it keeps beside its journal.

Each line of the book is one write to a file of its own, so it outlives a kill -9, and the lines
of all processes stand in the order in which things happened:

    acknowledged ID             the pool said that it has the job
    run ID LIFE PID TOKEN       a worker began the job; each run has a token of its own
    seen ID OUTCOME             the program was told how the job ended
    unknown ID                  the pool does not know an acknowledged job
    finished                    this life has done all it wanted to
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import asyncpool
from asyncpool.journal import ledger
from tests.support.loops import LOOPS
from tests.support.marks import mark

NAMED = 100
"""How many jobs with names there are to do, over all lives."""

BURSTS = 8
"""How often one life submits several jobs at once."""


class Failed(Exception):
    """What a job raises that is to fail; its argument is the token of the run."""


def work(book: str, seconds: float, fails: bool) -> str:
    """Note the run, take that long, then return the run's token, or raise it."""
    token = os.urandom(4).hex()
    job = asyncpool.current_job()
    mark(book, f"run {job.id} {os.environ['LIFE']} {os.getpid()} {token}")
    time.sleep(seconds)
    if fails:
        raise Failed(token)
    return token


def acknowledged(book: str) -> list[str]:
    """Return the ids that stand in the book as acknowledged."""
    lines = Path(book).read_text().splitlines() if os.path.exists(book) else []
    return [line.split()[1] for line in lines if line.startswith("acknowledged ")]


class Life:
    """One run of the program."""

    def __init__(self, pool: asyncpool.Pool, book: str, chance: random.Random) -> None:
        self._pool = pool
        self._book = book
        self._chance = chance
        self._earlier = acknowledged(book)
        known = set(self._earlier)
        self._names = [f"named-{n}" for n in range(NAMED) if f"named-{n}" not in known]

    async def spend(self) -> None:
        """Look at what earlier lives left, and submit more, until all of it has ended."""
        async with asyncio.TaskGroup() as group:
            for job in self._pool.recovered:
                group.create_task(self._watch(job))
            for job_id in self._chance.sample(self._earlier, min(30, len(self._earlier))):
                await self._look_up(job_id, only_ended=True)
            for _ in range(BURSTS):
                await self._submit_some(group, self._chance.randint(1, 10))
        mark(self._book, "finished")

    async def finish(self) -> None:
        """Do all that is left, and look up what became of every job there ever was."""
        async with asyncio.TaskGroup() as group:
            for job in self._pool.recovered:
                group.create_task(self._watch(job))
            while self._names:
                await self._submit_some(group, 20)
        await self._pool.drain()
        for job_id in acknowledged(self._book):
            await self._look_up(job_id)

    async def _submit_some(self, group: asyncio.TaskGroup, count: int) -> None:
        jobs = [self._submit() for _ in range(count)]
        for job in jobs:
            group.create_task(self._watch(job))
            await job.accepted()
            mark(self._book, f"acknowledged {job.id}")
            if self._chance.random() < 0.1:
                group.create_task(self._terminate(job))

    def _submit(self) -> asyncpool.Job[str]:
        chance = self._chance
        if self._names and chance.random() < 0.5:
            name = self._names.pop(0)
            # The same name is the same call, in every life.
            fails = name.endswith("7")
            return self._pool.options(id=name).submit(work, self._book, 0.01, fails)
        view = self._pool.options(priority=chance.randint(0, 1), delay=chance.choice([0, 0.01]))
        return view.submit(work, self._book, chance.choice([0, 0.01, 0.03]), False)

    async def _watch(self, job: asyncpool.Job[Any]) -> None:
        await asyncio.wait({job})
        if not job.cancelled():  # that is told before it is recorded: see `_terminate`
            self._note_end(job)

    async def _terminate(self, job: asyncpool.Job[Any]) -> None:
        if await self._pool.terminate(job.id):
            mark(self._book, f"seen {job.id} cancelled")

    async def _look_up(self, id: str, *, only_ended: bool = False) -> None:
        try:
            job = self._pool.job(id)
        except KeyError:
            mark(self._book, f"unknown {id}")
            return
        if job.done():
            self._note_end(job)
        elif not only_ended:
            mark(self._book, f"unknown {id}")

    def _note_end(self, job: asyncpool.Job[Any]) -> None:
        if job.cancelled():
            outcome = "cancelled"
        elif isinstance(error := job.exception(), Failed):
            outcome = f"raised-{error.args[0]}"
        else:
            outcome = f"returned-{job.result()}"
        mark(self._book, f"seen {job.id} {outcome}")


async def live(path: str, book: str, seed: str, *, last: bool) -> None:
    journal = asyncpool.Journal(path, durable_results=seed.endswith("durable"))
    retry = asyncpool.Retry(max_crashes=None)
    async with asyncpool.Pool(2, journal=journal, retry=retry) as pool:
        life = Life(pool, book, random.Random(seed))
        if last:
            await life.finish()
        else:
            await life.spend()
            await asyncio.Event().wait()  # for the end that comes from outside


def main() -> None:
    loop, path, book, seed, last = sys.argv[1:]
    if "tidy" in seed:
        ledger.GARBAGE_AT_OPEN = 0
        ledger.GARBAGE_WHILE_OPEN = 1 << 14
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(live(path, book, seed, last=last == "last"))
