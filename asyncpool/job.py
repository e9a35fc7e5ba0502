"""The handle of a job: a Future that knows what it stands for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, NoReturn, Protocol, TypeVar

from . import raised, views
from .dispatch.records import JobRecord
from .hub import Feed
from .jobs import Attempt, JobState, Progress

logger = logging.getLogger("asyncpool")

R = TypeVar("R")

UPDATES_KEPT = 1_000
"""How many unread progress reports a reader of `updates()` may have."""


class Owner(Protocol):
    """Where a job was handed in."""

    wall_offset: float

    def withdraw(self, record: JobRecord) -> None:
        """Give up a job whose handle was cancelled."""


class Job(asyncio.Future[R]):
    """A submitted job; await it for the function's value.

    It is an `asyncio.Future`, so `gather`, `wait`, `wait_for`, `shield` and `TaskGroup` work as
    usual. Cancelling it, or the task that awaits it, takes the job out of the queue or kills the
    worker that runs it.
    """

    __slots__ = ("_owner", "_record")

    # What few jobs ever have; a million pending ones should not pay for it.
    _progress: Progress | None = None
    _feeds: list[Feed[Progress]] | None = None
    _started: asyncio.Future[None] | None = None
    _acceptance: list[asyncio.Future[None]] | None = None

    def __init__(self, owner: Owner, record: JobRecord, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._owner = owner
        self._record = record

    @property
    def id(self) -> str:
        """The job's id: given by `options(id=...)`, or made up and unique."""
        return self._record.id

    @property
    def fn_name(self) -> str:
        """The function's name, for people."""
        name: str = self._record.function.name
        return name

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        return self._record.state

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All runs of the job so far, one for each ACK of a worker."""
        return views.attempts_of(self._record, self._owner.wall_offset)

    @property
    def progress(self) -> Progress | None:
        """The last thing the job said with `current_job().progress(...)`."""
        return self._progress

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the job; its worker, if it is running, is killed. False: it has ended."""
        if not super().cancel(msg):
            return False
        self._owner.withdraw(self._record)
        return True

    async def accepted(self) -> None:
        """Wait until the pool has taken the job for good: with a journal, until it is on disk.

        Raises JournalWriteError if that failed, and CancelledError if the job was cancelled before.
        """
        if self._record.accepted:
            return
        if not self.done():
            waiter = self.get_loop().create_future()
            if self._acceptance is None:
                self._acceptance = []
            self._acceptance.append(waiter)
            await waiter
        if not self._record.accepted:
            await asyncio.shield(self)

    async def started(self) -> None:
        """Wait until a worker has begun the job for the first time.

        Raises the job's own error, or CancelledError, if it ends without having begun.
        """
        if self._record.attempts:
            return
        if not self.done():
            if self._started is None:
                self._started = self.get_loop().create_future()
                self._record.start_awaited = True
            ends: set[asyncio.Future[Any]] = {self._started, self}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not self._record.attempts:
            await asyncio.shield(self)

    async def updates(self) -> AsyncIterator[Progress]:
        """Iterate over the job's progress reports from now on, until it ends."""
        if self.done():
            return
        feed: Feed[Progress] = Feed(UPDATES_KEPT)
        if self._feeds is None:
            self._feeds = []
            self.add_done_callback(_end_updates)
        self._feeds.append(feed)
        try:
            async for progress in feed:
                yield progress
        finally:
            self._feeds.remove(feed)

    def __repr__(self) -> str:
        pid = f" pid={self._record.worker.pid}" if self._record.worker is not None else ""
        return f"<Job {self.id} {self.fn_name} {self.state.name}{pid}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Job cannot be sent to a worker: await it and send its result")

    # For the pool

    def _begin(self) -> None:
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    def _accept(self) -> None:
        for waiter in self._acceptance or ():
            if not waiter.done():
                waiter.set_result(None)
        self._acceptance = None

    def _report(self, progress: Progress) -> None:
        self._progress = progress
        for feed in self._feeds or ():
            feed.push(progress)


class RecoveredJob(Job[R]):
    """A job that the journal brought back: maybe nobody knows of it who could await it."""

    __slots__ = ()

    _expected = False

    def add_done_callback(self, fn: Any, *, context: Any = None) -> None:
        """Call `fn` with the job when it has ended; whoever awaits the job does this as well."""
        self._expected = True
        super().add_done_callback(fn, context=context)

    def _report_failure(self, error: BaseException) -> None:
        """Say in one line that the job failed, if nobody is there to be told."""
        self.exception()  # or asyncio would say "never retrieved", with a traceback, at some time
        if not self._expected:
            text = " ".join(raised.text(error).splitlines())
            logger.warning("%s failed: %s", self, text or type(error).__name__)


def _end_updates(job: asyncio.Future[Any]) -> None:
    assert isinstance(job, Job)
    for feed in job._feeds or ():
        feed.close()
