"""The crew: carries out the dispatcher's decisions on real processes, and tells it what they say.

Decide, then do: every event goes into the dispatcher first, and `act` then performs whatever came
out of it, in order, until nothing more comes.
"""

from __future__ import annotations

import asyncio
import logging
import marshal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from . import frames
from .dispatch import decisions
from .dispatch.decisions import Decision, Ending
from .dispatch.dispatcher import Dispatcher
from .dispatch.records import NEVER, Death, JobRecord, WorkerRecord
from .errors import ProtocolError
from .frames import Frame
from .processes import sigchld
from .processes.interpreter import import_path
from .processes.oom import OomCounter
from .processes.worker_process import WorkerProcess

logger = logging.getLogger("asyncpool")

NAN = float("nan")

LAST_WAIT_SECONDS = 5.0
"""How long killed processes may take to disappear before we stop waiting for them."""

LAST_SPAWN_SECONDS = 0.5
"""How long a spawn that is under way may take when everything ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What every worker is told at its start; `initializer` is the pickled (function, args)."""

    cwd: str
    env: Mapping[str, str] | None = None
    preload: tuple[str, ...] = ()
    initializer: bytes | None = None
    chaos: tuple[float, object, list[str], list[str]] | None = None
    watch_memory: bool = False


class Audience(Protocol):
    """Who is told what becomes of the jobs."""

    def sent(self, job: JobRecord) -> None:
        """The job was written to a worker."""

    def started(self, job: JobRecord) -> None:
        """An attempt of the job has begun."""

    def progressed(self, job: JobRecord, report: tuple[float, float | None, str | None]) -> None:
        """The running job reported its progress."""

    def is_retryable(self, job: JobRecord, data: bytes | bytearray) -> bool:
        """Whether the job's `Retry.on` names what the function raised."""

    def resolved(self, job: JobRecord, ending: Ending) -> None:
        """The job has ended."""

    def noted(self, decision: Decision) -> None:
        """Something else happened that is worth an event."""

    def accepted(self, job: JobRecord) -> None:
        """The job is recorded."""

    def journal_failed(self, why: str) -> None:
        """Something that happened to jobs could not be recorded."""


class Crew:
    """The worker processes of one pool."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatcher: Dispatcher,
        audience: Audience,
        setup: Setup,
        *,
        wall_offset: float,
    ) -> None:
        self.processes: dict[int, WorkerProcess] = {}
        self.grace = LAST_WAIT_SECONDS
        self.all_gone: asyncio.Future[None] = loop.create_future()
        """Done when the dispatcher was closed and no process is left."""
        self._loop = loop
        self._dispatcher = dispatcher
        self._desk = dispatcher.desk
        self._audience = audience
        self._setup = setup
        self._wall_offset = wall_offset
        self._oom = OomCounter()
        self._spawning: set[asyncio.Task[None]] = set()
        self._acting = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER
        self._last_wait: asyncio.TimerHandle | None = None
        self._last_spawn: asyncio.TimerHandle | None = None
        self._sigchld = sigchld.watch(loop, self._sweep)
        self._perform: dict[type[Any], Callable[[Any], None]] = {
            decisions.Spawn: self._spawn,
            decisions.Send: self._send,
            decisions.Recall: self._recall,
            decisions.Kill: self._kill,
            decisions.Stop: self._stop,
            decisions.Started: lambda it: audience.started(it.job),
            decisions.Resolve: lambda it: audience.resolved(it.job, it.ending),
            decisions.Returned: audience.noted,
            decisions.Recalled: audience.noted,
            decisions.Resent: audience.noted,
            decisions.Arrived: audience.noted,
            decisions.Departed: audience.noted,
        }

    def now(self) -> float:
        """The dispatcher's clock: the loop's."""
        return self._loop.time()

    # Deciding and doing

    def act(self) -> None:
        """Perform all decisions that are due; they may bring about more."""
        desk = self._desk
        if self._acting:
            return  # the loop below will see what was added
        if not desk.decisions and desk.wake_at >= self._alarm_at:
            return
        self._acting = True
        try:
            while desk.decisions:
                self._perform_all(desk.clear())
        finally:
            self._acting = False
        if desk.wake_at < self._alarm_at:
            self._set_alarm()

    def _perform_all(self, due: list[Decision]) -> None:
        done = 0
        try:
            for decision in due:
                done += 1
                self._perform[type(decision)](decision)
        except BaseException:
            # A bug of ours, or a Ctrl-C in this very moment: whatever else was decided still
            # has to be done.
            self._desk.decisions[:0] = due[done:]
            self._loop.call_soon(self.act)
            raise

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = self._dispatcher.wake_at
        self._alarm = self._loop.call_at(self._alarm_at, self._wake)

    def _wake(self) -> None:
        self._alarm, self._alarm_at = None, NEVER
        self._dispatcher.time_passed(self._loop.time())
        self.act()

    # The decisions

    def _spawn(self, decision: decisions.Spawn) -> None:
        serial = decision.worker.serial
        process = WorkerProcess(serial, self._loop, self, self._oom)
        self.processes[serial] = process
        process.gone.add_done_callback(lambda _: self._forget(process))
        task = self._loop.create_task(self._bring_up(process), name=f"asyncpool spawn {serial}")
        self._spawning.add(task)
        task.add_done_callback(lambda it: self._brought_up(process, it))

    async def _bring_up(self, process: WorkerProcess) -> None:
        try:
            await process.spawn(self._setup.env, use_pidfd=self._sigchld is None)
        except Exception as error:  # RuntimeError, too: two uvloops that spawn at the same time
            self._never_lived(process, f"{type(error).__name__}: {error}")
            return
        if process.serial in self._dispatcher.workers:
            self._dispatcher.worker_spawned(process.serial, process.pid)
            process.known_path = import_path()
            process.send([frames.encode(frames.SETUP, payload=self._instructions(process))])

    def _brought_up(self, process: WorkerProcess, task: asyncio.Task[None]) -> None:
        self._spawning.discard(task)
        if task.cancelled():  # maybe even before its first step
            self._never_lived(process, "the event loop was shut down")

    def _never_lived(self, process: WorkerProcess, why: str) -> None:
        self._dispatcher.worker_lost(process.serial, Death(why=why), self._loop.time())
        if not process.gone.done():
            process.gone.set_result(None)
        self.act()

    def _instructions(self, process: WorkerProcess) -> bytes:
        setup = self._setup
        chaos = None
        if setup.chaos is not None:
            rate, seed, points, deaths = setup.chaos
            chaos = (rate, seed, process.serial, points, deaths)
        return marshal.dumps(
            {
                "path": process.known_path,
                "argv": [str(argument) for argument in sys.argv],
                "cwd": setup.cwd,
                "preload": setup.preload,
                "initializer": setup.initializer,
                "chaos": chaos,
                "watch_memory": setup.watch_memory,
            }
        )

    def _send(self, decision: decisions.Send) -> None:
        process = self.processes[decision.worker.serial]
        known, narrating = process.known_functions, self._dispatcher.narrating
        pieces: list[bytes] = []
        for job in decision.jobs:
            function: Any = job.function
            if function.number not in known:
                self._introduce(process, function, pieces)
            job_id = job.id.encode()
            deadline = NAN if job.deadline == NEVER else job.deadline + self._wall_offset
            head = frames.JOB_HEAD.pack(deadline, len(job_id)) + job_id
            size = len(head) + len(job.payload)
            pieces.append(
                frames.HEADER.pack(frames.JOB, job.next_attempt, function.number, job.number, size)
                + head
            )
            pieces.append(job.payload)
            if narrating:
                self._audience.sent(job)
        process.send_jobs(len(decision.jobs), pieces)

    def _introduce(self, process: WorkerProcess, function: Any, pieces: list[bytes]) -> None:
        """Let the worker know a function, and where it may have to be imported from."""
        path = import_path()
        if path != process.known_path:
            process.known_path = path
            pieces.append(frames.encode(frames.PATH, payload=marshal.dumps(path)))
        payload = function.payload
        pieces.append(frames.encode(frames.FUNCTION, extra=function.number, payload=payload))
        process.known_functions.add(function.number)

    def forget_functions(self, numbers: list[int]) -> None:
        """Let the workers forget functions that no job calls any more."""
        for process in self.processes.values():
            for number in process.known_functions.intersection(numbers):
                process.known_functions.remove(number)
                process.send([frames.encode(frames.FORGET, extra=number)])

    def _recall(self, decision: decisions.Recall) -> None:
        worker = decision.worker
        self._dispatcher.recalled(worker.serial, self._take_back(worker), self._loop.time())

    def _take_back(self, worker: WorkerRecord) -> int:
        """Return how many jobs the worker has not begun, and now never will."""
        process = self.processes.get(worker.serial)
        return process.take_back_tickets() if process is not None else 0

    def _kill(self, decision: decisions.Kill) -> None:
        process = self.processes.get(decision.worker.serial)
        if process is None:
            return
        if decision.want_stack:
            process.kill_with_stack()
        else:
            process.kill()

    def _stop(self, decision: decisions.Stop) -> None:
        process = self.processes.get(decision.worker.serial)
        if process is not None:
            process.stop(self.grace)

    # What the processes say

    def heard(self, worker: WorkerProcess, said: list[Frame]) -> None:
        """Tell the dispatcher what a worker wrote."""
        dispatcher, serial, now = self._dispatcher, worker.serial, self._loop.time()
        acked, returned = dispatcher.acked, dispatcher.returned
        try:
            for kind, attempt, extra, number, payload in said:
                if kind == frames.ACK:
                    acked(serial, number, attempt, now)
                elif kind == frames.RETURNED:
                    returned(serial, number, attempt, payload, extra * 1e-6, now)
                else:
                    self._heard_rarely(serial, (kind, attempt, extra, number, payload), now)
        except ProtocolError as error:
            self._distrust(worker, str(error))
        dispatcher.batch_over(now)
        self.act()

    def _heard_rarely(self, serial: int, frame: Frame, now: float) -> None:
        kind, attempt, extra, number, payload = frame
        dispatcher = self._dispatcher
        if kind == frames.RAISED:
            job = dispatcher.workers[serial].running
            dispatcher.raised(
                serial,
                number,
                attempt,
                payload,
                extra * 1e-6,
                now,
                retryable=lambda: job is not None and self._audience.is_retryable(job, payload),
            )
        elif kind == frames.PROGRESS:
            job = dispatcher.workers[serial].running
            if job is not None and job.number == number:
                self._audience.progressed(job, marshal.loads(payload))
        elif kind == frames.MEMORY:
            dispatcher.memory_used(serial, number)
        elif kind == frames.HELLO and number == frames.VERSION:
            dispatcher.worker_alive(serial, now)
        elif kind == frames.READY:
            dispatcher.worker_ready(serial, now)
        else:
            raise ProtocolError(f"frame of kind {kind}, number {number}, which no worker sends")

    def taken(self, worker: WorkerProcess) -> None:
        """Tell the dispatcher that a worker is at it: its big job is on the way."""
        record = self._dispatcher.workers.get(worker.serial)
        if record is not None:
            self._dispatcher.flow.fed(record, self._loop.time())

    def misbehaved(self, worker: WorkerProcess, why: str) -> None:
        """Get rid of a worker that does not keep to the protocol."""
        self._distrust(worker, why)
        self._dispatcher.batch_over(self._loop.time())
        self.act()

    def _distrust(self, worker: WorkerProcess, why: str) -> None:
        logger.error("worker %d is replaced, it broke the protocol: %s", worker.pid, why)
        worker.blame(why)
        if worker.serial in self._dispatcher.workers:
            self._dispatcher.broken(worker.serial)

    def died(self, worker: WorkerProcess, death: Death) -> None:
        """Tell the dispatcher of a death; all that the worker wrote has been told before."""
        if worker.serial in self._dispatcher.workers:  # so fast that its spawn was not told yet
            self._dispatcher.worker_spawned(worker.serial, worker.pid)
        self._dispatcher.worker_lost(worker.serial, death, self._loop.time())
        self.act()

    def _sweep(self) -> None:
        for process in list(self.processes.values()):
            process.look()

    # The end

    def _forget(self, process: WorkerProcess) -> None:
        self.processes.pop(process.serial, None)
        self.check_all_gone()

    def check_all_gone(self) -> None:
        """Complete `all_gone` if the pool is over."""
        if self._dispatcher.is_over and not self.processes and not self.all_gone.done():
            self.all_gone.set_result(None)

    def abandon(self) -> None:
        """Cancel all jobs and kill all processes now; waits for nothing."""
        self._dispatcher.abandon(self._loop.time())
        self.act()
        if self._last_wait is None:
            self._last_wait = self._loop.call_later(LAST_WAIT_SECONDS, self._stop_waiting)
            self._last_spawn = self._loop.call_later(LAST_SPAWN_SECONDS, self._stop_spawning)
        self.check_all_gone()

    def _stop_spawning(self) -> None:
        # If the loop is torn down in the same turn, asyncio cancels its own task that would
        # complete the spawn, and waits for that for ever.
        for task in self._spawning:
            task.cancel()

    def _stop_waiting(self) -> None:
        if not self.all_gone.done():
            logger.error("these workers were killed and did not die: %s", self.processes)
            self.all_gone.set_result(None)

    def dissolve(self) -> None:
        """Give back the signal handler and the timers."""
        if self._sigchld is not None:
            self._sigchld.unwatch(self._sweep)
        for timer in (self._alarm, self._last_wait, self._last_spawn):
            if timer is not None:
                timer.cancel()
        for task in self._spawning:
            task.cancel()
