"""A job that somebody gave up has ended, says the journal, and does not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asyncpool import Job, Pool
from tests.cases import chores
from tests.journal.disks import outcomes, turn
from tests.support import jobs

GiveUp = Callable[[Pool, Job[str]], Awaitable[None]]


async def cancel(pool: Pool, job: Job[str]) -> None:
    assert job.cancel()


async def terminate(pool: Pool, job: Job[str]) -> None:
    assert await pool.terminate(job.id)


async def cancel_who_awaits_it(pool: Pool, job: Job[str]) -> None:
    async def wait() -> str:
        return await job

    task = asyncio.create_task(wait())
    await turn(2)
    task.cancel()
    await asyncio.wait({task})


async def cancel_a_gather(pool: Pool, job: Job[str]) -> None:
    gathered = asyncio.gather(job)
    gathered.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathered


async def wait_for(pool: Pool, job: Job[str]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(job, 0.01)


async def time_out(pool: Pool, job: Job[str]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await job


async def time_out_in_another_task(pool: Pool, job: Job[str]) -> None:
    await asyncio.create_task(time_out(pool, job))


async def time_out_a_group(pool: Pool, job: Job[str]) -> None:
    async def wait() -> str:
        return await job

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), asyncio.TaskGroup() as group:
            group.create_task(wait())


async def fail_beside_it(pool: Pool, job: Job[str]) -> None:
    async def wait() -> str:
        return await job

    async def fail() -> None:
        raise LookupError("the sibling")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(wait())
            group.create_task(fail())


async def fail_beside_it_in_another_task(pool: Pool, job: Job[str]) -> None:
    await asyncio.create_task(fail_beside_it(pool, job))


async def close(pool: Pool, job: Job[str]) -> None:
    await pool.close(cancel=True)


async def close_in_another_task(pool: Pool, job: Job[str]) -> None:
    await asyncio.create_task(pool.close(cancel=True))


async def fall_back_then_cancel(pool: Pool, job: Job[str]) -> None:
    """A cancellation that was heeded, and is over, is no interrupt."""
    other = await pool.enqueue(jobs.sleep_return, chores.FOR_EVER, "other")
    await fail_beside_it(pool, other)
    assert job.cancel()


ALL: list[GiveUp] = [
    *(cancel, terminate, cancel_who_awaits_it, cancel_a_gather, wait_for),
    *(time_out, time_out_in_another_task, time_out_a_group),
    *(fail_beside_it, fail_beside_it_in_another_task),
    *(close, close_in_another_task, fall_back_then_cancel),
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


async def comes_back(path: str) -> list[str]:
    """Open the journal, and return which jobs are unfinished."""
    async with Pool(1, journal=path) as pool:
        found = [job.id for job in pool.recovered]
        await pool.close(cancel=True)
    return found


@pytest.mark.parametrize("give_up", ALL)
@pytest.mark.parametrize("state", ["running", "queued"])
async def test_it_has_ended(path: str, give_up: GiveUp, state: str) -> None:
    async with Pool(1, journal=path) as pool:
        running, queued = [
            await pool.options(id=name).enqueue(jobs.sleep_return, chores.FOR_EVER, name)
            for name in ("running", "queued")
        ]
        await running.started()
        job, other = (running, queued) if state == "running" else (queued, running)
        await give_up(pool, job)
        assert job.cancelled()
        other.cancel()
    assert outcomes(path)[job.id] == "cancelled"
    assert outcomes(path)[other.id] == "cancelled"
    assert await comes_back(path) == []


@pytest.mark.parametrize("give_up", [cancel, time_out, fail_beside_it_in_another_task])
async def test_it_has_ended_although_the_others_come_back(path: str, give_up: GiveUp) -> None:
    """An interrupt that comes later does not bring it back."""

    async def live() -> None:
        async with Pool(1, journal=path) as pool:
            first = await pool.options(id="first").enqueue(jobs.sleep_return, chores.FOR_EVER, "")
            other = await pool.options(id="other").enqueue(jobs.sleep_return, chores.FOR_EVER, "")
            await first.started()
            await give_up(pool, first)
            await other.started()
            lives.set_result(None)
            await other

    lives = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(live())
    await lives
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert outcomes(path) == {"first": "cancelled"}
    assert await comes_back(path) == ["other"]


async def test_leaving_a_map_loop_gives_up_the_rest(path: str) -> None:
    async with Pool(1, journal=path) as pool:
        seconds = [0.0, chores.FOR_EVER, chores.FOR_EVER]
        async for value in pool.map(jobs.sleep_return, seconds, "abc", buffersize=3):
            assert value == "a"
            break
        await pool.drain()
    assert sorted(outcomes(path).values()) in (
        ["cancelled"] * 2 + ["value"],
        ["cancelled", "value"],
    )
    assert await comes_back(path) == []


async def test_terminate_returns_when_that_is_written(path: str) -> None:
    async with Pool(1, journal=path) as pool:
        job = await pool.enqueue(jobs.sleep_return, chores.FOR_EVER, "")
        await job.started()
        assert await pool.terminate(job.id)
        assert outcomes(path) == {job.id: "cancelled"}
        with pytest.raises(asyncio.CancelledError):
            await job


async def test_an_id_that_was_given_up_is_used_up(path: str) -> None:
    async with Pool(1, journal=path) as pool:
        job = await pool.options(id="thumb").enqueue(jobs.add, 1, 2)
        job.cancel()
    async with Pool(1, journal=path) as pool:
        again = pool.options(id="thumb").submit(jobs.add, 1, 2)
        with pytest.raises(asyncio.CancelledError):
            await again
        assert pool.job("thumb").cancelled()
