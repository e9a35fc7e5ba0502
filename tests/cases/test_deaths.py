"""A worker that dies costs its job a run, and nobody else anything."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import asyncpool
from asyncpool import JobState, Outcome, Pool, Retry, WorkerCrashed
from asyncpool.events import Event, JobResent, WorkerExited, WorkerStarted
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import jobs, procs
from tests.support.marks import Marks

LIMIT = Retry().max_crashes


async def test_a_crashing_job_fails_alone(marks: Marks) -> None:
    """BROKEN-1."""
    async with Pool(2) as pool:
        good = [pool.submit(jobs.sleep_return, 0.2, i) for i in range(3)]
        bad = pool.submit(jobs.mark_then_die, marks.path, "exit")
        with pytest.raises(WorkerCrashed):
            await bad
        assert await asyncio.gather(*good) == [0, 1, 2]
        more = [pool.submit(jobs.sleep_return, 0.01, i) for i in range(20)]
        assert await asyncio.gather(*more) == list(range(20))
        await assert_sound(pool, 2)
        assert marks.count() == LIMIT
        stats = pool.stats()
        assert (stats.crashes, stats.resent) == (3, 2)
        assert (stats.done, stats.failed, stats.pending, stats.running) == (24, 1, 0, 0)
        for job in good + more:
            assert [attempt.outcome for attempt in job.attempts] == [Outcome.DONE]


async def test_a_job_whose_worker_was_killed_runs_again(marks: Marks) -> None:
    """HANG-1: killed once, from outside."""
    async with Pool(2) as pool:
        job = pool.submit(jobs.write_pid_and_sleep, marks.path, 1.0)
        async with asyncio.timeout(1 + 1 + 2):
            await procs.eventually(marks.count)
            first = int(marks.lines()[0])
            os.kill(first, signal.SIGKILL)
            second = await job
        assert marks.lines() == [str(first), str(second)]
        assert [attempt.pid for attempt in job.attempts] == [first, second]
        assert not procs.alive(first)
        await assert_sound(pool, 2)


@pytest.mark.parametrize(
    ("how", "exit_code", "signum", "said"),
    [
        ("exit", 3, None, "exited with code 3"),
        ("abort", None, signal.SIGABRT, "SIGABRT"),
        ("segv", None, signal.SIGSEGV, "SIGSEGV"),
        ("sigbus", None, signal.SIGBUS, "SIGBUS"),
        ("sigkill", None, signal.SIGKILL, "SIGKILL"),
    ],
)
async def test_a_job_that_always_dies_says_how(
    marks: Marks, how: str, exit_code: int | None, signum: int | None, said: str
) -> None:
    """HANG-1: whatever it dies of."""
    async with Pool(1) as pool:
        job = pool.submit(jobs.mark_then_die, marks.path, how)
        async with asyncio.timeout(10):
            with pytest.raises(WorkerCrashed, match=said) as caught:
                await job
        assert (caught.value.exit_code, caught.value.signal) == (exit_code, signum)
        for attempt in caught.value.attempts:
            assert (attempt.exit_code, attempt.signal) == (exit_code, signum)
        assert marks.count() == LIMIT
        await assert_sound(pool, 1)


async def test_memory_that_is_refused_ends_the_job(marks: Marks) -> None:
    """HANG-1: allocation under RLIMIT_AS."""
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        async with asyncio.timeout(10):
            with pytest.raises((MemoryError, WorkerCrashed)):
                await pool.submit(deadly.allocate_beyond_the_limit, marks.path)
        assert marks.count() == 1
        await assert_sound(pool, 1)


async def test_a_poison_job_is_given_up_and_all_others_succeed(marks: Marks) -> None:
    """POISON-1."""
    async with Pool(2) as pool:
        events = pool.events()
        bad = pool.submit(jobs.mark_then_die, marks.path, "sigkill")
        good = [pool.submit(jobs.add, i, i) for i in range(100)]
        with pytest.raises(WorkerCrashed) as caught:
            await bad
        assert await asyncio.gather(*good) == [2 * i for i in range(100)]
        await assert_sound(pool, 2)
        assert marks.count() == LIMIT
        assert caught.value.signal == signal.SIGKILL
        assert [attempt.number for attempt in caught.value.attempts] == [1, 2, 3]
        assert caught.value.attempts == bad.attempts
        assert pool.stats().crashes == LIMIT
    story = [event async for event in events]
    started = [event.pid for event in story if isinstance(event, WorkerStarted)]
    assert len(started) == len(set(started)) == 2 + LIMIT


async def test_max_crashes_is_obeyed(marks: Marks) -> None:
    """POISON-1: with other limits."""
    async with Pool(1) as pool:
        with pytest.raises(WorkerCrashed):
            await pool.options(retry=Retry(max_crashes=1)).submit(
                jobs.mark_then_die, marks.path, "sigkill"
            )
        assert marks.count() == 1
        endless = pool.options(retry=Retry(max_crashes=None))
        assert await endless.submit(deadly.exit_until, marks.path, 7)
        assert marks.count() == 7
        assert pool.stats().crashes == 6


async def test_attempts_events_and_counters_tell_of_crashes(marks: Marks) -> None:
    """A job that dies twice and then succeeds."""
    async with Pool(1) as pool:
        events = pool.events()
        job = pool.submit(deadly.exit_until, marks.path, 3)
        pid = await job
        outcomes = [attempt.outcome for attempt in job.attempts]
        assert outcomes == [Outcome.CRASHED, Outcome.CRASHED, Outcome.DONE]
        assert [attempt.exit_code for attempt in job.attempts] == [3, 3, None]
        assert [attempt.number for attempt in job.attempts] == [1, 2, 3]
        assert len({attempt.pid for attempt in job.attempts}) == 3
        assert job.attempts[-1].pid == pid
        _assert_in_order(job.attempts)
        stats = pool.stats()
        assert (stats.crashes, stats.resent, stats.done, stats.failed) == (2, 2, 1, 0)
        assert job.state is JobState.DONE
    _assert_told([event async for event in events], job)


def _assert_in_order(attempts: tuple[asyncpool.Attempt, ...]) -> None:
    moments: list[float] = []
    for attempt in attempts:
        assert attempt.ended_at is not None
        moments += [attempt.started_at, attempt.ended_at]
    assert moments == sorted(moments)


def _assert_told(story: list[Event], job: asyncpool.Job[int]) -> None:
    pids = [attempt.pid for attempt in job.attempts]
    exits = [event for event in story if isinstance(event, WorkerExited)]
    assert [event.pid for event in exits] == pids
    assert [event.reason for event in exits] == ["crashed", "crashed", "closed"]
    assert [event.exit_code for event in exits[:2]] == [3, 3]
    assert [event.job_id for event in exits] == [job.id, job.id, None]
    resent = [event for event in story if isinstance(event, JobResent)]
    assert [(event.job_id, event.charged) for event in resent] == [(job.id, True)] * 2


async def test_a_long_job_runs_once_though_its_worker_is_silent(marks: Marks) -> None:
    """DUP-1: it holds the GIL for longer than every interval of the pool."""
    async with Pool(1) as pool:
        events = pool.events()
        job = pool.submit(deadly.hold_the_gil, marks.path, 3)
        await job.started()
        behind = [pool.submit(jobs.mark_then, marks.path, f"{i}") for i in range(5)]
        assert await job == "done"
        await asyncio.gather(*behind)
        assert marks.lines() == ["begin", "0", "1", "2", "3", "4"]
        assert len(job.attempts) == 1
        await assert_sound(pool, 1)
        assert (pool.stats().crashes, pool.stats().resent) == (0, 0)
    story = [event async for event in events]
    assert not [event for event in story if isinstance(event, JobResent)]
    assert len([event for event in story if isinstance(event, WorkerStarted)]) == 1
