"""A world without processes: carries out the dispatcher's decisions on simulated workers.

Pipes are lists, time is a number, and whoever holds the world decides what happens next. What a
worker writes is in transit until it is delivered, also after its death, as in a real pipe.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from dataclasses import dataclass, field

from asyncpool import raised
from asyncpool.dispatch import decisions as d
from asyncpool.dispatch.dispatcher import Dispatcher
from asyncpool.dispatch.records import Death, JobRecord, Phase
from asyncpool.jobs import JobState
from asyncpool.retry import Retry

START = 1000.0
ERROR = raised.encode(LookupError())


class Function:
    """A function as the dispatcher sees it."""

    def __init__(self, seconds: float = 1e9) -> None:
        self.seconds = seconds


@dataclass
class Process:
    """A simulated worker process."""

    serial: int
    tickets: deque[JobRecord] = field(default_factory=deque)  # sent, not begun
    running: JobRecord | None = None
    transit: deque[tuple[str, int, int]] = field(default_factory=deque)
    spawned: bool = False
    ready: bool = False
    alive: bool = True
    told_to_stop: bool = False
    told_dead: bool = False


class World:
    """Simulated workers around a real dispatcher."""

    def __init__(self, **options: int) -> None:
        self.now = START
        self.executions: Counter[int] = Counter()
        self.deaths_of: Counter[int] = Counter()  # deaths of a worker while it ran that job
        self.decided: list[d.Decision] = []
        self._options = options
        self._numbers = itertools.count(1)
        self._begin()
        self.dispatcher.opened(self.now)
        self.perform()

    def _begin(self) -> None:
        """Have a new dispatcher, which knows of nothing yet."""
        self.dispatcher = Dispatcher(random=lambda: 0.5, **self._options)
        self.processes: dict[int, Process] = {}
        self.jobs: dict[int, JobRecord] = {}
        self.endings: dict[int, list[d.Ending]] = {}
        self.ended = 0
        self.untold = 0  # ended, and their callers are not to be told yet
        self._settling = False

    # Carrying out decisions

    def perform(self) -> None:
        while due := self.dispatcher.take():
            for decision in due:
                self.decided.append(decision)
                self._perform(decision)
        self.check()

    def _perform(self, decision: d.Decision) -> None:
        match decision:
            case d.Spawn(worker):
                assert worker.serial not in self.processes
                self.processes[worker.serial] = Process(worker.serial)
            case d.Send(worker, jobs):
                process = self.processes[worker.serial]
                assert process.ready, "a job was sent to a worker that is not ready"
                process.tickets.extend(jobs)
            case d.Recall(worker):
                self._recall(worker.serial)
            case d.Kill(worker, _):
                self.processes[worker.serial].alive = False
            case d.Stop(worker):
                self.processes[worker.serial].told_to_stop = True
            case d.Resolve(job, ending):
                self._resolve(job, ending)
            case _:
                pass

    def _resolve(self, job: JobRecord, ending: d.Ending) -> None:
        assert not self.endings[job.number], f"{job!r} was resolved before, now as {ending!r}"
        assert job.state.ended
        self.endings[job.number].append(ending)
        self.ended += 1

    def _recall(self, serial: int) -> None:
        process = self.processes[serial]
        tickets, process.tickets = len(process.tickets), deque()
        self.dispatcher.recalled(serial, tickets, self.now)

    # What callers do

    def submit(
        self,
        function: Function | None = None,
        *,
        priority: int = 0,
        retry: Retry = Retry(),  # noqa: B008 - frozen
        timeout: float | None = None,
        deadline: float | None = None,
        delay: float = 0.0,
    ) -> JobRecord:
        job = JobRecord(
            next(self._numbers),
            function or Function(),
            priority=priority,
            retry=retry,
            timeout=timeout,
            deadline=float("inf") if deadline is None else self.now + deadline,
            not_before=self.now + delay,
            submitted_at=self.now,
        )
        self.jobs[job.number] = job
        self.endings[job.number] = []
        self._hand_in(job, delay)
        self.perform()
        return job

    def _hand_in(self, job: JobRecord, delay: float) -> None:
        self.dispatcher.submitted(job, self.now)

    def cancel(self, job: JobRecord) -> None:
        self._settling = True  # freed workers may be idle for a moment
        self.dispatcher.cancelled(job, self.now)
        self.perform()
        self._settling = False
        self.dispatcher.settled(self.now)
        self.perform()

    def close(self) -> None:
        self.dispatcher.closed(self.now)
        self.perform()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, waking the dispatcher as often as it asked for."""
        end = self.now + seconds
        while (wake_at := self.dispatcher.wake_at) <= end:
            self.now = max(self.now, wake_at)
            self.dispatcher.time_passed(self.now)
            self.perform()
            assert self.dispatcher.wake_at > self.now, "it asked to be woken in the past"
        self.now = end

    # What workers do

    def become_ready(self, process: Process) -> None:
        if not process.alive:
            return
        self.dispatcher.worker_spawned(process.serial, 10_000 + process.serial)
        process.spawned = process.ready = True
        self.dispatcher.worker_alive(process.serial, self.now)
        self.dispatcher.worker_ready(process.serial, self.now)
        self.perform()

    def feed(self, process: Process) -> None:
        """Take in some bytes of what is being sent."""
        self.dispatcher.flow.fed(self.dispatcher.workers[process.serial], self.now)

    def begin(self, process: Process) -> bool:
        """Take the next ticket and write the ACK."""
        if not process.alive or process.running is not None or not process.tickets:
            return False
        job = process.running = process.tickets.popleft()
        self.executions[job.number] += 1
        process.transit.append(("ack", job.number, job.next_attempt))
        return True

    def end(self, process: Process, *, well: bool = True) -> bool:
        """Return from the running job, or raise."""
        job = process.running
        if not process.alive or job is None:
            return False
        process.running = None
        attempt = self._attempt_in(process, job)
        process.transit.append(("returned" if well else "raised", job.number, attempt))
        return True

    def _attempt_in(self, process: Process, job: JobRecord) -> int:
        for kind, number, attempt in process.transit:
            if kind == "ack" and number == job.number:
                return attempt
        return len(job.attempts)

    def deliver(self, process: Process, count: int = 1_000) -> None:
        """Let the parent read up to that many frames."""
        serial, dispatcher = process.serial, self.dispatcher
        for _ in range(min(count, len(process.transit))):
            kind, number, attempt = process.transit.popleft()
            if kind == "ack":
                dispatcher.acked(serial, number, attempt, self.now)
            elif kind == "returned":
                dispatcher.returned(serial, number, attempt, b"", 1e-6, self.now)
            else:
                dispatcher.raised(
                    serial, number, attempt, ERROR, 1e-6, self.now, retryable=lambda: True
                )
        dispatcher.batch_over(self.now)
        self.perform()

    def leave(self, process: Process) -> None:
        """Exit as told, when nothing is left to do."""
        if process.told_to_stop and process.running is None and not process.tickets:
            process.alive = False

    def tell_death(self, process: Process) -> None:
        """Let the parent drain the pipe and learn of the death; twice, as can happen."""
        assert not process.alive
        self.deliver(process)
        running = process.running
        if running is not None and running.state is JobState.RUNNING:
            self.deaths_of[running.number] += 1
        process.told_dead = True
        for _ in range(2):
            self.dispatcher.worker_lost(process.serial, Death(signal=9), self.now)
            self.perform()
        if running is not None:
            charged, died = running.crashes, self.deaths_of[running.number]
            assert charged <= died, f"{running!r} was charged {charged} crashes, {died} happened"

    # What must always hold

    @property
    def living(self) -> list[Process]:
        return [process for process in self.processes.values() if process.alive]

    def check(self) -> None:
        """Check all that can be, at a cost that does not grow with the number of jobs."""
        self._no_job_is_in_two_places()
        self._nothing_waits_beside_an_idle_worker()
        self._nobody_is_too_many()
        unfinished = len(self.jobs) - self.ended - self.untold
        assert len(self.dispatcher.unfinished) == unfinished, "a job was lost, or ended unheard"

    def _no_job_is_in_two_places(self) -> None:
        held = [
            job.number
            for process in self.living
            for job in (*process.tickets, *([process.running] if process.running else ()))
            if not job.state.ended
        ]
        assert len(held) == len(set(held)), f"a job is on two live workers: {held}"

    def _nothing_waits_beside_an_idle_worker(self) -> None:
        dispatcher = self.dispatcher
        idle = [worker for worker in dispatcher.workers.values() if worker.idle]
        if idle and not self._settling:
            ready = dispatcher._flow.ready
            waiting = [job for job in dispatcher.unfinished.values() if job in ready]
            assert not waiting, f"{waiting} wait although {idle} are idle"

    def _nobody_is_too_many(self) -> None:
        serving = [
            worker
            for worker in self.dispatcher.workers.values()
            if worker.phase in (Phase.STARTING, Phase.LOADING, Phase.SPARE, Phase.READY)
        ]
        assert len(serving) <= self.dispatcher._roster.size + self.dispatcher._roster.spares

    def run_to_the_end(self) -> None:
        """Let every worker do its duty until no job is unfinished."""
        for _ in range(3_000):
            if not self.dispatcher.unfinished:
                return
            self.let_everybody_work()
            self.pass_time(0.5)
        raise AssertionError(f"never finished: {self.dispatcher.unfinished}")

    def let_everybody_work(self) -> None:
        for process in list(self.processes.values()):
            if process.told_dead:
                continue
            if not process.ready and process.alive:
                self.become_ready(process)
            while self.end(process) or self.begin(process):
                pass
            self.leave(process)
            self.deliver(process)
            if not process.alive:
                self.tell_death(process)
