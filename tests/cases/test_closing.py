"""Leaving a pool ends everything that belongs to it, in good order or at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from asyncpool import Job, JobState, JobTimeout, Pool, PoolClosed
from tests.cases import chores
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.heartbeat import Heartbeat
from tests.support.marks import Marks


async def wait_for_it(job: Job[str]) -> str:
    return await job


def crowd(pool: Pool) -> list[Job[str]]:
    """Submit 2 jobs that run and 10 that wait, all without end."""
    return [pool.submit(jobs.sleep_return, chores.FOR_EVER, "slept") for _ in range(12)]


def assert_closed(pool: Pool) -> None:
    assert procs.kids() == []
    assert (pool.workers(), pool.jobs()) == ([], [])
    with pytest.raises(PoolClosed):
        pool.submit(jobs.add, 1, 2)
    with pytest.raises(RuntimeError):
        pool.submit(jobs.add, 1, 2)


# CLOSE-1


async def test_an_exception_in_the_block_stops_everything() -> None:
    """CLOSE-1."""
    loop = asyncio.get_running_loop()
    pool = Pool(2)
    tasks: list[asyncio.Task[str]] = []

    async def body() -> None:
        async with pool:
            crowded = crowd(pool)
            tasks.extend(asyncio.create_task(wait_for_it(job)) for job in crowded)
            await asyncio.gather(crowded[0].started(), crowded[1].started())
            raise ValueError(loop.time())

    async with Heartbeat() as heartbeat:
        with pytest.raises(ValueError, match=r"\d") as caught:
            await body()
        assert loop.time() - caught.value.args[0] < 5.0
    assert heartbeat.longest < 2.0
    async with asyncio.timeout(5):
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 12
    assert_closed(pool)


async def test_leaving_normally_waits_for_all_jobs(marks: Marks) -> None:
    async with Pool(2) as pool:
        queued = [pool.submit(jobs.mark_then, marks.path, i) for i in range(50)]
        slow = pool.submit(jobs.sleep_return, 0.5, "slow")
    assert [job.result() for job in queued] == list(range(50))
    assert slow.result() == "slow"
    assert marks.count() == 50
    assert_closed(pool)


async def test_leaving_at_once_after_entering() -> None:
    async with Pool(3, spares=1) as pool:
        pass
    assert_closed(pool)


async def test_leaving_by_an_exception_at_once_after_entering() -> None:
    pool = Pool(3, spares=1)
    with pytest.raises(ValueError, match="at once"):
        async with pool:
            raise ValueError("at once")
    assert_closed(pool)


async def test_leaving_while_the_workers_start_finishes_the_jobs() -> None:
    async with Pool(2, initializer=jobs.sleep_return, initargs=(0.5, "")) as pool:
        job = pool.submit(jobs.add, 1, 2)
    assert job.result() == 3
    assert_closed(pool)


async def test_a_pool_that_was_never_entered_can_be_closed() -> None:
    pool = Pool(2)
    await pool.close()
    with pytest.raises(RuntimeError):
        pool.submit(jobs.add, 1, 2)
    with pytest.raises(RuntimeError):
        await pool.__aenter__()


async def test_a_pool_can_be_entered_once() -> None:
    async with Pool(1) as pool:
        with pytest.raises(RuntimeError, match="once"):
            await pool.__aenter__()
        await assert_sound(pool, 1)
    with pytest.raises(RuntimeError, match="once"):
        await pool.__aenter__()


# close


async def test_closing_twice_is_harmless() -> None:
    """CLOSE-1."""
    async with Pool(2) as pool:
        job = pool.submit(jobs.sleep_return, 0.3, "slept")
        await asyncio.gather(pool.close(), pool.close(), pool.close(grace=1.0))
        assert job.result() == "slept"
        assert_closed(pool)
        await pool.close()
        await pool.close(cancel=True)
    await pool.close()
    assert_closed(pool)


async def test_close_with_cancel_ends_all_jobs(marks: Marks) -> None:
    async with Pool(2) as pool:
        crowded = crowd(pool)
        delayed = pool.options(delay=60.0).submit(jobs.mark_then, marks.path, 1)
        await crowded[0].started()
        async with asyncio.timeout(10):
            await pool.close(cancel=True)
        assert delayed.cancelled()
        assert all(job.cancelled() for job in crowded)
        assert {job.state for job in crowded} == {JobState.CANCELLED}
        assert pool.stats().cancelled == 13
        assert pool.stats().crashes == 0
        assert_closed(pool)
    assert marks.lines() == []


async def test_cancelling_what_an_earlier_close_waits_for() -> None:
    async with Pool(2) as pool:
        crowded = crowd(pool)
        await crowded[0].started()
        closing = asyncio.create_task(pool.close())
        await asyncio.sleep(0)
        assert not closing.done()
        with pytest.raises(PoolClosed):
            pool.submit(jobs.add, 1, 2)
        await pool.close(cancel=True)
        await closing
        assert all(job.cancelled() for job in crowded)
        assert_closed(pool)


@pytest.mark.parametrize("cancel", [False, True])
async def test_closing_while_the_first_workers_start(cancel: bool) -> None:
    async with Pool(3) as pool:
        await pool.close(cancel=cancel)
        assert_closed(pool)


async def test_a_job_may_take_longer_than_the_grace(marks: Marks) -> None:
    """The grace is for workers that have nothing to do any more."""
    async with Pool(1) as pool:
        job = pool.submit(chores.sleep_between_marks, marks.path, 0.8)
        await job.started()
        await pool.close(grace=0.1)
        assert job.result() == "slept"
    assert marks.lines() == ["begin", "end"]


async def test_jobs_are_retried_and_timed_out_while_closing(marks: Marks) -> None:
    async with Pool(1) as pool:
        crashing = pool.submit(chores.die_at_first, marks.path, "died")
        hanging = pool.options(timeout=0.3).submit(jobs.spin)
    await crashing
    assert isinstance(hanging.exception(), JobTimeout)
    assert marks.lines() == ["died", "died"]
    assert_closed(pool)


async def test_closing_from_a_callback_of_a_job() -> None:
    """CLOSE-1."""
    closings: list[asyncio.Task[None]] = []
    refused: list[BaseException] = []

    def close(job: asyncio.Future[int]) -> None:
        closings.append(asyncio.create_task(pool.close()))

    def submit(job: asyncio.Future[str]) -> None:
        try:
            pool.submit(jobs.add, 1, 2)
        except PoolClosed as error:
            refused.append(error)

    async with Pool(1) as pool:
        pool.submit(jobs.add, 1, 2).add_done_callback(close)
        last = pool.submit(jobs.sleep_return, 0.3, "last")
        last.add_done_callback(submit)
        assert await last == "last"
        await asyncio.gather(*closings)
        assert_closed(pool)
    assert len(refused) == 1


async def test_closing_from_a_callback_that_cancels() -> None:
    """CLOSE-1."""
    async with Pool(1) as pool:
        crowded = crowd(pool)
        crowded[5].add_done_callback(lambda _: [job.cancel() for job in crowded])
        await crowded[0].started()
        await pool.close(cancel=True)
        assert all(job.cancelled() for job in crowded)


# Cancelling the block


async def test_cancelling_the_task_that_is_in_the_block() -> None:
    pool = Pool(2)
    crowded: list[Job[str]] = []

    async def body() -> None:
        async with pool:
            crowded.extend(crowd(pool))
            await crowded[0].started()
            inside.set()
            await asyncio.gather(*crowded)

    inside = asyncio.Event()
    task = asyncio.create_task(body())
    await inside.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert all(job.cancelled() for job in crowded)
    assert_closed(pool)


async def test_cancelling_the_task_that_is_leaving_the_block() -> None:
    pool = Pool(2)
    crowded: list[Job[str]] = []

    async def body() -> None:
        async with pool:
            crowded.extend(crowd(pool))
            await crowded[0].started()
            leaving.set()

    leaving = asyncio.Event()
    task = asyncio.create_task(body())
    await leaving.wait()
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert all(job.cancelled() for job in crowded)
    assert_closed(pool)


async def test_a_timeout_around_the_block() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), Pool(2) as pool:
            crowded = crowd(pool)
    assert all(job.cancelled() for job in crowded)
    assert_closed(pool)


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_while_entering_and_starting(turns: int) -> None:
    pool = Pool(2)

    async def body() -> None:
        async with pool:
            await pool.submit(jobs.spin)

    task = asyncio.create_task(body())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    await pool.close()
    assert procs.kids() == []


# Drain


async def test_drain_waits_until_no_job_is_unfinished(marks: Marks) -> None:
    async with Pool(2) as pool:
        await pool.drain()
        queued = [pool.submit(jobs.mark_then, marks.path, i) for i in range(20)]
        failing = pool.submit(jobs.raise_, LookupError("expected"))
        first, second = asyncio.create_task(pool.drain()), asyncio.create_task(pool.drain())
        await asyncio.gather(first, second)
        assert all(job.done() for job in queued)
        assert isinstance(failing.exception(), LookupError)
        assert await pool.submit(jobs.add, 1, 2) == 3


async def test_drain_can_be_given_up() -> None:
    async with Pool(1) as pool:
        job = pool.submit(jobs.sleep_return, 0.4, "slept")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await pool.drain()
        assert await job == "slept"


# CLOSE-2


async def test_what_a_job_left_running_does_not_delay_the_close() -> None:
    """CLOSE-2."""
    loop = asyncio.get_running_loop()
    async with Pool(1) as pool:
        async with asyncio.timeout(5):
            assert await pool.submit(chores.leave_thread_and_exit_handler) == 1
        (pid,) = await full_crew(pool, 1)
        begun = loop.time()
        await pool.close(grace=1.0)
    assert loop.time() - begun < 1.0 + 1.0
    assert not procs.alive(pid)


@pytest.mark.parametrize("stuck", [chores.ignore_sigterm, chores.stop_when_idle])
async def test_a_worker_that_does_not_listen_does_not_delay_the_close(
    stuck: Callable[[], None],
) -> None:
    """CLOSE-2."""
    loop = asyncio.get_running_loop()
    async with Pool(1) as pool:
        await pool.submit(stuck)
        begun = loop.time()
        await pool.close(grace=1.0)
    assert loop.time() - begun < 1.0 + 1.0
    assert_closed(pool)


# Two pools


async def test_two_pools_in_one_loop_do_not_meddle(marks: Marks) -> None:
    async with Pool(1) as one, Pool(2) as two:
        pids = [*await full_crew(one, 1), *await full_crew(two, 2)]
        assert sorted(procs.kids()) == sorted(pids)
        hanging = one.submit(jobs.spin)
        other = two.submit(chores.sleep_between_marks, marks.path, 0.5)
        await asyncio.gather(hanging.started(), other.started())
        assert await two.terminate(hanging.id) is False
        await one.close(cancel=True)
        assert hanging.cancelled()
        assert await other == "slept"
        await assert_sound(two, 2)
        with pytest.raises(PoolClosed):
            one.submit(jobs.add, 1, 2)
    assert marks.lines() == ["begin", "end"]
