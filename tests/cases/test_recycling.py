"""Workers that are replaced on purpose, between jobs: no job waits for it or pays for it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from asyncpool import Job, Outcome, Pool
from asyncpool.events import WorkerExited
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import jobs
from tests.support.marks import Marks


@pytest.mark.parametrize(
    ("workers", "tasks", "count"),
    [
        (1, 2, 50),
        (4, 1, 32),
        pytest.param(4, 1, 400, marks=[pytest.mark.soak]),
    ],
)
async def test_every_worker_runs_as_many_jobs_as_it_may(
    marks: Marks, workers: int, tasks: int, count: int
) -> None:
    """RECYCLE-1."""
    async with Pool(workers, max_tasks_per_child=tasks) as pool:
        events = pool.events()
        submitted = [pool.submit(deadly.pid_after_mark, marks.path) for _ in range(count)]
        pids = await _results_without_a_gap(submitted)
        _assert_nothing_crashed(pool, submitted)
        assert Counter(pids) == dict.fromkeys(pids, tasks)
        assert len(set(pids)) == count // tasks
        assert marks.count() == count
        await assert_sound(pool, workers)
    reasons = [event.reason async for event in events if isinstance(event, WorkerExited)]
    assert Counter(reasons)["recycled"] >= count // tasks
    assert set(reasons) == {"recycled", "closed"}


async def _results_without_a_gap(submitted: list[Job[int]]) -> list[int]:
    for job in submitted:
        async with asyncio.timeout(2):
            await job
    return [job.result() for job in submitted]


def _assert_nothing_crashed(pool: Pool, submitted: list[Job[int]]) -> None:
    assert (pool.stats().crashes, pool.stats().failed) == (0, 0)
    for job in submitted:
        assert [attempt.outcome for attempt in job.attempts] == [Outcome.DONE]
        assert [attempt.signal for attempt in job.attempts] == [None]


async def test_jobs_that_were_sent_ahead_follow_to_the_next_worker(marks: Marks) -> None:
    """RECYCLE-1: the number of jobs is no multiple of what a worker may run."""
    async with Pool(1, max_tasks_per_child=7) as pool:
        for _ in range(3):
            submitted = [pool.submit(deadly.pid_after_mark, marks.path) for _ in range(10)]
            await asyncio.gather(*submitted)
            _assert_nothing_crashed(pool, submitted)
        assert marks.count() == 30
        await assert_sound(pool, 1)


async def test_failing_jobs_count_as_well() -> None:
    async with Pool(1, max_tasks_per_child=1) as pool:
        pids = set()
        for _ in range(3):
            job = pool.submit(jobs.raise_, ValueError("no"))
            with pytest.raises(ValueError, match="no"):
                await job
            pids.add(job.attempts[0].pid)
        assert len(pids) == 3
        assert pool.stats().crashes == 0
        await assert_sound(pool, 1)


async def test_a_worker_with_too_much_memory_is_replaced_after_its_job() -> None:
    """RECYCLE-1: by memory."""
    async with Pool(1, max_memory_per_child=150 << 20) as pool:
        events = pool.events()
        small = [await pool.submit(deadly.keep_memory, 1) for _ in range(3)]
        large = await pool.submit(deadly.keep_memory, 200)
        assert set(small) == {large}
        assert await pool.submit(deadly.keep_memory, 1) != large
        assert pool.stats().crashes == 0
        await assert_sound(pool, 1)
    first, *_ = [event async for event in events if isinstance(event, WorkerExited)]
    assert (first.pid, first.reason) == (large, "recycled")


async def test_a_crash_is_a_crash_also_where_workers_are_recycled(marks: Marks) -> None:
    async with Pool(2, max_tasks_per_child=1) as pool:
        job = pool.submit(deadly.exit_until, marks.path, 3)
        others = [pool.submit(jobs.add, i, 1) for i in range(10)]
        await job
        assert await asyncio.gather(*others) == list(range(1, 11))
        assert pool.stats().crashes == 2
        assert len(job.attempts) == 3
        await assert_sound(pool, 2)
