"""What is unfinished when a program ends comes back when it is run again, and goes on."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path

import pytest

from asyncpool import JobState, Journal, Pool, Retry
from tests.journal import tasks
from tests.journal.lives import ends, left, live_until_killed, program, shift_times
from tests.support import jobs, procs
from tests.support.marks import Marks


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


KILLED_IN_FLIGHT = """
    async with Pool(2, journal=JOURNAL) as pool:
        await asyncio.gather(*(pool.submit(jobs.mark_then, MARKS, f"done {n}") for n in range(3)))
        running = [pool.submit(tasks.hold, MARKS, f"running {n}", GATE) for n in range(2)]
        queued = [pool.submit(jobs.mark_then, MARKS, f"queued {n}") for n in range(5)]
        await queued[-1].accepted()
        await marked(5)
        ready()
        await asyncio.sleep(300)
"""


async def test_what_was_in_flight_runs_again_at_once(
    tmp_path: Path, journal: str, gate: Path, marks: Marks
) -> None:
    """R-INFLIGHT."""
    live_until_killed(program(KILLED_IN_FLIGHT, tmp_path))
    async with Pool(2, journal=journal) as pool:
        assert len(pool.recovered) == 7
        running = pool.recovered[:2]
        await procs.eventually(lambda: marks.count() == 7, within=5.0, what="both run again")
        assert [job.state for job in running] == [JobState.RUNNING] * 2
        gate.touch()
        values = await asyncio.gather(*pool.recovered)
    assert values == ["running 0", "running 1", *(f"queued {n}" for n in range(5))]
    for job in running:
        assert [attempt.outcome for attempt in job.attempts] == ["crashed", "done"]
    once = [*(f"done {n}" for n in range(3)), *(f"queued {n}" for n in range(5))]
    assert sorted(marks.lines()) == sorted([*once, *["running 0", "running 1"] * 2])
    assert Counter(ends(journal).values()) == {"done": 10}


async def test_what_ended_does_not_come_back(journal: str) -> None:
    async with Pool(1, journal=journal) as pool:
        await pool.submit(jobs.add, 1, 2)
        with pytest.raises(LookupError):
            await pool.submit(jobs.raise_, LookupError("expected"))
        given_up = pool.submit(jobs.spin)
        await given_up.started()
        given_up.cancel()
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []
        assert pool.jobs() == []
    assert sorted(ends(journal).values()) == ["cancelled", "done", "failed"]


async def test_it_comes_back_in_every_life_until_it_ends(
    journal: str, gate: Path, marks: Marks
) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        job = pool.options(retry=Retry(max_crashes=1)).submit(
            tasks.hold, marks.path, "held", str(gate)
        )
        later = pool.submit(jobs.mark_then, marks.path, "later")
        await later.accepted()
        await procs.eventually(lambda: marks.count() == 1, what="it runs")
    for life in range(2, 5):
        async with left(Pool(1, journal=journal)) as pool:
            assert [each.id for each in pool.recovered] == [job.id, later.id]
            assert [each.attempts for each in pool.recovered] == [(), ()]
            await procs.eventually(lambda: marks.count("held") == life)  # noqa: B023
    gate.touch()
    async with Pool(1, journal=journal) as pool:
        assert await asyncio.gather(*pool.recovered) == ["held", "later"]
    assert marks.count("later") == 1
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []


# CANCEL-1

KILLED_AFTER_CANCELLING = """
    async with Pool(1, journal=JOURNAL) as pool:
        first = pool.submit(tasks.hold, MARKS, "first", GATE)
        queued = [pool.submit(jobs.mark_then, MARKS, str(n)) for n in range(20)]
        {wait}
        for job in queued[::2]:
            job.cancel()
        await marked(1)
        await pool.enqueue(jobs.mark_then, MARKS, "last")  # recorded after what was before it
        ready()
        await asyncio.sleep(300)
"""


@pytest.mark.parametrize("wait", ["pass", "await queued[-1].accepted()"], ids=["at_once", "later"])
async def test_what_was_cancelled_never_runs(
    tmp_path: Path, journal: str, gate: Path, marks: Marks, wait: str
) -> None:
    """CANCEL-1."""
    live_until_killed(program(KILLED_AFTER_CANCELLING.format(wait=wait), tmp_path))
    gate.touch()
    async with Pool(1, journal=journal) as pool:
        assert len(pool.recovered) == 1 + 10 + 1
        await asyncio.gather(*pool.recovered)
    odd = [str(n) for n in range(1, 20, 2)]
    assert marks.lines() == ["first", "first", *odd, "last"]
    assert Counter(ends(journal).values()) == {"cancelled": 10, "done": 12}


# R-STALE, CLOCK-1

KILLED_WITH_TIMEOUTS = """
    async with Pool(1, journal=JOURNAL, preload=tasks.PRELOAD) as pool:
        patient = pool.options(timeout=3.0)
        running = patient.submit(tasks.hold, MARKS, "running", GATE)
        queued = patient.submit(jobs.sleep_return, 0.2, "queued")
        await asyncio.gather(running.started(), queued.accepted())
        ready()
        await asyncio.sleep(300)
"""


async def test_time_that_nothing_ran_is_not_counted(
    tmp_path: Path, journal: str, gate: Path
) -> None:
    """R-STALE."""
    live_until_killed(program(KILLED_WITH_TIMEOUTS, tmp_path))
    shift_times(journal, -3600.0)
    gate.touch()
    async with Pool(1, journal=journal, preload=tasks.PRELOAD) as pool:
        async with asyncio.timeout(5):
            await pool.recovered[0].started()
        assert await asyncio.gather(*pool.recovered) == ["running", "queued"]


@pytest.mark.parametrize("years", [-40, 180], ids=["past", "future"])
async def test_what_comes_back_does_not_depend_on_the_clock(
    journal: str, marks: Marks, years: int
) -> None:
    """CLOCK-1."""
    async with left(Pool(1, journal=Journal(journal, retention=1e12))) as pool:
        await pool.options(id="done").submit(jobs.add, 1, 2)
        busy = pool.submit(jobs.spin)
        waiting = [pool.submit(jobs.mark_then, marks.path, str(n)) for n in range(5)]
        delayed = pool.options(delay=0.2).submit(jobs.mark_then, marks.path, "delayed")
        await asyncio.gather(busy.started(), waiting[-1].accepted(), delayed.accepted())
    shift_times(journal, years * 365 * 86_400.0)
    async with Pool(1, journal=Journal(journal, retention=1e12)) as pool:
        await pool.terminate(pool.recovered[0].id)
        values = await asyncio.gather(*pool.recovered[1:])
        assert values == [*map(str, range(5)), "delayed"]
        assert await pool.options(id="done").submit(jobs.add, 1, 2) == 3
    assert sorted(marks.lines()) == sorted(values)
    assert [line for line in marks.lines() if line != "delayed"] == [*map(str, range(5))]


# Who hears of it


async def test_a_failure_that_nobody_awaits_is_told_in_one_line(
    journal: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        busy = pool.submit(jobs.spin)
        failing = pool.submit(jobs.raise_, LookupError("of\nit"))
        await asyncio.gather(busy.started(), failing.accepted())
    with caplog.at_level(logging.DEBUG, "asyncpool"):
        async with Pool(1, journal=journal) as pool:
            await pool.terminate(busy.id)
            del busy
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"Job {failing.id} raise_ FAILED" in record.getMessage()
    assert "of" in record.getMessage()
    assert len(record.getMessage().splitlines()) == 1
    assert record.exc_info is None
    caplog.clear()
    async with Pool(1, journal=journal) as pool:
        assert isinstance(pool.job(failing.id).exception(), LookupError)
    assert caplog.records == []


async def test_a_failure_that_somebody_awaits_is_told_to_them(
    journal: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        await pool.enqueue(jobs.raise_, LookupError("expected"))
    async with Pool(1, journal=journal) as pool:
        with pytest.raises(LookupError, match="expected"):
            await pool.recovered[0]
    assert caplog.records == []
