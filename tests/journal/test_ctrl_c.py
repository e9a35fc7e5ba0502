"""After a Ctrl-C in a terminal all that was unfinished is still to be done, and charged nothing."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from asyncpool import Pool
from tests.journal.lives import ends, program, records
from tests.support import procs
from tests.support.loops import LOOPS
from tests.support.marks import Marks

GATHERING = "await asyncio.gather(*jobs_)"
LEAVING = "pass"
IN_A_GROUP = """
        async def wait(job):
            await job
        async with asyncio.TaskGroup() as group:
            for job in jobs_:
                group.create_task(wait(job))
"""
BUSY = """
    async with Pool(3, journal=JOURNAL, retry=Retry(max_crashes=1)) as pool:
        jobs_ = [pool.submit(tasks.hold, MARKS, str(n), GATE) for n in range({count})]
        await asyncio.gather(*(job.accepted() for job in jobs_))
        await marked(min(3, {count}))
        ready()
        {work}
"""


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("count", "work"),
    [(2, GATHERING), (8, GATHERING), (8, LEAVING), (8, IN_A_GROUP)],
    ids=["one_idle", "full", "leaving", "group"],
)
async def test_all_that_was_unfinished_comes_back(
    tmp_path: Path, marks: Marks, loop: str, count: int, work: str
) -> None:
    """CTRLC-1."""
    body = BUSY.format(count=count, work=work.strip())
    with program(body, tmp_path, loop=loop).in_terminal() as terminal:
        terminal.until("ready\n", within=20.0)
        workers = procs.kids(terminal.process.pid)
        terminal.type("\x03")
        finished = terminal.finish(within=5.0)
    assert finished.returncode in (-signal.SIGINT, 130)
    assert finished.stdout.rstrip().endswith("KeyboardInterrupt")
    assert not any(procs.alive(pid) for pid in workers)
    kinds = [record["kind"] for record in records(tmp_path / "jobs.log")]
    assert not {"retried", "finished"} & set(kinds)
    assert kinds[-1] == "closed"
    (tmp_path / "gate").touch()
    async with Pool(3, journal=tmp_path / "jobs.log") as pool:
        assert [job.attempts for job in pool.recovered] == [()] * count
        assert [await job for job in pool.recovered] == [*map(str, range(count))]
        assert pool.stats().crashes == 0
    assert marks.count() == min(count, 3) + count


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
async def test_the_second_ctrl_c_changes_nothing(tmp_path: Path, loop: str) -> None:
    body = BUSY.format(count=8, work=GATHERING)
    with program(body, tmp_path, loop=loop).in_terminal() as terminal:
        terminal.until("ready\n", within=20.0)
        terminal.type("\x03")
        terminal.type("\x03")
        finished = terminal.finish(within=5.0)
    assert finished.returncode in (-signal.SIGINT, 130)
    kinds = {record["kind"] for record in records(tmp_path / "jobs.log")}
    assert not {"retried", "finished"} & kinds
    (tmp_path / "gate").touch()
    async with Pool(3, journal=tmp_path / "jobs.log") as pool:
        assert [await job for job in pool.recovered] == [*map(str, range(8))]


MAPPING = """
    async with Pool(3, journal=JOURNAL) as pool:
        results = pool.map(tasks.hold, [MARKS] * 9, map(str, range(9)), [GATE] * 9)
        mapping = asyncio.ensure_future(anext(results))
        await marked(3)
        ready()
        await mapping
"""


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
async def test_a_map_that_was_interrupted_comes_back(tmp_path: Path, loop: str) -> None:
    with program(MAPPING, tmp_path, loop=loop).in_terminal() as terminal:
        terminal.until("ready\n", within=20.0)
        terminal.type("\x03")
        terminal.finish(within=5.0)
    assert ends(tmp_path / "jobs.log") == {}
    (tmp_path / "gate").touch()
    async with Pool(3, journal=tmp_path / "jobs.log") as pool:
        assert [await job for job in pool.recovered] == [*map(str, range(9))]
