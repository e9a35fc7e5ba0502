"""A program that has used up its descriptors can start no worker, until it has some again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.loops import LOOPS
from tests.support.scripts import Script

PROGRAM = """
    import asyncio, os, resource, sys
    import asyncpool, asyncpool.dispatch.starts
    from tests.support import jobs, procs
    from tests.support.loops import LOOPS

    async def main():
        asyncpool.dispatch.starts.SYSTEM_PATIENCE = 1.0
        async with asyncpool.Pool(2) as pool:
            assert await pool.submit(jobs.add, 1, 2) == 3
            while len(pool.workers()) < 2:
                await pool.submit(jobs.add, 1, 2)
            before = len(procs.fds())
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            die = pool.options(retry=asyncpool.Retry(max_crashes=1))
            ends = [die.submit(os._exit, 3) for _ in range(2)]
            await asyncio.wait(ends)
            try:
                await pool.submit(jobs.add, 1, 2)
            except asyncpool.WorkerStartError as error:
                print("told:", error)
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
            print("again:", await pool.submit(jobs.add, 1, 2))
            while len(pool.workers()) < 2:
                await asyncio.sleep(0.01)
            print("leaked:", len(procs.fds()) - before)
            assert all(isinstance(end.exception(), asyncpool.WorkerCrashed) for end in ends)

    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(main())
"""


@pytest.mark.parametrize("loop", LOOPS)
def test_those_who_wait_are_told_and_later_it_works_again(tmp_path: Path, loop: str) -> None:
    """START-1."""
    finished = Script(PROGRAM, tmp_path, argv=[loop]).run()
    told, again, leaked = finished.stdout.splitlines()
    assert told.startswith("told: no worker could be started")
    assert "Too many open files" in told
    assert (again, leaked) == ("again: 3", "leaked: 0")
    assert finished.stderr == ""
    assert finished.returncode == 0
