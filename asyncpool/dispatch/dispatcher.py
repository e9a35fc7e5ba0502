"""The dispatcher: every job's and every worker's state, and the only code that changes it.

Events come in as method calls that carry the time; decisions go out through `take()`. Nothing
here does I/O, reads a clock or knows asyncio. The rules:

- A job that was submitted is resolved exactly once.
- A worker runs one job at a time. What it was sent beyond that, and has not acknowledged, can be
  recalled exactly (see `asyncpool.frames`), and goes back to its old place in the queue for free.
- A worker's death is told once; whatever it ran is charged to that job, unless the death was
  ordered here: then it is nobody's crash. What a dying worker still managed to finish counts.
- A worker whose job takes unexpectedly long gives back what it has not begun. One that has a job
  and begins nothing is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from ..errors import ProtocolError
from ..jobs import JobState, Outcome
from . import pace
from .decisions import (
    Arrived,
    Cancelled,
    Crash,
    Decision,
    Departed,
    Ending,
    Failure,
    Kill,
    NoWorkers,
    Overrun,
    Recall,
    Resent,
    Resolve,
    Returned,
    Send,
    Spawn,
    Started,
    Stop,
    Value,
)
from .queue import Agenda, ReadyQueue
from .records import (
    NEVER,
    AttemptRecord,
    Death,
    JobRecord,
    Phase,
    Reason,
    WorkerRecord,
)
from .starts import HANGING, Starts

STALL_SECONDS = 0.005
"""A running job that takes longer gives the jobs behind it back."""

ACK_SECONDS = 1.0
"""A worker that has jobs, runs none and begins none for so long is replaced."""

# Python 3.11 takes 0.1 us to find a member of an enum by name, and each job needs a dozen.
_SENT, _RUNNING, _DONE = JobState.SENT, JobState.RUNNING, JobState.DONE
_ATTEMPT_DONE = Outcome.DONE
_READY = Phase.READY

_COMING = (Phase.STARTING, Phase.LOADING)
_SERVING = (Phase.READY, Phase.SPARE)


class Dispatcher:
    """Decides which job goes to which worker, who must die, and how every job ends."""

    def __init__(
        self,
        *,
        workers: int,
        random: Callable[[], float],
        spares: int = 0,
        max_tasks: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        self._size = workers
        self._spares = spares
        self._random = random
        self._max_tasks = max_tasks
        self._max_memory = max_memory
        self._decisions: list[Decision] = []
        self._next_serial = 1
        self._starts = Starts()
        self._hopeless = False  # starts were given up; the next job tries again
        self._closing = False
        self._unsettled = False  # amid a burst of cancellations
        self._ready = ReadyQueue()
        self._delayed = Agenda()
        self._deadlines = Agenda()
        self._unwanted: list[WorkerRecord] = []  # began a job that had just been cancelled
        self._idle: dict[int, WorkerRecord] = {}
        self._touched: dict[int, WorkerRecord] = {}  # may have room for more short jobs
        self.narrating = False
        """Whether somebody wants to be told of the steps of each job, not only of its end."""
        self.unfinished: dict[int, JobRecord] = {}
        self.workers: dict[int, WorkerRecord] = {}
        self.wake_at = NEVER
        """When `time_passed` must be called at the latest; only that call moves it back."""

    @property
    def has_decided(self) -> bool:
        """Whether there is something to `take`."""
        return bool(self._decisions)

    def take(self) -> list[Decision]:
        """Return the decisions since the last call; they must be carried out in this order."""
        decisions, self._decisions = self._decisions, []
        return decisions

    # Jobs come and go

    def submitted(self, job: JobRecord, now: float) -> None:
        """A caller handed in a job; it is queued, or waits for its delay."""
        if self._closing:
            raise RuntimeError("a job was submitted to a closing dispatcher")
        self.unfinished[job.number] = job
        self._enqueue(job, job.not_before, now)
        if self._hopeless:
            self._replenish(now)
        if self._idle:
            self._fill(now)

    def cancelled(self, job: JobRecord, now: float) -> None:
        """A caller gave up a job; until `settled` nothing is sent, as more may follow."""
        if job.state.ended:
            return
        self._unsettled = True
        self._withdraw(job, JobState.CANCELLED, Outcome.CANCELLED, Reason.CANCELLED, now)
        self._resolve(job, Cancelled())

    def settled(self, now: float) -> None:
        """A burst of cancellations is over: use what they freed."""
        self._unsettled = False
        self._replenish(now)
        self._dismiss_if_done(now)
        self._fill(now)

    def closed(self, now: float) -> None:
        """No job will be submitted any more; workers leave when none is unfinished."""
        self._closing = True
        self._dismiss_if_done(now)

    # Workers come and go

    def opened(self, now: float) -> None:
        """The pool starts: workers are wanted before there are jobs."""
        self._replenish(now)

    def worker_spawned(self, serial: int, pid: int) -> None:
        """The system made a process for the worker."""
        self.workers[serial].pid = pid

    def worker_alive(self, serial: int, now: float) -> None:
        """The worker said hello; from here on its start may take as long as it likes."""
        worker = self.workers[serial]
        if worker.phase is Phase.STARTING:
            worker.phase, worker.since = Phase.LOADING, now

    def worker_ready(self, serial: int, now: float) -> None:
        """The worker has done its preload and initializer."""
        worker = self.workers[serial]
        if worker.phase not in _COMING:
            return
        worker.since = now
        self._starts.succeeded()
        self._hopeless = False
        worker.phase = Phase.SPARE
        if self._count((Phase.READY,)) < self._size:
            self._promote(worker)
        self._decisions.append(Arrived(worker))
        self._replenish(now)
        self._dismiss_if_done(now)
        self._fill(now)

    def worker_lost(self, serial: int, death: Death, now: float) -> None:
        """The worker is dead and all that it wrote has been told; a second notice is ignored."""
        worker = self.workers.pop(serial, None)
        if worker is None:
            return
        self._idle.pop(serial, None)
        self._touched.pop(serial, None)
        reason = self._reason_of(worker)
        job = worker.running or worker.doomed
        self._decisions.append(Departed(worker, death, reason, job))
        self._settle_running(worker, death, reason, now)
        self._take_back(worker, len(worker.sent), reason)
        if worker.phase in _COMING or reason is Reason.NOT_STARTED:
            self._start_failed(worker, death, now)
        elif not worker.begun and worker.reason is None and self._starts.died_unused(now):
            self._give_up(death, self._starts.fruitless)
        self._replenish(now)
        self._dismiss_if_done(now)
        self._fill(now)

    # What workers say

    def acked(self, serial: int, number: int, attempt: int, now: float) -> None:
        """The worker is about to call the job's function."""
        worker = self.workers[serial]
        job = worker.sent[0] if worker.sent else None
        if worker.running or job is None or job.number != number:
            raise ProtocolError(f"ACK of job {number}, attempt {attempt}, from {worker!r}")
        if attempt != len(job.attempts) + 1:
            raise ProtocolError(f"ACK of attempt {attempt} of {job!r}, from {worker!r}")
        worker.sent.popleft()
        worker.running = job
        worker.since = now
        worker.begun += 1
        if self._starts.fruitless:
            self._starts.proved()
        job.attempts.append(AttemptRecord(attempt, worker.pid, now))
        if job.state is not _SENT:  # cancelled after the worker had taken its ticket
            job.attempts[-1].end(Outcome.CANCELLED, now)
            self._unwanted.append(worker)
            return
        job.state = _RUNNING
        if self.narrating or job.start_awaited:
            self._decisions.append(Started(job))
        if job.timeout is not None:
            worker.expires_at = now + job.timeout
            self._want(worker.expires_at)
        if worker.sent and now + STALL_SECONDS < self.wake_at:
            self.wake_at = now + STALL_SECONDS

    def returned(
        self,
        serial: int,
        number: int,
        attempt: int,
        payload: bytes | bytearray,
        seconds: float,
        now: float,
    ) -> None:
        """The function returned after that many seconds."""
        job = self._ended(serial, number, attempt, seconds, now)
        if job is None:
            return
        job.attempts[-1].end(_ATTEMPT_DONE, now)
        if self.narrating:
            self._decisions.append(Returned(job))
        self._finish(job, _DONE, Value(payload))

    def raised(
        self,
        serial: int,
        number: int,
        attempt: int,
        error: bytes | bytearray,
        seconds: float,
        now: float,
        *,
        retryable: Callable[[], bool],
    ) -> None:
        """The function raised; `retryable` tells whether `Retry.on` names such an error."""
        job = self._ended(serial, number, attempt, seconds, now)
        if job is None:
            return
        job.attempts[-1].end(Outcome.ERROR, now)
        if self.narrating:
            self._decisions.append(Returned(job))
        job.errors += 1
        if job.errors <= job.retry.max_errors and retryable():
            self._decisions.append(Resent(job, Reason.ERROR, charged=True))
            self._retry(job, job.errors + job.crashes, now)
        else:
            self._finish(job, JobState.FAILED, Failure(error))

    def memory_used(self, serial: int, resident: int) -> None:
        """The worker told its resident bytes, as it does before each result if they matter."""
        self.workers[serial].memory = resident

    def recalled(self, serial: int, tickets: int, now: float) -> None:
        """That many tickets could be taken back: the newest unacknowledged jobs are ours again."""
        worker = self.workers.get(serial)
        if worker is None:
            return
        if tickets > len(worker.sent):
            raise ProtocolError(f"{tickets} tickets came back from {worker!r}")
        self._take_back(worker, tickets, None)
        if worker.idle:
            self._set_free(worker)
        self._fill(now)

    def broken(self, serial: int) -> None:
        """The worker sent nonsense, or closed its pipe: it is not to be trusted any more."""
        worker = self.workers[serial]
        if worker.phase is not Phase.CONDEMNED:
            self._condemn(worker, Reason.BROKEN, None)

    def batch_over(self, now: float) -> None:
        """All frames that were read have been told: use what they freed."""
        while self._unwanted:
            worker = self._unwanted.pop()
            job = worker.running  # None: the batch held its result as well
            if job is not None and job.state.ended and worker.phase is not Phase.CONDEMNED:
                self._condemn(worker, Reason.CANCELLED, job)
        if self._touched or self._idle:
            self._fill(now)
        if self._closing:
            self._dismiss_if_done(now)

    # Time

    def time_passed(self, now: float) -> None:
        """Do what has become due and set `wake_at` anew."""
        self.wake_at = NEVER
        for job in self._delayed.due(now):
            self._ready.push(job)
        self._heed_deadlines(now)
        for worker in list(self.workers.values()):
            self._look_after(worker, now)
        self._want(self._delayed.next_moment)
        self._want(self._deadlines.next_moment)
        self._replenish(now)
        self._dismiss_if_done(now)
        self._fill(now)

    def _look_after(self, worker: WorkerRecord, now: float) -> None:
        """Notice whatever this worker has been doing for too long."""
        if worker.phase is Phase.STARTING:
            if self._overdue(worker.since + HANGING, now):
                self._condemn(worker, Reason.NOT_STARTED, None)
        elif worker.phase in (Phase.READY, Phase.LEAVING):
            if worker.running is None:
                if worker.sent and self._overdue(worker.since + ACK_SECONDS, now):
                    self._condemn(worker, Reason.UNRESPONSIVE, None)
                return
            if worker.expires_at != NEVER and self._overdue(worker.expires_at, now):
                self._condemn(worker, Reason.TIMEOUT, worker.running)
            elif worker.sent and self._overdue(worker.since + STALL_SECONDS, now):
                pace.observe(worker.running.function, now - worker.since)
                self._decisions.append(Recall(worker))

    def _overdue(self, moment: float, now: float) -> bool:
        if moment <= now:
            return True
        self._want(moment)
        return False

    def _want(self, moment: float) -> None:
        if moment < self.wake_at:
            self.wake_at = moment

    def _heed_deadlines(self, now: float) -> None:
        for job in self._deadlines.due(now):
            self._miss_deadline(job, now)

    def _miss_deadline(self, job: JobRecord, now: float) -> None:
        if job.state is JobState.RUNNING and job.worker is not None:
            if job.worker.phase is not Phase.CONDEMNED:
                self._condemn(job.worker, Reason.DEADLINE, job)
            return
        self._withdraw(job, JobState.FAILED, Outcome.TIMEOUT, Reason.DEADLINE, now)
        self._resolve(job, Overrun(None, None, None))

    # The queue

    def _enqueue(self, job: JobRecord, not_before: float, now: float) -> None:
        if job.deadline != NEVER and job not in self._deadlines:
            # New here, or its deadline came while the worker that ran it was dying already.
            self._deadlines.add(job.deadline, job)
            self._want(job.deadline)
        if not_before > now:
            self._delayed.add(not_before, job)
            self._want(not_before)
        else:
            self._ready.push(job)

    def _fill(self, now: float) -> None:
        """Give jobs to idle workers, then more short jobs to those that already have some."""
        if self._deadlines:
            self._heed_deadlines(now)  # a job that is late must not be sent
        ready, idle = self._ready, self._idle
        if self._unsettled or not ready:
            return
        sends: dict[int, Send] = {}
        while idle and ready:
            job = ready.pop()
            if job is None:
                break
            serial, worker = idle.popitem()  # the last to have worked: its memory is warm
            self._send(worker, job, sends, now)
        touched, self._touched = self._touched, {}
        if ready and touched:
            share = ceil(len(ready) / self._size)
            for worker in touched.values():
                self._top_up(worker, share, sends, now)
        self._decisions.extend(sends.values())

    def _top_up(self, worker: WorkerRecord, share: int, sends: dict[int, Send], now: float) -> None:
        if worker.phase is not _READY:
            return
        room = min(share, pace.WINDOW_JOBS - len(worker.sent), self._tasks_left(worker))
        for _ in range(room):
            job = self._ready.peek()
            if job is None:
                return
            cost = job.function.seconds + pace.OVERHEAD_SECONDS
            if worker.backlog + cost > pace.WINDOW_SECONDS:
                return
            self._ready.pop()
            self._send(worker, job, sends, now)

    def _tasks_left(self, worker: WorkerRecord) -> int:
        if self._max_tasks is None:
            return pace.WINDOW_JOBS
        return self._max_tasks - worker.begun - len(worker.sent)

    def _send(
        self, worker: WorkerRecord, job: JobRecord, sends: dict[int, Send], now: float
    ) -> None:
        if worker.running is None:
            if not worker.sent:
                worker.since = now
                self._want(now + ACK_SECONDS)
        elif not worker.sent:
            self._want(now + STALL_SECONDS)
        job.state = _SENT
        job.worker = worker
        job.cost = job.function.seconds + pace.OVERHEAD_SECONDS
        worker.backlog += job.cost
        worker.sent.append(job)
        send = sends.get(worker.serial)
        if send is None:
            sends[worker.serial] = Send(worker, [job])
            self._touched[worker.serial] = worker
        else:
            send.jobs.append(job)

    def _take_back(self, worker: WorkerRecord, count: int, reason: Reason | None) -> None:
        """Return the newest unacknowledged jobs to their old place in the queue."""
        for _ in range(count):
            job = worker.sent.pop()
            worker.backlog -= job.cost
            job.worker = None
            if job.state is not JobState.SENT:  # cancelled, or past its deadline
                continue
            job.state = JobState.RETRYING if job.attempts else JobState.PENDING
            self._ready.push(job)
            if reason is not None:
                self._decisions.append(Resent(job, reason, charged=False))

    # The end of an attempt

    def _ended(
        self, serial: int, number: int, attempt: int, seconds: float, now: float
    ) -> JobRecord | None:
        """Free the worker from its running job; return the job if it still wants an outcome."""
        worker = self.workers[serial]
        job = worker.running
        if job is None or job.number != number or len(job.attempts) != attempt:
            raise ProtocolError(f"a result of job {number}, attempt {attempt}, from {worker!r}")
        pace.observe(job.function, seconds)
        worker.running = None
        worker.expires_at = NEVER
        worker.since = now
        worker.jobs_done += 1
        job.worker = None
        worker.backlog = worker.backlog - job.cost if worker.sent else 0.0
        if worker.phase is _READY:
            self._set_free(worker)
        return job if job.state is _RUNNING else None

    def _set_free(self, worker: WorkerRecord) -> None:
        """Let a worker that runs nothing take more, unless it is worn and has to be replaced."""
        if self._is_worn(worker):
            if worker.sent:
                self._decisions.append(Recall(worker))
            else:
                self._dismiss(worker, Reason.RECYCLED)
        elif worker.sent:
            self._touched[worker.serial] = worker
        else:
            self._idle[worker.serial] = worker

    def _is_worn(self, worker: WorkerRecord) -> bool:
        if self._max_tasks is not None and worker.begun >= self._max_tasks:
            return True
        return self._max_memory is not None and worker.memory > self._max_memory

    def _settle_running(
        self, worker: WorkerRecord, death: Death, reason: Reason, now: float
    ) -> None:
        """Charge, retry or end the job that the dead worker was running."""
        job = worker.running
        if job is None or job.state.ended:
            return
        job.worker = None
        attempt = job.attempts[-1]
        if job is worker.doomed and reason in (Reason.TIMEOUT, Reason.DEADLINE):
            attempt.end(Outcome.TIMEOUT, now)
            limit = job.timeout if reason is Reason.TIMEOUT else None
            self._finish(job, JobState.FAILED, Overrun(limit, death, worker.pid))
            return
        if worker.reason is not None and reason is not Reason.BROKEN:
            # It began just before a kill that was meant for the worker, or for another job.
            attempt.end(Outcome.RECYCLED, now)
            self._decisions.append(Resent(job, reason, charged=False))
            job.state = JobState.RETRYING
            self._enqueue(job, now, now)
            return
        attempt.exit_code, attempt.signal = death.exit_code, death.signal
        attempt.end(Outcome.CRASHED, now)
        job.crashes += 1
        if job.retry.gives_up_after_crashes(job.crashes):
            ran_for = now - attempt.started_at
            self._finish(job, JobState.FAILED, Crash(death, worker.pid, ran_for))
        else:
            self._decisions.append(Resent(job, Reason.CRASHED, charged=True))
            self._retry(job, job.crashes + job.errors, now)

    def _retry(self, job: JobRecord, retry: int, now: float) -> None:
        job.state = JobState.RETRYING
        self._enqueue(job, now + job.retry.wait_before(retry, self._random), now)

    def _withdraw(
        self, job: JobRecord, state: JobState, outcome: Outcome, reason: Reason, now: float
    ) -> None:
        """Take an unfinished job out of wherever it is: the queue, a worker's pipe, a worker."""
        before, worker = job.state, job.worker
        job.state = state
        self._delayed.discard(job)
        self._ready.discard(job)
        if worker is None:
            return
        if before is JobState.SENT:
            self._decisions.append(Recall(worker))
        else:
            job.attempts[-1].end(outcome, now)
            if worker.phase is not Phase.CONDEMNED:
                self._condemn(worker, reason, job)

    def _finish(self, job: JobRecord, state: JobState, ending: Ending) -> None:
        job.state = state
        self._resolve(job, ending)

    def _resolve(self, job: JobRecord, ending: Ending) -> None:
        del self.unfinished[job.number]
        if job.deadline != NEVER:
            self._deadlines.discard(job)
        self._decisions.append(Resolve(job, ending))

    # The crew

    def _replenish(self, now: float) -> None:
        """Have as many workers, counting those that are coming, as are wanted."""
        self._fill_places()
        if self._closing and not self.unfinished:
            return
        if self._hopeless:
            if not self._ready:
                return
            self._hopeless = False
            coming = (w.serial for w in self.workers.values() if w.phase in _COMING)
            self._starts.forgive(min(coming, default=self._next_serial))
        missing = self._size + self._spares - self._count((*_COMING, *_SERVING))
        if missing <= 0:
            return
        if not self._starts.allowed(now):
            self._want(self._starts.next_at)
            return
        if self._starts.probing:
            missing = min(missing, 1 - self._count(_COMING))
        for _ in range(missing):
            worker = WorkerRecord(self._next_serial, now)
            self._next_serial += 1
            self.workers[worker.serial] = worker
            self._decisions.append(Spawn(worker))
            self._want(now + HANGING)

    def _fill_places(self) -> None:
        """Let spares take the places of workers that are gone or going."""
        vacant = self._size - self._count((Phase.READY,))
        if vacant <= 0 or not self._spares:
            return
        for worker in list(self.workers.values()):
            if vacant and worker.phase is Phase.SPARE:
                self._promote(worker)
                vacant -= 1

    def _promote(self, worker: WorkerRecord) -> None:
        worker.phase = Phase.READY
        self._idle[worker.serial] = worker

    def _condemn(self, worker: WorkerRecord, reason: Reason, job: JobRecord | None) -> None:
        """Book the kill before it is sent, and have the worker's place taken at once."""
        worker.phase = Phase.CONDEMNED
        worker.reason = reason
        worker.doomed = job
        self._idle.pop(worker.serial, None)
        if worker.sent:
            self._decisions.append(Recall(worker))
        want_stack = reason in (Reason.TIMEOUT, Reason.DEADLINE)
        self._decisions.append(Kill(worker, want_stack))
        self._fill_places()

    def _dismiss(self, worker: WorkerRecord, reason: Reason) -> None:
        """Tell a worker to leave, and have its place taken at once."""
        worker.phase = Phase.LEAVING
        worker.reason = reason
        self._idle.pop(worker.serial, None)
        self._decisions.append(Stop(worker))
        self._fill_places()

    def _dismiss_if_done(self, now: float) -> None:
        """Send everybody home when the pool is closing and no job is unfinished."""
        if not self._closing or self.unfinished:
            return
        for worker in list(self.workers.values()):
            if worker.phase in _SERVING:
                self._dismiss(worker, Reason.CLOSED)
            elif worker.phase in _COMING:
                self._condemn(worker, Reason.CLOSED, None)

    @property
    def is_over(self) -> bool:
        """Whether the pool is closed and every job and every worker has ended."""
        return self._closing and not self.unfinished and not self.workers

    def abandon(self, now: float) -> None:
        """End everything at once: every job is cancelled, every worker killed."""
        self._closing = True
        for job in list(self.unfinished.values()):
            self.cancelled(job, now)
        for worker in list(self.workers.values()):
            if worker.phase is not Phase.CONDEMNED:
                self._condemn(worker, Reason.CLOSED, None)

    def _start_failed(self, worker: WorkerRecord, death: Death, now: float) -> None:
        if worker.reason is Reason.CLOSED:
            return
        refused = worker.pid == 0 and worker.reason is None
        if self._starts.failed(
            now,
            serial=worker.serial,
            next_serial=self._next_serial,
            begun_at=worker.since,
            refused=refused,
        ):
            self._give_up(death, self._starts.failures)

    def _give_up(self, death: Death, tries: int) -> None:
        """Fail all that waits, unless some worker lives or may yet; the next job tries again."""
        if self._count((Phase.READY, Phase.LOADING)):
            return
        self._hopeless = True
        for job in list(self._ready):
            self._ready.discard(job)
            self._finish(job, JobState.FAILED, NoWorkers(death, tries))

    def _reason_of(self, worker: WorkerRecord) -> Reason:
        if worker.reason is not None:
            return worker.reason
        return Reason.NOT_STARTED if worker.phase in _COMING else Reason.CRASHED

    def _count(self, phases: Iterable[Phase]) -> int:
        return sum(worker.phase in phases for worker in self.workers.values())
