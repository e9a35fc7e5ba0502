"""A disk that fails loses nothing that was acknowledged, and nothing is acknowledged in vain."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asyncpool.errors import JournalLocked, JournalWriteError
from asyncpool.journal.ledger import Ledger, Note
from asyncpool.journal.options import Journal

from .failing import FailingDisk, dying
from .notes import finished, requeued, submitted

BATCH = [submitted("b"), submitted("c", payload=b"x" * 50), finished("a")]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
def ledger(path: str, disk: FailingDisk) -> Iterator[Ledger]:
    """A journal in which job "a" was acknowledged."""
    with closing(Ledger.open(Journal(path, _disk=disk))) as ledger:
        ledger.write([submitted("a")], sync=True)
        yield ledger


def jobs_of(path: str) -> tuple[list[str], list[str]]:
    """Return the unfinished and the finished jobs that a new owner finds."""
    with closing(Ledger.open(Journal(path))) as ledger:
        return list(ledger.index.unfinished), list(ledger.index.finished)


def refused(ledger: Ledger, notes: list[Note], *, sync: bool = True) -> JournalWriteError:
    with pytest.raises(JournalWriteError) as caught:
        ledger.write(notes, sync=sync)
    return caught.value


# Writing


@pytest.mark.parametrize("piece", [1, 2, 7, 100])
def test_short_writes_are_continued(
    path: str, ledger: Ledger, disk: FailingDisk, piece: int
) -> None:
    disk.piece = piece
    ledger.write(BATCH, sync=True)
    assert disk.calls.count("write") > 3
    ledger.close()
    assert jobs_of(path) == (["b", "c"], ["a"])


def test_compaction_continues_short_writes(path: str, ledger: Ledger, disk: FailingDisk) -> None:
    ledger.write(BATCH, sync=True)
    disk.piece = 3
    ledger.compact()
    ledger.close()
    assert jobs_of(path) == (["b", "c"], ["a"])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize("sync", [True, False])
def test_a_batch_that_does_not_fit_is_taken_back(
    path: str, ledger: Ledger, disk: FailingDisk, number: int, sync: bool
) -> None:
    before = Path(path).read_bytes()
    disk.errors["write"] = number
    for room in range(0, sum(len(body) for _, _, body, _ in BATCH), 17):
        disk.room = room
        error = refused(ledger, BATCH, sync=sync)
        assert error.errno == number
        assert ("When there is room again" in str(error)) is (number != errno.EIO)
        assert Path(path).read_bytes() == before
        assert list(ledger.index.unfinished) == ["a"]
    disk.errors.clear()
    disk.room = None
    ledger.write(BATCH, sync=True)
    ledger.close()
    assert jobs_of(path) == (["b", "c"], ["a"])


def test_a_fragment_that_cannot_be_cut_off_ends_the_writing(
    path: str, ledger: Ledger, disk: FailingDisk
) -> None:
    disk.errors = {"write": errno.ENOSPC, "truncate": errno.EIO}
    disk.room = 100
    assert refused(ledger, BATCH).errno == errno.ENOSPC
    assert ledger.is_poisoned
    disk.errors.clear()
    disk.room = None
    again = refused(ledger, [submitted("d")])
    assert "holds half a record" in str(again)
    assert again.errno == errno.EIO
    ledger.close()
    assert jobs_of(path) == (["a"], [])
    assert jobs_of(path) == (["a"], [])


# Syncing


def test_after_a_failed_sync_nothing_is_taken(path: str, ledger: Ledger, disk: FailingDisk) -> None:
    disk.errors["sync"] = errno.EIO
    error = refused(ledger, [submitted("b")])
    assert (error.errno, ledger.is_poisoned) == (errno.EIO, True)
    disk.errors.clear()
    for sync in (True, False):
        again = refused(ledger, [submitted("c")], sync=sync)
        assert (again.errno, str(again)) == (error.errno, str(error))
        assert "must be reopened" in str(again)
    assert "b" not in ledger.index.unfinished
    ledger.close()
    # The one that met the failure may reappear; those that came later never do.
    assert jobs_of(path) == (["a", "b"], [])
    with closing(Ledger.open(Journal(path))) as reopened:
        reopened.write([submitted("c")], sync=True)
    assert jobs_of(path) == (["a", "b", "c"], [])


def test_a_sync_that_works_after_one_that_failed_says_nothing(
    ledger: Ledger, disk: FailingDisk
) -> None:
    # The kernel tells of lost pages once, and the next fsync succeeds without them.
    ledger.write([finished("a")], sync=False)
    disk.errors["sync"] = errno.EIO
    with pytest.raises(JournalWriteError):
        ledger.sync()
    disk.errors.clear()
    with pytest.raises(JournalWriteError, match="must be reopened") as caught:
        ledger.sync()
    assert caught.value.errno == errno.EIO


# Opening


@pytest.mark.parametrize("call", ["write", "sync", "sync_directory"])
def test_a_journal_that_cannot_be_begun_is_not_open(
    path: str, disk: FailingDisk, call: str
) -> None:
    disk.errors[call] = errno.EIO
    for _ in range(2):
        with pytest.raises(JournalWriteError) as caught:
            Ledger.open(Journal(path, _disk=disk))
        assert caught.value.errno == errno.EIO
    assert jobs_of(path) == ([], [])


def test_every_opening_syncs_the_directory(path: str) -> None:
    # The last owner may have died between its file's creation, or exchange, and this.
    for _ in range(2):
        disk = FailingDisk()
        Ledger.open(Journal(path, _disk=disk)).close()
        assert "sync_directory" in disk.calls


@pytest.mark.parametrize("call", ["truncate", "sync"])
def test_a_torn_end_that_cannot_be_cut_off(
    path: str, ledger: Ledger, disk: FailingDisk, call: str
) -> None:
    ledger.close()
    with open(path, "ab") as file:
        file.write(b'{"seq":3,"ki')
    disk.errors[call] = errno.EIO
    with pytest.raises(JournalWriteError, match="torn end of journal"):
        Ledger.open(Journal(path, _disk=disk))
    assert jobs_of(path) == (["a"], [])


@pytest.mark.parametrize("dies_at", range(5))
def test_death_while_it_is_made(path: str, disk: FailingDisk, dies_at: int) -> None:
    disk.dies_at = dies_at
    with dying():
        Ledger.open(Journal(path, _disk=disk))
    assert jobs_of(path) == ([], [])


# Compaction


@pytest.mark.parametrize("call", ["write", "sync", "replace"])
def test_a_compaction_that_fails_leaves_the_old_file_in_use(
    path: str, ledger: Ledger, disk: FailingDisk, call: str
) -> None:
    before = Path(path).read_bytes()
    disk.errors[call] = errno.ENOSPC
    with pytest.raises(JournalWriteError, match=r"\.compacting cannot be written") as caught:
        ledger.compact()
    assert caught.value.errno == errno.ENOSPC
    assert Path(path).read_bytes() == before
    assert not Path(f"{path}.compacting").exists()
    disk.errors.clear()
    ledger.write(BATCH, sync=True)
    end = ledger.read_end("a")
    assert end is not None
    assert end[1]["kind"] == "finished"
    with pytest.raises(JournalLocked):
        Ledger.open(Journal(path))
    ledger.close()
    assert jobs_of(path) == (["b", "c"], ["a"])


def test_a_bug_in_a_compaction_leaves_the_old_file_in_use(
    path: str, ledger: Ledger, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(fd: int) -> None:
        raise MemoryError

    monkeypatch.setattr(disk, "sync", no_memory)
    with pytest.raises(MemoryError):
        ledger.compact()
    monkeypatch.undo()
    ledger.write(BATCH, sync=True)
    ledger.close()
    assert jobs_of(path) == (["b", "c"], ["a"])


def test_an_exchange_that_may_be_undone_takes_nothing_more(
    path: str, ledger: Ledger, disk: FailingDisk
) -> None:
    disk.errors["sync_directory"] = errno.EIO
    with pytest.raises(JournalWriteError, match="the directory of journal"):
        ledger.compact()
    disk.errors.clear()
    assert refused(ledger, BATCH).errno == errno.EIO
    ledger.close()
    assert jobs_of(path) == (["a"], [])


def test_it_does_not_take_the_place_of_anothers_file(path: str, ledger: Ledger) -> None:
    Path(path).rename(f"{path}.1")
    with closing(Ledger.open(Journal(path))) as other:
        other.write([submitted("other")], sync=True)
        with pytest.raises(JournalWriteError, match="moved, replaced or deleted"):
            ledger.compact()
        other.write([requeued("other")], sync=True)
    assert jobs_of(path) == (["other"], [])
    ledger.close()
    assert jobs_of(f"{path}.1") == (["a"], [])


@pytest.mark.parametrize("obstacle", ["directory", "symlink"])
def test_what_stands_where_it_is_written(path: str, ledger: Ledger, obstacle: str) -> None:
    beside, elsewhere = Path(f"{path}.compacting"), Path(f"{path}.elsewhere")
    elsewhere.write_text("untouched")
    if obstacle == "symlink":
        beside.symlink_to(elsewhere)
        ledger.compact()
    else:
        beside.mkdir()
        with pytest.raises(JournalWriteError, match=r"\.compacting cannot be made"):
            ledger.compact()
    ledger.write([submitted("b")], sync=True)
    ledger.close()
    assert jobs_of(path) == (["a", "b"], [])
    assert elsewhere.read_text() == "untouched"
