"""EXIT-1: a job that raises what is no Exception fails alone, and stops nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from asyncpool import JobExited, Pool, Retry
from tests.support import jobs
from tests.support.marks import Marks

from . import raisers
from .soundness import assert_sound, full_crew


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        before = await full_crew(pool, 2)
        yield pool
        await assert_sound(pool, 2)
        assert await full_crew(pool, 2) == before
        assert pool.stats().crashes == 0


@pytest.mark.parametrize("leave", [raisers.leave, raisers.leave_softly])
async def test_the_caller_gets_an_ordinary_error(
    pool: Pool, marks: Marks, leave: Callable[[str, str], None]
) -> None:
    """EXIT-1, from plain functions and from coroutines."""
    for how in raisers.NOT_EXCEPTIONS:
        with pytest.raises(JobExited) as caught:
            await pool.submit(leave, marks.path, how)
        assert isinstance(caught.value, Exception)
        assert _expected_name(how) in str(caught.value)
        assert caught.value.fn_name == leave.__name__
        assert "in leave\n" in "\n".join(caught.value.__notes__)
        assert marks.count(how) == 1
    assert pool.stats().resent == 0


def _expected_name(how: str) -> str:
    names = {"group": "BaseExceptionGroup", "sys.exit('msg')": "SystemExit: msg"}
    return names.get(how, "SystemExit" if "exit" in how else how)


async def test_the_loop_goes_on_when_a_task_gets_it(pool: Pool, marks: Marks) -> None:
    """EXIT-1: asyncio lets a SystemExit of a task stop the loop; this is none."""

    async def wait() -> None:
        await pool.submit(raisers.leave, marks.path, "sys.exit(3)")

    outcomes = await asyncio.gather(wait(), pool.submit(jobs.add, 1, 2), return_exceptions=True)
    assert isinstance(outcomes[0], JobExited)
    assert outcomes[1] == 3


async def test_a_cancelled_error_of_the_job_is_no_cancellation(pool: Pool, marks: Marks) -> None:
    """EXIT-1: the job failed, the caller was not cancelled."""
    job = pool.submit(raisers.leave, marks.path, "CancelledError")
    await asyncio.wait({job})
    assert not job.cancelled()
    assert isinstance(job.exception(), JobExited)
    assert job.state.name == "FAILED"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_only_who_asks_for_it_has_them_retried(pool: Pool, marks: Marks) -> None:
    """EXIT-1: `Retry(max_errors=...)` is for Exceptions, unless it names others."""
    retry = Retry(max_errors=2)
    with pytest.raises(JobExited):
        await pool.options(retry=retry).submit(raisers.leave, marks.path, "sys.exit(3)")
    assert marks.count() == 1
    retry = Retry(max_errors=2, on=(BaseException,))
    with pytest.raises(JobExited):
        await pool.options(retry=retry).submit(raisers.leave, marks.path, "Direct")
    assert marks.count("Direct") == 3
