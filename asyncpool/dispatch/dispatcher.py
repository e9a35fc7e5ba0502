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

from collections.abc import Callable

from ..errors import ProtocolError
from ..jobs import JobState, Outcome
from . import decisions, pace
from .decisions import Decision, Ending, Resolve, Started, Value
from .desk import Desk
from .flow import STALL_SECONDS, Flow
from .queue import Agenda
from .records import (
    NEVER,
    PARENT_DIED,
    AttemptRecord,
    Death,
    JobRecord,
    Phase,
    Reason,
    WorkerRecord,
)
from .roster import COMING, Roster, reason_of
from .watch import Watch

# See `flow`.
_SENT, _RUNNING, _DONE = JobState.SENT, JobState.RUNNING, JobState.DONE
_ATTEMPT_DONE = Outcome.DONE
_READY = Phase.READY


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
        self._random = random
        self.desk = self._desk = Desk()
        self._roster = Roster(
            self._desk, size=workers, spares=spares, max_tasks=max_tasks, max_memory=max_memory
        )
        self._closing = False
        self._unsettled = False  # amid a burst of cancellations
        self.flow = self._flow = Flow(self._desk, self._roster)
        self._watch = Watch(self._desk, self._roster)
        self._ready = self._flow.ready
        self._deadlines = Agenda()
        self._unwanted: list[WorkerRecord] = []  # began a job that had just been cancelled
        self.narrating = False
        """Whether somebody wants to be told of the steps of each job, not only of its end."""
        self.unfinished: dict[int, JobRecord] = {}
        self.workers = self._roster.workers

    def take(self) -> list[Decision]:
        """Return the decisions since the last call; they must be carried out in this order."""
        return self._desk.clear()

    @property
    def wake_at(self) -> float:
        """When `time_passed` must be called at the latest; only that call moves it back."""
        return self._desk.wake_at

    # Jobs come and go

    def submitted(self, job: JobRecord, now: float) -> None:
        """A caller handed in a job; it is queued, or waits for its delay."""
        self.announced(job)
        self._take_in(job, now)

    def announced(self, job: JobRecord) -> None:
        """A job was handed in that is not recorded yet; `accepted` or `refused` follows."""
        if self._closing:
            raise RuntimeError("a job was submitted to a closing dispatcher")
        self.unfinished[job.number] = job

    def accepted(self, job: JobRecord, now: float) -> None:
        """The job that was announced is recorded."""
        if not job.state.ended:
            self._take_in(job, now)

    def refused(self, job: JobRecord, error: Exception) -> None:
        """The job that was announced could not be recorded: it never runs."""
        if not job.state.ended:
            self._fail(job, decisions.Refused(error))

    def recovered(self, job: JobRecord, now: float) -> None:
        """A job of an earlier life is back, with the crashes and errors that it had."""
        self.unfinished[job.number] = job
        if job.retry.gives_up_after_crashes(job.crashes):
            last = job.attempts[-1]
            ran_for = (last.ended_at or last.started_at) - last.started_at
            self._fail(job, decisions.Crash(Death(why=PARENT_DIED), last.pid, ran_for))
        else:
            self._take_in(job, now)

    def _take_in(self, job: JobRecord, now: float) -> None:
        if job.deadline == NEVER and job.not_before <= now:
            self._ready.push(job)
        else:
            self._enqueue(job, job.not_before, now)
        if self._roster.hopeless:
            self._replenish(now)
        if self._roster.idle:
            self._fill(now)

    def cancelled(self, job: JobRecord, now: float) -> None:
        """A caller gave up a job; until `settled` nothing is sent, as more may follow."""
        if job.state.ended:
            return
        self._unsettled = True
        self._withdraw(job, JobState.CANCELLED, Outcome.CANCELLED, Reason.CANCELLED, now)
        self._resolve(job, decisions.Cancelled())

    def settled(self, now: float) -> None:
        """A burst of cancellations is over: use what they freed."""
        self._unsettled = False
        self._replenish(now)
        self._dismiss_if_done()
        self._fill(now)

    def closed(self, now: float) -> None:
        """No job will be submitted any more; workers leave when none is unfinished."""
        self._closing = True
        self._dismiss_if_done()

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
        if worker.phase not in COMING:
            return
        self._roster.arrived(worker, now)
        self._desk.decide(decisions.Arrived(worker))
        self._replenish(now)
        self._dismiss_if_done()
        self._fill(now)

    def worker_lost(self, serial: int, death: Death, now: float) -> None:
        """The worker is dead and all that it wrote has been told; a second notice is ignored."""
        worker = self._roster.lost(serial)
        if worker is None:
            return
        reason = reason_of(worker)
        job = worker.running or worker.doomed
        self._desk.decide(decisions.Departed(worker, death, reason, job))
        self._settle_running(worker, death, reason, now)
        self._flow.take_back(worker, len(worker.sent), reason)
        if self._roster.is_hopeless_after(worker, reason, now):
            self._give_up(death)
        self._replenish(now)
        self._dismiss_if_done()
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
        if self._roster.starts.fruitless:
            self._roster.starts.proved()
        job.attempts += (AttemptRecord(attempt, worker.pid, now),)
        if job.state is not _SENT:  # cancelled after the worker had taken its ticket
            job.attempts[-1].end(Outcome.CANCELLED, now)
            self._unwanted.append(worker)
            return
        job.state = _RUNNING
        if self.narrating or job.start_awaited:
            self._desk.decide(Started(job))
        if job.timeout is not None:
            worker.expires_at = now + job.timeout
            self._desk.want(worker.expires_at)
        if worker.sent and now + STALL_SECONDS < self._desk.wake_at:
            self._desk.wake_at = now + STALL_SECONDS

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
        attempt_record = job.attempts[-1]
        attempt_record.outcome, attempt_record.ended_at = _ATTEMPT_DONE, now
        if self.narrating:
            self._desk.decide(decisions.Returned(job))
        job.state = _DONE
        self._resolve(job, Value(payload))

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
            self._desk.decide(decisions.Returned(job))
        job.errors += 1
        if job.errors <= job.retry.max_errors and retryable():
            self._retry(job, Reason.ERROR, now)
        else:
            self._fail(job, decisions.Failure(error))

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
        self._flow.take_back(worker, tickets, None)
        if worker.idle:
            self._roster.set_free(worker)
        self._fill(now)

    def broken(self, serial: int) -> None:
        """The worker sent nonsense, or closed its pipe: it is not to be trusted any more."""
        self._roster.condemn(self.workers[serial], Reason.BROKEN)

    def batch_over(self, now: float) -> None:
        """All frames that were read have been told: use what they freed."""
        while self._unwanted:
            worker = self._unwanted.pop()
            job = worker.running  # None: the batch held its result as well
            if job is not None and job.state.ended:
                self._roster.condemn(worker, Reason.CANCELLED, job)
        if self._roster.touched or self._roster.idle:
            self._fill(now)
        if self._closing:
            self._dismiss_if_done()

    # Time

    def time_passed(self, now: float) -> None:
        """Do what has become due and set `wake_at` anew."""
        self._desk.wake_at = NEVER
        self._flow.time_passed(now)
        self._heed_deadlines(now)
        self._watch.look_after_all(now)
        self._desk.want(self._deadlines.next_moment)
        self._replenish(now)
        self._dismiss_if_done()
        self._fill(now)

    def _heed_deadlines(self, now: float) -> None:
        for job in self._deadlines.due(now):
            self._miss_deadline(job, now)

    def _miss_deadline(self, job: JobRecord, now: float) -> None:
        if job.state is JobState.RUNNING and job.worker is not None:
            self._roster.condemn(job.worker, Reason.DEADLINE, job)
            return
        self._withdraw(job, JobState.FAILED, Outcome.TIMEOUT, Reason.DEADLINE, now)
        self._resolve(job, decisions.Overrun(None, None, None))

    # The queue

    def _enqueue(self, job: JobRecord, not_before: float, now: float) -> None:
        if job.deadline != NEVER and job not in self._deadlines:
            # New here, or its deadline came while the worker that ran it was dying already.
            self._deadlines.add(job.deadline, job)
            self._desk.want(job.deadline)
        self._flow.add(job, not_before, now)

    def _fill(self, now: float) -> None:
        """Use every idle worker, unless more cancellations may follow."""
        if self._deadlines:
            self._heed_deadlines(now)  # a job that is late must not be sent
        if not self._unsettled:
            self._flow.fill(now)

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
            self._roster.set_free(worker)
        return job if job.state is _RUNNING else None

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
            self._fail(job, decisions.Overrun(limit, death, worker.pid))
            return
        if worker.reason is not None and reason is not Reason.BROKEN:
            # It began just before a kill that was meant for the worker, or for another job.
            attempt.end(Outcome.RECYCLED, now)
            job.state = JobState.RETRYING
            self._desk.decide(decisions.Resent(job, reason, charged=False, ran=True))
            self._enqueue(job, now, now)
            return
        attempt.exit_code, attempt.signal = death.exit_code, death.signal
        attempt.end(Outcome.CRASHED, now)
        job.crashes += 1
        if job.retry.gives_up_after_crashes(job.crashes):
            ran_for = now - attempt.started_at
            self._fail(job, decisions.Crash(death, worker.pid, ran_for))
        else:
            self._retry(job, Reason.CRASHED, now)

    def _retry(self, job: JobRecord, reason: Reason, now: float) -> None:
        job.state = JobState.RETRYING
        not_before = now + job.retry.wait_before(job.crashes + job.errors, self._random)
        self._desk.decide(
            decisions.Resent(job, reason, charged=True, ran=True, not_before=not_before)
        )
        self._enqueue(job, not_before, now)

    def _withdraw(
        self, job: JobRecord, state: JobState, outcome: Outcome, reason: Reason, now: float
    ) -> None:
        """Take an unfinished job out of wherever it is: the queue, a worker's pipe, a worker."""
        before, worker = job.state, job.worker
        job.state = state
        self._flow.discard(job)
        if worker is None:
            return
        if before is JobState.SENT:
            self._desk.decide(decisions.Recall(worker))
        else:
            job.attempts[-1].end(outcome, now)
            self._roster.condemn(worker, reason, job)

    def _fail(self, job: JobRecord, ending: Ending) -> None:
        job.state = JobState.FAILED
        self._resolve(job, ending)

    def _resolve(self, job: JobRecord, ending: Ending) -> None:
        del self.unfinished[job.number]
        if job.deadline != NEVER:
            self._deadlines.discard(job)
        self._desk.decide(Resolve(job, ending))

    # The workers

    def _replenish(self, now: float) -> None:
        if not self._closing or self.unfinished:
            self._roster.replenish(now, job_waits=bool(self._ready))

    def _give_up(self, death: Death) -> None:
        """Fail all that waits; the next job tries again."""
        self._roster.hopeless = True
        tries = max(self._roster.starts.failures, self._roster.starts.fruitless)
        for job in list(self._ready):
            self._ready.discard(job)
            self._fail(job, decisions.NoWorkers(death, tries))

    def _dismiss_if_done(self) -> None:
        """Send everybody home when the pool is closing and no job is unfinished."""
        if self._closing and not self.unfinished:
            self._roster.dismiss_all()

    @property
    def is_over(self) -> bool:
        """Whether the pool is closed and every job and every worker has ended."""
        return self._closing and not self.unfinished and not self.workers

    def abandon(self, now: float) -> None:
        """End everything at once: every job is cancelled, every worker killed."""
        self._closing = True
        for job in list(self.unfinished.values()):
            self.cancelled(job, now)
        for worker in self._roster:
            self._roster.condemn(worker, Reason.CLOSED)
