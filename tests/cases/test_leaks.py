"""Deaths, and starts that fail, leave nothing behind and never lead to too many workers."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial

import pytest

from asyncpool import Job, JobTimeout, Pool, Retry, WorkerCrashed
from asyncpool.events import WorkerExited
from asyncpool.processes.worker_process import WorkerProcess
from tests.cases import deadly
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs

ROUNDS = 25


async def settled_fds(pool: Pool, size: int) -> dict[int, str]:
    await assert_sound(pool, size)
    await procs.eventually(lambda: not procs.zombies())
    return procs.fds()


async def crash(pool: Pool) -> None:
    with pytest.raises(WorkerCrashed):
        await pool.options(retry=Retry(max_crashes=1)).submit(jobs.die, "sigkill")


async def time_out(pool: Pool) -> None:
    with pytest.raises(JobTimeout):
        await pool.options(timeout=0.001).submit(deadly.sleep_for_ever)


async def cancel(pool: Pool) -> None:
    job: Job[None] = pool.submit(deadly.sleep_for_ever)
    await job.started()
    job.cancel()


async def kill_idle(pool: Pool) -> None:
    (worker, *_) = await full_crew(pool, 2)
    events = pool.events()
    os.kill(worker, signal.SIGKILL)
    while not isinstance(await anext(events), WorkerExited):
        pass


@pytest.mark.parametrize("end", [crash, time_out, cancel, kill_idle])
async def test_descriptors_and_zombies_do_not_add_up(
    end: Callable[[Pool], Awaitable[None]],
) -> None:
    """FD-2: crashes and timeouts."""
    async with Pool(2) as pool:
        before = await settled_fds(pool, 2)
        for _ in range(ROUNDS):
            await end(pool)
        after = await settled_fds(pool, 2)
    assert abs(len(after) - len(before)) <= 2


async def test_pools_that_were_closed_leave_no_descriptor() -> None:
    """FD-2: opened and closed."""
    counts = []
    for _ in range(ROUNDS // 2):
        async with Pool(1) as pool:
            await pool.submit(jobs.add, 1, 1)
        counts.append(len(procs.fds()))
    assert max(counts) - min(counts) <= 2
    assert not procs.kids()
    await procs.eventually(lambda: not procs.zombies())


async def test_pools_closed_while_their_workers_start_leave_no_descriptor() -> None:
    """FD-2: closed at once."""
    counts = []
    for turns in range(ROUNDS // 2):
        async with Pool(2):
            for _ in range(turns):
                await asyncio.sleep(0)
        counts.append(len(procs.fds()))
    assert max(counts) - min(counts) <= 2
    await procs.eventually(lambda: not procs.zombies() and not procs.kids())


@contextmanager
def no_interpreter() -> Iterator[None]:
    before = sys.executable
    sys.executable = "/nonexistent/python"
    try:
        yield
    finally:
        sys.executable = before


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = procs.fds()
    free = [number for number in range(max(used) + count + 2) if number not in used]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[count], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    "trouble",
    [
        no_interpreter,
        partial(descriptors_left, 0),
        partial(descriptors_left, 5),
        partial(descriptors_left, 11),
    ],
    ids=["no interpreter", "0", "5", "11"],
)
async def test_starts_that_fail_leave_no_descriptor(
    trouble: Callable[[], AbstractContextManager[None]],
) -> None:
    """FD-2: the executable is missing, or descriptors are used up at this or that point."""
    pool = Pool(1)
    events = pool.events()
    before = procs.fds()
    with trouble():
        await pool.__aenter__()
        waiting = pool.submit(jobs.add, 1, 1)
        for _ in range(3):
            while not _failed_to_start(await anext(events)):
                pass
        assert not waiting.done()
    async with pool_that_is_open(pool):
        assert await waiting == 2
        await assert_sound(pool, 1)
    assert abs(len(procs.fds()) - len(before)) <= 2


@pytest.mark.loops("asyncio")  # uvloop itself leaks one when it finds none for its fork
async def test_a_start_that_fails_at_the_fork_leaves_no_descriptor() -> None:
    """FD-2: the pipes were made, and no descriptor is left to start the process with."""
    await test_starts_that_fail_leave_no_descriptor(partial(descriptors_left, 12))


@asynccontextmanager
async def pool_that_is_open(pool: Pool) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await pool.close()


def _failed_to_start(event: object) -> bool:
    return isinstance(event, WorkerExited) and event.reason == "did not start"


# OVERSPAWN-1

SIZE = 3
DYING = 2
"""How many are killed at the same time."""


async def test_every_death_has_one_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    """OVERSPAWN-1: killed in every phase, some two at a time."""
    spawns = count_spawns(monkeypatch)
    generator = random.Random(7)
    async with Pool(SIZE, retry=Retry(max_crashes=None)) as pool:
        events = pool.events()
        await full_crew(pool, SIZE)
        crowd = asyncio.create_task(watch_crowd(pool))
        for number in range(30):
            await DISTURBANCES[number % len(DISTURBANCES)](pool)
            for pid in generator.sample(procs.kids(), min(len(procs.kids()), 1 + number % DYING)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await assert_sound(pool, SIZE)
        await asyncio.sleep(1)
        assert len(procs.kids()) == len(pool.workers()) == SIZE
        crowd.cancel()
        spawned = len(spawns)
        monkeypatch.undo()
        assert spawned > 30
    exits = [event async for event in events if isinstance(event, WorkerExited)]
    deaths = [event for event in exits if event.reason != "closed"]
    assert spawned == SIZE + len(deaths)
    pids = [event.pid for event in deaths]
    assert None not in pids
    assert len(pids) == len(set(pids))


def count_spawns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the processes that are started, independently of what the pool says."""
    spawns: list[int] = []
    spawn = WorkerProcess.spawn

    async def count(
        process: WorkerProcess, env: Mapping[str, str] | None, *, use_pidfd: bool
    ) -> None:
        spawns.append(process.serial)
        await spawn(process, env, use_pidfd=use_pidfd)

    monkeypatch.setattr(WorkerProcess, "spawn", count)
    return spawns


async def watch_crowd(pool: Pool) -> None:
    """Fail as soon as there are more workers than wanted, those excepted that are dying."""
    while True:
        assert len(pool.workers()) <= SIZE
        assert len(procs.kids()) <= SIZE + DYING
        await asyncio.sleep(0.01)


async def no_disturbance(pool: Pool) -> None:
    """Those that are hit are idle, or are starting."""


async def a_wait_for_all(pool: Pool) -> None:
    await full_crew(pool, SIZE)


async def a_running_job(pool: Pool) -> None:
    job = pool.submit(jobs.sleep_return, 0.01, None)
    await job.started()


async def a_cancelled_job(pool: Pool) -> None:
    job: Job[None] = pool.submit(jobs.sleep_return, 60, None)
    await job.started()
    job.cancel()


async def a_job_that_times_out(pool: Pool) -> None:
    job = pool.options(timeout=0.01).submit(jobs.sleep_return, 60, None)
    await job.started()
    await asyncio.wait({job}, timeout=0.012)
    job.add_done_callback(lambda job: job.cancelled() or job.exception())


DISTURBANCES: list[Callable[[Pool], Awaitable[None]]] = [
    no_disturbance,
    a_wait_for_all,
    a_running_job,
    a_cancelled_job,
    a_job_that_times_out,
]
