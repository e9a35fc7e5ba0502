"""What becomes of jobs, delivered: outcomes to their handles, the rest to those who listen."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from . import explain, raised, views
from .dispatch import decisions
from .dispatch.decisions import Decision, Ending
from .dispatch.dispatcher import Dispatcher
from .dispatch.records import JobRecord
from .errors import AsyncPoolError
from .job import Job
from .jobs import Progress
from .memory import JobBook
from .narrator import Narrator
from .room import Room


class Delivery:
    """The audience of a pool's crew."""

    def __init__(
        self, dispatcher: Dispatcher, narrator: Narrator, book: JobBook, room: Room
    ) -> None:
        self.wall_offset = 0.0
        self._unfinished = dispatcher.unfinished
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

    def noted(self, decision: Decision) -> None:
        """Something happened that is worth counting, or an event."""
        self._narrator.noted(decision)

    def resolved(self, record: JobRecord, ending: Ending) -> None:
        """The job has ended: give the outcome to its handle."""
        job = record.handle
        error: BaseException | None = None
        if not job.done():
            try:
                error = self._settle(record, job, ending)
            except BaseException as failed:  # by code of the user's exception, or of its value
                error = failed
                if not job.done():
                    job.set_exception(_undeliverable(record, failed))
        self._narrator.resolved(record, error)
        record.function.users -= 1
        self._book.end(record, job)
        if self._room.size is not None:
            self._room.admit()
        if self._drained and not self._unfinished:
            for waiter in self._drained:
                if not waiter.done():
                    waiter.set_result(None)
            self._drained.clear()

    def _settle(self, record: JobRecord, job: Job[Any], ending: Ending) -> BaseException | None:
        if type(ending) is decisions.Value:
            try:
                job.set_result(pickle.loads(ending.payload))
                return None
            except BaseException as failed:
                error: BaseException = explain.unpickling_failed(
                    record, views.attempts_of(record, self.wall_offset), failed
                )
        elif isinstance(ending, decisions.Cancelled):
            asyncio.Future.cancel(job)
            return None
        else:
            attempts = views.attempts_of(record, self.wall_offset)
            error = explain.explain(record, attempts, ending)
        job.set_exception(error)
        return error

    def is_retryable(self, job: JobRecord, data: bytes | bytearray) -> bool:
        """Whether the job's `Retry.on` names what the function raised."""
        kind, _, _, _, pickled = raised.decode(data)
        if kind != raised.OWN or pickled is None:
            return kind == raised.EXITED and BaseException in job.retry.on
        try:
            return isinstance(raised.load(pickled), job.retry.on)
        except BaseException:
            return Exception in job.retry.on


def _undeliverable(record: JobRecord, failed: BaseException) -> AsyncPoolError:
    return AsyncPoolError(
        f"job {record.id} ({record.function.name}) is {record.state.value}, but its outcome "
        f"cannot be told: {type(failed).__name__}: {raised.text(failed)}"
    )
