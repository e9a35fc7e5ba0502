"""What a Job tells about itself, while it runs and afterwards."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import weakref
from pathlib import Path

import pytest

import asyncpool
from asyncpool import JobState, Pool, Progress
from tests.support import jobs
from tests.support.marks import Marks, mark
from tests.support.procs import eventually


class Parcel:
    """A result to which weak references can be made."""


def make_parcel() -> Parcel:
    return Parcel()


def about_me() -> tuple[str, int, float | None]:
    job = asyncpool.current_job()
    return job.id, job.attempt, job.deadline


def report_three() -> str:
    for done in range(3):
        asyncpool.current_job().progress(done, 3, f"step {done}")
    return "ended"


def report_a_flood(count: int) -> None:
    job = asyncpool.current_job()
    for done in range(count + 1):
        job.progress(done, count)


def wait_for_file(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.005)


def crash_once(path: str) -> int:
    mark(path)
    if asyncpool.current_job().attempt == 1:
        os._exit(7)
    return asyncpool.current_job().attempt


async def test_its_life_step_by_step(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with Pool(1) as pool:
        first = pool.submit(wait_for_file, str(gate))
        second = pool.submit(jobs.add, 1, 2)
        await first.accepted()
        await first.started()
        assert (first.state, second.state) == (JobState.RUNNING, JobState.PENDING)
        assert [attempt.outcome for attempt in first.attempts] == ["running"]
        assert first.attempts[0].pid == pool.workers()[0].pid
        assert f"{first.id} wait_for_file RUNNING pid={first.attempts[0].pid}" in repr(first)
        gate.touch()
        assert await second == 3
        assert (first.state, second.state) == (JobState.DONE, JobState.DONE)
        (attempt,) = first.attempts
        assert attempt.outcome == "done"
        assert attempt.ended_at is not None
        assert attempt.ended_at >= attempt.started_at
        assert abs(attempt.ended_at - time.time()) < 60


async def test_every_ack_is_an_attempt(marks: Marks) -> None:
    async with Pool(1) as pool:
        job = pool.submit(crash_once, str(marks.path))
        assert await job == 2
        assert [(a.number, a.outcome, a.exit_code) for a in job.attempts] == [
            (1, "crashed", 7),
            (2, "done", None),
        ]
        assert job.attempts[0].pid != job.attempts[1].pid
    assert marks.count() == 2


async def test_a_job_knows_itself() -> None:
    async with Pool(1) as pool:
        job = pool.options(id="me", deadline=60).submit(about_me)
        job_id, attempt, deadline = await job
        assert (job_id, attempt) == ("me", 1)
        assert deadline is not None
        assert abs(deadline - time.time() - 60) < 30
        plain = pool.submit(about_me)
        assert await plain == (plain.id, 1, None)


def test_current_job_is_for_jobs() -> None:
    with pytest.raises(RuntimeError, match="inside a job"):
        asyncpool.current_job()


async def test_progress_arrives_in_order_before_the_result() -> None:
    async with Pool(1) as pool:
        job = pool.submit(report_three)
        seen = [progress async for progress in job.updates()]
        assert seen == [Progress(n, 3, f"step {n}") for n in range(3)]
        assert job.progress == seen[-1]
        assert await job == "ended"
        assert [progress async for progress in job.updates()] == []


async def test_a_flood_of_progress_is_thinned_and_the_last_arrives() -> None:
    async with Pool(1) as pool:
        job = pool.submit(report_a_flood, 20_000)
        seen = [progress async for progress in job.updates()]
        await job
        assert job.progress == Progress(20_000, 20_000, None)
        assert len(seen) < 15_000


async def test_started_ends_with_a_job_that_never_starts(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with Pool(1) as pool:
        blocker = pool.submit(wait_for_file, str(gate))
        job = pool.submit(jobs.add, 1, 2)
        waiter = asyncio.ensure_future(job.started())
        await asyncio.sleep(0)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        gate.touch()
        await blocker
        await blocker.started()


async def test_ids_are_unique_and_find_their_jobs() -> None:
    async with Pool(2) as pool:
        several = [pool.submit(jobs.add, n, n) for n in range(200)]
        assert len({job.id for job in several}) == 200
        assert all(pool.job(job.id) is job for job in several)
        await asyncio.gather(*several)
        assert all(pool.job(job.id) is job for job in several)
        with pytest.raises(KeyError):
            pool.job("unknown")


async def test_the_same_id_is_the_same_job_live_and_finished(marks: Marks) -> None:
    async with Pool(1) as pool:
        named = pool.options(id="thumb-42")
        first = named.submit(jobs.mark_then, str(marks.path), 5)
        assert named.submit(jobs.mark_then, str(marks.path), 5) is first
        assert await first == 5
        del first
        assert await named.submit(jobs.mark_then, str(marks.path), 5) == 5
        with pytest.raises(asyncpool.DuplicateJob, match="thumb-42"):
            named.submit(jobs.mark_then, str(marks.path), 6)
        with pytest.raises(asyncpool.DuplicateJob, match="mark_then"):
            named.submit(jobs.echo, 5)
    assert marks.count() == 1


async def test_results_of_finished_jobs_are_held_weakly() -> None:
    async with Pool(1) as pool:
        job = pool.submit(make_parcel)
        parcel = weakref.ref(await job)
        job_id = job.id
        assert parcel() is not None
        del job
        await asyncio.sleep(0)  # the loop's own call that woke this task holds the job
        gc.collect()
        assert parcel() is None
        shell = pool.job(job_id)
        assert shell.state is JobState.DONE
        assert [attempt.outcome for attempt in shell.attempts] == ["done"]
        with pytest.raises(asyncpool.JobError, match="nobody kept"):
            await shell


async def test_the_last_thousand_finished_jobs_are_remembered() -> None:
    async with Pool(1) as pool:
        several = [pool.submit(jobs.add, n, n) for n in range(1_100)]
        await asyncio.gather(*several)
        known = 0
        for job in several:
            try:
                assert pool.job(job.id) is job
                known += 1
            except KeyError:
                pass
        assert known == 1_000


async def test_a_failed_job_nobody_awaits_is_reported_like_any_future() -> None:
    """Here: retrieved, so nothing may be reported."""
    async with Pool(1) as pool:
        job = pool.submit(jobs.raise_, ValueError("x"))
        await asyncio.wait({job})
        assert isinstance(job.exception(), ValueError)
        assert job.state is JobState.FAILED
        stats = pool.stats()
        assert (stats.failed, stats.done, stats.pending, stats.running) == (1, 0, 0, 0)


async def test_snapshots(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with Pool(1) as pool:
        running = pool.submit(wait_for_file, str(gate))
        waiting = pool.options(priority=-3, id="later").submit(jobs.add, 1, 2)
        await running.started()
        first, second = pool.jobs()
        (worker,) = pool.workers()
        assert (first.id, first.state, first.attempt, first.pid) == (
            running.id,
            JobState.RUNNING,
            1,
            worker.pid,
        )
        assert first.started_at is not None
        assert first.started_at >= first.submitted_at
        assert (second.id, second.priority, second.pid) == ("later", -3, None)
        assert (worker.state, worker.job_id) == ("busy", running.id)
        assert worker.rss is not None
        assert worker.rss > 2**20
        assert (pool.stats().running, pool.stats().pending) == (1, 1)
        gate.touch()
        await waiting
        await pool.drain()
        assert pool.jobs() == []
        await eventually(lambda: pool.workers()[0].state == "idle")
        assert pool.workers()[0].jobs_done == 2
        assert pool.stats().done == 2
