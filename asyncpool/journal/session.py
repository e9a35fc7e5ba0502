"""A pool's hold on its journal, from the opening to the closing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import islice
from typing import Any

from .. import raised
from ..dispatch.records import NEVER, JobRecord
from ..errors import SerializationError
from ..functions import Function
from ..jobs import JobState
from ..references import Call, is_found, main_file, script_of
from ..retry import DEFAULT_RETRY
from . import endings, records
from .index import Open
from .ledger import Ledger
from .lines import Record
from .options import Journal
from .recorder import Keeper, Recorder
from .scribe import Scribe, persist

CHUNK = 100
"""How many unfinished jobs are read at a time, between which the loop gets its turn."""


class Unfinished:
    """What the journal says of a job that has not ended: the submission, and the retries."""

    def __init__(self, job: Open, submitted: Record, retries: list[Record]) -> None:
        self.submitted = submitted
        self.retries = retries
        self.crashes = job.crashes
        self.errors = job.errors
        self.alone = job.alone

    @property
    def id(self) -> str:
        id_: str = self.submitted["id"]
        return id_

    @property
    def call(self) -> Call:
        """What the job calls."""
        return call_of(self.submitted)

    @property
    def foreign_script(self) -> str | None:
        """The script whose job this is, if that is another one and only it has what is called."""
        script: str | None = self.submitted.get("script")
        if script is None or script == main_file() or is_found(self.call):
            return None
        return script


class Session:
    """An open journal, its thread and its recorder."""

    def __init__(self, scribe: Scribe, ledger: Ledger) -> None:
        self.recorder: Recorder
        self._scribe = scribe
        self._ledger = ledger

    @property
    def path(self) -> str:
        """Where the journal is."""
        return self._ledger.path

    @classmethod
    async def open(cls, options: Journal) -> Session:
        """Open and read the journal, without blocking the loop.

        Raises JournalLocked, JournalCorrupt, JournalWriteError, or JournalError.
        """
        options = _placed(options)
        scribe = Scribe(asyncio.get_running_loop())
        opened: list[Ledger] = []
        try:
            await scribe.call(lambda: opened.append(Ledger.open(options)))
        except BaseException:
            # If it was cancelled, the thread may still be reading; it gives up what it gets.
            await scribe.end(lambda: list(map(Ledger.close, opened)))
            raise
        return cls(scribe, opened[0])

    def begin(self, loop: asyncio.AbstractEventLoop, keeper: Keeper) -> Recorder:
        """Take notes from now on."""
        self.recorder = Recorder(loop, self._scribe, self._ledger, keeper)
        return self.recorder

    async def unfinished(self) -> AsyncIterator[list[Unfinished]]:
        """Yield the unfinished jobs of earlier lives, in the order of their submission."""
        # By ids: the first of them may end, and the file be rewritten, while the last are read.
        waiting = iter(list(self._ledger.index.unfinished))
        while ids := list(islice(waiting, CHUNK)):
            yield await self._scribe.call(self._read, ids)

    def _read(self, ids: list[str]) -> list[Unfinished]:
        read, unfinished = self._ledger.read, self._ledger.index.unfinished
        jobs = [unfinished[each] for each in ids]
        return [Unfinished(job, read(job.submitted), list(map(read, job.retries))) for job in jobs]

    def submit(self, job: JobRecord, call: Call, wait: float) -> None:
        """Have a job recorded; `wait` is its delay in seconds.

        Raises SerializationError for options that cannot be recorded, and then nothing is.
        """
        now = round(time.time(), 3)  # as records tell it: a deadline of 2 s is one of 2 s in them
        try:
            body = records.submitted(
                id=job.id,
                named=job.named,
                fn_name=job.function.name,
                time=now,
                priority=job.priority,
                deadline=None if job.deadline == NEVER else now + (job.deadline - job.submitted_at),
                not_before=now + wait if wait else None,
                timeout=job.timeout,
                retry=job.retry,
                function=call.function,
                payload=call.payload,
                script=script_of(call),
            )
        except Exception as error:
            raise SerializationError(
                f"the options of job {job.id} ({job.function.name}) cannot be recorded in a "
                f"journal: {type(error).__name__}: {raised.text(error)}",
                fn_name=job.function.name,
            ) from error
        batch = self.recorder.next
        batch.notes.append(("submitted", job.id, body, (job.named,)))
        batch.submitted.append(job)
        batch.sync = True
        self.recorder.arrange()

    def find(self, id: str) -> tuple[Record, Record] | None:
        """Return the submission and the end of a job that has ended and is remembered."""
        return self._ledger.read_end(id)

    async def close(self) -> None:
        """Write down all that is known, and that this was an orderly end; give up the file.

        It does so also if it is cancelled meanwhile.
        """
        recorder = self.recorder
        recorder.next.notes.append(("closed", "", records.closed(time.time()), ()))
        await persist(recorder.flushed(sync=True))
        recorder.close()
        await self._scribe.end(self._ledger.close)


def _placed(options: Journal) -> Journal:
    """Let a relative path be one from where we are now, wherever the program goes."""
    return replace(options, path=os.path.abspath(options.path))


def call_of(submitted: Record) -> Call:
    """Return what the job of a `submitted` record calls."""
    return Call(records.unpacked(submitted["call"]), records.unpacked(submitted["payload"]))


def job_record(
    found: Unfinished, number: int, function: Function, payload: bytes, clock: Callable[[], float]
) -> JobRecord:
    """Return the record of a job that the journal brought back; `clock` is the loop's time."""
    submitted = found.submitted
    now, wall_now = clock(), time.time()
    wall_offset = wall_now - now
    retry, late_on = records.retry_of(submitted)
    last = found.retries[-1] if found.retries else submitted
    job = JobRecord(
        number,
        function,
        id=found.id,
        named=submitted.get("named", False),
        payload=payload,
        priority=submitted.get("priority", 0),
        retry=retry,
        timeout=submitted.get("timeout"),
        deadline=now + _left(submitted, "deadline", wall_now),
        not_before=now + _left(last, "not_before", wall_now, none=0.0),
        submitted_at=submitted["time"] - wall_offset,
    )
    job.crashes, job.errors = found.crashes, found.errors
    job.alone = found.alone or found.crashes > 0
    if late_on is not None:
        job.late_on = late_on
    if found.retries:
        job.state = JobState.RETRYING
        attempts = (endings.attempt_of(each["attempt"], wall_offset) for each in found.retries)
        job.attempts = tuple(attempts)
    if job.named:
        job.call = found.call
    return job


def _left(record: Record, name: str, now: float, none: float = NEVER) -> float:
    """Return the seconds until a moment that a record names, below 0 if that is past.

    They are never more than they were when the record was written: a clock may be put back.
    """
    if name not in record:
        return none
    moment: float = record[name]
    written: float = record["time"]
    return moment - max(now, written)


def finished_job(submitted: Record, finished: Record, wall_offset: float) -> tuple[JobRecord, Any]:
    """Return the record of a job that ended in an earlier life, and its ending."""
    function = Function(submitted["function"], 0, b"")
    job = JobRecord(0, function, id=submitted["id"], named=True, retry=DEFAULT_RETRY)
    job.state = endings.state_of(finished)
    job.submitted_at = submitted["time"] - wall_offset
    if "deadline" in submitted:
        job.deadline = submitted["deadline"] - wall_offset
    job.attempts = tuple(endings.attempt_of(each, wall_offset) for each in finished["attempts"])
    job.crashes = sum(attempt.outcome == "crashed" for attempt in job.attempts)
    return job, endings.ending_of(finished)
