"""Jobs that take too long are stopped, whatever they do, and the clock starts with the job."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

import asyncpool
from asyncpool import Job, JobState, JobTimeout, Outcome, Pool
from tests.cases import chores
from tests.cases.soundness import assert_sound
from tests.support import jobs, procs
from tests.support.marks import Marks

Stop = Callable[[Job[str]], Awaitable[None]]


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, preload=chores.PRELOAD) as pool:
        yield pool
        await pool.close(cancel=True)


async def wait_for_the_timeout(job: Job[str]) -> None:
    with pytest.raises(JobTimeout):
        await job


async def wait_in_vain(job: Job[str]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(job, 0.1)


async def cancel_the_waiting_task(job: Job[str]) -> None:
    async def wait() -> str:
        return await job

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# TIMEOUT-1


@pytest.mark.parametrize(
    ("timeout", "stop", "outcome", "state"),
    [
        (0.5, wait_for_the_timeout, Outcome.TIMEOUT, JobState.FAILED),
        (None, wait_in_vain, Outcome.CANCELLED, JobState.CANCELLED),
        (None, cancel_the_waiting_task, Outcome.CANCELLED, JobState.CANCELLED),
    ],
    ids=["timeout", "wait_for", "task"],
)
async def test_giving_up_a_job_frees_its_worker(
    pool: Pool,
    marks: Marks,
    timeout: float | None,
    stop: Stop,
    outcome: Outcome,
    state: JobState,
) -> None:
    """TIMEOUT-1."""
    job = pool.options(timeout=timeout).submit(chores.sleep_between_marks, marks.path)
    await job.started()
    (attempt,) = job.attempts
    await procs.eventually(lambda: marks.count("begin"))
    await stop(job)
    async with asyncio.timeout(3):
        assert await pool.submit(jobs.add, 1, 1) == 2
    await procs.eventually(lambda: not procs.alive(attempt.pid))
    assert job.state is state
    assert [(done.outcome, done.signal) for done in job.attempts] == [(outcome, None)]
    assert (pool.stats().crashes, pool.stats().resent) == (0, 0)
    await assert_sound(pool, 1)
    assert marks.lines() == ["begin"]


async def test_a_timeout_tells_its_story(pool: Pool) -> None:
    """TIMEOUT-1."""
    job = pool.options(timeout=0.3).submit(jobs.sleep_return, chores.FOR_EVER, 1)
    with pytest.raises(TimeoutError) as caught:
        await job
    error = caught.value
    assert isinstance(error, JobTimeout)
    assert isinstance(error, asyncpool.JobError)
    assert (error.job_id, error.timeout, error.fn_name) == (job.id, 0.3, job.fn_name)
    assert error.attempts == job.attempts
    assert "in sleep_return" in (error.stack or "")
    assert "0.3 s" in str(error)
    assert "sleep_return" in str(error)


async def test_a_job_that_waits_in_a_coroutine_is_stopped(pool: Pool) -> None:
    """TIMEOUT-1."""
    with pytest.raises(JobTimeout):
        await pool.options(timeout=0.2).submit(chores.sleep_in_a_coroutine)
    await assert_sound(pool, 1)


async def test_a_timeout_touches_nobody_else(marks: Marks) -> None:
    """TIMEOUT-1."""
    async with Pool(2) as pool:
        other = pool.submit(chores.sleep_between_marks, marks.path, 1.0)
        await other.started()
        with pytest.raises(JobTimeout):
            await pool.options(timeout=0.2).submit(jobs.spin)
        assert await other == "slept"
        await assert_sound(pool, 2)
    assert marks.lines() == ["begin", "end"]


async def test_a_timeout_is_not_retried(pool: Pool, marks: Marks) -> None:
    """TIMEOUT-1."""
    retry = asyncpool.Retry(max_errors=5, max_crashes=None)
    submitter = pool.options(timeout=0.2, retry=retry)
    with pytest.raises(JobTimeout):
        await submitter.submit(chores.sleep_between_marks, marks.path)
    await assert_sound(pool, 1)
    assert marks.lines() == ["begin"]


# TIMEOUT-3


async def test_the_timeout_of_queued_jobs_starts_when_they_do(marks: Marks) -> None:
    """TIMEOUT-3."""
    async with Pool(1, timeout=1.5) as pool:
        queued = [pool.submit(jobs.sleep_return, 0.2, i) for i in range(10)]
        assert await asyncio.gather(*queued) == list(range(10))
        assert {job.state for job in queued} == {JobState.DONE}
        await assert_sound(pool, 1)


async def test_the_start_of_a_worker_is_nobodys_time() -> None:
    """TIMEOUT-3."""
    async with Pool(1, initializer=time.sleep, initargs=(1.2,), timeout=0.9) as pool:
        assert await pool.submit(jobs.add, 1, 2) == 3


# STUCK-1


@pytest.mark.parametrize(
    "stuck",
    [
        chores.ignore_signals,
        chores.match_for_ever,
        chores.hold_the_gil,
        chores.swallow_everything,
        partial(chores.stop_oneself, signal.SIGSTOP),
        partial(chores.stop_oneself, signal.SIGTSTP),
        partial(chores.stop_oneself, signal.SIGTTIN),
    ],
    ids=["ignores", "regex", "gil", "swallows", "SIGSTOP", "SIGTSTP", "SIGTTIN"],
)
async def test_nothing_a_job_does_keeps_it_from_being_stopped(
    pool: Pool, stuck: Callable[[], None]
) -> None:
    """STUCK-1."""
    loop = asyncio.get_running_loop()
    job = pool.options(timeout=0.5).submit(stuck)
    await job.started()
    begun = loop.time()
    with pytest.raises(JobTimeout):
        await job
    assert loop.time() - begun <= 2.5
    (attempt,) = job.attempts
    assert not procs.alive(attempt.pid)
    async with asyncio.timeout(3):
        assert await pool.submit(jobs.add, 1, 1) == 2
    await assert_sound(pool, 1)


# A timeout that depends on the arguments


def by_size(seconds: float, value: object = None) -> float | None:
    return None if value == "unlimited" else seconds / 2 if value == "short" else seconds + 60


async def test_a_timeout_may_depend_on_the_arguments(pool: Pool) -> None:
    view = pool.options(timeout=by_size)
    assert await view.submit(jobs.sleep_return, 0.1, "long") == "long"
    assert await view.submit(jobs.sleep_return, 0.1, value="unlimited") == "unlimited"
    with pytest.raises(JobTimeout) as caught:
        await view.submit(jobs.sleep_return, 1.0, value="short")
    assert caught.value.timeout == 0.5


async def test_options_replace_the_timeout_of_the_pool() -> None:
    async with Pool(1, timeout=lambda *args, **kwargs: 0.1) as pool:
        view = pool.options(timeout=chores.FOR_EVER)
        assert await view.submit(jobs.sleep_return, 0.5, "slept") == "slept"
        with pytest.raises(JobTimeout):
            await pool.submit(jobs.sleep_return, chores.FOR_EVER, "slept")


async def test_options_lift_the_timeout_of_the_pool() -> None:
    async with Pool(1, timeout=0.1) as pool:
        for without in (math.inf, lambda *args: math.inf, lambda *args: None):
            view = pool.options(timeout=without)
            assert await view.submit(jobs.sleep_return, 0.3, "slept") == "slept"


@pytest.mark.parametrize(
    ("answer", "error"),
    [("soon", TypeError), (-1.0, ValueError), (0.0, ValueError), (float("nan"), ValueError)],
)
async def test_a_timeout_that_is_none_raises_at_submit(
    pool: Pool, answer: object, error: type[Exception]
) -> None:
    view = pool.options(timeout=lambda *args: answer)  # type: ignore[arg-type]
    with pytest.raises(error, match="timeout"):
        view.submit(jobs.add, 1, 2)
    assert pool.jobs() == []
    await assert_sound(pool, 1)


async def test_an_error_of_the_timeout_function_is_raised_at_submit(pool: Pool) -> None:
    with pytest.raises(TypeError):
        pool.options(timeout=by_size).submit(jobs.spin)
    assert pool.jobs() == []
    await assert_sound(pool, 1)


# CLOCK-1


@pytest.fixture
def moved_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Let the wall clock of this process jump, and its time zone change."""
    real = time.time

    def jump(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        monkeypatch.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()

    yield jump
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 175 * 365 * 86400.0])
async def test_timeouts_do_not_heed_the_wall_clock(
    moved_clock: Callable[[float], None], seconds: float
) -> None:
    """CLOCK-1."""
    loop = asyncio.get_running_loop()
    async with Pool(2) as pool:
        healthy = pool.options(timeout=3.0, deadline=60.0).submit(jobs.sleep_return, 1.0, "well")
        endless = pool.options(timeout=1.0).submit(jobs.spin)
        delayed = pool.options(delay=0.5).submit(jobs.add, 1, 1)
        await asyncio.gather(healthy.started(), endless.started())
        begun = loop.time()
        moved_clock(seconds)
        with pytest.raises(JobTimeout):
            await endless
        assert 0.5 <= loop.time() - begun <= 2.5
        assert await healthy == "well"
        assert await delayed == 2
        await assert_sound(pool, 2)


async def test_times_of_attempts_run_forward_though_the_clock_jumps(
    pool: Pool, moved_clock: Callable[[float], None]
) -> None:
    """CLOCK-1."""
    job = pool.submit(jobs.sleep_return, 0.2, "slept")
    await job.started()
    moved_clock(-3600.0)
    with suppress(JobTimeout):
        await job
    (attempt,) = job.attempts
    assert attempt.ended_at is not None
    assert 0.0 <= attempt.ended_at - attempt.started_at < 60.0
