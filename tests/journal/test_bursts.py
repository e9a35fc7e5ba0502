"""A burst of jobs is recorded in pieces, each with its own fsync, and in order."""

from __future__ import annotations

import asyncio
import errno
from itertools import groupby
from pathlib import Path

import pytest

from asyncpool import JournalWriteError, Pool
from asyncpool.journal import recorder
from asyncpool.journal.options import Journal
from tests.journal.disks import BrokenDisk, WatchedDisk, outcomes
from tests.support import jobs

PIECE = 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "BATCH_NOTES", PIECE)


async def test_a_burst_is_recorded_in_pieces_and_in_order(tmp_path: Path) -> None:
    disk = WatchedDisk()
    async with Pool(2, journal=Journal(tmp_path / "jobs.log", _disk=disk)) as pool:
        burst = [pool.submit(jobs.add, number, 1) for number in range(95)]
        accepted: list[str] = []
        for job in burst:
            await job.accepted()
            accepted.append(job.id)
        assert await asyncio.gather(*burst) == list(range(1, 96))
    written = [job_id for kind, job_id in disk.trace if kind == "submitted"]
    assert written == accepted == [job.id for job in burst]
    pieces = groupby(disk.trace, key=lambda step: step[0] == "sync")
    counts = [[kind for kind, _ in steps].count("submitted") for sync, steps in pieces if not sync]
    assert max(counts) <= PIECE


async def test_what_waits_behind_a_piece_that_failed_is_tried_by_itself(tmp_path: Path) -> None:
    disk = BrokenDisk()
    path = tmp_path / "jobs.log"
    async with Pool(1, journal=Journal(path, _disk=disk)) as pool:
        with disk.hold("submitted") as gate:
            burst = [pool.submit(jobs.add, number, 1) for number in range(3 * PIECE)]
            await gate.reached()
            given_up = burst[0]  # while it is being written
            given_up.cancel()
            disk.fail("write", errno.ENOSPC)
        await asyncio.wait({burst[PIECE - 1]})
        disk.repair()
        ends = await asyncio.gather(*burst, return_exceptions=True)
    refused = [job.id for job, end in zip(burst, ends, strict=True) if not isinstance(end, int)]
    assert refused[:PIECE] == [job.id for job in burst[:PIECE]]
    assert isinstance(ends[0], asyncio.CancelledError)
    assert all(isinstance(end, JournalWriteError) for end in ends[1 : len(refused)])
    assert ends[len(refused) :] == [number + 1 for number in range(len(refused), 3 * PIECE)]
    assert outcomes(path).keys() == {job.id for job in burst[len(refused) :]}
