"""Workers that die, or stop, while they run nothing: no job pays for it."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from asyncpool import Job, Outcome, Pool
from asyncpool.events import Event, WorkerExited, WorkerStarted
from asyncpool.hub import Feed
from tests.cases import deadly
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.marks import Marks


def _is_dead(pid: int) -> bool:
    return not procs.alive(pid)


def hit_all(pool: Pool, signum: int) -> list[int]:
    pids = [worker.pid for worker in pool.workers()]
    for pid in pids:
        os.kill(pid, signum)
    return pids


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
async def test_the_next_job_does_not_notice_that_idle_workers_were_hit(
    signum: signal.Signals, marks: Marks
) -> None:
    """IDLE-1."""
    async with Pool(2) as pool:
        await full_crew(pool, 2)
        await pool.submit(jobs.add, 1, 1)
        old = hit_all(pool, signum)
        for _ in range(2):
            job = pool.submit(deadly.pid_after_mark, marks.path)
            async with asyncio.timeout(3):
                assert await job not in old
            assert [attempt.outcome for attempt in job.attempts] == [Outcome.DONE]
        assert marks.count() == 2
        assert pool.stats().crashes == 0
        for pid in old:  # one that was stopped and given no job may still be there
            if procs.alive(pid):
                os.kill(pid, signal.SIGKILL)
                await procs.eventually(partial(_is_dead, pid))
        await assert_sound(pool, 2)


@pytest.mark.parametrize("rounds", range(2))
async def test_both_workers_killed_and_a_job_for_each(rounds: int) -> None:
    """IDLE-1: the deaths are not known yet when the jobs come."""
    async with Pool(2) as pool:
        await full_crew(pool, 2)
        hit_all(pool, signal.SIGKILL)
        waiting = [pool.submit(jobs.add, i, 1) for i in range(10)]
        async with asyncio.timeout(3):
            assert await asyncio.gather(*waiting) == list(range(1, 11))
        assert pool.stats().crashes == 0
        await assert_sound(pool, 2)


# ASSIGN-1


async def test_a_job_moves_on_when_its_worker_dies_before_it_began(
    marks: Marks, tmp_path: Path
) -> None:
    """ASSIGN-1: twenty times, the same job."""
    rounds = 20
    gate = tmp_path / "gate"
    hold_back = (str(gate),)
    async with Pool(rounds, initializer=deadly.wait_while_there, initargs=hold_back) as pool:
        await full_crew(pool, rounds)
        gate.touch()  # so that replacements are not ready before all is over
        stopped = set(hit_all(pool, signal.SIGSTOP))
        job = pool.submit(deadly.pid_after_mark, marks.path)
        for _ in range(rounds):
            pid = await procs.eventually(lambda: _holder(pool), within=2)
            assert pid in stopped
            os.kill(pid, signal.SIGKILL)
            stopped.discard(pid)
            await procs.eventually(partial(_has_left, pool, pid), within=2)
        assert not stopped
        assert marks.count() == 0
        gate.unlink()
        assert await job == job.attempts[-1].pid
        assert marks.count() == 1
        assert [attempt.number for attempt in job.attempts] == [1]
        assert pool.stats().crashes == 0
        assert pool.stats().resent == rounds
        await assert_sound(pool, rounds)


def _holder(pool: Pool) -> int | None:
    """Return the worker that the only job was sent to."""
    (job,) = pool.jobs()
    return job.pid


def _has_left(pool: Pool, pid: int) -> bool:
    return _holder(pool) != pid


async def test_a_job_given_to_a_stopped_worker_is_rescued(marks: Marks) -> None:
    """ASSIGN-1: the worker lives on and says nothing."""
    async with Pool(1) as pool:
        events = pool.events()
        await full_crew(pool, 1)
        (stopped,) = hit_all(pool, signal.SIGSTOP)
        job = pool.submit(deadly.pid_after_mark, marks.path)
        async with asyncio.timeout(4):
            assert await job != stopped
        assert (marks.count(), len(job.attempts), pool.stats().crashes) == (1, 1, 0)
        assert not procs.alive(stopped)
        await assert_sound(pool, 1)
    first, *_ = [event async for event in events if isinstance(event, WorkerExited)]
    assert (first.pid, first.reason) == (stopped, "unresponsive")


async def test_leaving_the_pool_rescues_the_job_of_a_stopped_worker(marks: Marks) -> None:
    """ASSIGN-1: at the pool's exit."""
    async with asyncio.timeout(10):
        async with Pool(1) as pool:
            await full_crew(pool, 1)
            hit_all(pool, signal.SIGSTOP)
            job = pool.submit(deadly.pid_after_mark, marks.path)
    assert job.done()
    assert marks.count() == 1


async def test_a_stopped_idle_worker_does_not_hold_up_the_end() -> None:
    pool = Pool(2)
    async with pool:
        await full_crew(pool, 2)
        hit_all(pool, signal.SIGSTOP)
        async with asyncio.timeout(4):
            await pool.close(grace=0.3)


# Spares


async def test_a_spare_takes_over_at_once(marks: Marks) -> None:
    async with Pool(1, spares=1) as pool:
        events = pool.events()
        spare = await _next_spare(events)
        (first,) = await full_crew(pool, 1)
        assert (pool.stats().workers, pool.stats().spares) == (1, 1)
        assert first != spare
        job = pool.submit(deadly.exit_until, marks.path, 2)
        assert await job == spare
        assert [attempt.pid for attempt in job.attempts] == [first, spare]
        assert [worker.pid for worker in pool.workers()] == [spare]
        another = await _next_spare(events)
        assert another not in (first, spare)
        assert [worker.pid for worker in pool.workers()] == [spare]
        assert (pool.stats().workers, pool.stats().spares) == (1, 1)
        assert await pool.submit(jobs.add, 1, 1) == 2
        await procs.eventually(lambda: sorted(procs.kids()) == sorted([spare, another]))


async def test_a_spare_takes_the_place_of_a_worker_that_is_killed_for_its_job() -> None:
    async with Pool(1, spares=1) as pool:
        spare = await _next_spare(pool.events())
        job: Job[None] = pool.submit(deadly.sleep_for_ever)
        await job.started()
        job.cancel()
        assert [worker.pid for worker in pool.workers()] == [spare]
        assert await pool.submit(os.getpid) == spare


async def test_a_spare_that_dies_is_replaced() -> None:
    async with Pool(1, spares=1) as pool:
        events = pool.events()
        spare = await _next_spare(events)
        workers = [worker.pid for worker in pool.workers()]
        os.kill(spare, signal.SIGKILL)
        assert await _next_spare(events) != spare
        assert [worker.pid for worker in pool.workers()] == workers
        assert pool.stats().crashes == 0


async def _next_spare(events: Feed[Event]) -> int:
    async for event in events:
        if isinstance(event, WorkerStarted) and event.spare:
            assert event.pid is not None
            return event.pid
    raise AssertionError("the pool closed")
