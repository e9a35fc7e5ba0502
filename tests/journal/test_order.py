"""The order of things: nothing is accepted, sent or told before it is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import asyncpool
from asyncpool import Job, Pool
from asyncpool.journal import recorder
from asyncpool.journal.options import Journal
from tests.cases import chores
from tests.journal.disks import PATIENCE_SECONDS, Step, WatchedDisk, kinds_of, read, turn
from tests.support import jobs, procs
from tests.support.marks import Marks


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.fixture
def disk() -> WatchedDisk:
    return WatchedDisk()


@pytest.fixture
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no sync come by itself."""
    monkeypatch.setattr(recorder, "SYNC_SECONDS", 1e6)


@pytest.fixture
async def pool(path: str, disk: WatchedDisk) -> AsyncIterator[Pool]:
    async with Pool(1, journal=Journal(path, _disk=disk), preload=chores.PRELOAD) as pool:
        yield pool


def look_into_journal(path: str) -> list[str]:
    """Return what the journal says of the job that runs this."""
    job = asyncpool.current_job()
    assert job is not None
    return kinds_of(path, job.id)


def watch(pool: Pool, disk: WatchedDisk) -> asyncio.Task[None]:
    """Let the disk note when jobs are sent."""

    async def watching() -> None:
        async for event in events:
            if isinstance(event, asyncpool.JobSent):
                disk.note("gone to a worker", event.job_id)

    events = pool.events()
    return asyncio.create_task(watching())


async def note_acceptance(job: Job[Any], disk: WatchedDisk) -> None:
    await job.accepted()
    disk.note("accepted", job.id)


def assert_order(trace: list[Step], *steps: Step) -> None:
    """All these steps are in the trace, in this order, maybe with others in between."""
    rest = iter(trace)
    for step in steps:
        assert step in rest, f"{step} is missing, or too early, in {trace}"


# Accepted


@pytest.mark.parametrize("what", ["submitted", "sync"])
async def test_nothing_is_accepted_or_sent_before_it_is_on_the_disk(
    pool: Pool, disk: WatchedDisk, marks: Marks, what: str
) -> None:
    watching = watch(pool, disk)
    with disk.hold(what) as gate:
        job = pool.submit(jobs.mark_then, marks.path, "ran")
        accepting = asyncio.create_task(note_acceptance(job, disk))
        await gate.reached()
        before = disk.trace.copy()
        await turn()
        assert disk.trace == before
        assert not accepting.done()
        assert (job.state, marks.count()) == (asyncpool.JobState.PENDING, 0)
    await accepting
    written, accepted = ("submitted", job.id), ("accepted", job.id)
    assert_order(disk.trace, written, ("sync", ""), accepted)
    assert await job == "ran"
    await turn()
    assert_order(disk.trace, written, ("sync", ""), ("gone to a worker", job.id))
    await pool.close()
    await watching


async def test_enqueue_returns_when_it_is_on_the_disk(pool: Pool, disk: WatchedDisk) -> None:
    with disk.hold("sync") as gate:
        enqueuing = asyncio.create_task(pool.enqueue(jobs.add, 1, 2))
        await gate.reached()
        await turn()
        assert not enqueuing.done()
    job = await enqueuing
    assert_order(disk.trace, ("submitted", job.id), ("sync", ""))
    assert await job == 3


async def test_a_job_that_was_accepted_says_so_at_once(pool: Pool) -> None:
    job = pool.submit(jobs.add, 1, 2)
    await job.accepted()
    async with asyncio.timeout(0):  # which would end whatever has to wait
        await job.accepted()
    assert await job == 3
    async with asyncio.timeout(0):
        await job.accepted()


# Sent


async def test_nothing_is_sent_before_that_is_written(
    pool: Pool, disk: WatchedDisk, marks: Marks
) -> None:
    watching = watch(pool, disk)
    with disk.hold("sent") as gate:
        job = pool.submit(jobs.mark_then, marks.path, "ran")
        await gate.reached()
        assert job._record.accepted
        await turn()
        assert ("gone to a worker", job.id) not in disk.trace
        assert marks.count() == 0
    assert await job == "ran"
    await turn()
    assert_order(disk.trace, ("sent", job.id), ("gone to a worker", job.id))
    await pool.close()
    await watching


async def test_every_job_finds_its_records_in_the_journal(path: str, disk: WatchedDisk) -> None:
    """Those that are sent ahead, in batches, as well."""
    seen: dict[str, list[str]] = {}

    def told(job: asyncio.Future[list[str]]) -> None:
        assert isinstance(job, Job)
        seen[job.id] = kinds_of(path, job.id)

    async with Pool(2, journal=Journal(path, _disk=disk)) as pool:
        submitted = [pool.submit(look_into_journal, path) for _ in range(200)]
        for job in submitted:
            job.add_done_callback(told)
        for found in await asyncio.gather(*submitted):
            assert found[0] == "submitted"
            assert found[-1] == "sent"
        await turn()
        assert len(seen) == 200
        assert {kinds[-1] for kinds in seen.values()} == {"finished"}


# Told


async def test_no_result_is_told_before_it_is_written(pool: Pool, disk: WatchedDisk) -> None:
    with disk.hold("finished") as gate:
        job = pool.submit(jobs.add, 1, 2)
        await gate.reached()
        await turn()
        assert not job.done()
    assert await job == 3
    assert_order(disk.trace, ("sent", job.id), ("finished", job.id))


async def test_an_error_is_a_result_too(pool: Pool, disk: WatchedDisk) -> None:
    with disk.hold("finished") as gate:
        job = pool.submit(jobs.raise_, LookupError("gone"))
        await gate.reached()
        await turn()
        assert not job.done()
    with pytest.raises(LookupError):
        await job


@pytest.mark.usefixtures("no_timer")
async def test_a_durable_result_is_on_the_disk_before_it_is_told(
    path: str, disk: WatchedDisk, marks: Marks
) -> None:
    go = Path(marks.path).with_name("go")
    async with Pool(1, journal=Journal(path, durable_results=True, _disk=disk)) as pool:
        job = pool.submit(chores.mark_after_gate, marks.path, "ran", go)
        await job.started()
        with disk.hold("sync") as gate:
            go.touch()
            await gate.reached()
            assert disk.trace[-1] == ("finished", job.id)
            await turn()
            assert not job.done()
        await job
        assert_order(disk.trace, ("finished", job.id), ("sync", ""))


@pytest.mark.usefixtures("no_timer")
async def test_a_result_that_need_not_be_durable_waits_for_no_sync(
    pool: Pool, disk: WatchedDisk
) -> None:
    job = await pool.enqueue(jobs.add, 1, 2)
    with disk.hold("sync"):
        assert await job == 3


# How many syncs there are


@pytest.mark.usefixtures("no_timer")
async def test_a_lone_job_needs_one_sync_and_no_timer(pool: Pool, disk: WatchedDisk) -> None:
    for _ in range(3):
        before = disk.syncs
        assert await pool.submit(jobs.add, 1, 2) == 3
        assert disk.syncs == before + 1


@pytest.mark.usefixtures("no_timer")
async def test_those_who_come_together_share_a_sync(pool: Pool, disk: WatchedDisk) -> None:
    before = disk.syncs
    tasks = [asyncio.create_task(pool.enqueue(jobs.add, i, 1)) for i in range(100)]
    enqueued = await asyncio.gather(*tasks)
    assert disk.syncs <= before + 3
    assert await asyncio.gather(*enqueued) == list(range(1, 101))


@pytest.mark.usefixtures("no_timer")
async def test_what_arrives_during_a_sync_shares_the_next(pool: Pool, disk: WatchedDisk) -> None:
    before = disk.syncs
    with disk.hold("sync") as gate:
        first = pool.submit(jobs.add, 0, 0)
        await gate.reached()
        later = []
        for i in range(100):
            later.append(pool.submit(jobs.add, i, 0))
            await turn(3)
    await asyncio.gather(*(job.accepted() for job in (first, *later)))
    assert disk.syncs == before + 2
    assert await asyncio.gather(*later) == list(range(100))


async def test_what_was_written_is_synced_soon_although_nobody_comes(
    pool: Pool, disk: WatchedDisk
) -> None:
    job = pool.submit(jobs.add, 1, 2)
    assert await job == 3
    await procs.eventually(
        lambda: disk.trace[-1] == ("sync", ""), within=PATIENCE_SECONDS, what="a sync"
    )
    assert_order(disk.trace, ("finished", job.id), ("sync", ""))


@pytest.mark.usefixtures("no_timer")
async def test_the_last_sync_is_that_of_closing(pool: Pool, disk: WatchedDisk, path: str) -> None:
    job = pool.submit(jobs.add, 1, 2)
    assert await job == 3
    await pool.close()
    assert_order(disk.trace, ("finished", job.id), ("closed", ""), ("sync", ""))
    assert disk.trace[-2:] == [("closed", ""), ("sync", "")]
    assert read(path)[-1]["kind"] == "closed"


@pytest.mark.usefixtures("no_timer")
async def test_a_journal_is_on_the_disk_before_the_first_job_comes(
    pool: Pool, disk: WatchedDisk
) -> None:
    assert disk.trace[-2:] == [("opened", ""), ("sync", "")]
    assert_order(disk.trace, ("asyncpool journal", ""), ("sync", ""), ("opened", ""))
