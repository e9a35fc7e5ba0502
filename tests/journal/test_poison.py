"""A job that takes its pool's process along is charged, one that was only left is not."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from asyncpool import Pool, WorkerCrashed
from tests.journal import tasks
from tests.journal.lives import ends, left, live, live_until_killed, program, records
from tests.support import jobs, procs
from tests.support.loops import LOOPS
from tests.support.marks import Marks


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


POISONED = """
    async with Pool(2, journal=JOURNAL) as pool:
        pool.options(id="poison"{options}).submit(tasks.kill_parent, MARKS)
        await pool.drain()
        ready()
"""


async def poisoned_lives(tmp_path: Path, count: int, *, options: str = "") -> None:
    for _ in range(count):
        live(program(POISONED.format(options=options), tmp_path), -signal.SIGKILL)


async def test_a_job_that_kills_the_parent_is_given_up_after_three_lives(
    tmp_path: Path, journal: str, marks: Marks, caplog: pytest.LogCaptureFixture
) -> None:
    """POISON-1."""
    await poisoned_lives(tmp_path, 3)
    async with Pool(1, journal=journal) as pool:
        (job,) = pool.recovered
        assert await pool.submit(jobs.add, 1, 2) == 3
        with pytest.raises(WorkerCrashed) as told:
            await pool.options(id="poison").submit(tasks.kill_parent, marks.path)
        assert job.done()
    error = told.value
    assert "is given up after 3 workers died" in str(error)
    assert "the process that owned the pool died" in str(error)
    assert (error.job_id, error.fn_name) == ("poison", "kill_parent")
    assert (error.signal, error.exit_code) == (None, None)
    assert [attempt.outcome for attempt in error.attempts] == ["crashed"] * 3
    assert error.pid == error.attempts[2].pid
    assert marks.count() == 3
    assert len(caplog.records) <= 1
    assert ends(journal)["poison"] == "failed"


async def test_it_stays_given_up(tmp_path: Path, journal: str, marks: Marks) -> None:
    await poisoned_lives(tmp_path, 1, options=", retry=Retry(max_crashes=1)")
    for _ in range(2):
        async with Pool(1, journal=journal) as pool:
            with pytest.raises(WorkerCrashed, match="owned the pool died") as told:
                await pool.job("poison")
            assert len(told.value.attempts) == 1
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []
    assert marks.count() == 1


async def test_crashes_of_workers_and_of_the_parent_count_together(
    tmp_path: Path, journal: str, marks: Marks
) -> None:
    body = """
    async with Pool(1, journal=JOURNAL) as pool:
        pool.submit(tasks.die_until_then_hold, MARKS, "run", 3, GATE)
        await marked(3)
        ready()
        await asyncio.sleep(300)
    """
    live_until_killed(program(body, tmp_path))
    async with Pool(1, journal=journal) as pool:
        with pytest.raises(WorkerCrashed, match="after 3 workers died") as told:
            await pool.recovered[0]
    assert [attempt.signal for attempt in told.value.attempts] == [9, 9, None]
    assert marks.count() == 3


async def test_one_that_may_crash_for_ever_is_never_given_up(
    tmp_path: Path, journal: str, marks: Marks
) -> None:
    await poisoned_lives(tmp_path, 4, options=", retry=Retry(max_crashes=None)")
    async with left(Pool(1, journal=journal, env={"SPARE_THE_PARENT": "yes"})) as pool:
        (job,) = pool.recovered
        await procs.eventually(lambda: marks.count() == 5)
        assert len(job.attempts) == 5


KILLED_WITH_A_QUEUE = """
    async with Pool(1, journal=JOURNAL, retry=Retry(max_crashes=1)) as pool:
        pool.submit(tasks.hold, MARKS, "first", GATE)
        for n in range(9):
            await pool.enqueue(jobs.mark_then, MARKS, str(n))
        await marked(1)
        ready()
        await asyncio.sleep(300)
"""


async def test_only_what_had_begun_is_charged(tmp_path: Path, journal: str, marks: Marks) -> None:
    """R-INFLIGHT: also of what was already sent to a worker, only the first may have begun."""
    live_until_killed(program(KILLED_WITH_A_QUEUE, tmp_path))
    async with Pool(1, journal=journal) as pool:
        first, *others = pool.recovered
        with pytest.raises(WorkerCrashed):
            await first
        assert await asyncio.gather(*others) == [*map(str, range(9))]
        assert [len(job.attempts) for job in others] == [1] * 9


ENDS = {
    "exception": ("raise ValueError('left')", 1),
    "exit": ("sys.exit(3)", 3),
    "cancellation": ("asyncio.current_task().cancel(); await asyncio.sleep(300)", 1),
    "interrupt": ("os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(300)", -signal.SIGINT),
    "interrupt, awaiting": ("os.kill(os.getpid(), signal.SIGINT); await job", -signal.SIGINT),
    "interrupt, leaving": ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
}

LEFT = """
    async with Pool(1, journal=JOURNAL, retry=Retry(max_crashes=1)) as pool:
        job = pool.submit(tasks.hold, MARKS, "held", GATE)
        await job.accepted()
        await pool.job(pool.jobs()[0].id).started()
        {end}
"""


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("end", ENDS)
async def test_a_pool_that_was_left_charges_nothing(
    tmp_path: Path, journal: str, loop: str, end: str
) -> None:
    """POISON-1, CTRLC-1."""
    statement, code = ENDS[end]
    for _ in range(2):
        live(program(LEFT.format(end=statement), tmp_path, loop=loop), code)
    kinds = {record["kind"] for record in records(journal)}
    assert not kinds & {"retried", "finished"}
    (tmp_path / "gate").touch()
    async with Pool(1, journal=journal) as pool:
        assert [job.attempts for job in pool.recovered] == [(), ()]
        assert await asyncio.gather(*pool.recovered) == ["held", "held"]


UNCLOSED = """
    pool = Pool(1, journal=JOURNAL, retry=Retry(max_crashes=1))
    await pool.__aenter__()
    job = pool.submit(tasks.hold, MARKS, "held", GATE)
    await job.accepted()
    await pool.job(pool.jobs()[0].id).started()
"""


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
async def test_a_pool_that_was_never_closed_charges_nothing(
    tmp_path: Path, journal: str, loop: str
) -> None:
    """The end of `asyncio.run` is that of the pool."""
    for _ in range(2):
        live(program(UNCLOSED, tmp_path, loop=loop))
    kinds = [record["kind"] for record in records(journal)]
    assert kinds[-1] == "closed"
    assert not {"retried", "finished"} & set(kinds)
