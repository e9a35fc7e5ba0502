"""However the parent dies, its workers die with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support import procs
from tests.support.loops import LOOPS
from tests.support.scripts import Script

# One worker is idle, one sleeps, one is busy and never gives up the GIL; a job started a process.
PARENT = """
    import asyncio, os, subprocess, sys, time
    from tests.cases import chores
    from tests.cases.soundness import full_crew
    from tests.support import jobs
    from tests.support.loops import LOOPS
    import asyncpool

    async def main():
        async with asyncpool.Pool(3, spares=1) as pool:
            workers = await full_crew(pool, 3)
            while pool.stats().spares < 1:
                await asyncio.sleep(0.01)
            sleeping = await pool.submit(chores.start_a_process)
            busy = [pool.submit(time.sleep, 300), pool.submit({busy})]
            await asyncio.gather(*(job.started() for job in busy))
            print(sleeping, flush=True)
            {end}

    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(main())
"""
KILLED = "os.kill(os.getpid(), 9)"
WAITING = "await asyncio.sleep(300)"


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("busy", "end"),
    [
        ("jobs.spin", WAITING),
        ("chores.hold_the_gil", WAITING),
        ("chores.ignore_signals", KILLED),
        ("jobs.spin", "os._exit(1)"),
        ("jobs.spin", "os.abort()"),
    ],
    ids=["killed_by_another", "gil", "kills_itself", "exits", "aborts"],
)
async def test_no_worker_outlives_its_parent(
    tmp_path: Path, loop: str, busy: str, end: str
) -> None:
    """ORPHAN-1."""
    env = {"ASYNCPOOL_TEST_PARENT": str(tmp_path)}
    script = Script(PARENT.format(busy=busy, end=end), tmp_path, argv=[loop], env=env)
    with script.running() as parent:
        assert parent.stdout is not None
        children: list[int] = []
        if end is WAITING:
            grandchild = int(parent.stdout.readline())
            children = procs.kids(parent.pid)
            assert grandchild in children
            assert len(children) == 5  # three workers, a spare, and the process of a job
            os.kill(parent.pid, signal.SIGKILL)
        else:
            children = [int(parent.stdout.readline())]
        parent.wait(timeout=30)
        mine = f"ASYNCPOOL_TEST_PARENT={tmp_path}"
        await procs.eventually(
            lambda: (
                not procs.having_in_environment(mine)
                and not any(procs.alive(pid) for pid in children)
            ),
            within=5.0,
            what="no orphan",
        )


FORKING = """
    import asyncio, os, time
    from tests.cases.soundness import full_crew
    import asyncpool

    async def main():
        async with asyncpool.Pool(1) as pool:
            pids = await full_crew(pool, 1)
            fork = os.fork()
            if not fork:
                time.sleep(300)
                os._exit(0)
            print(fork, *pids, flush=True)
            os.kill(os.getpid(), 9)

    asyncio.run(main())
"""


@pytest.mark.filterwarnings("default:.*fork:DeprecationWarning")
@pytest.mark.loops("asyncio")
async def test_a_fork_of_the_parent_keeps_no_worker_alive(tmp_path: Path) -> None:
    """ORPHAN-1: the fork has the parent's descriptors, but not its lifelines."""
    with Script(FORKING, tmp_path).running() as parent:
        assert parent.stdout is not None
        fork, worker = map(int, parent.stdout.readline().split())
        parent.wait(timeout=30)
        try:
            await procs.eventually(lambda: not procs.alive(worker), within=5.0, what="no orphan")
            assert procs.alive(fork)
        finally:
            os.kill(fork, signal.SIGKILL)
