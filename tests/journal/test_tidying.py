"""A journal is compacted when most of it is garbage; where that fails, it serves on."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path

import pytest

from asyncpool.journal import ledger as ledger_module
from asyncpool.journal.disk import Disk
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal

from .failing import FailingDisk, LazyDisk
from .notes import submitted

FRAME = 1_000
"""More bytes than the title and the record of the opening take."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


def opened(path: str, disk: Disk | None = None) -> Ledger:
    return Ledger.open(Journal(path, _disk=disk or LazyDisk()))


def test_it_is_done_when_the_file_has_grown(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "GARBAGE_WHILE_OPEN", 5_000)
    largest = 0
    with closing(opened(path)) as ledger:
        for _ in range(200):
            ledger.write([submitted("a", payload=bytes(100))], sync=False)
            ledger.tidy()
            largest = max(largest, ledger.size)
        assert 5_000 < largest < 5_000 + 2 * ledger.index.live + FRAME


def test_it_is_done_at_opening(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(path)) as ledger:
        for _ in range(100):
            ledger.write([submitted("a", payload=bytes(100))], sync=False)
    opened(path).close()
    assert os.path.getsize(path) > 10_000
    monkeypatch.setattr(ledger_module, "GARBAGE_AT_OPEN", 5_000)
    with closing(opened(path)) as ledger:
        assert ledger.size < FRAME
        assert list(ledger.index.unfinished) == ["a"]


def test_where_it_cannot_be_done_the_journal_serves_on(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "asyncpool")
    monkeypatch.setattr(ledger_module, "GARBAGE_AT_OPEN", 0)
    monkeypatch.setattr(ledger_module, "GARBAGE_WHILE_OPEN", 0)
    disk = FailingDisk()
    disk.errors["replace"] = 1
    with closing(opened(path, disk)) as ledger:
        grown = ledger.size
        while ledger.size < 8 * grown:
            ledger.write([submitted("a")], sync=False)
            ledger.tidy()
        assert 2 <= disk.calls.count("replace") <= 5  # not again after every batch
        assert caplog.text.count("was not compacted") == disk.calls.count("replace")
        disk.errors.clear()
        while disk.calls[-1] != "sync_directory":
            ledger.write([submitted("a")], sync=False)
            ledger.tidy()
        assert ledger.size < 3 * grown
        repaired = disk.calls.count("replace")
        while disk.calls.count("replace") == repaired:
            ledger.write([submitted("a")], sync=False)
            ledger.tidy()
            assert ledger.size < 6 * grown, "it should have been compacted by now"
    with closing(opened(path)) as ledger:
        assert list(ledger.index.unfinished) == ["a"]
