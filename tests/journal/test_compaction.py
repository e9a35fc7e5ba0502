"""Compaction keeps what matters, whoever dies over it and whoever reads meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from asyncpool.journal import index as index_module
from asyncpool.journal import ledger as ledger_module
from asyncpool.journal import records
from asyncpool.journal.disk import Disk
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.lines import Record
from asyncpool.journal.options import DAY, Journal

from .failing import FailingDisk, LazyDisk, dying
from .notes import finished, retried, sent, submitted

FRAME = 1_000
"""More bytes than the title and the record of the opening take."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


def opened(path: str, disk: Disk | None = None, *, retention: float = DAY) -> Ledger:
    return Ledger.open(Journal(path, retention=retention, _disk=disk or LazyDisk()))


def fill(ledger: Ledger) -> None:
    """Write a job in every state, and what is forgotten."""
    for key in ("ended", "named", "retried", "running", "next", "waiting"):
        ledger.write([submitted(key, named=key == "named", payload=key.encode())], sync=False)
    ledger.write([sent("ended", "retried", worker=1)], sync=False)
    now = round(time.time(), 3)  # as it is written
    ledger.write([finished("ended", b"1"), finished("named", b"2", time=now)], sync=False)
    ledger.write([retried("retried", crashes=1, errors=2)], sync=False)
    ledger.write([sent("running", worker=2, pid=78, time=6.0)], sync=False)
    ledger.write([sent("next", "waiting", worker=3, pid=79, time=7.0)], sync=False)


def contents(ledger: Ledger) -> dict[str, object]:
    """Return all that is known of the jobs, with what their records say."""

    def text(record: Record) -> dict[str, object]:
        return {key: value for key, value in record.items() if key != "seq"}

    index = ledger.index
    return {
        **{
            key: (*(text(ledger.read(line)) for line in job.lines), job.crashes, job.errors)
            for key, job in index.unfinished.items()
        },
        **{
            key: (*(text(ledger.read(line)) for line in job.lines), job.named, job.time)
            for key, job in index.finished.items()
        },
        "running": [(key, pid, sent_at) for key, _, pid, sent_at in index.running()],
        "live": index.live,
    }


# What is kept


def test_nothing_that_matters_changes(path: str) -> None:
    with closing(opened(path)) as ledger:
        fill(ledger)
        before = contents(ledger)
        assert before["running"] == [("running", 78, 6.0)]
        for _ in range(3):
            ledger.compact()
            assert contents(ledger) == before
            assert ledger.size == os.path.getsize(path)
    with closing(Ledger.open_as_it_is(Journal(path))) as ledger:
        assert contents(ledger) == before


def test_numbers_go_on_after_it(path: str) -> None:
    with closing(opened(path)) as ledger:
        fill(ledger)
        ledger.compact()
        ledger.write([submitted("new")], sync=False)
    with closing(opened(path)) as ledger:
        assert "new" in ledger.index.unfinished
        assert ledger.index.unfinished["running"].crashes == 1
        assert ledger.index.unfinished["next"].crashes == 0


def test_an_empty_journal(path: str) -> None:
    for _ in range(3):
        with closing(opened(path)) as ledger:
            ledger.compact()
            assert ledger.size < FRAME
            assert contents(ledger) == {"running": [], "live": 0}


def test_the_size_is_that_of_what_matters(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "UNNAMED_KEPT", 10)
    with closing(opened(path)) as ledger:
        for number in range(300):
            key = f"job {number}"
            job = [submitted(key, payload=bytes(500)), sent(key, worker=1), finished(key)]
            ledger.write(job, sync=False)
        before = ledger.size
        ledger.compact()
        assert ledger.index.live < ledger.size < ledger.index.live + FRAME
        assert ledger.size * 20 < before
        assert list(ledger.index.finished) == [f"job {number}" for number in range(290, 300)]


def test_an_old_unfinished_job_pins_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "UNNAMED_KEPT", 1)
    with closing(opened(path)) as ledger:
        ledger.write([submitted("old")], sync=False)
        sizes = []
        for _ in range(5):
            for key in ("x", "y") * 50:
                ledger.write([submitted(key, payload=bytes(500)), finished(key)], sync=False)
            ledger.compact()
            sizes.append(ledger.size)
        assert max(sizes) < min(sizes) + 50  # numbers of more digits
        assert list(ledger.index.unfinished) == ["old"]


def test_a_name_is_kept_as_long_as_the_options_say(path: str) -> None:
    now = time.time()
    with closing(opened(path, retention=100 * DAY)) as ledger:
        for key, age in (("older", 11 * DAY), ("old", 9 * DAY), ("young", 0.0)):
            job = [submitted(key, named=True), finished(key, time=now - age)]
            ledger.write(job, sync=False)
        ledger.compact()
        assert list(ledger.index.finished) == ["older", "old", "young"]
    with closing(opened(path, retention=10 * DAY)) as ledger:
        ledger.compact()
        assert list(ledger.index.finished) == ["old", "young"]
    with closing(opened(path, retention=100 * DAY)) as ledger:
        assert list(ledger.index.finished) == ["old", "young"]


# Death


def count_calls(path: str) -> int:
    disk = FailingDisk()
    with closing(opened(path, disk)) as ledger:
        fill(ledger)
        disk.calls.clear()
        ledger.compact()
    os.unlink(path)
    return len(disk.calls)


def test_death_at_any_call_of_the_disk(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "BATCH", 300)  # so that there are several writes
    calls = count_calls(path)
    assert calls > 6
    left = 0
    for dies_at in range(calls):
        disk = FailingDisk()
        ledger = opened(path, disk)
        fill(ledger)
        before = contents(ledger)
        disk.dies_at = len(disk.calls) + dies_at
        with dying():
            ledger.compact()
        left += os.path.exists(f"{path}.compacting")
        with closing(Ledger.open_as_it_is(Journal(path))) as ledger:
            assert contents(ledger) == before, f"after death at {disk.calls[-1]}"
            ledger.compact()
            assert contents(ledger) == before
        assert os.listdir(os.path.dirname(path)) == ["jobs.log"]
        os.unlink(path)
    assert left == calls - 1  # all but the one that syncs the directory


def test_what_was_left_beside_it_is_never_read(path: str) -> None:
    with closing(opened(f"{path}.compacting")) as other:
        other.write([submitted("of one who died over it")], sync=False)
    for _ in range(2):
        with closing(opened(path)) as ledger:
            ledger.write([submitted("a")], sync=False)
            assert list(ledger.index.unfinished) == ["a"]
    assert os.path.exists(f"{path}.compacting")
    with closing(opened(path)) as ledger:
        ledger.compact()
        assert list(ledger.index.unfinished) == ["a"]
    assert os.listdir(os.path.dirname(path)) == ["jobs.log"]


def test_it_is_on_the_disk_before_it_has_its_name(path: str) -> None:
    disk = FailingDisk()
    with closing(opened(path, disk)) as ledger:
        fill(ledger)
        disk.calls.clear()
        ledger.compact()
    assert disk.calls == ["write", "sync", "replace", "sync_directory"]


# Reading


class InterruptedDisk(LazyDisk):
    """Has somebody look at each step of a compaction."""

    def __init__(self) -> None:
        self.look: Callable[[], None] = lambda: None
        self.others: list[Thread] = []

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.look()
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self.look()

    def replace(self, new: str, old: str) -> None:
        self._let_another_look()  # before, and maybe while or after
        super().replace(new, old)
        self._let_another_look()

    def _let_another_look(self) -> None:
        thread = Thread(target=self.look)
        thread.start()
        self.others.append(thread)

    def sync_directory(self, path: str) -> None:
        self.look()


def test_ends_are_read_all_the_time(path: str) -> None:
    disk, seen = InterruptedDisk(), list[list[bytes]]()
    with closing(opened(path, disk)) as ledger:
        fill(ledger)

        def look() -> None:
            both = ledger.read_end("ended")
            assert both is not None
            seen.append([records.unpacked(record["payload"]) for record in both])

        disk.look = look
        ledger.compact()
        for thread in disk.others:
            thread.join()
        look()
    assert seen == [[b"ended", b"1"]] * 6
