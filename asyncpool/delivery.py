"""What becomes of jobs, delivered: outcomes to their handles, the rest to those who listen."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from . import explain, raised, views
from .dispatch import decisions
from .dispatch.decisions import Decision, Ending
from .dispatch.records import JobRecord
from .errors import AsyncPoolError
from .job import Job, RecoveredJob
from .jobs import Progress
from .memory import JobBook
from .narrator import Narrator
from .room import Room


class Delivery:
    """The audience of a pool's crew."""

    def __init__(self, narrator: Narrator, book: JobBook, room: Room) -> None:
        self.wall_offset = 0.0
        self._narrator = narrator
        self._book = book
        self._room = room
        self._drained: list[asyncio.Future[None]] = []

    async def drained(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the last unfinished job has ended."""
        waiter = loop.create_future()
        self._drained.append(waiter)
        await waiter

    def sent(self, job: JobRecord) -> None:
        """The crew wrote the job to a worker."""
        self._narrator.sent(job)

    def started(self, job: JobRecord) -> None:
        """A worker acknowledged the job."""
        job.handle._begin()
        self._narrator.started(job)

    def progressed(self, job: JobRecord, report: tuple[float, float | None, str | None]) -> None:
        """The running job reported its progress."""
        job.handle._report(Progress(*report))

    def accepted(self, job: JobRecord) -> None:
        """The journal has the job."""
        job.handle._accept()

    def journal_failed(self, why: str) -> None:
        """The journal could not record what happened to some job."""
        self._narrator.journal_failed(why)

    def noted(self, decision: Decision) -> None:
        """Something happened that is worth counting, or an event."""
        self._narrator.noted(decision)

    def resolved(self, record: JobRecord, ending: Ending) -> None:
        """The job has ended: give the outcome to its handle."""
        job = record.handle
        error: BaseException | None = None
        if not job.done():
            try:
                error = settle(record, job, ending, self.wall_offset)
            except BaseException as failed:  # by code of the user's exception, or of its value
                error = failed
                if not job.done():
                    job.set_exception(_undeliverable(record, failed))
        if not record.accepted:
            job._accept()
        if error is not None and isinstance(job, RecoveredJob):
            job._report_failure(error)
        self._narrator.resolved(record, error)
        record.function.users -= 1
        record.is_void = isinstance(ending, (decisions.NoWorkers, decisions.Refused))
        self._book.end(record, job)
        if self._room.size is not None:
            self._room.admit()
        if self._drained and not self._book.unfinished:
            for waiter in self._drained:
                if not waiter.done():
                    waiter.set_result(None)
            self._drained.clear()

    def is_retryable(self, job: JobRecord, data: bytes | bytearray) -> bool:
        """Whether the job's `Retry.on` names what the function raised."""
        kind, _, _, _, pickled = raised.decode(data)
        retried = _retried_exceptions(job)
        if kind != raised.OWN or pickled is None:
            return kind == raised.EXITED and BaseException in retried
        try:
            return isinstance(raised.load(pickled), retried)
        except BaseException:
            return Exception in retried


def _retried_exceptions(job: JobRecord) -> tuple[type[BaseException], ...]:
    if job.late_on is None:
        return job.retry.on
    try:
        on: tuple[type[BaseException], ...] = pickle.loads(job.late_on)
    except BaseException:  # a class that is gone: nothing that is raised can be one
        return ()
    return on


def settle(
    record: JobRecord, job: Job[Any], ending: Ending, wall_offset: float
) -> BaseException | None:
    """Give the outcome to the handle; return the exception, if it is one."""
    if type(ending) is decisions.Value:
        try:
            job.set_result(pickle.loads(ending.payload))
            return None
        except BaseException as failed:
            error: BaseException = explain.unpickling_failed(
                record, views.attempts_of(record, wall_offset), failed
            )
    elif isinstance(ending, decisions.Cancelled):
        asyncio.Future.cancel(job)
        return None
    else:
        error = explain.explain(record, views.attempts_of(record, wall_offset), ending)
    job.set_exception(error)
    return error


def _undeliverable(record: JobRecord, failed: BaseException) -> AsyncPoolError:
    return AsyncPoolError(
        f"job {record.id} ({record.function.name}) is {record.state.value}, but its outcome "
        f"cannot be told: {type(failed).__name__}: {raised.text(failed)}"
    )
