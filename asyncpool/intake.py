"""How a call becomes an accepted job, and how a job is taken back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Protocol

from . import views
from .delivery import settle
from .dispatch.dispatcher import Dispatcher
from .dispatch.records import NEVER, JobRecord
from .errors import DuplicateJob, JobError, PoolClosed, PoolFull
from .functions import Function, FunctionTable, pickle_call
from .job import Job, RecoveredJob
from .jobs import JobState
from .journal import session as journal
from .journal.lines import Record
from .journal.session import Session
from .memory import JobBook
from .narrator import Narrator
from .options import JobOptions
from .references import Call, arguments_reference, function_reference, is_same, revived
from .room import Room

ENQUEUES_PER_TURN = 64
"""How many `enqueue` may succeed before the loop gets a turn, when there is always room."""


class Performer(Protocol):
    """Who carries out what the dispatcher decides."""

    def act(self) -> None:
        """Carry out all that was decided."""

    def forget_functions(self, numbers: list[int]) -> None:
        """Let the workers forget functions that no job calls any more."""


class Intake:
    """The way into a pool: shared by the pool and all its views, which differ in their options."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        narrator: Narrator,
        book: JobBook,
        room: Room,
        *,
        max_workers: int,
    ) -> None:
        self.max_workers = max_workers
        self.wall_offset = 0.0
        """What makes the loop's time seconds since the epoch."""
        self._dispatcher = dispatcher
        self._narrator = narrator
        self._book = book
        self._room = room
        self._functions = FunctionTable()
        self._next_number = 1
        self._id_prefix = os.urandom(5).hex()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._performer: Performer | None = None
        self._session: Session | None = None
        self.left: dict[str, str] = {}
        """Unfinished jobs of the journal that only another script can run: id and script."""
        self._closed = False
        self._enqueued = 0
        self._settling = False
        self._recapturing = False

    def open(
        self,
        loop: asyncio.AbstractEventLoop,
        performer: Performer,
        wall_offset: float,
        session: Session | None,
    ) -> None:
        """Take jobs from now on, in this loop, and record them if there is a journal."""
        self._session = session
        self._loop = loop
        self._performer = performer
        self.wall_offset = wall_offset

    def close(self) -> None:
        """Take no more jobs, and tell those who wait for room."""
        self._closed = True
        self._room.turn_away()

    def submit(
        self,
        options: JobOptions,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Job[Any]:
        """Queue a call; see `Submitter.submit`."""
        loop = self._loop
        if loop is None or asyncio._get_running_loop() is not loop:
            loop = self.here()
        if self._closed:
            raise PoolClosed("the pool is closed and takes no more jobs")
        function = self._functions.find_importable(fn) or self._find_function(fn)
        payload, by_reference = pickle_call(function.name, args, kwargs)
        call = None
        if self._session is not None:
            stored = payload if by_reference else arguments_reference(function.name, args, kwargs)
            call = Call(function.reference or _refer(function, fn), stored)
        elif options.id is not None:
            call = Call(function.name.encode(), payload)
        if options.id is not None and call is not None:
            twin = self._twin(options.id, function.name, call)
            if twin is not None:
                return twin
        if self._room.is_full:
            raise PoolFull(
                f"{self._room.size} jobs are unfinished, which is max_pending: "
                f"wait for some, or use `await pool.enqueue(...)`"
            )
        now = loop.time()
        number = self._next_number
        self._next_number += 1
        deadline = NEVER if options.deadline is None else now + options.deadline
        record = JobRecord(
            number,
            function,
            id=options.id or f"{self._id_prefix}-{number}",
            named=options.id is not None,
            payload=payload,
            priority=options.priority,
            retry=options.retry,
            timeout=options.timeout_for(args, kwargs),
            deadline=deadline,
            not_before=now + options.delay if options.delay else 0.0,
            submitted_at=now,
        )
        job: Job[Any] = Job(self, record, loop)
        record.handle = job
        if options.id is not None:
            record.call = call
        if self._session is not None and call is not None:
            self._session.submit(record, call, options.delay)  # first, as it may raise
            self._enter(record)
            record.accepted = False
            self._dispatcher.announced(record)
        else:
            self._enter(record)
            self._dispatcher.submitted(record, now)
            self._acting.act()
        return job

    def _enter(self, record: JobRecord) -> None:
        record.function.users += 1
        self._book.add(record)
        if self._narrator.heard:
            self._narrator.submitted(record)

    async def enqueue(
        self,
        options: JobOptions,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Job[Any]:
        """Wait for room, queue a call, wait until it is accepted; see `Submitter.enqueue`."""
        job = await self.admit(options, fn, args, kwargs)
        record = job._record
        is_new = record.number == self._next_number - 1
        try:
            await job.accepted()
        except asyncio.CancelledError:
            if is_new and not record.is_shared:
                job.cancel()
            raise
        return job

    async def admit(
        self,
        options: JobOptions,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Job[Any]:
        """Wait for room, then queue a call."""
        if not self._room.is_full:
            self._enqueued += 1
            if self._enqueued % ENQUEUES_PER_TURN == 0:
                await asyncio.sleep(0)
        if self._room.is_full and not self._closed:
            self.here()  # raises, or another loop would wait for ours
            await self._room.wait()
        try:
            return self.submit(options, fn, args, kwargs)
        finally:
            self._room.admit()  # no job may have come of it

    def recover(self, found: journal.Unfinished) -> Job[Any] | None:
        """Queue a job that the journal brought back; None: it waits for the script it is of."""
        loop = self.here()
        script = found.foreign_script
        if script is not None:
            self.left[found.id] = script
            return None
        name, call = found.submitted["function"], found.call
        number = self._next_number
        self._next_number += 1
        function = self._functions.adopt(name, call.function)
        record = journal.job_record(found, number, function, revived(call.payload), loop.time)
        job: Job[Any] = RecoveredJob(self, record, loop)
        record.handle = job
        self._enter(record)
        self._dispatcher.recovered(record, loop.time())
        return job

    def check(self, fn: Callable[..., Any]) -> None:
        """Raise what `submit` would raise for this function."""
        self._functions.find(fn)

    def _find_function(self, fn: Callable[..., Any]) -> Function:
        functions = self._functions
        function = functions.find(fn)
        if functions.has_captured and not self._recapturing:
            # Within one turn of the loop a function by value is pickled once; what it refers to
            # may have been changed by the next turn.
            self._recapturing = True
            self.here().call_soon(self._recapture)
        if functions.forgotten:
            self._acting.forget_functions(functions.forgotten)
            functions.forgotten.clear()
        return function

    def _recapture(self) -> None:
        self._recapturing = False
        self._functions.recapture()

    def _twin(self, id: str, name: str, call: Call) -> Job[Any] | None:
        """Return the job that has this id already. Raises DuplicateJob if it is another call."""
        record = self._book.find(id)
        if record is not None:
            if record.is_void:
                return None
            theirs, their_name = record.call, record.function.name
        elif id in self.left:
            raise DuplicateJob(
                f"the id {id!r} belongs to an unfinished job of the script {self.left[id]}, which "
                f"runs when that script opens the journal: use another id here"
            )
        else:
            ended = self._session.find(id) if self._session is not None else None
            if ended is None:
                return None
            theirs, their_name = journal.call_of(ended[0]), ended[0]["function"]
        if not is_same(theirs, call):
            other = (
                f"of {their_name}, not of {name}" if their_name != name else "with other arguments"
            )
            raise DuplicateJob(
                f"the id {id!r} belongs to another call, {other}: an id names one call of one "
                f"function for as long as it is remembered, so use another id for this one"
            )
        return self.job(id)

    @property
    def _acting(self) -> Performer:
        assert self._performer is not None
        return self._performer

    def here(self) -> asyncio.AbstractEventLoop:
        """Return the pool's loop. Raises RuntimeError if that is not the one that runs now."""
        if self._loop is None:
            raise RuntimeError("the pool is not open: use `async with Pool() as pool`")
        if asyncio._get_running_loop() is not self._loop:
            raise RuntimeError(
                "the pool belongs to the event loop that entered it: call it from there, from "
                "another thread by asyncio.run_coroutine_threadsafe"
            )
        return self._loop

    def withdraw(self, record: JobRecord) -> None:
        """Give up a job whose handle was cancelled."""
        if record.state.ended or self._loop is None or self._loop.is_closed():
            return
        self._dispatcher.cancelled(record, self._loop.time())
        self._acting.act()
        if not self._settling:
            # Cancellations come in bursts: what they free is not used before the last of them.
            self._settling = True
            self._loop.call_soon(self._settled)

    def _settled(self) -> None:
        self._settling = False
        self._dispatcher.settled(self.here().time())
        self._acting.act()

    def job(self, id: str) -> Job[Any]:
        """Return the job of that id. Raises KeyError if it is unknown or forgotten.

        The last 1,000 jobs that ended are remembered, their results only as long as somebody else
        holds them, unless the job was named by `options(id=...)` or there is a journal.
        """
        record = self._book.find(id)
        job = self._book.handle(record) if record is not None else None
        if record is not None and job is not None:
            record.is_shared = True
            return job
        ended = self._session.find(id) if self._session is not None else None
        if ended is not None:
            return self._ended(*ended)
        if record is None:
            raise KeyError(f"no job has the id {id!r}, or it ended long ago and is forgotten")
        return self._shell_of(record)

    def _ended(self, submitted: Record, finished: Record) -> Job[Any]:
        """Make a handle for a job that ended in an earlier life, or long ago."""
        record, ending = journal.finished_job(submitted, finished, self.wall_offset)
        job: Job[Any] = Job(self, record, self.here())
        if settle(record, job, ending, self.wall_offset) is not None:
            job.exception()  # as below
        return job

    def _shell_of(self, record: JobRecord) -> Job[Any]:
        """Make a handle for a finished job whose own handle, and result, nobody kept."""
        job: Job[Any] = Job(self, record, self.here())
        if record.state is JobState.CANCELLED:
            asyncio.Future.cancel(job)
        else:
            job.set_exception(
                JobError(
                    f"job {record.id} is {record.state.value}, but nobody kept its result: hold "
                    f"on to the Job, or give it an id",
                    job_id=record.id,
                    fn_name=record.function.name,
                    attempts=views.attempts_of(record, self.wall_offset),
                )
            )
            job.exception()  # made only for whoever asks: not to be reported as never retrieved
        return job


def _refer(function: Function, fn: Callable[..., Any]) -> bytes:
    function.reference = function_reference(function.name, fn)
    return function.reference
