"""Coroutine functions as jobs: they run in the worker's own loop, which outlives them."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import AsyncIterator

import pytest

from asyncpool import JobTimeout, Pool, SerializationError, current_job
from tests.support import jobs
from tests.support.marks import Marks, mark

from .soundness import assert_sound, full_crew

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")
kept: list[object] = []


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        yield pool
        await assert_sound(pool, 1)
        assert pool.stats().crashes == 0


async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


async def loop_and_pid() -> tuple[int, int]:
    return id(asyncio.get_running_loop()), os.getpid()


async def raise_later() -> None:
    await asyncio.sleep(0)
    raise LookupError("later")


async def raise_in_a_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(raise_later())


async def leave_tasks_behind(path: str, count: int) -> None:
    async def linger(number: int) -> None:
        try:
            await asyncio.sleep(300)
        finally:
            await asyncio.sleep(0)
            mark(path, f"cancelled {number}")

    kept.extend(asyncio.create_task(linger(number)) for number in range(count))
    await asyncio.sleep(0)


async def leave_tasks_behind_and_raise(path: str) -> None:
    await leave_tasks_behind(path, 1)
    raise LookupError("after all")


async def leave_a_failure_behind() -> str:
    kept.append(asyncio.create_task(raise_later()))
    await asyncio.sleep(0.01)
    return "well"


async def count_tasks() -> int:
    return len(asyncio.all_tasks())


async def set_variable() -> str:
    before = VARIABLE.get()
    VARIABLE.set("set")
    return before


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


async def report() -> tuple[str, int]:
    job = current_job()
    await asyncio.sleep(0)
    job.progress(1, 2, "half")
    return job.id, job.attempt


async def return_a_task() -> object:
    return asyncio.create_task(hang())


def run_a_loop() -> int:
    return asyncio.run(add_later(3, 4))


async def cancel_oneself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def test_values_and_errors(pool: Pool) -> None:
    assert await pool.submit(add_later, 1, 2) == 3
    assert await pool.submit(functools.partial(add_later, 1), b=4) == 5
    with pytest.raises(LookupError, match="later") as caught:
        await pool.submit(raise_later)
    assert "in raise_later" in "\n".join(caught.value.__notes__)
    with pytest.raises(ExceptionGroup) as group:
        await pool.submit(raise_in_a_task_group)
    assert isinstance(group.value.exceptions[0], LookupError)
    with pytest.raises(TypeError, match="missing 1 required"):
        await pool.submit(add_later, 1)  # type: ignore[call-overload]


async def test_local_coroutine_functions(pool: Pool) -> None:
    offset = 4

    async def nested(number: int) -> int:
        return await add_later(number, offset)

    assert await pool.submit(nested, 5) == 9


async def test_one_loop_for_all_of_a_worker(pool: Pool) -> None:
    """So a client that one job opens can serve the next."""
    first = await pool.submit(loop_and_pid)
    await pool.submit(jobs.add, 1, 1)
    assert await pool.submit(loop_and_pid) == first


async def test_tasks_left_behind_are_cancelled(pool: Pool, marks: Marks) -> None:
    """Before the result is told: nothing runs on inside the next job."""
    await pool.submit(leave_tasks_behind, marks.path, 3)
    assert sorted(marks.lines()) == ["cancelled 0", "cancelled 1", "cancelled 2"]
    assert await pool.submit(count_tasks) == 1
    with pytest.raises(LookupError, match="after all"):
        await pool.submit(leave_tasks_behind_and_raise, marks.path)
    assert marks.count() == 4


async def test_a_task_that_failed_unseen_fails_nobody(pool: Pool) -> None:
    assert await pool.submit(leave_a_failure_behind) == "well"
    assert await pool.submit(add_later, 1, 2) == 3


async def test_jobs_do_not_share_context(pool: Pool) -> None:
    assert await pool.submit(set_variable) == "unset"
    assert await pool.submit(set_variable) == "unset"


async def test_the_job_knows_itself(pool: Pool) -> None:
    job = pool.submit(report)
    assert await job == (job.id, 1)
    assert job.progress is not None
    assert (job.progress.done, job.progress.total, job.progress.message) == (1, 2, "half")


async def test_a_timeout_stops_it(pool: Pool) -> None:
    with pytest.raises(JobTimeout):
        await pool.options(timeout=0.3).submit(hang)
    assert await pool.submit(add_later, 1, 2) == 3


async def test_cancelling_stops_it(pool: Pool) -> None:
    before = await full_crew(pool, 1)
    job = pool.submit(hang)
    await job.started()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert await pool.submit(add_later, 1, 2) == 3
    assert await full_crew(pool, 1) != before


async def test_a_task_is_no_result(pool: Pool) -> None:
    with pytest.raises(SerializationError, match=r"returned a _asyncio\.Task"):
        await pool.submit(return_a_task)
    assert await pool.submit(count_tasks) == 1


async def test_plain_jobs_may_run_loops_of_their_own(pool: Pool) -> None:
    assert await pool.submit(run_a_loop) == 7
    assert await pool.submit(add_later, 1, 2) == 3
    assert await pool.submit(run_a_loop) == 7


async def test_a_job_that_cancels_itself_has_failed(pool: Pool) -> None:
    job = pool.submit(cancel_oneself)
    await asyncio.wait({job})
    assert not job.cancelled()
    assert "CancelledError" in str(job.exception())


async def test_in_a_map(pool: Pool) -> None:
    for chunksize in (1, 4):
        results = pool.map(add_later, range(10), range(10), chunksize=chunksize)
        assert [value async for value in results] == [2 * number for number in range(10)]
