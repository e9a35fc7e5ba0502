"""`max_pending` bounds the unfinished jobs: `submit` refuses, `enqueue` waits its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asyncpool import Job, Pool, PoolClosed, PoolFull, SerializationError
from tests.cases import chores
from tests.cases.soundness import assert_sound
from tests.support import jobs
from tests.support.marks import Marks


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, max_pending=2) as pool:
        yield pool
        await pool.close(cancel=True)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """While this file is missing, the jobs that wait for it do not end."""
    return tmp_path / "gate"


def fill(pool: Pool, marks: Marks, gate: Path) -> list[Job[None]]:
    submit = pool.submit
    return [submit(chores.mark_after_gate, marks.path, f"full {i}", gate) for i in range(2)]


def enqueue(pool: Pool, marks: Marks, text: str) -> asyncio.Task[Job[None]]:
    return asyncio.create_task(pool.enqueue(chores.mark_after_gate, marks.path, text))


async def turns_of_the_loop() -> None:
    """Let whatever can go on go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_submit_raises_when_the_pool_is_full(pool: Pool, marks: Marks, gate: Path) -> None:
    full = fill(pool, marks, gate)
    with pytest.raises(PoolFull, match="max_pending"):
        pool.submit(jobs.mark_then, marks.path, 1)
    with pytest.raises(PoolFull):
        pool.options(priority=9, delay=60.0).submit(jobs.mark_then, marks.path, 1)
    assert len(pool.jobs()) == 2
    gate.touch()
    await asyncio.gather(*full)
    await assert_sound(pool, 1)
    assert marks.lines() == ["full 0", "full 1"]


async def test_what_cannot_be_sent_is_told_before_that_there_is_no_room(
    pool: Pool, marks: Marks, gate: Path
) -> None:
    full = fill(pool, marks, gate)
    with pytest.raises(SerializationError):
        pool.submit(jobs.echo, (i for i in range(3)))
    gate.touch()
    await asyncio.gather(*full)


async def test_those_who_wait_for_room_come_in_order(pool: Pool, marks: Marks, gate: Path) -> None:
    full = fill(pool, marks, gate)
    waiting = [enqueue(pool, marks, f"{i}") for i in range(10)]
    await turns_of_the_loop()
    assert not any(task.done() for task in waiting)
    gate.touch()
    handles = await asyncio.gather(*waiting)
    await asyncio.gather(*full, *handles)
    await assert_sound(pool, 1)
    assert marks.lines() == ["full 0", "full 1", *(f"{i}" for i in range(10))]


async def test_no_more_than_max_pending_are_ever_unfinished(pool: Pool) -> None:
    async def watch(number: int) -> int:
        job = await pool.enqueue(jobs.echo, number)
        assert len(pool.jobs()) <= 2
        return await job

    assert await asyncio.gather(*map(watch, range(200))) == list(range(200))
    await assert_sound(pool, 1)


async def test_who_stops_waiting_leaves_the_others_their_turn(
    pool: Pool, marks: Marks, gate: Path
) -> None:
    full = fill(pool, marks, gate)
    waiting = [enqueue(pool, marks, f"{i}") for i in range(4)]
    await turns_of_the_loop()
    waiting[0].cancel()
    waiting[2].cancel()
    gate.touch()
    handles = [await waiting[1], await waiting[3]]
    await asyncio.gather(*full, *handles)
    assert waiting[0].cancelled()
    assert waiting[2].cancelled()
    await assert_sound(pool, 1)
    assert marks.lines() == ["full 0", "full 1", "1", "3"]


async def test_who_is_cancelled_when_his_turn_has_come_passes_it_on(marks: Marks) -> None:
    async with Pool(1, max_pending=1) as pool:
        blocking = pool.submit(jobs.spin)
        first, second = enqueue(pool, marks, "first"), enqueue(pool, marks, "second")
        await turns_of_the_loop()
        blocking.cancel()  # offers the room to the first, who has not woken up yet
        first.cancel()
        async with asyncio.timeout(10):
            await (await second)
        with pytest.raises(asyncio.CancelledError):
            await first
        await assert_sound(pool, 1)
    assert marks.lines() == ["second"]


async def test_cancelled_jobs_make_room_at_once(pool: Pool, marks: Marks, gate: Path) -> None:
    full = fill(pool, marks, gate)
    waiting = enqueue(pool, marks, "waited")
    await turns_of_the_loop()
    full[1].cancel()
    handle = await waiting
    assert not full[0].done()
    gate.touch()
    await asyncio.gather(full[0], handle)
    assert marks.lines() == ["full 0", "waited"]


async def test_who_waits_for_room_is_turned_away_when_the_pool_closes(
    marks: Marks, gate: Path
) -> None:
    pool = Pool(1, max_pending=2)
    async with pool:
        full = fill(pool, marks, gate)
        waiting = [enqueue(pool, marks, f"{i}") for i in range(3)]
        await turns_of_the_loop()
        closing = asyncio.create_task(pool.close())
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(end) for end in ends} == {PoolClosed}
        gate.touch()
        await closing
    assert all(job.done() for job in full)
    assert marks.lines() == ["full 0", "full 1"]


async def test_a_mistake_of_one_who_waited_does_not_block_the_next(
    pool: Pool, marks: Marks, gate: Path
) -> None:
    full = fill(pool, marks, gate)
    wrong = asyncio.create_task(pool.enqueue(jobs.echo, (i for i in range(3))))
    right = enqueue(pool, marks, "right")
    await turns_of_the_loop()
    full[1].cancel()
    with pytest.raises(SerializationError):
        await wrong
    async with asyncio.timeout(10):
        handle = await right
    gate.touch()
    await asyncio.gather(full[0], handle)
    await assert_sound(pool, 1)


async def test_many_places_that_get_free_at_once_are_all_taken(marks: Marks, gate: Path) -> None:
    async with Pool(1, max_pending=10) as pool:
        running = pool.submit(chores.mark_after_gate, marks.path, "running", gate)
        await running.started()
        full = [pool.submit(jobs.add, 1, 1) for _ in range(9)]
        waiting = [enqueue(pool, marks, f"{i}") for i in range(9)]
        await turns_of_the_loop()
        for job in full:
            job.cancel()
        async with asyncio.timeout(10):
            handles = await asyncio.gather(*waiting)
        assert not running.done()
        gate.touch()
        await asyncio.gather(running, *handles)
        await assert_sound(pool, 1)


async def test_a_newcomer_does_not_take_the_place_of_who_waits(
    pool: Pool, marks: Marks, gate: Path
) -> None:
    full = fill(pool, marks, gate)
    waiting = enqueue(pool, marks, "waited")
    await turns_of_the_loop()
    full[1].cancel()  # its place belongs to who waits, and who has not woken up yet
    newcomer = enqueue(pool, marks, "newcomer")
    await turns_of_the_loop()
    assert waiting.done()
    assert not newcomer.done()
    gate.touch()
    handles = await asyncio.gather(waiting, newcomer)
    await asyncio.gather(full[0], *handles)
    assert marks.lines() == ["full 0", "waited", "newcomer"]


async def test_who_is_cancelled_while_being_turned_away_is_just_cancelled(
    pool: Pool, marks: Marks, gate: Path
) -> None:
    fill(pool, marks, gate)
    waiting = enqueue(pool, marks, "waited")
    await turns_of_the_loop()
    closing = asyncio.create_task(pool.close(cancel=True))
    await asyncio.sleep(0)
    waiting.cancel()
    await closing
    with pytest.raises((asyncio.CancelledError, PoolClosed)):
        await waiting


async def test_submit_cannot_take_a_place_that_is_kept(
    pool: Pool, marks: Marks, gate: Path
) -> None:
    full = fill(pool, marks, gate)
    waiting = enqueue(pool, marks, "waited")
    await turns_of_the_loop()
    full[1].cancel()
    with pytest.raises(PoolFull):
        pool.submit(jobs.add, 1, 1)
    handle = await waiting
    gate.touch()
    await asyncio.gather(full[0], handle)
