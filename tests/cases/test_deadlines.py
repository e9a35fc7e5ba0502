"""Deadlines count everything, delays come before, priorities decide whose turn it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import asyncpool
from asyncpool import JobState, JobTimeout, Outcome, Pool
from tests.cases import chores
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.marks import Marks


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, preload=chores.PRELOAD) as pool:
        await full_crew(pool, 1)
        yield pool
        await pool.close(cancel=True)


# Deadlines


async def test_a_job_that_waits_past_its_deadline_never_runs(pool: Pool, marks: Marks) -> None:
    busy = pool.submit(jobs.sleep_return, 0.6, "busy")
    late = pool.options(deadline=0.2).submit(jobs.mark_then, marks.path, 1)
    with pytest.raises(JobTimeout, match=r"missed its deadline of 0\.2 s and never ran") as caught:
        await late
    assert not busy.done()
    assert (late.state, late.attempts) == (JobState.FAILED, ())
    assert caught.value.timeout == pytest.approx(0.2)
    assert caught.value.stack is None
    assert await busy == "busy"
    await assert_sound(pool, 1)
    assert marks.lines() == []


async def test_a_running_job_is_stopped_at_its_deadline(pool: Pool, marks: Marks) -> None:
    job = pool.options(deadline=0.4).submit(chores.sleep_between_marks, marks.path)
    with pytest.raises(
        JobTimeout, match=r"missed its deadline of 0\.4 s and was stopped"
    ) as caught:
        await job
    assert "in sleep_between_marks" in (caught.value.stack or "")
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.TIMEOUT]
    await assert_sound(pool, 1)
    assert (pool.stats().crashes, pool.stats().resent) == (0, 0)
    assert marks.lines() == ["begin"]


async def test_a_deadline_counts_the_runs_before(pool: Pool, marks: Marks) -> None:
    retry = asyncpool.Retry(max_crashes=None, delay=0.1, factor=1.0, jitter=False)
    job = pool.options(deadline=1.0, retry=retry).submit(jobs.mark_then_die, marks.path, "exit")
    begun = asyncio.get_running_loop().time()
    with pytest.raises(JobTimeout):
        await job
    assert asyncio.get_running_loop().time() - begun < 4.0
    outcomes = {attempt.outcome for attempt in job.attempts[:-1]}
    assert outcomes == {Outcome.CRASHED}
    assert marks.count() >= 2
    ran = marks.count()
    await assert_sound(pool, 1)
    assert marks.count() == ran
    assert ran in (len(job.attempts), len(job.attempts) - 1)  # or killed ahead of its mark


async def test_a_job_knows_its_deadline(pool: Pool) -> None:
    before = time.time()
    deadline = await pool.options(deadline=30.0).submit(own_deadline)
    assert deadline is not None
    assert before + 25.0 < deadline < time.time() + 35.0
    assert await pool.submit(own_deadline) is None


def own_deadline() -> float | None:
    return asyncpool.current_job().deadline


async def test_a_delay_does_not_put_off_the_deadline(pool: Pool, marks: Marks) -> None:
    job = pool.options(deadline=0.2, delay=60.0).submit(jobs.mark_then, marks.path, 1)
    with pytest.raises(JobTimeout, match="never ran"):
        await job
    assert pool.jobs() == []
    assert marks.lines() == []


async def test_a_deadline_holds_though_the_loop_was_blocked(pool: Pool, marks: Marks) -> None:
    """The worker gets free, and the deadline passes, while nobody here can notice either."""
    busy = pool.submit(jobs.sleep_return, 0.2, "busy")
    late = pool.options(deadline=0.3).submit(jobs.mark_then, marks.path, 1)
    await busy.started()
    time.sleep(0.8)
    with pytest.raises(JobTimeout, match="never ran"):
        await late
    assert await busy == "busy"
    await assert_sound(pool, 1)
    assert marks.lines() == []


async def test_no_time_at_all_is_no_time_to_run(pool: Pool, marks: Marks) -> None:
    job = pool.options(deadline=0.0).submit(jobs.mark_then, marks.path, 1)
    with pytest.raises(JobTimeout, match="never ran"):
        await job
    await assert_sound(pool, 1)
    assert marks.lines() == []


async def test_a_deadline_that_is_met_leaves_nothing_behind(pool: Pool) -> None:
    view = pool.options(deadline=0.4)
    assert await asyncio.gather(*(view.submit(jobs.add, i, 1) for i in range(50)))
    assert await pool.submit(jobs.sleep_return, 0.5, "undisturbed") == "undisturbed"


# Delays


async def test_a_delayed_job_is_not_before_its_time(pool: Pool) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    delayed = pool.options(delay=0.4).submit(jobs.add, 1, 1)
    assert await pool.submit(jobs.add, 1, 2) == 3
    assert delayed.state is JobState.PENDING
    assert await delayed == 2
    assert loop.time() - begun >= 0.4


async def test_the_pool_waits_for_delayed_jobs_when_left(marks: Marks) -> None:
    async with Pool(1, preload=chores.PRELOAD) as pool:
        job = pool.options(delay=0.3).submit(jobs.mark_then, marks.path, 7)
    assert job.result() == 7
    assert marks.lines() == ["7"]


async def test_a_delayed_job_can_be_cancelled(pool: Pool, marks: Marks) -> None:
    job = pool.options(delay=0.2).submit(jobs.mark_then, marks.path, 1)
    assert job.cancel()
    assert await pool.submit(jobs.sleep_return, 0.5, "later") == "later"
    assert (marks.lines(), pool.jobs()) == ([], [])


async def test_delayed_jobs_come_in_the_order_of_their_times(pool: Pool, marks: Marks) -> None:
    await pool.submit(jobs.mark_then, "/dev/null", 0)  # so that none spends its time importing
    delayed = [
        pool.options(delay=delay).submit(jobs.mark_then, marks.path, delay)
        for delay in (0.7, 0.1, 0.4)
    ]
    await asyncio.gather(*delayed)
    assert marks.lines() == ["0.1", "0.4", "0.7"]


# Priorities


async def behind_a_gate(pool: Pool, marks: Marks) -> Path:
    """Occupy the worker until the file is made whose path this returns."""
    gate = Path(marks.path).with_name("gate")
    await pool.submit(chores.mark_after_gate, marks.path, "gate", gate).started()
    return gate


async def test_higher_priority_runs_first_and_ties_in_order(pool: Pool, marks: Marks) -> None:
    gate = await behind_a_gate(pool, marks)
    wanted = [(1, "c"), (0, "e"), (2, "a"), (1, "d"), (-1, "g"), (0, "f"), (2, "b")]
    queued = [
        pool.options(priority=priority).submit(chores.mark_after_gate, marks.path, text)
        for priority, text in wanted
    ]
    gate.touch()
    await asyncio.gather(*queued)
    assert marks.lines() == ["gate", *"abcdefg"]


async def test_short_jobs_written_ahead_keep_their_order(pool: Pool, marks: Marks) -> None:
    """They are recalled as their worker gets stuck with the first, and take their old place."""
    for _ in range(100):
        await pool.submit(chores.mark_after_gate, "/dev/null", "known to be short")
    gate = Path(marks.path).with_name("gate")
    submit = pool.submit
    queued = [submit(chores.mark_after_gate, marks.path, "gate", gate)]
    queued += [submit(chores.mark_after_gate, marks.path, f"{i}") for i in range(40)]
    await queued[0].started()
    await pool.options(delay=0.1).enqueue(jobs.add, 1, 1)
    urgent = pool.options(priority=1).submit(chores.mark_after_gate, marks.path, "urgent")
    await procs.eventually(lambda: all(job.state is not JobState.SENT for job in queued))
    gate.touch()
    await asyncio.gather(urgent, *queued)
    assert marks.lines() == ["gate", "urgent", *(f"{i}" for i in range(40))]


async def test_a_resent_job_takes_its_old_place(pool: Pool, marks: Marks) -> None:
    gate = await behind_a_gate(pool, marks)
    queued = [
        pool.submit(chores.die_at_first, marks.path, "first"),
        *(pool.submit(chores.mark_after_gate, marks.path, f"{i}") for i in range(3)),
    ]
    gate.touch()
    await asyncio.gather(*queued)
    assert marks.lines() == ["gate", "first", "first", "0", "1", "2"]
    assert (pool.stats().crashes, pool.stats().resent) == (1, 1)


# HOL-1


@pytest.mark.parametrize("size", [1, 10_000])
async def test_short_jobs_do_not_wait_behind_a_long_one(size: int) -> None:
    """HOL-1."""
    async with Pool(2) as pool:
        await full_crew(pool, 2)
        for _ in range(50):  # also if both are taken for short by now
            await pool.submit(jobs.sleep_return, 0.0, "")
        long = pool.submit(jobs.sleep_return, 5.0, "long")
        async with asyncio.timeout(2):
            text = "x" * size
            short = [pool.submit(jobs.sleep_return, 0.01, text) for _ in range(50)]
            assert await asyncio.gather(*short) == [text] * 50
        assert not long.done()
        long.cancel()
        await assert_sound(pool, 2)


async def test_short_jobs_written_ahead_leave_a_worker_that_got_stuck(marks: Marks) -> None:
    """HOL-1."""
    gate = Path(marks.path).with_name("gate")
    async with Pool(2) as pool:
        await full_crew(pool, 2)
        for _ in range(100):
            await pool.submit(chores.mark_after_gate, "/dev/null", "known to be short")
        stuck = pool.submit(chores.mark_after_gate, marks.path, "stuck", gate)
        short = [pool.submit(chores.mark_after_gate, marks.path, "short") for _ in range(50)]
        async with asyncio.timeout(2):
            await asyncio.gather(*short)
        assert not stuck.done()
        gate.touch()
        await stuck
        await assert_sound(pool, 2)
    assert marks.lines() == ["short"] * 50 + ["stuck"]
