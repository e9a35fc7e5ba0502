"""A job that comes back is what it was: its place, its time, and how often it may still fail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncpool import Job, JobState, JobTimeout, Pool, Retry, WorkerCrashed
from tests.journal import tasks
from tests.journal.lives import left, live_until_killed, program, records, shift_times
from tests.support import jobs, procs
from tests.support.marks import Marks

HOUR = 3600.0


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


def outcomes(job: Job[Any]) -> list[str]:
    return [attempt.outcome.value for attempt in job.attempts]


# Place and time


async def test_they_stand_in_the_order_of_submission_and_run_by_priority(
    journal: str, marks: Marks
) -> None:
    priorities = [0, 5, -1, 5, 0, 10]
    async with left(Pool(1, journal=journal)) as pool:
        busy = pool.options(priority=99).submit(jobs.spin)
        ids = []
        for priority in priorities:
            view = pool.options(priority=priority)
            ids.append((await view.enqueue(jobs.mark_then, marks.path, priority)).id)
    async with Pool(1, journal=journal) as pool:
        assert [job.id for job in pool.recovered] == [busy.id, *ids]
        assert [info.priority for info in pool.jobs()] == [99, *priorities]
        last = pool.options(priority=5).submit(jobs.mark_then, marks.path, "new")
        await pool.terminate(busy.id)
        await asyncio.gather(*pool.recovered[1:], last)
    assert marks.lines() == ["10", "5", "5", "new", "0", "0", "-1"]


async def test_a_delay_goes_on_while_nothing_runs(journal: str, marks: Marks) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        await pool.options(delay=2 * HOUR).enqueue(jobs.mark_then, marks.path, "late")
        await pool.options(delay=HOUR / 2).enqueue(jobs.mark_then, marks.path, "due")
    shift_times(journal, -HOUR)
    async with left(Pool(1, journal=journal)) as pool:
        late, due = pool.recovered
        assert await due == "due"
        assert await pool.submit(jobs.add, 1, 2) == 3
        assert late.state is JobState.PENDING
    assert marks.lines() == ["due"]


async def test_the_pause_before_a_retry_goes_on_while_nothing_runs(
    journal: str, marks: Marks
) -> None:
    patient = Retry(max_errors=1, delay=HOUR, max_delay=HOUR, jitter=False)
    async with left(Pool(1, journal=journal)) as pool:
        job = pool.options(retry=patient).submit(tasks.fail_until, marks.path, "run", 2)
        await procs.eventually(lambda: job.state is JobState.RETRYING, what="a pause")
    async with left(Pool(1, journal=journal)) as pool:
        assert await pool.submit(jobs.add, 1, 2) == 3
        (waiting,) = pool.recovered
        assert (waiting.state, outcomes(waiting)) == (JobState.RETRYING, ["error"])
    shift_times(journal, -HOUR)
    async with Pool(1, journal=journal) as pool:
        assert await pool.recovered[0] == "run"
    assert marks.count() == 2


async def test_a_deadline_that_passed_meanwhile_fails_the_job_unrun(
    journal: str, marks: Marks, caplog: pytest.LogCaptureFixture
) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        busy = pool.submit(jobs.spin)
        missed = await pool.options(deadline=HOUR / 2).enqueue(jobs.mark_then, marks.path, "no")
        kept = await pool.options(deadline=2 * HOUR).enqueue(jobs.mark_then, marks.path, "kept")
    shift_times(journal, -HOUR)
    async with Pool(1, journal=journal) as pool:
        with pytest.raises(
            JobTimeout, match=r"missed its deadline of 1800 s and never ran"
        ) as told:
            await pool.job(missed.id)
        await pool.terminate(busy.id)
        assert await pool.job(kept.id) == "kept"
    assert told.value.timeout == pytest.approx(HOUR / 2)
    assert told.value.job_id == missed.id
    assert told.value.attempts == ()
    assert marks.lines() == ["kept"]
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []
        assert isinstance(pool.job(missed.id).exception(), JobTimeout)


# How often it may still fail


async def test_the_crashes_of_all_lives_count_together(journal: str, marks: Marks) -> None:
    async with left(Pool(1, journal=journal, retry=Retry(max_crashes=3, delay=HOUR))) as pool:
        job = pool.submit(tasks.die_until, marks.path, "run", 99)
        await procs.eventually(lambda: job.state is JobState.RETRYING, what="a pause")
    shift_times(journal, -HOUR)
    async with left(Pool(1, journal=journal)) as pool:
        (job,) = pool.recovered
        assert outcomes(job) == ["crashed"]
        assert job.attempts[0].signal == 9
        await procs.eventually(lambda: len(job.attempts) == 2 and job.state is JobState.RETRYING)
        pids = [attempt.pid for attempt in job.attempts]
    shift_times(journal, -2 * HOUR)
    async with Pool(1, journal=journal) as pool:
        with pytest.raises(WorkerCrashed, match="given up after 3 workers died") as told:
            await pool.recovered[0]
        assert pool.stats().crashes == 1
    assert [attempt.outcome for attempt in told.value.attempts] == ["crashed"] * 3
    assert [attempt.number for attempt in told.value.attempts] == [1, 2, 3]
    assert [attempt.pid for attempt in told.value.attempts[:2]] == pids
    assert marks.count() == 3


async def test_the_errors_of_all_lives_count_together(journal: str, marks: Marks) -> None:
    retry = Retry(max_errors=2, on=(LookupError,), delay=HOUR)
    async with left(Pool(1, journal=journal)) as pool:
        job = pool.options(retry=retry).submit(tasks.fail_until, marks.path, "run", 99)
        await procs.eventually(lambda: job.state is JobState.RETRYING, what="a pause")
    shift_times(journal, -HOUR)
    async with left(Pool(1, journal=journal)) as pool:
        (job,) = pool.recovered
        await procs.eventually(lambda: len(job.attempts) == 2 and job.state is JobState.RETRYING)
    shift_times(journal, -2 * HOUR)
    async with Pool(1, journal=journal) as pool:
        with pytest.raises(LookupError, match="run 3"):
            await pool.recovered[0]
        assert outcomes(pool.recovered[0]) == ["error"] * 3
    assert marks.count() == 3


async def test_what_is_retried_is_remembered(journal: str, marks: Marks) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        busy = pool.submit(jobs.spin)
        view = pool.options(retry=Retry(max_errors=5, on=(KeyError,)))
        await view.enqueue(tasks.fail_until, marks.path, "other", 2)
        view = pool.options(retry=Retry(max_errors=5, on=(tasks.Fleeting, KeyError)))
        await view.enqueue(tasks.fail_fleetingly, marks.path, "fleeting", 3)
    async with Pool(1, journal=journal) as pool:
        await pool.terminate(busy.id)
        _, other, fleeting = pool.recovered
        with pytest.raises(LookupError, match="run 1"):
            await other
        assert await fleeting == "fleeting"
    assert marks.lines() == ["other", *["fleeting"] * 3]


CRASHED_THEN_KILLED = """
    async with Pool(1, journal=JOURNAL) as pool:
        job = pool.submit(tasks.die_until_then_hold, MARKS, "run", 2, GATE)
        while len(job.attempts) < 2:
            await asyncio.sleep(0.01)
        ready()
        await asyncio.sleep(300)
"""


async def test_attempts_stand_in_a_row_over_lives(
    tmp_path: Path, journal: str, marks: Marks
) -> None:
    script = program(CRASHED_THEN_KILLED, tmp_path)
    live_until_killed(script)
    (tmp_path / "gate").touch()
    async with Pool(1, journal=journal) as pool:
        (job,) = pool.recovered
        before = job.attempts
        assert await job == "run"
    first, second, third = job.attempts
    assert (first, second) == before
    assert [attempt.number for attempt in job.attempts] == [1, 2, 3]
    assert outcomes(job) == ["crashed", "crashed", "done"]
    assert (first.signal, second.signal) == (9, None)  # of the second nobody saw the end
    assert first.started_at <= second.started_at <= third.started_at
    assert len({attempt.pid for attempt in job.attempts}) == 3
    (end,) = (record for record in records(journal) if record["kind"] == "finished")
    assert [attempt[4] for attempt in end["attempts"]] == outcomes(job)
    async with Pool(1, journal=journal) as pool:
        again = pool.job(job.id)
        assert outcomes(again) == outcomes(job)
        assert [attempt.pid for attempt in again.attempts] == [it.pid for it in job.attempts]
