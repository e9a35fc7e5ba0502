"""The pool, as users see it."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar, overload

from . import explain, raised, views
from .crew import Crew, Setup, working_directory
from .dispatch import decisions
from .dispatch.decisions import Decision, Ending
from .dispatch.dispatcher import Dispatcher
from .dispatch.records import NEVER, JobRecord, Phase
from .errors import DuplicateJob, JobError, PoolClosed, PoolFull
from .events import Event
from .functions import Function, FunctionTable, pickle_call, pickle_initializer
from .hub import EventHub, Feed
from .job import Job
from .jobs import Attempt, JobInfo, JobState, Progress, Stats, WorkerInfo
from .memory import JobBook
from .narrator import Narrator
from .options import JobOptions, Timeout, check_count, check_seconds
from .processes.cpus import usable_cpus
from .retry import Retry
from .room import Room
from .submitter import Submitter
from .testing import Chaos

P = ParamSpec("P")
R = TypeVar("R")

DUMP_SECONDS = 2.0
"""How long `dump_stack` waits for an answer."""

ENQUEUES_PER_TURN = 64
"""How many `enqueue` may succeed before the loop gets a turn, when there is always room."""


class _Life(Enum):
    NEW = "not entered yet"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


_OPEN = _Life.OPEN  # found faster than the member of an enum


class Pool:
    """A pool of worker processes in which every job survives its workers.

    Use it as `async with Pool(4) as pool`; it belongs to the event loop that enters it. Leaving
    the block normally waits for all jobs, leaving it by an exception stops them.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        preload: Iterable[str] = (),
        spares: int = 0,
        timeout: Timeout = None,
        retry: Retry = Retry(),  # noqa: B008 - frozen
        max_pending: int | None = None,
        max_tasks_per_child: int | None = None,
        max_memory_per_child: int | None = None,
        env: Mapping[str, str] | None = None,
        chaos: Chaos | None = None,
    ) -> None:
        check_count("max_workers", max_workers, 1)
        check_count("spares", spares, 0)
        check_count("max_pending", max_pending, 1)
        check_count("max_tasks_per_child", max_tasks_per_child, 1)
        check_count("max_memory_per_child", max_memory_per_child, 1)
        self._max_workers = usable_cpus() if max_workers is None else max_workers
        self._options = JobOptions(timeout=timeout, retry=retry)
        self._setup = _setup(initializer, initargs, preload, env, chaos, max_memory_per_child)
        self._dispatcher = Dispatcher(
            workers=self._max_workers,
            spares=spares,
            max_tasks=max_tasks_per_child,
            max_memory=max_memory_per_child,
            random=random.random,
        )
        self._life = _Life.NEW
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crew: Crew | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._functions = FunctionTable()
        self._book = JobBook()
        self._next_number = 1
        self._id_prefix = os.urandom(5).hex()
        self._wall_offset = 0.0
        self._hub = EventHub(time.time)
        self._narrator = Narrator(self._hub)
        self._room = Room(max_pending, self._dispatcher.unfinished)
        self._drained: list[asyncio.Future[None]] = []
        self._enqueued = 0
        self._settling = False
        self._recapturing = False

    # Opening and closing

    async def __aenter__(self) -> Pool:
        if self._life is not _Life.NEW:
            raise RuntimeError(f"a Pool can be entered once; this one is {self._life.value}")
        self._loop = loop = asyncio.get_running_loop()
        self._life = _Life.OPEN
        self._wall_offset = time.time() - loop.time()
        self._crew = Crew(
            loop,
            self._dispatcher,
            self,
            replace(self._setup, cwd=working_directory()),
            wall_offset=self._wall_offset,
            retryable=_is_retryable,
        )
        self._supervisor = loop.create_task(self._supervise(), name="asyncpool supervisor")
        self._dispatcher.opened(loop.time())
        self._crew.act()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not None:
            self._abandon()
        try:
            await self.close()
        except asyncio.CancelledError:
            self._abandon()
            await self._until_closed()
            raise

    async def close(self, *, cancel: bool = False, grace: float = 5.0) -> None:
        """Take no more jobs, finish the rest (or cancel it), then stop the workers.

        `grace` is how many seconds a worker may take to leave before it is killed. May be called
        again, also to cancel what an earlier call waits for.
        """
        check_seconds("grace", grace)
        if self._life is _Life.NEW:
            self._life = _Life.CLOSED
        if self._crew is None or self._loop is None or self._life is _Life.CLOSED:
            return
        self._life = _Life.CLOSING
        self._crew.grace = grace
        self._room.turn_away()
        if cancel:
            for record in list(self._dispatcher.unfinished.values()):
                record.handle.cancel()
        self._dispatcher.closed(self._loop.time())
        self._crew.act()
        self._crew.check_all_gone()
        await self._until_closed()

    async def drain(self) -> None:
        """Wait until no job is unfinished."""
        if self._dispatcher.unfinished:
            waiter = self._here().create_future()
            self._drained.append(waiter)
            await waiter

    def _abandon(self) -> None:
        """Cancel every job and kill every worker, now."""
        if self._crew is None or self._life is _Life.CLOSED:
            return
        self._life = _Life.CLOSING
        self._room.turn_away()
        for record in list(self._dispatcher.unfinished.values()):
            asyncio.Future.cancel(record.handle)
        self._crew.abandon()

    async def _until_closed(self) -> None:
        if self._supervisor is not None:
            await asyncio.wait({self._supervisor})

    async def _supervise(self) -> None:
        """Own the end of the pool: also when `asyncio.run` tears down a loop with it open."""
        assert self._crew is not None
        try:
            await asyncio.shield(self._crew.all_gone)
        except asyncio.CancelledError:
            self._abandon()
            await self._crew.all_gone
        finally:
            self._crew.dissolve()
            self._life = _Life.CLOSED
            self._hub.close()

    # Submitting

    @overload
    def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Queue a call of `fn` and return its handle at once, like `loop.create_task`.

        Raises SerializationError for what does not pickle and TypeError for what is no function,
        PoolFull if `max_pending` jobs are unfinished, RuntimeError (as PoolClosed, if it is
        closed) outside of the pool's loop; then nothing was queued.
        """
        return self._submit(self._options, fn, args, kwargs)

    @overload
    async def enqueue(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    async def enqueue(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    async def enqueue(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Like `submit`, but wait while `max_pending` jobs are unfinished.

        Raises what `submit` raises, except PoolFull.
        """
        return await self._enqueue(self._options, fn, args, kwargs)

    @overload
    def map(
        self,
        fn: Callable[..., Coroutine[Any, Any, R]],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[R, None]: ...
    @overload
    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[R, None]: ...
    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Iterate over `fn` of each item, or of the items of several iterables side by side.

        At most `buffersize` items are taken ahead of the loop that reads the results (None: 16
        chunks for each worker). Results come in the order of the items, or as they are ready if
        not `ordered`. `chunksize` items travel as one job. An item's exception is raised in its
        place and ends the iteration, or is yielded if `return_exceptions`. Leaving the loop
        cancels the rest and closes the iterables.
        """
        return Submitter(self, self._options).map(
            fn,
            *iterables,
            buffersize=buffersize,
            chunksize=chunksize,
            ordered=ordered,
            return_exceptions=return_exceptions,
        )

    def options(
        self,
        *,
        id: str | None = None,
        timeout: Timeout = None,
        deadline: float | None = None,
        retry: Retry | None = None,
        priority: int = 0,
        delay: float = 0.0,
    ) -> Submitter:
        """Return a reusable view of the pool that submits with these options.

        `timeout` and `retry` replace the pool's defaults. `deadline` and `delay` are seconds from
        the submission. A higher `priority` runs first. An `id` names one job: submitting the same
        call again returns that job, another call raises DuplicateJob.
        """
        return Submitter(
            self,
            JobOptions(
                id=id,
                timeout=self._options.timeout if timeout is None else timeout,
                deadline=deadline,
                retry=self._options.retry if retry is None else retry,
                priority=priority,
                delay=delay,
            ),
        )

    def _submit(
        self,
        options: JobOptions,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Job[Any]:
        loop = self._loop
        if loop is None or asyncio._get_running_loop() is not loop:
            loop = self._here()
        if self._life is not _OPEN:
            raise PoolClosed(f"the pool is {self._life.value} and takes no more jobs")
        function = self._functions.find_importable(fn) or self._find(fn)
        payload = pickle_call(function.name, args, kwargs)
        if options.id is not None:
            twin = self._twin(options.id, function, payload)
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
        function.users += 1
        self._book.add(record)
        if self._hub.heard:
            self._narrator.submitted(record)
        self._dispatcher.submitted(record, now)
        self._acting_crew.act()
        return job

    async def _enqueue(
        self,
        options: JobOptions,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Job[Any]:
        if not self._room.is_full:
            self._enqueued += 1
            if self._enqueued % ENQUEUES_PER_TURN == 0:
                await asyncio.sleep(0)
        if self._room.is_full and self._life is _Life.OPEN:
            self._here()  # raises, or another loop would wait for ours
            await self._room.wait()
        try:
            return self._submit(options, fn, args, kwargs)
        finally:
            self._room.admit()  # no job may have come of it

    def _find(self, fn: Callable[..., Any]) -> Function:
        functions = self._functions
        function = functions.find(fn)
        if functions.has_captured and not self._recapturing:
            # Within one turn of the loop a function by value is pickled once; what it refers to
            # may have been changed by the next turn.
            self._recapturing = True
            self._here().call_soon(self._recapture)
        if functions.forgotten:
            self._acting_crew.forget_functions(functions.forgotten)
            functions.forgotten.clear()
        return function

    def _recapture(self) -> None:
        self._recapturing = False
        self._functions.recapture()

    def _twin(self, id: str, function: Function, payload: bytes) -> Job[Any] | None:
        """Return the job that has this id already. Raises DuplicateJob if it is another call."""
        record = self._book.find(id)
        if record is None:
            return None
        theirs = record.function
        if theirs.name != function.name or record.payload != payload:
            raise DuplicateJob(
                f"the id {id!r} belongs to another call, of {theirs.name}: an id names one call"
            )
        return self.job(id)

    def _here(self) -> asyncio.AbstractEventLoop:
        """Return the pool's loop. Raises RuntimeError if that is not the one that runs now."""
        if self._loop is None:
            raise RuntimeError("the pool is not open: use `async with Pool() as pool`")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "the pool belongs to another event loop: call it from the loop that entered it, "
                "for instance by asyncio.run_coroutine_threadsafe"
            )
        return self._loop

    @property
    def _acting_crew(self) -> Crew:
        assert self._crew is not None
        return self._crew

    # Looking and meddling

    def job(self, id: str) -> Job[Any]:
        """Return the job of that id. Raises KeyError if it is unknown or forgotten.

        The last 1,000 jobs that ended are remembered, their results only as long as somebody else
        holds them, unless the job was named by `options(id=...)`.
        """
        record = self._book.find(id)
        if record is None:
            raise KeyError(id)
        job = self._book.handle(record)
        return job if job is not None else self._shell_of(record)

    def _shell_of(self, record: JobRecord) -> Job[Any]:
        """Make a handle for a finished job whose own handle, and result, nobody kept."""
        job: Job[Any] = Job(self, record, self._here())
        if record.state is JobState.CANCELLED:
            asyncio.Future.cancel(job)
        else:
            job.set_exception(
                JobError(
                    f"job {record.id} is {record.state.value}, but nobody kept its result: hold "
                    f"on to the Job, or give it an id",
                    job_id=record.id,
                    fn_name=self._name_of(record),
                    attempts=self._attempts_of(record),
                )
            )
            job.exception()  # made only for whoever asks: not to be reported as never retrieved
        return job

    def jobs(self) -> list[JobInfo]:
        """Return a snapshot of the unfinished jobs, in the order of their submission."""
        unfinished = self._dispatcher.unfinished.values()
        return [views.job_info(record, self._wall_offset) for record in unfinished]

    def workers(self) -> list[WorkerInfo]:
        """Return a snapshot of the workers that are ready; spares are not among them."""
        return [
            views.worker_info(worker)
            for worker in self._dispatcher.workers.values()
            if worker.phase is Phase.READY
        ]

    def stats(self) -> Stats:
        """Return the pool's counters."""
        return views.stats(self._dispatcher, self._narrator)

    def events(self) -> Feed[Event]:
        """Return an async iterator over all that happens from now on, until the pool is closed.

        A reader that falls 10,000 events behind loses the oldest and gets an `EventsLost`.
        """
        self._dispatcher.narrating = True
        return self._hub.listen()

    async def terminate(self, id: str) -> bool:
        """Cancel a job and wait until its process is gone; False: it had ended or is unknown."""
        record = self._book.find(id)
        if record is None or record.state.ended:
            return False
        worker = record.worker
        running = record.state is JobState.RUNNING
        if not record.handle.cancel():
            return False
        process = self._acting_crew.processes.get(worker.serial) if worker is not None else None
        if running and process is not None:
            await asyncio.wait({process.gone}, timeout=DUMP_SECONDS)
        return True

    async def dump_stack(self, id: str) -> str:
        """Return the Python stacks of a running job's process, most recent call first.

        Raises KeyError for an unknown id, RuntimeError if the job is not running, and TimeoutError
        if its process does not answer within two seconds.
        """
        job = self.job(id)
        worker = job._record.worker
        if job.state is not JobState.RUNNING or worker is None:
            raise RuntimeError(f"job {id} is {job.state.value}: only a running job has a stack")
        stack = await self._acting_crew.processes[worker.serial].dump_stack(DUMP_SECONDS)
        if not stack:
            raise TimeoutError(f"the worker {worker.pid} of job {id} did not tell its stack")
        return stack

    def __repr__(self) -> str:
        unfinished = len(self._dispatcher.unfinished)
        return f"<Pool {self._life.value} workers={self._max_workers} unfinished={unfinished}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Pool cannot be sent to a worker: a job that needs workers of its own opens a Pool"
        )

    # What the crew tells

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
        error = None if job.done() else self._settle(record, job, ending)
        self._narrator.resolved(record, error)
        record.function.users -= 1
        self._book.end(record, job)
        if self._room.size is not None:
            self._room.admit()
        if self._drained and not self._dispatcher.unfinished:
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
                    record, self._name_of(record), self._attempts_of(record), failed
                )
        elif isinstance(ending, decisions.Cancelled):
            asyncio.Future.cancel(job)
            return None
        else:
            error = explain.explain(
                record, self._name_of(record), self._attempts_of(record), ending
            )
        job.set_exception(error)
        return error

    def _cancelled(self, record: JobRecord) -> None:
        """The handle was cancelled."""
        if record.state.ended or self._loop is None or self._loop.is_closed():
            return
        self._dispatcher.cancelled(record, self._loop.time())
        self._acting_crew.act()
        if not self._settling:
            # Cancellations come in bursts: what they free is not used before the last of them.
            self._settling = True
            self._loop.call_soon(self._settled)

    def _settled(self) -> None:
        self._settling = False
        self._dispatcher.settled(self._acting_crew.now())
        self._acting_crew.act()

    def _name_of(self, record: JobRecord) -> str:
        name: str = record.function.name
        return name

    def _attempts_of(self, record: JobRecord) -> tuple[Attempt, ...]:
        return views.attempts_of(record, self._wall_offset)


def _is_retryable(job: JobRecord, data: bytes | bytearray) -> bool:
    """Whether the job's `Retry.on` names what the function raised."""
    kind, _, _, _, pickled = raised.decode(data)
    if kind != raised.OWN or pickled is None:
        return kind == raised.EXITED and BaseException in job.retry.on
    try:
        return isinstance(raised.load(pickled), job.retry.on)
    except BaseException:
        return Exception in job.retry.on


def _setup(
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    preload: Iterable[str],
    env: Mapping[str, str] | None,
    chaos: Chaos | None,
    max_memory: int | None,
) -> Setup:
    """Check and pack what every worker will be told."""
    if isinstance(preload, str):
        raise TypeError(f"preload takes several module names: preload=({preload!r},)")
    packed_chaos = None
    if chaos is not None:
        seed = os.urandom(8).hex() if chaos.seed is None else chaos.seed
        packed_chaos = (chaos.crash_rate, seed, list(chaos.points), list(chaos.deaths))
    return Setup(
        cwd="",
        env=dict(env) if env else None,
        preload=tuple(preload),
        initializer=None if initializer is None else pickle_initializer(initializer, initargs),
        chaos=packed_chaos,
        watch_memory=max_memory is not None,
    )
