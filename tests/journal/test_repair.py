"""`asyncpool journal repair`: whatever happened to the file, what is whole of it stays."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from asyncpool.errors import JournalError, JournalWriteError
from asyncpool.journal.disk import Disk
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.lines import SEAL_SIZE, seal
from asyncpool.journal.options import Journal
from asyncpool.journal.repair import repair

from . import sample
from .sample import accepted, damage, run, states

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.log"
    sample.a_day(path)
    return path


# What can be damaged, case by case


def cut_out(path: Path, kind: str, id: str | None = None) -> bytes:
    """Delete the last line of that kind."""
    _, offset, size = sample.find(path, kind, id)
    data = path.read_bytes()
    path.write_bytes(data[:offset] + data[offset + size :])
    return data[offset : offset + size]


def test_a_job_whose_end_was_lost_runs_again_and_that_is_said(day: Path, capsys: Capture) -> None:
    damage(day, sample.find(day, "finished", "done").offset + 30)
    assert run("repair", day) == 0
    out = capsys.readouterr().out
    assert f"kept as {day}.damaged-1\n" in out
    assert "1 broken line\n" in out
    affected = out.partition("run again:\n")[2].split()[::2]
    assert affected == ["done", "new"]  # of the others we read later than that
    ledger = Ledger.open(Journal(day))
    assert "done" in ledger.index.unfinished
    ledger.close()


def test_a_job_whose_submission_was_lost_is_gone_and_that_is_said(
    day: Path, capsys: Capture
) -> None:
    cut_out(day, "submitted", "running")
    assert run("verify", day) == 1
    assert "record 9 follows record 7" in capsys.readouterr().out
    assert run("repair", day) == 0
    out = capsys.readouterr().out
    assert out.endswith("submit them again:\n    running\n")
    assert "dropped: 0 bytes, 0 broken lines\n  lost: 1 record," in out


def test_a_job_of_which_nothing_is_left_is_counted(day: Path, capsys: Capture) -> None:
    cut_out(day, "submitted", "new")
    assert run("repair", day) == 0
    assert "  lost: 1 record, to go by the numbers of the others\n" in capsys.readouterr().out


def test_a_broken_record_at_the_end_was_not_torn_by_a_crash(day: Path, capsys: Capture) -> None:
    last = sample.lines(day)[-1]
    damage(day, last.offset + 20)
    assert run("verify", day) == 1
    out = capsys.readouterr().out
    assert f"at byte {last.offset}, " in out
    assert run("repair", day) == 0
    out = capsys.readouterr().out
    assert f"dropped: {last.size} bytes, 1 broken line\n" in out
    assert len(accepted(day.read_bytes())) == last.record["seq"]


def test_a_lost_title_is_replaced(day: Path) -> None:
    lines = day.read_bytes().splitlines(keepends=True)
    damage(day, 30)
    assert run("repair", day) == 0
    assert accepted(day.read_bytes())[1:] == lines[1:]


def test_a_title_that_allows_for_what_is_there_is_kept(day: Path) -> None:
    data = day.read_bytes()
    end = sample.find(day, "submitted", "late").offset
    day.write_bytes(data[:end] + b"junk\n" + data[end:])
    assert run("repair", day) == 0
    assert day.read_bytes() == data


def test_a_newline_that_was_lost_costs_no_record(day: Path, capsys: Capture) -> None:
    data = day.read_bytes()
    _, offset, size = sample.find(day, "finished", "done")
    damage(day, offset + size - 1)
    assert run("verify", day) == 1
    assert "its newline is overwritten" in capsys.readouterr().out
    assert run("repair", day) == 0
    assert day.read_bytes() == data


def test_records_behind_which_nothing_is_whole_are_no_torn_tail(day: Path, capsys: Capture) -> None:
    """The next pool would cut off the last two records, both of which were acknowledged."""
    data = day.read_bytes()
    damage(day, sample.lines(day)[-1].offset - 1)
    assert run("verify", day) == 1
    assert run("repair", day) == 0
    assert day.read_bytes() == data


def test_what_stands_there_twice_happens_once(day: Path, capsys: Capture) -> None:
    data = day.read_bytes()
    _, offset, size = sample.find(day, "submitted", "done")
    day.write_bytes(data + data[offset : offset + size])
    assert run("verify", day) == 1
    assert run("repair", day) == 0
    assert day.read_bytes() == data
    run("show", day)
    assert states(capsys.readouterr().out.partition("state ")[2])["done"] == "done"


def test_two_journals_in_one_file_become_one(tmp_path: Path, day: Path) -> None:
    other = tmp_path / "other.log"
    sample.write(other, *map(sample.submitted, "abc"), sample.done("b")).close()
    first, second = day.read_bytes(), other.read_bytes()
    day.write_bytes(first + second)
    assert run("repair", day) == 0
    found = day.read_bytes()
    accepted(found)
    assert found.startswith(first)
    kinds = [line.record["kind"] for line in sample.lines(day)][-5:]
    assert kinds == ["opened", *["submitted"] * 3, "finished"]
    end = sample.find(day, "finished", "b").record
    assert {**end, "seq": 0} == {**sample.find(other, "finished", "b").record, "seq": 0}


def test_a_compacted_journal_keeps_its_gaps(day: Path) -> None:
    run("compact", day)
    lines = day.read_bytes().splitlines(keepends=True)
    _, offset, size = sample.find(day, "finished", "late")
    damage(day, offset + size // 2)
    assert run("repair", day) == 0
    found = accepted(day.read_bytes())
    assert found[0] == lines[0]
    assert len(found) == len(lines) - 1


def test_a_repaired_journal_goes_on(day: Path) -> None:
    damage(day, sample.find(day, "finished", "late").offset + 9)
    run("repair", day)
    ledger = Ledger.open(Journal(day))
    ledger.write([sample.submitted("later")], sync=True)
    ledger.close()
    assert sample.find(day, "submitted", "later")
    assert run("verify", day) == 0


# What is left as it is


def test_nothing_is_done_to_a_journal_that_is_well(day: Path, capsys: Capture) -> None:
    with day.open("ab") as file:
        file.write(b'{"seq":99,"kind":"fin')
    before = day.read_bytes()
    assert run("repair", day) == 0
    assert "left as it is" in capsys.readouterr().out
    assert day.read_bytes() == before
    assert list(day.parent.iterdir()) == [day]


def test_older_copies_are_kept(day: Path) -> None:
    older = day.with_name("jobs.log.damaged-1")
    older.write_text("old")
    damage(day, sample.find(day, "finished", "done").offset + 30)
    before = day.read_bytes()
    assert run("repair", day) == 0
    assert older.read_text() == "old"
    assert day.with_name("jobs.log.damaged-2").read_bytes() == before


def test_a_newer_format_behind_damage_is_refused(day: Path, capsys: Capture) -> None:
    newer = day.read_bytes().replace(b'"format":1', b'"format":2', 1)
    title, _, rest = newer.partition(b"\n")
    body = title[len(b'{"seq":0,') : 1 - SEAL_SIZE].decode()
    day.write_bytes(b"junk\n" + seal(0, body) + rest)
    before = day.read_bytes()
    assert run("repair", day) == 1
    assert "has format 2" in capsys.readouterr().err
    assert day.read_bytes() == before


class FailingDisk(Disk):
    """Fails at the n-th call of one kind."""

    def __init__(self, call: str, good: int) -> None:
        self._call = call
        self._good = good

    def _count(self, call: str) -> None:
        if call == self._call:
            self._good -= 1
            if self._good < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._count("write")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._count("sync")
        super().sync(fd)

    def replace(self, new: str, old: str) -> None:
        self._count("replace")
        super().replace(new, old)

    def sync_directory(self, path: str) -> None:
        self._count("sync_directory")
        super().sync_directory(path)


@pytest.mark.parametrize(
    ("call", "good"),
    [("write", 0), ("write", 1), ("sync", 0), ("sync", 1), ("replace", 0), ("sync_directory", 0)],
)
def test_a_disk_that_fails_leaves_all_as_it_was(day: Path, call: str, good: int) -> None:
    damage(day, sample.find(day, "finished", "done").offset + 30)
    before = day.read_bytes()
    with pytest.raises(JournalWriteError, match="No space left"):
        repair(str(day), FailingDisk(call, good))
    assert day.read_bytes() == before
    assert list(day.parent.iterdir()) == [day]


def test_the_copy_stays_once_the_journal_is_replaced(day: Path) -> None:
    damage(day, sample.find(day, "finished", "done").offset + 30)
    before = day.read_bytes()
    with pytest.raises(JournalError):
        repair(str(day), FailingDisk("sync_directory", 1))
    assert day.with_name("jobs.log.damaged-1").read_bytes() == before
    accepted(day.read_bytes())
