"""The jobs that wait for a worker: their way to one, and back from it."""

from __future__ import annotations

from math import ceil

from ..jobs import JobState
from . import pace
from .decisions import Recalled, Resent, Send
from .desk import Desk
from .queue import Agenda, ReadyQueue
from .records import JobRecord, Phase, Reason, WorkerRecord
from .roster import Roster

STALL_SECONDS = 0.005
"""A running job that takes longer gives the jobs behind it back."""

ACK_SECONDS = 1.0
"""A worker that has jobs, runs none and begins none for so long is replaced."""

# Python 3.11 takes 0.1 us to find a member of an enum by name, and each job needs a dozen.
_SENT = JobState.SENT
_READY = Phase.READY


class Flow:
    """Everything between the submission of a job and its ACK.

    `ready` are the jobs that a worker may have at once, `delayed` those whose time has not come.
    """

    def __init__(self, desk: Desk, roster: Roster) -> None:
        self.ready = ReadyQueue()
        self.delayed = Agenda()
        self._desk = desk
        self._roster = roster

    def add(self, job: JobRecord, not_before: float, now: float) -> None:
        """Queue a job, at once or when its time comes."""
        if not_before > now:
            self.delayed.add(not_before, job)
            self._desk.want(not_before)
        else:
            self.ready.push(job)

    def discard(self, job: JobRecord) -> None:
        """Take a job out, if it waits here."""
        self.delayed.discard(job)
        self.ready.discard(job)

    def time_passed(self, now: float) -> None:
        """Queue the jobs whose time has come."""
        for job in self.delayed.due(now):
            self.ready.push(job)
        self._desk.want(self.delayed.next_moment)

    def fill(self, now: float) -> None:
        """Give jobs to idle workers, then more short jobs to those that already have some."""
        ready, roster = self.ready, self._roster
        if not ready:
            return
        idle = roster.idle
        sends: dict[int, Send] = {}
        while idle and ready:
            job = ready.pop()
            if job is None:
                break
            _, worker = idle.popitem()  # the last to have worked: its memory is warm
            self._send(worker, job, sends, now)
        touched, roster.touched = roster.touched, {}
        if ready and touched:
            share = ceil(len(ready) / roster.size)
            for worker in touched.values():
                self._top_up(worker, share, sends, now)
        self._desk.decisions.extend(sends.values())

    def _top_up(self, worker: WorkerRecord, share: int, sends: dict[int, Send], now: float) -> None:
        if worker.phase is not _READY:
            return
        room = self._roster.tasks_left(worker, min(share, pace.WINDOW_JOBS - len(worker.sent)))
        for _ in range(room):
            job = self.ready.peek()
            if job is None:
                return
            if worker.backlog + pace.cost_of(job) > pace.WINDOW_SECONDS:
                return
            self.ready.pop()
            self._send(worker, job, sends, now)

    def _send(
        self, worker: WorkerRecord, job: JobRecord, sends: dict[int, Send], now: float
    ) -> None:
        if worker.running is None:
            if not worker.sent:
                worker.since = now
                self._desk.want(now + ACK_SECONDS)
        elif not worker.sent:
            self._desk.want(now + STALL_SECONDS)
        job.state = _SENT
        job.worker = worker
        job.cost = pace.cost_of(job)
        worker.backlog += job.cost
        worker.sent.append(job)
        send = sends.get(worker.serial)
        if send is None:
            sends[worker.serial] = Send(worker, [job])
            self._roster.touched[worker.serial] = worker
        else:
            send.jobs.append(job)

    def take_back(self, worker: WorkerRecord, count: int, reason: Reason | None) -> None:
        """Return the newest unacknowledged jobs to their old place in the queue."""
        for _ in range(count):
            job = worker.sent.pop()
            worker.backlog -= job.cost
            job.worker = None
            if job.state is not _SENT:  # cancelled, or past its deadline
                continue
            job.state = JobState.RETRYING if job.attempts else JobState.PENDING
            self.ready.push(job)
            if reason is None:
                self._desk.decide(Recalled(job, worker))
            else:
                self._desk.decide(Resent(job, reason, charged=False))

    # On the way to a worker

    def withheld(self, worker: WorkerRecord, jobs: int) -> None:
        """So many jobs that were to be sent wait for the journal."""
        worker.unsent += jobs

    def released(self, worker: WorkerRecord, jobs: int, now: float) -> None:
        """So many of them were written to the worker now, or taken back."""
        worker.unsent -= jobs
        if worker.running is None:
            worker.since = now
            self._desk.want(now + ACK_SECONDS)

    def fed(self, worker: WorkerRecord, now: float) -> None:
        """The worker took some bytes of what it was sent: it cannot begin before it has all."""
        if worker.sent and worker.running is None:
            worker.since = now
