"""The stack of a running job can be looked at, and the job does not notice."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncpool import Outcome, Pool
from tests.cases import chores
from tests.cases.soundness import assert_sound
from tests.support import jobs, procs
from tests.support.marks import Marks


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, preload=chores.PRELOAD) as pool:
        yield pool
        await pool.close(cancel=True)


def outer(path: str, gate: Path) -> float:
    """Sleep in a function of its own, and return for how long."""
    begun = time.monotonic()
    chores.mark_after_gate(path, "passed", gate)
    return time.monotonic() - begun


async def test_the_stack_tells_where_a_job_is(pool: Pool, marks: Marks) -> None:
    gate = Path(marks.path).with_name("gate")
    job = pool.submit(outer, marks.path, gate)
    await job.started()
    await pool.dump_stack(job.id)  # it may still have been importing
    stack = await until_in(pool, job.id, "mark_after_gate")
    assert stack.index("in mark_after_gate") < stack.index("in outer")
    assert __file__ in stack
    gate.touch()
    assert await job > 0
    assert [attempt.outcome for attempt in job.attempts] == [Outcome.DONE]
    await assert_sound(pool, 1)
    assert marks.lines() == ["passed"]


async def until_in(pool: Pool, job_id: str, name: str) -> str:
    """Look until the job has come to that function."""
    async with asyncio.timeout(10):
        while name not in (stack := await pool.dump_stack(job_id)):
            continue
    return stack


async def test_looking_does_not_disturb_the_job(pool: Pool) -> None:
    job = pool.submit(jobs.sleep_return, 1.0, "slept")
    await job.started()
    looks = [await pool.dump_stack(job.id) for _ in range(20)]
    assert all("most recent call first" in look for look in looks)
    assert await job == "slept"
    assert (pool.stats().crashes, len(job.attempts)) == (0, 1)
    assert job.attempts[0].ended_at is not None
    assert job.attempts[0].ended_at - job.attempts[0].started_at > 0.9
    await assert_sound(pool, 1)


async def test_two_may_look_at_the_same_time(pool: Pool) -> None:
    job = pool.submit(jobs.spin)
    await job.started()
    await until_in(pool, job.id, "spin")
    looks = await asyncio.gather(*(pool.dump_stack(job.id) for _ in range(4)))
    assert all("in spin" in look for look in looks)
    assert not job.done()


async def test_a_job_that_holds_the_gil_is_seen_as_well(pool: Pool) -> None:
    job = pool.submit(chores.hold_the_gil)
    await job.started()
    assert "in hold_the_gil" in await until_in(pool, job.id, "hold_the_gil")
    assert not job.done()


async def test_a_look_at_a_timeout_is_not_in_its_way(pool: Pool) -> None:
    job = pool.options(timeout=0.5).submit(jobs.spin)
    await job.started()
    while not job.done():
        try:
            await pool.dump_stack(job.id)
        except (RuntimeError, TimeoutError):
            break
    async with asyncio.timeout(5):
        with pytest.raises(TimeoutError):
            await job
    await assert_sound(pool, 1)


async def test_only_a_running_job_has_a_stack(pool: Pool) -> None:
    with pytest.raises(KeyError):
        await pool.dump_stack("no such job")
    job = pool.submit(jobs.add, 1, 2)
    assert await job == 3
    with pytest.raises(RuntimeError, match="done"):
        await pool.dump_stack(job.id)
    running = pool.submit(jobs.spin)
    waiting = pool.submit(jobs.add, 1, 2)
    await running.started()
    with pytest.raises(RuntimeError, match="only a running job"):
        await pool.dump_stack(waiting.id)
    running.cancel()
    assert await waiting == 3
    await assert_sound(pool, 1)


def blocks_all_signals(pid: int) -> bool:
    found = re.search(r"SigBlk:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return found is not None and int(found[1], 16).bit_count() > 32


async def test_a_job_that_does_not_answer_is_told_as_such(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncpool.pool.DUMP_SECONDS", 0.3)
    job = pool.submit(chores.ignore_signals)
    await job.started()
    await procs.eventually(lambda: blocks_all_signals(job.attempts[0].pid))
    with pytest.raises(TimeoutError, match="did not tell its stack"):
        await pool.dump_stack(job.id)
    assert not job.done()
