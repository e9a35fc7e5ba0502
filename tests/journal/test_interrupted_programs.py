"""A program that is interrupted finds its jobs again; they were not what ended it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from asyncpool import Pool
from tests.journal.disks import kinds_of, outcomes, read
from tests.support.loops import LOOPS
from tests.support.scripts import Script

PROGRAM = """
    import asyncio, os, signal, sys, time
    import asyncpool
    from tests.cases import chores
    from tests.support import jobs
    from tests.support.loops import LOOPS

    loop, journal = sys.argv[1:]

    async def wait(job):
        return await job

    async def submit(pool):
        names = ["running", "queued", "cancelled"]
        submitted = [
            await pool.options(id=name).enqueue(jobs.sleep_return, chores.FOR_EVER, name)
            for name in names
        ]
        await submitted[0].started()
        submitted.pop().cancel()
        return submitted

    async def main():
        {main}

    def ready():
        print("ready", flush=True)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
"""

IN_THE_BLOCK = """async with asyncpool.Pool(1, journal=journal) as pool:
            submitted = await submit(pool)
            {work}
"""
LEFT_OPEN = """pool = await asyncpool.Pool(1, journal=journal).__aenter__()
        submitted = await submit(pool)
        {work}
"""

CTRL_C = {
    "awaiting": "ready(); await submitted[0]",
    "gathering": "ready(); await asyncio.gather(*submitted)",
    "gathering_tasks": "ready(); await asyncio.gather(*map(wait, submitted))",
    "leaving": "ready()",
    "computing": "ready(); time.sleep(1); await asyncio.gather(*submitted)",
    "abrupt": "signal.signal(2, signal.default_int_handler); ready(); time.sleep(60)",
}

ENDS = {
    "sys.exit": IN_THE_BLOCK.format(work="sys.exit(3)"),
    "sys.exit_with_helpers": IN_THE_BLOCK.format(
        work="helpers = [asyncio.create_task(wait(it)) for it in submitted]; sys.exit(3)"
    ),
    "left_open": LEFT_OPEN.format(work="pass"),
    "left_open_with_helpers": LEFT_OPEN.format(
        work="helpers = [asyncio.create_task(wait(it)) for it in submitted]"
    ),
    "left_open_by_an_exception": LEFT_OPEN.format(work="raise LookupError"),
}


async def assert_all_come_back(journal: str) -> None:
    assert outcomes(journal) == {"cancelled": "cancelled"}
    assert kinds_of(journal, "running") == ["submitted", "sent"]
    assert read(journal)[-1]["kind"] == "closed"
    async with Pool(1, journal=journal) as pool:
        assert [job.id for job in pool.recovered] == ["running", "queued"]
        assert {job.attempts for job in pool.recovered} == {()}
        assert {job._record.crashes for job in pool.recovered} == {0}
        await pool.close(cancel=True)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("work", CTRL_C)
@pytest.mark.loops("asyncio")
async def test_ctrl_c(tmp_path: Path, loop: str, work: str) -> None:
    journal = str(tmp_path / "jobs.log")
    source = PROGRAM.format(main=IN_THE_BLOCK.format(work=CTRL_C[work]))
    with Script(source, tmp_path, argv=[loop, journal]).running() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "never retrieved" not in err
    await assert_all_come_back(journal)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.loops("asyncio")
async def test_an_end_with_jobs_unfinished(tmp_path: Path, loop: str, end: str) -> None:
    journal = str(tmp_path / "jobs.log")
    finished = Script(PROGRAM.format(main=ENDS[end]), tmp_path, argv=[loop, journal]).run()
    assert finished.returncode == {"s": 3, "l": "exception" in end}[end[0]], finished.stderr
    assert "never retrieved" not in finished.stderr
    await assert_all_come_back(journal)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.loops("asyncio")
async def test_a_second_ctrl_c_loses_nothing(tmp_path: Path, loop: str) -> None:
    """It may end the program in the middle of a record, which was never acknowledged then."""
    journal = str(tmp_path / "jobs.log")
    source = PROGRAM.format(main=IN_THE_BLOCK.format(work=CTRL_C["gathering"]))
    with Script(source, tmp_path, argv=[loop, journal]).running() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=20)
    async with Pool(1, journal=journal) as pool:
        assert [job.id for job in pool.recovered] == ["running", "queued"]
        await pool.close(cancel=True)
