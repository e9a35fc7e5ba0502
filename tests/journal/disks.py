"""Disks that note what they do, hold it up, or fail; and what stands in a journal's file."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from asyncpool.journal.disk import Disk
from asyncpool.journal.lines import Record, unseal

Step: TypeAlias = "tuple[str, str]"
"""What was done: a kind of record that was written, "sync" or "replace"; the job's id, or ""."""

PATIENCE_SECONDS = 20.0
TURNS = 300


async def turn(times: int = TURNS) -> None:
    """Let the loop turn so often: enough for all that waits for nothing outside of it."""
    for _ in range(times):
        await asyncio.sleep(0)


def read(path: str | Path) -> list[Record]:
    """Return the records of a journal, all of which must be whole."""
    records = list(map(unseal, Path(path).read_bytes().splitlines(keepends=True)))
    whole = [record for record in records if record is not None]
    assert len(whole) == len(records)
    return whole


def ids_of(record: Record) -> list[str]:
    """Return the jobs that a record tells of."""
    ids: list[str] = record["ids"] if "ids" in record else [record.get("id", "")]
    return ids


def kinds_of(path: str | Path, id: str) -> list[str]:
    """Return what the journal says of a job."""
    return [record["kind"] for record in read(path) if id in ids_of(record)]


def outcomes(path: str | Path) -> dict[str, str]:
    """Return how the jobs ended that have ended, by their ids."""
    ends = [record for record in read(path) if record["kind"] == "finished"]
    return {end["id"]: end["outcome"] for end in ends}


class Gate:
    """Holds up the thread that comes to it until the block is left."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reached = self._loop.create_future()
        self._open = threading.Event()
        self._given_up = False

    def pass_through(self) -> None:
        """Wait until it is open; called by the thread."""
        self._loop.call_soon_threadsafe(self._note_reached)
        if not self._open.wait(PATIENCE_SECONDS):
            self._given_up = True
            raise TimeoutError("a gate was never opened")

    def _note_reached(self) -> None:
        if not self._reached.done():
            self._reached.set_result(None)

    async def reached(self) -> None:
        """Wait until the thread is there."""
        await asyncio.wait_for(asyncio.shield(self._reached), PATIENCE_SECONDS)

    def open(self) -> None:
        """Let the thread go on, and all that come after it. Raises TimeoutError if it has left."""
        self._open.set()
        if self._given_up:
            raise TimeoutError("a gate was opened too late: maybe the loop waited for the thread")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.open()


class WatchedDisk(Disk):
    """A disk with a trace of what it did, in which others may note what they saw."""

    def __init__(self) -> None:
        self.trace: list[Step] = []
        self._gates: dict[str, Gate] = {}

    def hold(self, what: str) -> Gate:
        """Hold up the next write that has a record of that kind, or "sync" or "replace"."""
        gate = self._gates[what] = Gate()
        return gate

    def note(self, what: str, id: str = "") -> None:
        """Append a step to the trace."""
        self.trace.append((what, id))

    @property
    def syncs(self) -> int:
        """How many there were."""
        return self.trace.count(("sync", ""))

    def write(self, fd: int, data: bytes | memoryview) -> int:
        steps = self._come_to_gates(data)
        written = super().write(fd, data)
        self.trace += steps
        return written

    def _come_to_gates(self, data: bytes | memoryview) -> list[Step]:
        lines = bytes(data).splitlines(keepends=True)
        records = [record for record in map(unseal, lines) if record is not None]
        steps = [(record["kind"], job_id) for record in records for job_id in ids_of(record)]
        for kind in {kind for kind, _ in steps} & self._gates.keys():
            self._gates.pop(kind).pass_through()
        return steps

    def sync(self, fd: int) -> None:
        self._come_to_gate("sync")
        super().sync(fd)
        self.note("sync")

    def replace(self, new: str, old: str) -> None:
        self._come_to_gate("replace")
        super().replace(new, old)
        self.note("replace")

    def _come_to_gate(self, what: str) -> None:
        gate = self._gates.pop(what, None)
        if gate is not None:
            gate.pass_through()


class BrokenDisk(WatchedDisk):
    """A disk that fails as it is told, from now on or until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.room: int | None = None
        """How many bytes still fit; None: as many as one likes."""
        self.longest_write: int | None = None
        self.failures: Counter[str] = Counter()
        self._errors: dict[str, int] = {}

    def fail(self, call: str, number: int) -> None:
        """Let "write", "sync" or "truncate" fail with that error number."""
        self._errors[call] = number

    def repair(self) -> None:
        """Work again."""
        self._errors.clear()
        self.room = None

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._come_to_gates(data)
        self._try("write")
        fits = [size for size in (self.room, self.longest_write) if size is not None]
        size = min(fits, default=len(data))
        if not size and data:
            self._fail("write", errno.ENOSPC)
        written = super().write(fd, data[:size])
        if self.room is not None:
            self.room -= written
        return written

    def sync(self, fd: int) -> None:
        self._try("sync")
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._try("truncate")
        if self.room is not None:
            self.room += os.fstat(fd).st_size - size
        super().truncate(fd, size)

    def _try(self, call: str) -> None:
        if call in self._errors:
            self._fail(call, self._errors[call])

    def _fail(self, call: str, number: int) -> None:
        self.failures[call] += 1
        raise OSError(number, os.strerror(number))
