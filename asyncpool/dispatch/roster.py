"""The workers of a pool: how many are wanted, who is coming, who serves, and who must go.

A place is taken anew as soon as its worker is bound to leave it, by a spare if there is one. Jobs
are none of the roster's business; the dispatcher tells it what they do to their workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .decisions import Kill, Recall, Spawn, Stop
from .desk import Desk
from .records import JobRecord, Phase, Reason, WorkerRecord
from .starts import HANGING, Starts

COMING = (Phase.STARTING, Phase.LOADING)
SERVING = (Phase.READY, Phase.SPARE)


class Roster:
    """Every worker from its spawn to its death, and the only code that changes its phase.

    `idle` are those that are ready and have nothing at all, `touched` those that may have room
    for more short jobs.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        size: int,
        spares: int,
        max_tasks: int | None,
        max_memory: int | None,
    ) -> None:
        self.size = size
        self.spares = spares
        self.workers: dict[int, WorkerRecord] = {}
        self.idle: dict[int, WorkerRecord] = {}
        self.touched: dict[int, WorkerRecord] = {}
        self.starts = Starts()
        self.hopeless = False
        """Starts were given up; they are tried again when a job waits."""
        self._desk = desk
        self._max_tasks = max_tasks
        self._max_memory = max_memory
        self._next_serial = 1

    def __iter__(self) -> Iterator[WorkerRecord]:
        return iter(list(self.workers.values()))

    def count(self, phases: Iterable[Phase]) -> int:
        """Return how many workers are in one of these phases."""
        return sum(worker.phase in phases for worker in self.workers.values())

    # Coming

    def replenish(self, now: float, *, job_waits: bool) -> None:
        """Have as many workers, counting those that are coming, as are wanted."""
        self._fill_places()
        if self.hopeless:
            if not job_waits:
                return
            self._try_again(now)
        missing = self.size + self.spares - self.count((*COMING, *SERVING))
        if missing <= 0:
            return
        if not self.starts.allowed(now):
            self._desk.want(self.starts.next_at)
            return
        if self.starts.probing:
            missing = min(missing, 1 - self.count(COMING))
        for _ in range(missing):
            self._spawn(now)

    def _try_again(self, now: float) -> None:
        self.hopeless = False
        coming = (worker.serial for worker in self if worker.phase in COMING)
        self.starts.forgive(now, min(coming, default=self._next_serial))

    def _spawn(self, now: float) -> None:
        worker = WorkerRecord(self._next_serial, now)
        self._next_serial += 1
        self.workers[worker.serial] = worker
        self._desk.decide(Spawn(worker))
        self._desk.want(now + HANGING)

    def arrived(self, worker: WorkerRecord, now: float) -> None:
        """A worker is ready: it takes a vacant place, or waits as a spare."""
        worker.since = now
        self.starts.succeeded()
        self.hopeless = False
        worker.phase = Phase.SPARE
        if self.count((Phase.READY,)) < self.size:
            self._promote(worker)

    def _fill_places(self) -> None:
        """Let spares take the places of workers that are gone or going."""
        vacant = self.size - self.count((Phase.READY,))
        if vacant <= 0 or not self.spares:
            return
        for worker in self:
            if vacant and worker.phase is Phase.SPARE:
                self._promote(worker)
                vacant -= 1

    def _promote(self, worker: WorkerRecord) -> None:
        worker.phase = Phase.READY
        self.idle[worker.serial] = worker

    # Serving

    def set_free(self, worker: WorkerRecord) -> None:
        """Let a worker that runs nothing take more, unless it is worn and has to be replaced."""
        if self._is_worn(worker):
            if worker.sent:
                self._desk.decide(Recall(worker))
            else:
                self.dismiss(worker, Reason.RECYCLED)
        elif worker.sent:
            self.touched[worker.serial] = worker
        else:
            self.idle[worker.serial] = worker

    def _is_worn(self, worker: WorkerRecord) -> bool:
        if self._max_tasks is not None and worker.begun >= self._max_tasks:
            return True
        return self._max_memory is not None and worker.memory > self._max_memory

    def tasks_left(self, worker: WorkerRecord, most: int) -> int:
        """Return how many jobs, up to `most`, the worker may still be given."""
        if self._max_tasks is None:
            return most
        return min(most, self._max_tasks - worker.begun - len(worker.sent))

    # Going

    def condemn(self, worker: WorkerRecord, reason: Reason, job: JobRecord | None = None) -> None:
        """Book the kill before it is sent, and have the worker's place taken at once."""
        if worker.phase is Phase.CONDEMNED:
            return
        worker.phase = Phase.CONDEMNED
        worker.reason = reason
        worker.doomed = job
        self.idle.pop(worker.serial, None)
        if worker.sent:
            self._desk.decide(Recall(worker))
        want_stack = reason in (Reason.TIMEOUT, Reason.DEADLINE)
        self._desk.decide(Kill(worker, want_stack))
        self._fill_places()

    def dismiss(self, worker: WorkerRecord, reason: Reason) -> None:
        """Tell a worker to leave, and have its place taken at once."""
        worker.phase = Phase.LEAVING
        worker.reason = reason
        self.idle.pop(worker.serial, None)
        self._desk.decide(Stop(worker))
        self._fill_places()

    def dismiss_all(self) -> None:
        """Send everybody home."""
        for worker in self:
            if worker.phase in SERVING:
                self.dismiss(worker, Reason.CLOSED)
            elif worker.phase in COMING:
                self.condemn(worker, Reason.CLOSED)

    def lost(self, serial: int) -> WorkerRecord | None:
        """Strike a dead worker off; None: it was struck off before."""
        self.idle.pop(serial, None)
        self.touched.pop(serial, None)
        return self.workers.pop(serial, None)

    def is_hopeless_after(self, worker: WorkerRecord, reason: Reason, now: float) -> bool:
        """Book what a death says about starts; tell whether to give up those who wait."""
        starts = self.starts
        if worker.phase in COMING or reason is Reason.NOT_STARTED:
            if reason is Reason.CLOSED:
                return False
            hopeless = starts.failed(
                now,
                serial=worker.serial,
                next_serial=self._next_serial,
                begun_at=worker.since,
                refused=worker.pid == 0 and worker.reason is None,
            )
        elif not worker.begun and worker.reason is None:
            hopeless = starts.died_unused(now)
        else:
            return False
        # Some other worker lives, or may yet.
        return hopeless and not self.count((Phase.READY, Phase.LOADING))


def reason_of(worker: WorkerRecord) -> Reason:
    """Return why a worker that has just died did so."""
    if worker.reason is not None:
        return worker.reason
    return Reason.NOT_STARTED if worker.phase in COMING else Reason.CRASHED
