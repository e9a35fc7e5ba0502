"""A journal that is moved, deleted or replaced while it is open acknowledges nothing more."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import asyncpool
from asyncpool import JournalWriteError, Pool
from asyncpool.journal.options import Journal
from tests.cases import chores
from tests.journal.disks import PATIENCE_SECONDS, kinds_of, read
from tests.support import jobs
from tests.support.marks import Marks

WAYS = ["moved", "deleted", "replaced", "replaced_by_a_copy", "its_directory_moved"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "jobs.log"


def lose(path: Path, how: str) -> None:
    aside = path.with_name("aside")
    if how == "its_directory_moved":
        path.parent.rename(path.parent.with_name("moved"))
    elif how == "deleted":
        path.unlink()
    else:
        path.rename(aside)
    if how == "replaced":
        path.write_text("somebody else's\n")
    elif how == "replaced_by_a_copy":
        path.write_bytes(aside.read_bytes())


@pytest.mark.parametrize("how", WAYS)
async def test_it_is_noticed_before_the_next_acknowledgement(
    path: Path, marks: Marks, how: str
) -> None:
    go = Path(marks.path).with_name("go")
    async with Pool(1, journal=path, preload=chores.PRELOAD) as pool:
        events = pool.events()
        running = await pool.enqueue(chores.mark_after_gate, marks.path, "running", go)
        queued = await pool.enqueue(jobs.mark_then, marks.path, "queued")
        await running.started()
        lose(path, how)
        for _ in range(2):
            with pytest.raises(JournalWriteError, match="moved, replaced or deleted") as caught:
                await pool.enqueue(jobs.mark_then, marks.path, "refused")
            assert caught.value.errno is None
        go.touch()
        await running
        assert await queued == "queued"
    assert marks.lines() == ["running", "queued"]
    assert [event async for event in events if type(event) is asyncpool.JournalFailed]


@pytest.mark.parametrize("how", WAYS)
async def test_nothing_is_written_to_what_is_there_now(path: Path, how: str) -> None:
    async with Pool(1, journal=path) as pool:
        assert await pool.submit(jobs.add, 1, 2) == 3
        lose(path, how)
        there = path.read_bytes() if path.exists() else None
        with pytest.raises(JournalWriteError):
            await pool.submit(jobs.add, 1, 2)
    assert (path.read_bytes() if path.exists() else None) == there


async def test_a_durable_result_is_told_although_its_journal_is_gone(
    path: Path, marks: Marks
) -> None:
    go = Path(marks.path).with_name("go")
    async with Pool(1, journal=Journal(path, durable_results=True)) as pool:
        events = pool.events()
        job = await pool.enqueue(chores.mark_after_gate, marks.path, "ran", go)
        await job.started()
        path.unlink()
        go.touch()
        await job
    assert [event async for event in events if type(event) is asyncpool.JournalFailed]


async def test_a_new_pool_begins_a_new_journal(path: Path, marks: Marks) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), Pool(1, journal=path) as first:
        accepted = await first.enqueue(jobs.mark_then, marks.path, "first")
        lose(path, "moved")
        async with Pool(1, journal=path) as second:
            job = await second.enqueue(jobs.mark_then, marks.path, "second")
            assert second.recovered == []
            assert await job == "second"
        assert await accepted == "first"
    assert kinds_of(path, job.id)[0] == "submitted"
    assert kinds_of(path, accepted.id) == []
    assert kinds_of(path.with_name("aside"), accepted.id)[0] == "submitted"


async def test_another_name_is_no_loss(path: Path, tmp_path: Path) -> None:
    """Neither is a way to it through a link, nor one from a directory that was left."""
    link = tmp_path / "link.log"
    link.symlink_to(path)
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        async with Pool(1, journal=f"../{link.name}") as pool:
            os.chdir("/")
            os.link(path, tmp_path / "another.log")
            link.unlink()
            assert await pool.submit(jobs.add, 1, 2) == 3
    finally:
        os.chdir(before)
    assert read(path)[-1]["kind"] == "closed"
