"""What is cancelled or closed while the journal is still being opened, or a job accepted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from asyncpool import JobState, Pool, PoolClosed
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.lines import Record
from asyncpool.journal.options import Journal
from tests.cases.soundness import assert_sound
from tests.journal.disks import PATIENCE_SECONDS, Gate, WatchedDisk, kinds_of, outcomes, turn
from tests.support import jobs
from tests.support.marks import Marks


class Left(Exception):
    """The block was left."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


def open_pool(path: str, disk: WatchedDisk) -> Pool:
    return Pool(1, journal=Journal(path, _disk=disk))


async def comes_back(path: str) -> list[str]:
    """Open the journal again; return the ids that came back, and give those jobs up."""
    async with Pool(1, journal=path) as pool:
        found = [job.id for job in pool.recovered]
        await pool.close(cancel=True)
    return found


# Before it is accepted


@pytest.mark.parametrize("what", ["submitted", "sync"])
async def test_a_job_that_is_cancelled_before_it_is_accepted(
    path: str, disk: WatchedDisk, marks: Marks, what: str
) -> None:
    """Another that is accepted with it is not touched."""
    async with open_pool(path, disk) as pool:
        with disk.hold(what) as gate:
            job = pool.submit(jobs.mark_then, marks.path, "cancelled")
            other = pool.submit(jobs.mark_then, marks.path, "other")
            waiting = asyncio.create_task(job.accepted())
            await gate.reached()
            assert job.cancel()
            await turn()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await other.accepted()
        assert await other == "other"
        assert job.state is JobState.CANCELLED
        with pytest.raises(asyncio.CancelledError):
            await job
    assert marks.lines() == ["other"]
    assert kinds_of(path, job.id) == ["submitted", "finished"]
    assert await comes_back(path) == []


async def test_a_job_that_is_cancelled_in_the_turn_of_its_submission(
    path: str, disk: WatchedDisk, marks: Marks
) -> None:
    async with open_pool(path, disk) as pool:
        for _ in range(20):
            assert pool.submit(jobs.mark_then, marks.path, "cancelled").cancel()
        await assert_sound(pool, 1)
    assert marks.count() == 0
    assert await comes_back(path) == []


async def test_an_enqueue_that_is_cancelled_while_it_waits(
    path: str, disk: WatchedDisk, marks: Marks
) -> None:
    async with open_pool(path, disk) as pool:
        with disk.hold("sync") as gate:
            named = pool.options(id="enqueued")
            enqueuing = asyncio.create_task(named.enqueue(jobs.mark_then, marks.path, "ran"))
            await gate.reached()
            enqueuing.cancel()
            await asyncio.wait({enqueuing})
            assert enqueuing.cancelled()
        await assert_sound(pool, 1)
    assert marks.count() == 0
    assert outcomes(path)["enqueued"] == "cancelled"
    assert await comes_back(path) == []


async def test_an_enqueue_that_is_cancelled_leaves_the_job_of_another(
    path: str, disk: WatchedDisk, marks: Marks
) -> None:
    async with open_pool(path, disk) as pool:
        named = pool.options(id="shared")
        with disk.hold("sync") as gate:
            first, second = [
                asyncio.create_task(named.enqueue(jobs.mark_then, marks.path, "ran"))
                for _ in range(2)
            ]
            await gate.reached()
            second.cancel()
            await asyncio.wait({second})
        assert await (await first) == "ran"
    assert marks.lines() == ["ran"]


async def test_an_enqueue_that_waits_for_room_leaves_nothing(path: str, marks: Marks) -> None:
    async with Pool(1, journal=path, max_pending=1) as pool:
        first = await pool.enqueue(jobs.sleep_return, 0.2, "first")
        waiting = asyncio.create_task(pool.enqueue(jobs.mark_then, marks.path, "second"))
        await turn()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert await first == "first"
        await assert_sound(pool, 1)
    assert marks.count() == 0
    assert await comes_back(path) == []


# Closed meanwhile


async def test_closing_waits_for_what_is_being_accepted(
    path: str, disk: WatchedDisk, marks: Marks
) -> None:
    async with open_pool(path, disk) as pool:
        with disk.hold("sync") as gate:
            job = pool.submit(jobs.mark_then, marks.path, "ran")
            await gate.reached()
            closing = asyncio.create_task(pool.close())
            await turn()
            assert not closing.done()
            with pytest.raises(PoolClosed):
                pool.submit(jobs.add, 1, 2)
        await closing
        assert job.result() == "ran"
    assert marks.lines() == ["ran"]
    assert outcomes(path) == {job.id: "value"}


async def test_closing_cancels_what_is_being_accepted(
    path: str, disk: WatchedDisk, marks: Marks
) -> None:
    async with open_pool(path, disk) as pool:
        with disk.hold("sync") as gate:
            job = pool.submit(jobs.mark_then, marks.path, "ran")
            await gate.reached()
            closing = asyncio.create_task(pool.close(cancel=True))
            await turn()
            assert job.cancelled()
        await closing
    assert marks.count() == 0
    assert outcomes(path) == {job.id: "cancelled"}
    assert await comes_back(path) == []


@pytest.mark.parametrize("what", ["submitted", "sync"])
async def test_leaving_amid_acceptance(
    path: str, disk: WatchedDisk, marks: Marks, what: str
) -> None:
    """Nobody was told that it is accepted, nor that it is not: it comes back, or it never was."""
    gate = disk.hold(what) if what == "submitted" else None
    async with asyncio.timeout(PATIENCE_SECONDS):
        with suppress(Left):
            async with open_pool(path, disk) as pool:
                gate = gate or disk.hold(what)
                job = pool.submit(jobs.mark_then, marks.path, "ran")
                await gate.reached()
                asyncio.get_running_loop().call_later(0.05, gate.open)
                raise Left
    assert job.cancelled()
    assert marks.count() == 0
    assert outcomes(path) == {}
    assert await comes_back(path) == [job.id]


async def test_whoever_cancels_everything_waits_for_the_last_record(
    path: str, disk: WatchedDisk
) -> None:
    """As a second and a third Ctrl-C do: the file is given up when that is written."""

    async def live() -> None:
        async with open_pool(path, disk) as pool:
            await pool.options(id="unfinished", delay=3600.0).enqueue(jobs.add, 1, 2)
            lives.set()
            await pool.drain()

    lives = asyncio.Event()
    living = asyncio.create_task(live())
    await lives.wait()
    with disk.hold("closed") as gate:
        living.cancel()
        await gate.reached()
        for _ in range(3):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await turn(3)
        assert not living.done()
    await asyncio.wait({living})
    assert living.cancelled()
    assert await comes_back(path) == ["unfinished"]


# Cancelled while it is opened


async def make_three(path: str) -> list[str]:
    """Leave three jobs unfinished, and return their ids."""
    names = ["one", "two", "three"]
    with suppress(Left):
        async with Pool(1, journal=path) as pool:
            for name in names:
                await pool.options(id=name, delay=3600.0).enqueue(jobs.add, 1, 2)
            raise Left
    return names


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("what", ["opened", "sync"])
async def test_cancelling_who_opens_it(path: str, disk: WatchedDisk, what: str, times: int) -> None:
    """The file is given up when the disk has answered, and then the pool can be entered."""
    names = await make_three(path)
    pool = open_pool(path, disk)
    with disk.hold(what) as gate:
        entering = asyncio.create_task(pool.__aenter__())
        await gate.reached()
        for _ in range(times):
            entering.cancel()
            await turn(3)
    await asyncio.wait({entering})
    assert entering.cancelled()
    async with asyncio.timeout(PATIENCE_SECONDS), pool:
        assert [job.id for job in pool.recovered] == names
        await pool.close(cancel=True)
    assert await comes_back(path) == []


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelling_who_waits_for_the_replay(
    path: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = await make_three(path)
    gate = Gate()
    read = Ledger.read

    def held_up(ledger: Ledger, where: tuple[int, int]) -> Record:
        gate.pass_through()
        return read(ledger, where)

    monkeypatch.setattr(Ledger, "read", held_up)
    with gate:
        entering = asyncio.create_task(Pool(1, journal=path).__aenter__())
        await gate.reached()
        for _ in range(times):
            entering.cancel()
            await turn(3)
    await asyncio.wait({entering})
    assert entering.cancelled()
    monkeypatch.undo()
    assert outcomes(path) == {}
    assert await comes_back(path) == names
