"""The pool, as users see it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import Any

from . import views
from .crew import Crew, Setup
from .delivery import Delivery
from .dispatch.dispatcher import Dispatcher
from .dispatch.records import Phase
from .events import Event
from .functions import pickle_initializer
from .hub import EventHub, Feed
from .intake import Intake
from .job import Job
from .jobs import JobInfo, JobState, Stats, WorkerInfo
from .journal.crew import DurableCrew
from .journal.interrupts import Interrupts
from .journal.options import Journal
from .journal.scribe import persist
from .journal.session import Session
from .memory import JobBook
from .narrator import Narrator
from .options import JobOptions, Timeout, check_all_text, check_count, check_seconds
from .processes.cpus import usable_cpus
from .processes.interpreter import working_directory
from .retry import DEFAULT_RETRY, Retry
from .room import Room
from .submitter import Submitter
from .testing import Chaos

logger = logging.getLogger("asyncpool")

DUMP_SECONDS = 5.0
"""How long `dump_stack` waits for an answer."""


class _Life(Enum):
    NEW = "not entered yet"
    OPENING = "reading its journal"
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Pool(Submitter):
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
        retry: Retry = DEFAULT_RETRY,
        max_pending: int | None = None,
        max_tasks_per_child: int | None = None,
        max_memory_per_child: int | None = None,
        env: Mapping[str, str] | None = None,
        chaos: Chaos | None = None,
        journal: str | os.PathLike[str] | Journal | None = None,
    ) -> None:
        check_count("max_workers", max_workers, 1)
        check_count("spares", spares, 0)
        check_count("max_pending", max_pending, 1)
        check_count("max_tasks_per_child", max_tasks_per_child, 1)
        check_count("max_memory_per_child", max_memory_per_child, 1)
        if not (journal is None or isinstance(journal, Journal)):
            if not isinstance(journal, (str, os.PathLike)):
                raise TypeError(f"journal must be a path or an asyncpool.Journal, not {journal!r}")
            journal = Journal(journal)
        max_workers = usable_cpus() if max_workers is None else max_workers
        self._setup = _setup(initializer, initargs, preload, env, chaos, max_memory_per_child)
        self._dispatcher = Dispatcher(
            workers=max_workers,
            spares=spares,
            max_tasks=max_tasks_per_child,
            max_memory=max_memory_per_child,
            random=random.random,
        )
        self._life = _Life.NEW
        self._interrupts = Interrupts(None)
        self._recovered: list[Job[Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._crew: Crew | None = None
        self._journal = journal
        self._session: Session | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._hub = EventHub(time.time)
        self._narrator = Narrator(self._hub)
        self._book = JobBook()
        room = Room(max_pending, self._dispatcher.unfinished)
        self._delivery = Delivery(self._narrator, self._book, room)
        intake = Intake(self._dispatcher, self._narrator, self._book, room, max_workers=max_workers)
        super().__init__(intake, JobOptions(timeout=timeout, retry=retry))

    # Opening and closing

    async def __aenter__(self) -> Pool:
        if self._life is not _Life.NEW:
            raise RuntimeError(f"a Pool can be entered once; this one is {self._life.value}")
        self._loop = loop = asyncio.get_running_loop()
        self._setup = replace(self._setup, cwd=working_directory())
        if self._journal is not None:
            self._life = _Life.OPENING
            try:
                self._session = await Session.open(self._journal)
            except BaseException:
                self._life = _Life.NEW
                raise
        self._life = _Life.OPEN
        wall_offset = time.time() - loop.time()
        self._interrupts = Interrupts(asyncio.current_task())
        crew = self._crew = self._muster(loop, wall_offset)
        self._delivery.wall_offset = wall_offset
        self._intake.open(loop, crew, wall_offset, self._session)
        self._supervisor = loop.create_task(self._supervise(), name="asyncpool supervisor")
        self._interrupts.add(self._supervisor)
        self._dispatcher.opened(loop.time())
        crew.act()
        if self._session is not None:
            await self._recover(self._session)
        return self

    def _muster(self, loop: asyncio.AbstractEventLoop, wall_offset: float) -> Crew:
        shared = (loop, self._dispatcher, self._delivery, self._setup)
        if self._journal is None or self._session is None:
            return Crew(*shared, wall_offset=wall_offset)
        crew = DurableCrew(
            *shared,
            wall_offset=wall_offset,
            interrupts=self._interrupts,
            durable_results=self._journal.durable_results,
        )
        crew.recorder = self._session.begin(loop, crew)
        return crew

    async def _recover(self, session: Session) -> None:
        """Queue what is unfinished, before anything new."""
        try:
            async for found in session.unfinished():
                self._recovered += filter(None, map(self._intake.recover, found))
                self._open_crew.act()
        except BaseException:  # nobody will leave a block that was never entered
            await self._end()
            raise
        if left := self._intake.left:
            logger.warning(
                "%d unfinished jobs of journal %s wait until the script that they are of opens it: "
                "%s",
                len(left),
                session.path,
                ", ".join(sorted(set(left.values()))),
            )

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
            await self._end()
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
        self._interrupts.look()
        self._crew.grace = grace
        self._intake.close()
        if cancel:
            with self._interrupts.deliberately():
                for record in list(self._dispatcher.unfinished.values()):
                    record.handle.cancel()
        self._dispatcher.closed(self._loop.time())
        self._crew.act()
        self._crew.check_all_gone()
        await self._until_closed()

    async def drain(self) -> None:
        """Wait until no job is unfinished."""
        if self._book.unfinished:
            await self._delivery.drained(self._intake.here())

    def _abandon(self) -> None:
        """Cancel every job and kill every worker, now."""
        if self._crew is None or self._life is _Life.CLOSED:
            return
        self._life = _Life.CLOSING
        self._intake.close()
        for record in list(self._dispatcher.unfinished.values()):
            asyncio.Future.cancel(record.handle)
        self._crew.abandon()

    async def _end(self) -> None:
        """Abandon all, and wait for that, also if we are cancelled once more."""
        self._abandon()
        if self._supervisor is not None:
            await persist(self._supervisor)

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
            if self._session is not None:
                if isinstance(self._crew, DurableCrew):
                    self._crew.settle_doubts()
                await self._session.close()
            self._life = _Life.CLOSED
            self._hub.close()

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

        `timeout` and `retry` replace the pool's defaults; a `timeout` of `math.inf` lifts it.
        `deadline` and `delay` are seconds from the submission. A higher `priority` runs first. An
        `id` names one job: submitting the same call again returns that job, another call raises
        DuplicateJob.
        """
        return Submitter(
            self._intake,
            JobOptions(
                id=id,
                timeout=self._options.timeout if timeout is None else timeout,
                deadline=deadline,
                retry=self._options.retry if retry is None else retry,
                priority=priority,
                delay=delay,
            ),
        )

    @property
    def _open_crew(self) -> Crew:
        assert self._crew is not None
        return self._crew

    # Looking and meddling

    @property
    def recovered(self) -> list[Job[Any]]:
        """The jobs that the journal brought back unfinished, in the order of their submission.

        They are queued already, and stay in this list when they have ended. One that fails with
        nobody awaiting it is told in one line by the logger `asyncpool`.
        """
        return self._recovered

    def job(self, id: str) -> Job[Any]:
        """Return the job of that id. Raises KeyError if it is unknown or forgotten.

        The last 1,000 jobs that ended are remembered, their results only as long as somebody else
        holds them, unless the job was named by `options(id=...)` or there is a journal.
        """
        return self._intake.job(id)

    def jobs(self) -> list[JobInfo]:
        """Return a snapshot of the unfinished jobs, in the order of their submission."""
        unfinished = self._dispatcher.unfinished.values()
        return [views.job_info(record, self._intake.wall_offset) for record in unfinished]

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
        with self._interrupts.deliberately():
            if not record.handle.cancel():
                return False
        process = self._open_crew.processes.get(worker.serial) if worker is not None else None
        if running and process is not None:
            await asyncio.wait({process.gone}, timeout=DUMP_SECONDS)
        if self._session is not None:
            await self._session.recorder.flushed()
        return True

    async def dump_stack(self, id: str) -> str:
        """Return the Python stacks of a running job's process, most recent call first.

        Raises KeyError for an unknown id, RuntimeError if the job is not running, and TimeoutError
        if its process does not answer within five seconds.
        """
        job = self.job(id)
        worker = job._record.worker
        if job.state is not JobState.RUNNING or worker is None:
            raise RuntimeError(f"job {id} is {job.state.value}: only a running job has a stack")
        stack = await self._open_crew.processes[worker.serial].dump_stack(DUMP_SECONDS)
        if not stack:
            raise TimeoutError(f"the worker {worker.pid} of job {id} did not tell its stack")
        return stack

    def __repr__(self) -> str:
        unfinished = len(self._dispatcher.unfinished)
        workers = self._intake.max_workers
        return f"<Pool {self._life.value} workers={workers} unfinished={unfinished}>"


def _setup(
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    preload: Iterable[str],
    env: Mapping[str, str] | None,
    chaos: Chaos | None,
    max_memory: int | None,
) -> Setup:
    """Check and pack what every worker will be told."""
    if initargs and initializer is None:
        raise ValueError(f"initargs {initargs!r} were given without an initializer to call")
    if isinstance(preload, str):
        raise TypeError(f"preload takes several module names: preload=({preload!r},)")
    preload = tuple(preload)
    check_all_text("preload", preload)
    env = dict(env or {})
    check_all_text("env", (*env.keys(), *env.values()))
    if chaos is not None and not isinstance(chaos, Chaos):
        raise TypeError(f"chaos must be an asyncpool.testing.Chaos, not {chaos!r}")
    packed_chaos = None
    if chaos is not None:
        seed = os.urandom(8).hex() if chaos.seed is None else chaos.seed
        packed_chaos = (chaos.crash_rate, seed, list(chaos.points), list(chaos.deaths))
    return Setup(
        cwd="",
        env=env or None,
        preload=preload,
        initializer=None if initializer is None else pickle_initializer(initializer, initargs),
        chaos=packed_chaos,
        watch_memory=max_memory is not None,
    )
