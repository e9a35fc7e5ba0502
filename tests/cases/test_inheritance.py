"""Workers hold what they need and nothing else of their parent's, so nothing outlives it."""

from __future__ import annotations

import fcntl
import socket
import time
from pathlib import Path

import pytest

from tests.support import procs
from tests.support.loops import LOOPS
from tests.support.scripts import Script

PROGRAM = """
    import asyncio, fcntl, os, socket, sys, time
    import asyncpool, uvloop

    async def main():
        listener = socket.create_server(("127.0.0.1", 0))
        locked = open("locked", "w")
        fcntl.flock(locked, fcntl.LOCK_EX)
        plain = os.open("locked", os.O_RDONLY)
        for fd in (listener.fileno(), locked.fileno(), plain):
            os.set_inheritable(fd, True)
        async with asyncpool.Pool(2) as pool:
            job = pool.submit(time.sleep, 300)
            await job.started()
            while len(pool.workers()) < 2:
                await asyncio.sleep(0.01)
            pids = [worker.pid for worker in pool.workers()]
            print(listener.getsockname()[1], *pids, flush=True)
            await job

    (asyncio.run if sys.argv[1] == "asyncio" else uvloop.run)(main())
"""

PROTOCOL_FDS = 5
"""Jobs, results, tickets, the lifeline, and the file for the stack."""


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_of_the_parent_stays_in_use_after_its_death(tmp_path: Path, loop: str) -> None:
    """FD-3."""
    with Script(PROGRAM, tmp_path, argv=[loop]).running() as parent:
        assert parent.stdout is not None
        port, *workers = map(int, parent.stdout.readline().split())
        assert len(workers) == 2
        for pid in workers:
            _assert_holds_the_protocol_only(procs.fds(pid))
        parent.kill()
        _take_over_within_a_second(port, tmp_path / "locked")


def _assert_holds_the_protocol_only(fds: dict[int, str]) -> None:
    own = [target for fd, target in fds.items() if fd > 2]
    assert len(own) == PROTOCOL_FDS
    kinds = sorted(target.partition(":")[0] for target in own)
    assert kinds == ["/memfd", *["pipe"] * 4]


def _take_over_within_a_second(port: int, path: Path) -> None:
    give_up = time.monotonic() + 1
    while True:
        try:
            with socket.create_server(("127.0.0.1", port)), path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return
