"""What a job started dies with its worker, and nobody else does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from asyncpool import Job, JobTimeout, Pool, Retry, WorkerCrashed
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import procs
from tests.support.marks import Marks

STARTED = 3
"""How many processes a job starts."""

Event = Callable[[Job[None]], Awaitable[None]]


@pytest.fixture
def bystander() -> Iterator[int]:
    """A child of this process, in its own process group, that has nothing to do with any pool."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process.pid
        assert process.poll() is None
        process.kill()


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        yield pool


async def the_timeout(job: Job[None]) -> None:
    with pytest.raises(JobTimeout):
        await job


async def a_cancel(job: Job[None]) -> None:
    job.cancel()
    with suppress(asyncio.CancelledError):
        await job


async def a_kill_from_outside(job: Job[None]) -> None:
    os.kill(job.attempts[0].pid, signal.SIGKILL)
    with pytest.raises(WorkerCrashed):
        await job


async def family(job: Job[None], marks: Marks) -> list[int]:
    """Return the worker and the processes that its job started."""
    await job.started()
    await procs.eventually(lambda: marks.count() == STARTED)
    return [job.attempts[0].pid, *map(int, marks.lines())]


async def extinct(pids: list[int]) -> None:
    await procs.eventually(lambda: not any(map(procs.alive, pids)), within=1)


@pytest.mark.parametrize("event", [the_timeout, a_cancel, a_kill_from_outside])
async def test_what_a_job_started_dies_with_it(
    pool: Pool, marks: Marks, bystander: int, event: Event
) -> None:
    """TREE-1."""
    limited = pool.options(timeout=0.5 if event is the_timeout else None)
    job = limited.submit(deadly.start_processes_and_sleep, marks.path)
    pids = await family(job, marks)
    assert all(map(procs.alive, pids)) or event is the_timeout
    await event(job)
    await extinct(pids)
    assert procs.alive(bystander)
    await procs.eventually(lambda: sorted(procs.kids()) == sorted([bystander, *_crew(pool)]))
    assert len(_crew(pool)) <= 1


def _crew(pool: Pool) -> list[int]:
    return [worker.pid for worker in pool.workers()]


async def test_what_a_job_started_dies_when_the_pool_is_left_by_an_error(
    marks: Marks, bystander: int
) -> None:
    """TREE-1: pool exit."""
    pids: list[int] = []

    async def leave_by_an_error() -> None:
        async with Pool(1) as pool:
            job = pool.submit(deadly.start_processes_and_sleep, marks.path)
            pids.extend(await family(job, marks))
            raise LookupError

    with pytest.raises(LookupError):
        await leave_by_an_error()
    await extinct(pids)
    assert procs.alive(bystander)


async def test_what_a_job_left_behind_dies_when_the_pool_is_closed(
    marks: Marks, bystander: int
) -> None:
    """TREE-1: the job itself has ended well."""
    async with Pool(1) as pool:
        job = pool.submit(deadly.start_processes, marks.path)
        await job
        pids = await family(job, marks)
        assert all(map(procs.alive, pids))
    await extinct(pids)
    assert procs.alive(bystander)


async def test_what_a_job_left_behind_dies_with_the_recycled_worker(
    marks: Marks, bystander: int
) -> None:
    async with Pool(1, max_tasks_per_child=1) as pool:
        job = pool.submit(deadly.start_processes, marks.path)
        await job
        await extinct(await family(job, marks))
        assert procs.alive(bystander)
        assert await pool.submit(os.getpid) != job.attempts[0].pid


async def test_the_pool_is_sound_after_killing_a_tree(pool: Pool, marks: Marks) -> None:
    job = pool.submit(deadly.start_processes_and_sleep, marks.path)
    await family(job, marks)
    await a_cancel(job)
    await assert_sound(pool, 1)
