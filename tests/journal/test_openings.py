"""A journal that cannot be opened is told where the pool is entered, and nothing is left of it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asyncpool import JournalCorrupt, JournalError, JournalLocked, JournalWriteError, Pool
from asyncpool.journal.options import Journal
from tests.cases.soundness import full_crew
from tests.journal.disks import BrokenDisk, WatchedDisk, kinds_of, read
from tests.support import jobs
from tests.support.leaks import take_inventory
from tests.support.marks import Marks

NOBODY = 65_534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.log"


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    before = take_inventory()
    yield
    assert take_inventory().leftovers(before) == []


async def fail_to_enter(pool: Pool, error: type[JournalError]) -> JournalError:
    """Enter the pool, which must raise and leave nothing; return what it raised."""
    with nothing_left_behind(), pytest.raises(error) as caught:
        await pool.__aenter__()
    assert pool.workers() == []
    with pytest.raises(RuntimeError, match="not open"):
        pool.submit(jobs.add, 1, 2)
    return caught.value


async def works(pool: Pool) -> None:
    async with pool:
        assert await pool.submit(jobs.add, 40, 2) == 42


async def test_two_pools_cannot_have_one_journal(path: Path) -> None:
    second = Pool(1, journal=path)
    async with Pool(1, journal=path) as first:
        await full_crew(first, 1)
        for _ in range(2):
            error = await fail_to_enter(second, JournalLocked)
            assert isinstance(error, JournalLocked)
            assert error.pid == os.getpid()
        assert await first.submit(jobs.add, 1, 2) == 3
    await works(second)


async def test_nor_if_they_name_it_differently(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.log"
    link.symlink_to(path)
    async with Pool(1, journal=link) as first:
        await full_crew(first, 1)
        await fail_to_enter(Pool(1, journal=path), JournalLocked)


async def test_a_directory_is_no_journal(tmp_path: Path) -> None:
    pool = Pool(1, journal=tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    error = await fail_to_enter(pool, JournalWriteError)
    assert isinstance(error, OSError)
    assert error.errno == errno.EISDIR
    (tmp_path / "folder").rmdir()
    await works(pool)


async def test_a_directory_that_is_missing_is_not_made(tmp_path: Path) -> None:
    pool = Pool(1, journal=tmp_path / "missing" / "jobs.log")
    error = await fail_to_enter(pool, JournalWriteError)
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOENT
    assert not (tmp_path / "missing").exists()
    (tmp_path / "missing").mkdir()
    await works(pool)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody, if we are root, whom no permission stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_directory_in_which_we_may_not_write() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o555)
        pool = Pool(1, journal=Path(directory) / "jobs.log")
        with unprivileged():
            error = await fail_to_enter(pool, JournalWriteError)
        assert isinstance(error, OSError)
        assert error.errno == errno.EACCES
        assert os.listdir(directory) == []
        os.chmod(directory, 0o755)
        await works(pool)


async def test_a_damaged_journal_is_left_as_it_is(path: Path, marks: Marks) -> None:
    async with Pool(1, journal=path) as pool:
        job = await pool.enqueue(jobs.mark_then, marks.path, "once")
        await job
    whole = path.read_bytes()
    at = whole.index(b'"kind":"submitted"')
    damaged = whole[:at] + b"X" + whole[at + 1 :]
    path.write_bytes(damaged)
    pool = Pool(1, journal=path)
    for _ in range(2):
        error = await fail_to_enter(pool, JournalCorrupt)
        assert isinstance(error, JournalCorrupt)
        assert error.path == str(path)
        assert whole[error.offset :].startswith(b'{"seq":')
        assert error.offset == whole.rindex(b"\n", 0, at) + 1
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    await works(pool)
    assert marks.lines() == ["once"]


async def test_the_file_of_another_program_is_left_as_it_is(path: Path) -> None:
    path.write_text("Dear diary,\n")
    await fail_to_enter(Pool(1, journal=path), JournalCorrupt)
    assert path.read_text() == "Dear diary,\n"


@pytest.mark.parametrize("exists", [False, True], ids=["new", "old"])
@pytest.mark.parametrize(
    ("call", "number"),
    [("write", errno.ENOSPC), ("write", errno.EIO), ("sync", errno.EIO)],
)
async def test_a_disk_that_fails_meanwhile(
    path: Path, call: str, number: int, exists: bool
) -> None:
    if exists:
        await works(Pool(1, journal=path))
    disk = BrokenDisk()
    disk.fail(call, number)
    pool = Pool(1, journal=Journal(path, _disk=disk))
    for _ in range(2):
        error = await fail_to_enter(pool, JournalWriteError)
        assert isinstance(error, OSError)
        assert error.errno == number
    disk.repair()
    await works(pool)


async def test_a_torn_end_that_cannot_be_cut_off(path: Path) -> None:
    await works(Pool(1, journal=path))
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"seq":')
    disk = BrokenDisk()
    disk.fail("truncate", errno.EIO)
    pool = Pool(1, journal=Journal(path, _disk=disk))
    error = await fail_to_enter(pool, JournalWriteError)
    assert isinstance(error, OSError)
    assert error.errno == errno.EIO
    disk.repair()
    await works(pool)
    assert path.read_bytes().startswith(whole)
    assert read(path)[-1]["kind"] == "closed"


async def test_a_second_life_begins_where_the_first_one_ended(path: Path) -> None:
    disk = WatchedDisk()
    for _ in range(3):
        await works(Pool(1, journal=Journal(path, _disk=disk)))
    kinds = [record["kind"] for record in read(path)]
    assert kinds[:2] == ["asyncpool journal", "opened"]
    assert (kinds.count("opened"), kinds.count("closed"), kinds.count("submitted")) == (3, 3, 3)
    ids = {record["id"] for record in read(path) if record["kind"] == "submitted"}
    assert {tuple(kinds_of(path, job_id)) for job_id in ids} == {("submitted", "sent", "finished")}
