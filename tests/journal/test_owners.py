"""A journal has one owner at a time, and is free as soon as that is dead."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

import pytest

from asyncpool import JournalLocked, Pool
from tests.journal.lives import left, live_until_killed, program
from tests.support import jobs, procs
from tests.support.loops import LOOPS

OWNER = """
    import fcntl, socket
    listener = socket.create_server(("127.0.0.1", 0))
    locked = open("locked", "w")
    fcntl.flock(locked, fcntl.LOCK_EX)
    for each in (listener, locked):
        os.set_inheritable(each.fileno(), True)
    async with Pool(2, journal=JOURNAL) as pool:
        job = pool.submit({busy})
        await asyncio.gather(job.started(), pool.submit(jobs.add, 1, 2))
        print(listener.getsockname()[1], *(worker.pid for worker in pool.workers()), flush=True)
        await job
"""


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("busy", ["time.sleep, 300", "chores.hold_the_gil"])
async def test_what_its_owner_had_can_be_had_as_soon_as_that_is_killed(
    tmp_path: Path, journal: str, loop: str, busy: str
) -> None:
    """FD-3, J-LOCK."""
    with program(OWNER.format(busy=busy), tmp_path, loop=loop).running() as owner:
        assert owner.stdout is not None
        port, *workers = map(int, owner.stdout.readline().split())
        assert workers
        for pid in workers:
            held = set(procs.fds(pid).values())
            assert not {journal, str(tmp_path / "locked")} & held
            assert not any(target.startswith("socket:") for target in held)
        await _refused(journal, owner.pid)
        owner.kill()
        owner.wait()
        begun = time.monotonic()
        async with left(Pool(1, journal=journal)) as pool:
            opened_after = time.monotonic() - begun
            assert len(pool.recovered) == 1
        assert opened_after < 1.0
        socket.create_server(("127.0.0.1", port)).close()
        with open(tmp_path / "locked") as locked:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def _refused(journal: str, pid: int) -> None:
    begun = time.monotonic()
    with pytest.raises(JournalLocked, match=f"in use by process {pid}") as told:
        async with Pool(1, journal=journal):
            pytest.fail("two programs have it")
    assert told.value.pid == pid
    assert time.monotonic() - begun < 1.0
    assert procs.kids() != []  # the owner's and no worker of ours
    assert all(procs.alive(pid) for pid in procs.kids(pid))


STOPPED = """
    async with Pool(1, journal=JOURNAL) as pool:
        job = pool.submit(chores.stop_oneself, signal.SIGSTOP)
        await job.started()
        ready()
        await job
"""


async def test_a_stopped_worker_does_not_keep_it(tmp_path: Path, journal: str) -> None:
    """J-LOCK: a worker that cannot even be told that its parent is gone."""
    live_until_killed(program(STOPPED, tmp_path))
    async with left(Pool(1, journal=journal)) as pool:
        assert len(pool.recovered) == 1


SYMLINKED = """
    os.symlink("jobs.log", "link.log")
    async with Pool(1, journal="link.log") as pool:
        await pool.submit(jobs.add, 1, 2)
        ready()
        await asyncio.sleep(300)
"""


async def test_a_symlink_leads_to_the_same_owner(tmp_path: Path, journal: str) -> None:
    """J-LOCK."""
    with program(SYMLINKED, tmp_path).running() as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        for path in (journal, tmp_path / "link.log"):
            with pytest.raises(JournalLocked) as told:
                await Pool(1, journal=path).__aenter__()
            assert told.value.pid == owner.pid


async def test_a_pool_that_was_refused_can_be_entered_later(journal: str) -> None:
    """J-LOCK."""
    late = Pool(1, journal=journal)
    async with Pool(1, journal=journal) as pool:
        await pool.submit(jobs.add, 1, 2)
        with pytest.raises(JournalLocked, match="in use by this process") as told:
            await late.__aenter__()
        assert told.value.pid == os.getpid()
        assert await pool.submit(jobs.add, 1, 2) == 3
    async with late:
        assert await late.submit(jobs.add, 1, 2) == 3


async def test_two_journals_in_one_process_do_not_meddle(tmp_path: Path) -> None:
    """R-ID."""
    one, two = Pool(1, journal=tmp_path / "one"), Pool(1, journal=tmp_path / "two")
    async with left(one), left(two):
        first = one.options(id="same").submit(jobs.add, 1, 2)
        second = two.options(id="same").submit(jobs.add, 3, 4)
        assert (await first, await second) == (3, 7)
        busy = [await one.enqueue(jobs.spin), await two.enqueue(jobs.spin)]
    assert len({job.id for job in busy}) == 2
    for name, job, value in zip(("one", "two"), busy, (3, 7), strict=True):
        async with left(Pool(1, journal=tmp_path / name)) as pool:
            assert [each.id for each in pool.recovered] == [job.id]
            assert await pool.job("same") == value
