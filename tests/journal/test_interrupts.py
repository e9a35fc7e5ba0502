"""What an interrupt tears down has not been given up: it comes back, and is charged nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from asyncpool import Job, Pool
from asyncpool.journal.crew import DOUBT_SECONDS
from tests.cases import chores
from tests.journal.disks import PATIENCE_SECONDS, outcomes, turn
from tests.support import jobs

Jobs = list[Job[str]]
Behave = Callable[[Pool, Jobs], Awaitable[object]]

NAMES = ["running", "queued", "delayed"]


async def submit(pool: Pool) -> Jobs:
    """Return a job that runs, one that waits for it, and one that waits for its time."""
    submitted = [
        await pool.options(id=name, delay=3600.0 * (name == "delayed")).enqueue(
            jobs.sleep_return, chores.FOR_EVER, name
        )
        for name in NAMES
    ]
    await submitted[0].started()
    return submitted


async def assert_all_come_back(path: str) -> None:
    """Nothing has ended, and nothing was charged, in the journal of a pool that was left."""
    assert outcomes(path) == {}
    async with Pool(1, journal=path) as pool:
        assert [job.id for job in pool.recovered] == NAMES
        assert {job.attempts for job in pool.recovered} == {()}
        assert {job._record.crashes for job in pool.recovered} == {0}
        await pool.close(cancel=True)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


# What a program is at when it is cancelled


async def wait(job: Job[str]) -> str:
    return await job


async def await_one(pool: Pool, submitted: Jobs) -> None:
    await submitted[0]


async def await_the_queued_one(pool: Pool, submitted: Jobs) -> None:
    await submitted[1]


async def gather(pool: Pool, submitted: Jobs) -> None:
    await asyncio.gather(*submitted)


async def gather_tasks(pool: Pool, submitted: Jobs) -> None:
    await asyncio.gather(*(asyncio.create_task(wait(job)) for job in submitted))


async def wait_for_all(pool: Pool, submitted: Jobs) -> None:
    await asyncio.wait(submitted)


async def in_a_group(pool: Pool, submitted: Jobs) -> None:
    async with asyncio.TaskGroup() as group:
        for job in submitted:
            group.create_task(wait(job))


async def in_a_timeout(pool: Pool, submitted: Jobs) -> None:
    async with asyncio.timeout(chores.FOR_EVER):
        await asyncio.gather(*submitted)


async def with_wait_for(pool: Pool, submitted: Jobs) -> None:
    await asyncio.wait_for(submitted[0], chores.FOR_EVER)


async def in_a_subtask(pool: Pool, submitted: Jobs) -> None:
    await asyncio.create_task(in_a_group(pool, submitted))


async def shielded(pool: Pool, submitted: Jobs) -> None:
    await asyncio.shield(submitted[0])


async def drain(pool: Pool, submitted: Jobs) -> None:
    await pool.drain()


async def close(pool: Pool, submitted: Jobs) -> None:
    await pool.close()


async def leave(pool: Pool, submitted: Jobs) -> None:
    """Leave the block, which waits for the jobs."""


async def sleep(pool: Pool, submitted: Jobs) -> None:
    await asyncio.sleep(chores.FOR_EVER)


async def cancel_helpers_at_last(pool: Pool, submitted: Jobs) -> None:
    tasks = [asyncio.create_task(wait(job)) for job in submitted]
    try:
        await asyncio.sleep(chores.FOR_EVER)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def clean_up_for_long(pool: Pool, submitted: Jobs) -> None:
    try:
        await asyncio.gather(*submitted)
    finally:
        await turn()
        await asyncio.sleep(4 * DOUBT_SECONDS)


async def clean_up_and_close(pool: Pool, submitted: Jobs) -> None:
    try:
        await in_a_group(pool, submitted)
    finally:
        await asyncio.sleep(2 * DOUBT_SECONDS)
        await pool.close()


BEHAVIOURS: list[Behave] = [
    *(await_one, await_the_queued_one, gather, gather_tasks, wait_for_all, in_a_group),
    *(in_a_timeout, with_wait_for, in_a_subtask, shielded, drain, close, leave, sleep),
    *(cancel_helpers_at_last, clean_up_for_long, clean_up_and_close),
]


async def live(path: str, behave: Behave, lives: asyncio.Event) -> None:
    async with Pool(1, journal=path) as pool:
        submitted = await submit(pool)
        lives.set()
        await behave(pool, submitted)


@pytest.mark.parametrize("behave", BEHAVIOURS)
async def test_cancelling_the_task_that_has_the_pool(path: str, behave: Behave) -> None:
    lives = asyncio.Event()
    task = asyncio.create_task(live(path, behave, lives))
    await lives.wait()
    await turn(5)
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
    assert task.cancelled()
    await assert_all_come_back(path)


async def test_a_cancellation_that_is_over_does_not_hide_the_next_one(path: str) -> None:
    async def fall_back_first(pool: Pool, submitted: Jobs) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(chores.FOR_EVER)
        with suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.wait_for(asyncio.sleep(chores.FOR_EVER), 0.01))
        pool.options(id="given up").submit(jobs.add, 1, 2).cancel()
        fallen_back.set()
        await asyncio.gather(*submitted)

    fallen_back = asyncio.Event()
    task = asyncio.create_task(live(path, fall_back_first, asyncio.Event()))
    await fallen_back.wait()
    await turn(5)
    task.cancel()
    await asyncio.wait({task})
    assert outcomes(path) == {"given up": "cancelled"}
    async with Pool(1, journal=path) as pool:
        assert [job.id for job in pool.recovered] == NAMES
        await pool.close(cancel=True)


async def test_cancelling_a_task_amid_a_map(path: str) -> None:
    async def loop_over() -> None:
        async with Pool(1, journal=path) as pool:
            seconds = [0.0, *[chores.FOR_EVER] * 5]
            async for value in pool.map(jobs.sleep_return, seconds, "abcdef", buffersize=3):
                assert value == "a"
                lives.set()

    lives = asyncio.Event()
    task = asyncio.create_task(loop_over())
    await lives.wait()
    await turn(5)
    task.cancel()
    await asyncio.wait({task})
    assert list(outcomes(path).values()) == ["value"]
    async with Pool(1, journal=path) as pool:
        assert len(pool.recovered) == 3
        await pool.close(cancel=True)


@pytest.mark.parametrize("behave", [await_one, gather, in_a_group, gather_tasks])
async def test_a_cancellation_that_is_yet_to_come(path: str, behave: Behave) -> None:
    """As by a Ctrl-C while the program computes something."""

    async def first_cancelled(pool: Pool, submitted: Jobs) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await behave(pool, submitted)

    task = asyncio.create_task(live(path, first_cancelled, asyncio.Event()))
    await asyncio.wait({task})
    assert task.cancelled()
    await assert_all_come_back(path)


@pytest.mark.parametrize("behave", [gather, in_a_group, cancel_helpers_at_last, leave])
async def test_a_timeout_around_the_pool(path: str, behave: Behave) -> None:
    async def watched(pool: Pool, submitted: Jobs) -> None:
        limit.reschedule(asyncio.get_running_loop().time() + 0.01)
        await behave(pool, submitted)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            await live(path, watched, asyncio.Event())
    await assert_all_come_back(path)


@pytest.mark.parametrize("behave", [gather, in_a_group, cancel_helpers_at_last, leave])
async def test_a_failing_sibling_of_the_task_that_has_the_pool(path: str, behave: Behave) -> None:
    async def fail_when_it_lives() -> None:
        await lives.wait()
        await turn(5)
        raise LookupError("the sibling")

    lives = asyncio.Event()
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(live(path, behave, lives))
            group.create_task(fail_when_it_lives())
    await assert_all_come_back(path)


# Exceptions


async def fail(pool: Pool, submitted: Jobs) -> None:
    raise LookupError


async def fail_beside_those_who_wait(pool: Pool, submitted: Jobs) -> None:
    async with asyncio.TaskGroup() as group:
        for job in submitted:
            group.create_task(wait(job))
        group.create_task(fail(pool, submitted))


async def fail_and_clean_up(pool: Pool, submitted: Jobs) -> None:
    try:
        raise LookupError
    finally:
        await turn()


@pytest.mark.parametrize("behave", [fail, fail_beside_those_who_wait, fail_and_clean_up])
async def test_leaving_by_an_exception(path: str, behave: Behave) -> None:
    with pytest.raises((LookupError, ExceptionGroup)):
        await live(path, behave, asyncio.Event())
    await assert_all_come_back(path)


async def test_what_had_ended_before_stays_so(path: str) -> None:
    async def end_some_first(pool: Pool, submitted: Jobs) -> None:
        submitted[0].cancel()
        assert await pool.options(id="done").submit(jobs.add, 1, 2) == 3
        raise LookupError

    with pytest.raises(LookupError):
        async with Pool(2, journal=path) as pool:
            await end_some_first(pool, await submit(pool))
    assert outcomes(path) == {"running": "cancelled", "done": "value"}
