"""Cancelling takes a job out of the queue or stops it, and touches nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncpool import Job, JobState, Outcome, Pool
from tests.cases import chores
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.marks import Marks


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, preload=chores.PRELOAD) as pool:
        yield pool
        await pool.close(cancel=True)


def never_ending(pool: Pool, count: int) -> list[Job[str]]:
    return [pool.submit(jobs.sleep_return, chores.FOR_EVER, "slept") for _ in range(count)]


# CANCEL-1


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known_to_be_short"])
async def test_what_was_cancelled_in_the_queue_never_runs(
    pool: Pool, marks: Marks, known: bool
) -> None:
    """CANCEL-1; short ones are in the worker's pipe by then."""
    for _ in range(100 * known):
        await pool.submit(chores.mark_after_gate, "/dev/null", "short")
    gate = Path(marks.path).with_name("gate")
    busy = pool.submit(chores.mark_after_gate, marks.path, "busy", gate)
    queued = [pool.submit(chores.mark_after_gate, marks.path, f"{i}") for i in range(20)]
    await busy.started()
    for job in queued[::2]:
        assert job.cancel()
    assert {job.state for job in queued[::2]} == {JobState.CANCELLED}
    gate.touch()
    await asyncio.gather(busy, *queued[1::2])
    await assert_sound(pool, 1)
    assert marks.lines() == ["busy", *(f"{i}" for i in range(1, 20, 2))]
    assert all(job.cancelled() and job.attempts == () for job in queued[::2])
    assert (pool.stats().cancelled, pool.stats().crashes) == (10, 0)


async def test_what_is_cancelled_on_its_way_to_an_idle_worker_harms_nobody(
    pool: Pool, marks: Marks
) -> None:
    """It may have begun, and is stopped then; nothing is charged, and nothing runs twice."""
    await full_crew(pool, 1)
    hurried: list[Job[int]] = []
    for i in range(20):
        job = pool.submit(jobs.mark_then, marks.path, i)
        assert job.cancel()
        hurried.append(job)
    await asyncio.wait(hurried)
    await assert_sound(pool, 1)
    assert len(set(marks.lines())) == marks.count()
    stats = pool.stats()
    assert (stats.cancelled, stats.crashes, stats.failed) == (20, 0, 0)


async def test_cancelling_the_running_job_leaves_the_queue_alone(marks: Marks) -> None:
    async with Pool(2) as pool:
        first, other = (
            pool.submit(chores.sleep_between_marks, marks.path, seconds)
            for seconds in (chores.FOR_EVER, 1.0)
        )
        await asyncio.gather(first.started(), other.started())
        queued = [pool.submit(jobs.mark_then, marks.path, i) for i in range(10)]
        first.cancel()
        assert await asyncio.gather(*queued) == list(range(10))
        assert await other == "slept"
        await assert_sound(pool, 2)
        assert [attempt.outcome for attempt in first.attempts] == [Outcome.CANCELLED]
        assert (pool.stats().crashes, pool.stats().resent) == (0, 0)
    assert marks.count("end") == 1
    assert [line for line in marks.lines() if line.isdigit()] == [f"{i}" for i in range(10)]


async def test_a_job_can_be_cancelled_once_and_not_after_its_end(pool: Pool) -> None:
    done = pool.submit(jobs.add, 1, 2)
    assert await done == 3
    assert not done.cancel()
    assert done.result() == 3
    job = pool.submit(jobs.spin)
    assert [job.cancel(), job.cancel()] == [True, False]
    with pytest.raises(asyncio.CancelledError):
        await job
    assert (job.state, done.state) == (JobState.CANCELLED, JobState.DONE)


async def test_cancelling_a_gather_cancels_all_its_jobs(pool: Pool, marks: Marks) -> None:
    queued = [pool.submit(chores.sleep_between_marks, marks.path) for _ in range(5)]
    await queued[0].started()
    gathered = asyncio.gather(*queued)
    gathered.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathered
    assert all(job.cancelled() for job in queued)
    await assert_sound(pool, 1)
    assert marks.count() <= 1


# CANCEL-3


async def cancellations_of_a_failing_group(*siblings: asyncio.Future[str]) -> int:
    """Wait for them beside one that fails; return how many cancellations that left behind."""

    async def wait(sibling: asyncio.Future[str]) -> str:
        return await sibling

    async def fail() -> None:
        raise LookupError("the sibling")

    task = asyncio.current_task()
    assert task is not None
    failed = 0
    try:
        async with asyncio.TaskGroup() as group:
            for sibling in siblings:
                group.create_task(wait(sibling))
            group.create_task(fail())
    except* LookupError as caught:
        failed = len(caught.exceptions)
    assert failed == 1
    return task.cancelling()


async def test_a_failing_sibling_cancels_the_jobs_of_its_task_group() -> None:
    """CANCEL-3."""
    loop = asyncio.get_running_loop()
    # Python 3.11 leaves one behind, of its own.
    as_usual = await asyncio.create_task(cancellations_of_a_failing_group(loop.create_future()))
    async with Pool(2) as pool:
        running, queued = never_ending(pool, 2), never_ending(pool, 2)
        await asyncio.gather(*(job.started() for job in running))
        async with asyncio.timeout(2):
            group = asyncio.create_task(cancellations_of_a_failing_group(*running, *queued))
            assert await group == as_usual
        assert all(job.cancelled() for job in (*running, *queued))
        await assert_sound(pool, 2)


async def test_a_timeout_block_around_a_job_cancels_it(pool: Pool) -> None:
    """CANCEL-3."""
    task = asyncio.current_task()
    assert task is not None
    await full_crew(pool, 1)
    async with asyncio.timeout(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await pool.submit(jobs.spin)
    assert task.cancelling() == 0
    await assert_sound(pool, 1)


async def test_a_hundred_cancelled_waits_leak_no_worker() -> None:
    """CANCEL-3."""
    task = asyncio.current_task()
    assert task is not None
    async with Pool(2) as pool:
        for i in range(100):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001 * (i % 10)):
                    await pool.submit(jobs.spin)
        assert (task.cancelling(), pool.jobs()) == (0, [])
        await assert_sound(pool, 2)
        assert [worker.state for worker in pool.workers()] == ["idle", "idle"]
        assert (pool.stats().running, pool.stats().pending, pool.stats().crashes) == (0, 0, 0)
        both = [pool.submit(jobs.sleep_return, 0.5, "") for _ in range(2)]
        await asyncio.gather(*(job.started() for job in both))
        assert {worker.state for worker in pool.workers()} == {"busy"}


async def test_a_shielded_job_goes_on(pool: Pool, marks: Marks) -> None:
    """CANCEL-3."""
    job = pool.submit(chores.sleep_between_marks, marks.path, 0.5)
    await job.started()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(job)
    assert not job.done()
    assert await job == "slept"
    await assert_sound(pool, 1)
    assert marks.lines() == ["begin", "end"]


async def test_cancelling_what_waits_for_the_start_does_not_cancel_the_job(pool: Pool) -> None:
    busy = pool.submit(jobs.sleep_return, 0.3, "busy")
    queued = pool.submit(jobs.add, 1, 2)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await queued.started()
    assert (await busy, await queued) == ("busy", 3)


# terminate


async def test_terminate_stops_a_running_job(pool: Pool, marks: Marks) -> None:
    job = pool.submit(chores.sleep_between_marks, marks.path)
    await job.started()
    (attempt,) = job.attempts
    assert await pool.terminate(job.id) is True
    assert not procs.alive(attempt.pid)
    with pytest.raises(asyncio.CancelledError):
        await job
    assert await pool.terminate(job.id) is False
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.CANCELLED]
    await assert_sound(pool, 1)
    assert pool.stats().crashes == 0
    assert "end" not in marks.lines()


async def test_terminate_takes_a_waiting_job_from_the_queue(pool: Pool, marks: Marks) -> None:
    busy = pool.submit(jobs.sleep_return, 0.3, "busy")
    queued = pool.submit(jobs.mark_then, marks.path, 1)
    delayed = pool.options(delay=60).submit(jobs.mark_then, marks.path, 2)
    assert await pool.terminate(queued.id) is True
    assert await pool.terminate(delayed.id) is True
    assert queued.cancelled()
    assert delayed.cancelled()
    assert await busy == "busy"
    assert marks.lines() == []


async def test_terminate_is_harmless_for_what_has_ended_or_never_was(pool: Pool) -> None:
    job = pool.submit(jobs.add, 1, 2)
    assert await job == 3
    pids = await full_crew(pool, 1)
    assert await pool.terminate(job.id) is False
    assert await pool.terminate("no such job") is False
    assert job.result() == 3
    await assert_sound(pool, 1)
    assert [worker.pid for worker in pool.workers()] == pids
