"""A real limit on the size of files: what no longer fits is refused, and the rest is kept."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from asyncpool import Pool
from tests.support.loops import LOOPS
from tests.support.marks import Marks
from tests.support.scripts import Script

PROGRAM = """
    import asyncio, os, resource, sys
    import asyncpool
    from tests.support import jobs
    from tests.support.loops import LOOPS

    loop, journal, marks = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    async def fill(pool):
        for i in range(1000):
            try:
                await pool.options(id=f"{i}").enqueue(jobs.mark_then, marks, i)
            except asyncpool.JournalWriteError as error:
                print("met:", error.errno, isinstance(error, OSError))
                return i

    async def main():
        async with asyncpool.Pool(1, journal=journal) as pool:
            await pool.submit(jobs.add, 1, 2)
            limit(os.path.getsize(journal) + 5000)
            met = await fill(pool)
            print("ran:", await asyncio.gather(*(pool.job(f"{i}") for i in range(met))))
            limit(hard)
            again = await pool.options(id=f"{met}").enqueue(jobs.mark_then, marks, "again")
            print("again:", await again)
            print("left:", pool.jobs())

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
"""


@pytest.mark.parametrize("loop", LOOPS)
async def test_the_limit_is_told_and_later_it_works_again(
    tmp_path: Path, marks: Marks, loop: str
) -> None:
    journal = str(tmp_path / "jobs.log")
    finished = Script(PROGRAM, tmp_path, argv=[loop, journal, marks.path]).run()
    assert finished.returncode == 0, finished.stderr
    met, ran, again, left = finished.stdout.splitlines()
    assert met == f"met: {errno.EFBIG} True"
    assert (again, left) == ("again: again", "left: []")
    *accepted, last = marks.lines()
    assert ran == f"ran: {list(map(int, accepted))}"
    assert accepted
    assert last == "again"
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []
    assert len(set(marks.lines())) == marks.count()
