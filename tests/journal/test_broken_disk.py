"""A disk that fails: what it cannot take is refused, and all else goes on."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import asyncpool
from asyncpool import JobState, JournalWriteError, Pool
from asyncpool.journal.options import Journal
from tests.cases import chores
from tests.journal.disks import PATIENCE_SECONDS, BrokenDisk, kinds_of, read, turn
from tests.support import jobs, procs
from tests.support.marks import Marks

Break = Callable[[BrokenDisk], None]


def full(disk: BrokenDisk) -> None:
    disk.room = 0


def nearly_full(disk: BrokenDisk) -> None:
    """Have a fragment written, which must be cut off."""
    disk.room = 60


def over_quota(disk: BrokenDisk) -> None:
    disk.fail("write", errno.EDQUOT)


def broken(disk: BrokenDisk) -> None:
    disk.fail("write", errno.EIO)


def unsyncable(disk: BrokenDisk) -> None:
    disk.fail("sync", errno.EIO)


def uncuttable(disk: BrokenDisk) -> None:
    disk.room = 60
    disk.fail("truncate", errno.EIO)


PASSING: list[tuple[Break, int]] = [
    (full, errno.ENOSPC),
    (nearly_full, errno.ENOSPC),
    (over_quota, errno.EDQUOT),
    (broken, errno.EIO),
]
FINAL: list[tuple[Break, int]] = [(unsyncable, errno.EIO), (uncuttable, errno.EIO)]
ALL = [*(how for how, _ in PASSING), *(how for how, _ in FINAL)]


class Left(Exception):
    """The block was left with jobs unfinished."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.fixture
def disk() -> BrokenDisk:
    return BrokenDisk()


def open_pool(path: str, disk: BrokenDisk | None = None, *, durable_results: bool = False) -> Pool:
    journal = Journal(path, durable_results=durable_results, _disk=disk or BrokenDisk())
    return Pool(1, journal=journal, preload=chores.PRELOAD)


async def left_over(path: str) -> list[str]:
    """Open the journal again; return the ids that came back, and let those jobs end."""
    async with open_pool(path) as pool:
        await asyncio.gather(*pool.recovered)
        return [job.id for job in pool.recovered]


async def refused(pool: Pool, marks: Marks, number: int) -> list[str]:
    """Have two jobs refused, and return their ids."""
    named = pool.options(id=f"enqueued {marks.count()}")
    with pytest.raises(JournalWriteError) as caught:
        await named.enqueue(jobs.mark_then, marks.path, "refused")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == number
    job = pool.submit(jobs.mark_then, marks.path, "refused")
    for wait in (job.accepted(), job, job.started()):
        with pytest.raises(JournalWriteError) as told:
            await wait
        assert told.value.errno == number
    assert (job.state, job.attempts) == (JobState.FAILED, ())
    return [f"enqueued {marks.count()}", job.id]


# What is refused


@pytest.mark.parametrize(("break_it", "number"), PASSING)
async def test_what_cannot_be_written_is_refused_until_it_can(
    path: str, disk: BrokenDisk, marks: Marks, break_it: Break, number: int
) -> None:
    async with open_pool(path, disk) as pool:
        assert await pool.submit(jobs.mark_then, marks.path, "before") == "before"
        break_it(disk)
        ids = await refused(pool, marks, number)
        disk.repair()
        again = pool.options(id=ids[0])  # it never had its chance
        assert await again.submit(jobs.mark_then, marks.path, "after") == "after"
        assert pool.jobs() == []
    assert marks.lines() == ["before", "after"]
    assert kinds_of(path, ids[1]) == []
    assert await left_over(path) == []
    assert marks.count() == 2


@pytest.mark.parametrize(("break_it", "number"), FINAL)
async def test_what_the_disk_may_have_lost_is_the_end_until_it_is_opened_again(
    path: str, disk: BrokenDisk, marks: Marks, break_it: Break, number: int
) -> None:
    async with open_pool(path, disk) as pool:
        assert await pool.submit(jobs.mark_then, marks.path, "before") == "before"
        break_it(disk)
        with pytest.raises(JournalWriteError) as caught:
            await pool.options(id="met it").enqueue(jobs.mark_then, marks.path, "met it")
        assert caught.value.errno in (number, errno.ENOSPC)
        disk.repair()
        written = len(disk.trace)
        await refused(pool, marks, number)
        assert disk.trace[written:] == []
    assert marks.lines() == ["before"]
    back = await left_over(path)
    assert set(back) <= {"met it"}
    assert marks.lines()[1:] == back


async def test_short_writes_are_no_failure(path: str, disk: BrokenDisk) -> None:
    disk.longest_write = 7
    async with open_pool(path, disk) as pool:
        results = await asyncio.gather(*(pool.submit(jobs.add, i, 1) for i in range(50)))
    assert results == list(range(1, 51))
    assert read(path)[-1]["kind"] == "closed"
    assert await left_over(path) == []


@pytest.mark.parametrize("seed", range(4))
async def test_what_was_acknowledged_comes_back_and_nothing_else(
    path: str, disk: BrokenDisk, seed: int
) -> None:
    chance = random.Random(seed)
    accepted: list[str] = []
    with suppress(Left):
        async with open_pool(path, disk) as pool:
            await pool.options(id="busy").enqueue(jobs.sleep_return, chores.FOR_EVER, "busy")
            for i in range(40):
                if chance.random() < 0.4:
                    chance.choice([full, nearly_full, over_quota, broken])(disk)
                with suppress(JournalWriteError):
                    await pool.options(id=f"{i}").enqueue(jobs.add, i, 1)
                    accepted.append(f"{i}")
                disk.repair()
            raise Left
    assert 0 < len(accepted) < 40
    async with open_pool(path) as pool:
        assert [job.id for job in pool.recovered] == ["busy", *accepted]
        await pool.close(cancel=True)


# What goes on


@pytest.mark.parametrize("durable_results", [False, True])
@pytest.mark.parametrize("break_it", ALL)
async def test_who_waits_for_a_result_gets_it(
    path: str, disk: BrokenDisk, marks: Marks, break_it: Break, durable_results: bool
) -> None:
    """Also of jobs that are sent only now."""
    go = Path(marks.path).with_name("go")
    async with open_pool(path, disk, durable_results=durable_results) as pool:
        events = pool.events()
        accepted = [
            await pool.enqueue(chores.mark_after_gate, marks.path, f"{i}", go) for i in range(5)
        ]
        await accepted[0].started()
        break_it(disk)
        with pytest.raises(JournalWriteError):
            await pool.enqueue(jobs.add, 1, 2)
        go.touch()
        await asyncio.gather(*accepted)
    assert marks.lines() == [f"{i}" for i in range(5)]
    failures = [event.error async for event in events if type(event) is asyncpool.JournalFailed]
    assert failures
    assert path in failures[0]


@pytest.mark.parametrize("nudge", [False, True], ids=["by_itself", "with_the_next_job"])
@pytest.mark.parametrize("break_it", [how for how, _ in PASSING])
async def test_what_is_owed_is_written_when_the_disk_works_again(
    path: str, disk: BrokenDisk, marks: Marks, break_it: Break, nudge: bool
) -> None:
    go = Path(marks.path).with_name("go")
    with suppress(Left):
        async with open_pool(path, disk) as pool:
            ran = await pool.enqueue(chores.mark_after_gate, marks.path, "ran", go)
            sent = await pool.enqueue(chores.sleep_between_marks, marks.path)
            await ran.started()
            break_it(disk)
            go.touch()
            await ran
            await sent.started()  # although that could not be written down
            assert kinds_of(path, ran.id)[-1] != "finished"
            disk.repair()
            if nudge:
                await pool.enqueue(jobs.add, 1, 2)
            await procs.eventually(
                lambda: kinds_of(path, ran.id)[-1] == "finished", within=PATIENCE_SECONDS
            )
            assert kinds_of(path, sent.id) == ["submitted", "sent"]
            raise Left
    assert ran.id not in {job["id"] for job in read(path) if job["kind"] == "retried"}
    async with open_pool(path) as pool:
        assert pool.recovered[0].id == sent.id
        assert ran.id not in {job.id for job in pool.recovered}
        assert pool.recovered[0].cancel()


@pytest.mark.parametrize("when", ["at_once", "while_it_is_written"])
async def test_what_was_cancelled_and_refused_has_no_end_without_a_beginning(
    path: str, disk: BrokenDisk, when: str
) -> None:
    async with open_pool(path, disk) as pool:
        disk.fail("write", errno.EIO)
        with disk.hold("submitted") as gate:
            job = pool.submit(jobs.add, 1, 2)
            if when == "while_it_is_written":
                await gate.reached()
            job.cancel()
            await turn()
        with pytest.raises(asyncio.CancelledError):
            await job.accepted()
        with pytest.raises(JournalWriteError):
            await pool.enqueue(jobs.add, 1, 2)
        disk.repair()
        assert await pool.submit(jobs.add, 1, 2) == 3
    assert kinds_of(path, job.id) == []


# The end


@pytest.mark.parametrize("end", ["normally", "cancelled", "by_an_exception"])
@pytest.mark.parametrize("break_it", ALL)
async def test_closing_ends_however_the_disk_fails(
    path: str, disk: BrokenDisk, break_it: Break, end: str
) -> None:
    seconds = 0.05 if end == "normally" else chores.FOR_EVER
    async with asyncio.timeout(PATIENCE_SECONDS):
        with suppress(Left):
            async with open_pool(path, disk) as pool:
                job = await pool.enqueue(jobs.sleep_return, seconds, "slept")
                queued = await pool.enqueue(jobs.add, 1, 2)
                await job.started()
                break_it(disk)
                if end == "cancelled":
                    await pool.close(cancel=True)
                elif end == "by_an_exception":
                    raise Left
    if end == "normally":
        assert (job.result(), queued.result()) == ("slept", 3)
    else:
        assert (job.cancelled(), queued.cancelled()) == (True, True)
    async with open_pool(path) as pool:
        assert {job.id, queued.id}.issuperset({each.id for each in pool.recovered})
        await pool.close(cancel=True)


async def test_a_failing_journal_is_one_line_in_the_log(
    path: str, disk: BrokenDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pool(path, disk) as pool:
        for _ in range(2):
            full(disk)
            for _ in range(5):
                with pytest.raises(JournalWriteError):
                    await pool.enqueue(jobs.add, 1, 2)
            disk.repair()
            assert await pool.submit(jobs.add, 1, 2) == 3
    lines = [record.getMessage() for record in caplog.records if record.name == "asyncpool"]
    assert len(lines) == 2
    assert all("No space left on device" in line for line in lines)
