"""Kills hit the worker they are meant for, and what a job leaves in its process hits no other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncpool import JobTimeout, Pool, Retry
from tests.cases import chores
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.marks import Marks


class Kills:
    """All signals that this process sends, and which of them could hit somebody else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.astray: list[str] = []
        self._kill, self._killpg = os.kill, os.killpg
        monkeypatch.setattr(os, "kill", self.kill)
        monkeypatch.setattr(os, "killpg", self.killpg)

    def kill(self, pid: int, signum: int) -> None:
        self._note(pid, signum, own=os.getpid())
        if not is_child(pid):
            self.astray.append(f"kill({pid}, {signum}): reaped, or no child")
        self._kill(pid, signum)

    def killpg(self, group: int, signum: int) -> None:
        self._note(group, signum, own=os.getpgrp())
        if not is_child(group) and somebody_else_has(group):
            self.astray.append(f"killpg({group}, {signum}): not of a worker")
        self._killpg(group, signum)

    def _note(self, pid: int, signum: int, *, own: int) -> None:
        self.count += 1
        if pid <= 1 or pid == own:
            self.astray.append(f"{pid} was sent {signum}")


def is_child(pid: int) -> bool:
    """Whether it is a child of ours that nobody has reaped: then nobody else has its pid."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def somebody_else_has(pid: int) -> bool:
    """Whether a process has that number; a reaped worker's group may outlive it, its pid not."""
    return os.path.exists(f"/proc/{pid}")


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(2, preload=chores.PRELOAD) as pool:
        yield pool
        await pool.close(cancel=True)


# KILL-1


async def test_a_kill_that_meets_an_exit_hits_nobody_else(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KILL-1."""
    kills = Kills(monkeypatch)
    dying = pool.options(retry=Retry(max_crashes=1))
    for i in range(40):
        job = dying.submit(chores.exit_after, 0.002 * (i % 5))
        await job.started()
        await asyncio.sleep(0.002 * (i % 7))
        job.cancel()
        await asyncio.wait({job})
        if not job.cancelled():
            job.exception()
    await assert_sound(pool, 2)
    assert kills.count > 0
    assert kills.astray == []


async def test_a_timeout_that_meets_an_exit_hits_nobody_else(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KILL-1."""
    kills = Kills(monkeypatch)
    retry = Retry(max_crashes=1)
    views = [pool.options(timeout=0.03 + 0.002 * i, retry=retry) for i in range(20)]
    ends = [view.submit(chores.exit_after, 0.04) for view in views]
    await asyncio.wait(ends)
    assert all(end.exception() is not None for end in ends)
    await assert_sound(pool, 2)
    assert kills.astray == []


async def test_a_kill_in_the_turn_in_which_the_worker_is_seen_dead(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KILL-1."""
    kills = Kills(monkeypatch)
    for _ in range(20):
        job = pool.options(retry=Retry(max_crashes=1)).submit(jobs.spin)
        await job.started()
        (attempt,) = job.attempts
        signal.pidfd_send_signal(pidfd := os.pidfd_open(attempt.pid), signal.SIGKILL)
        os.close(pidfd)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
    await assert_sound(pool, 2)
    assert kills.astray == []


async def open_and_fail(turns: int) -> None:
    async with Pool(2):
        for _ in range(turns):
            await asyncio.sleep(0)
        raise LookupError


async def test_workers_that_are_killed_as_they_start_hit_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KILL-1: the worker has perhaps not become the leader of its group."""
    kills = Kills(monkeypatch)
    for turns in range(12):
        with pytest.raises(LookupError):
            await open_and_fail(turns)
        assert procs.kids() == []
    assert kills.astray == []


@pytest.mark.parametrize("limit", [0.5, None])
async def test_a_job_that_leads_a_group_of_its_own_is_stopped_as_well(
    pool: Pool, marks: Marks, monkeypatch: pytest.MonkeyPatch, limit: float | None
) -> None:
    """KILL-1."""
    kills = Kills(monkeypatch)
    job = pool.options(timeout=limit).submit(chores.lead_own_group, marks.path)
    await job.started()
    await procs.eventually(marks.count)
    (attempt,) = job.attempts
    if limit is None:
        assert await pool.terminate(job.id)
    else:
        with pytest.raises(JobTimeout):
            await job
    await procs.eventually(lambda: not procs.alive(attempt.pid))
    await assert_sound(pool, 2)
    assert kills.astray == []


# ENV-2


async def test_what_a_job_does_to_its_process_hits_no_other_job(
    tmp_path: Path, marks: Marks
) -> None:
    """ENV-2: the leak itself is the job's own doing, but its alarm is nobody's crash."""
    loop = asyncio.get_running_loop()
    async with Pool(1) as pool:
        exits = pool.events()
        await pool.submit(chores.spoil_the_process, str(tmp_path / "home"))
        (pid,) = await full_crew(pool, 1)
        async with asyncio.timeout(10):
            while procs.alive(pid):
                await anext(exits)
        view = pool.options(retry=Retry(max_crashes=1))
        queued = [view.submit(jobs.mark_then, marks.path, i) for i in range(20)]
        assert await asyncio.gather(*queued) == list(range(20))
        assert pool.stats().crashes == 0
        assert all(len(job.attempts) == 1 for job in queued)
        await assert_sound(pool, 1)
        begun = loop.time()
        await pool.close()
    assert loop.time() - begun < 5.0
    assert marks.count() == 20


async def test_what_a_job_did_without_killing_its_process_lets_the_next_work(
    tmp_path: Path, marks: Marks
) -> None:
    """ENV-2."""
    loop = asyncio.get_running_loop()
    async with Pool(1) as pool:
        await pool.submit(chores.spoil_the_process, str(tmp_path / "home"), alarm=False)
        queued = [pool.submit(jobs.mark_then, marks.path, i) for i in range(20)]
        assert await asyncio.gather(*queued) == list(range(20))
        await assert_sound(pool, 1)
        begun = loop.time()
    assert loop.time() - begun < 5.0
