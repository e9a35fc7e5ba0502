"""What a journal says: which jobs are unfinished, which have ended, and where that stands."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeAlias

from .lines import Record

UNNAMED_KEPT = 1_000
"""How many finished jobs without a name of their own are remembered."""

Where: TypeAlias = "tuple[int, int]"
"""Offset and size of a line, in bytes."""


class Open:
    """An unfinished job: its submission, and the attempts that were not the last.

    `alone`: it is to run with nothing behind it, as its last owner may have died of it.
    """

    __slots__ = ("alone", "crashes", "errors", "named", "retries", "submitted", "worker")

    def __init__(self, submitted: Where, named: bool) -> None:
        self.submitted = submitted
        self.named = named
        self.retries: tuple[Where, ...] = ()
        self.worker: int | None = None
        self.alone = False
        self.crashes = 0
        self.errors = 0

    @property
    def lines(self) -> tuple[Where, ...]:
        """All that has to be kept of it."""
        return (self.submitted, *self.retries)


class Ended:
    """A finished job; `time` is when, in seconds since the epoch."""

    __slots__ = ("finished", "named", "submitted", "time")

    def __init__(self, submitted: Where, finished: Where, named: bool, time: float) -> None:
        self.submitted = submitted
        self.finished = finished
        self.named = named
        self.time = time

    @property
    def lines(self) -> tuple[Where, ...]:
        """All that has to be kept of it."""
        return (self.submitted, self.finished)


class Suspect:
    """What a worker had when the owner of the journal died, oldest first."""

    __slots__ = ("pid", "time")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.time: dict[str, float] = {}


class Index:
    """The jobs of a journal. Only finished named jobs, and the last 1,000 others, are kept."""

    def __init__(self) -> None:
        self.unfinished: dict[str, Open] = {}
        self.finished: dict[str, Ended] = {}
        self.workers: dict[int, Suspect] = {}
        self.live = 0
        """How many bytes of the file matter."""
        self._unnamed: OrderedDict[str, None] = OrderedDict()

    def note(self, record: Record, where: Where) -> None:
        """Take in a record that was read."""
        kind = record["kind"]
        if kind == "submitted":
            self.submitted(record["id"], record.get("named", False), where)
        elif kind == "sent":
            for key in record["ids"]:
                self.sent(key, record["worker"], record["pid"], record["time"])
        elif kind == "finished":
            self.ended(record["id"], record["time"], where)
        elif kind == "requeued":
            self.requeued(record["id"])
        elif kind == "retried":
            self.retried(record["id"], record["crashes"], record["errors"], where)
        elif kind in ("closed", "opened"):
            self.workers.clear()

    def submitted(self, id: str, named: bool, where: Where) -> None:
        """A job was accepted. An id that all have forgotten, or gave up, may be used again."""
        self._forget(id)
        given_up = self.unfinished.pop(id, None)
        if given_up is not None:
            self._take_from_worker(id, given_up)
            self.live -= _size(given_up.lines)
        self.unfinished[id] = Open(where, named)
        self.live += where[1]

    def sent(self, id: str, worker: int, pid: int, time: float) -> None:
        """A job was written to a worker, behind all that it has already."""
        job = self.unfinished.get(id)
        if job is None:
            return
        self._take_from_worker(id, job)  # that it came back may have met a full disk
        job.worker = worker
        suspect = self.workers.get(worker)
        if suspect is None:
            suspect = self.workers[worker] = Suspect(pid)
        suspect.time[id] = time

    def requeued(self, id: str) -> None:
        """A worker gave the job back, or died before it began it."""
        job = self.unfinished.get(id)
        if job is not None:
            self._take_from_worker(id, job)

    def retried(self, id: str, crashes: int, errors: int, where: Where) -> None:
        """An attempt of the job ended, and was not the last."""
        job = self.unfinished.get(id)
        if job is None:
            return
        self._take_from_worker(id, job)
        job.crashes, job.errors = crashes, errors
        job.retries += (where,)
        self.live += where[1]

    def ended(self, id: str, time: float, where: Where) -> None:
        """The job came to its end."""
        job = self.unfinished.pop(id, None)
        if job is None:
            return  # its submission met an error, and was told so
        self._take_from_worker(id, job)
        self.live += where[1] - _size(job.retries)
        self.finished[id] = Ended(job.submitted, where, job.named, time)
        if not job.named:
            self._unnamed[id] = None
            if len(self._unnamed) > UNNAMED_KEPT:
                self._forget(next(iter(self._unnamed)))

    def _take_from_worker(self, id: str, job: Open) -> None:
        if job.worker is None:
            return
        suspect = self.workers.get(job.worker)
        if suspect is not None:
            suspect.time.pop(id, None)
            if not suspect.time:
                del self.workers[job.worker]
        job.worker = None

    def _forget(self, id: str) -> None:
        job = self.finished.pop(id, None)
        if job is not None:
            self._unnamed.pop(id, None)
            self.live -= _size(job.lines)

    def forget_before(self, time: float) -> None:
        """Forget the named jobs that ended before that moment."""
        old = [key for key, job in self.finished.items() if job.named and job.time < time]
        for key in old:
            self._forget(key)

    def running(self) -> Iterator[tuple[str, Open, int, float]]:
        """Yield what the workers were running for sure: id, job, pid and when it was sent."""
        for suspect in self.workers.values():
            if len(suspect.time) == 1:
                ((only, sent_at),) = suspect.time.items()
                yield only, self.unfinished[only], suspect.pid, sent_at

    def entangled(self) -> Iterator[Open]:
        """Yield the jobs of workers that had several: any of them may have been running.

        Its ACKs are not recorded, and what it wrote last was never read.
        """
        for suspect in self.workers.values():
            if len(suspect.time) > 1:
                yield from (self.unfinished[key] for key in suspect.time)

    def moved(self, where: dict[Where, Where]) -> Index:
        """Return a copy for a file in which the lines stand elsewhere."""
        copy = Index()
        for key, job in self.unfinished.items():
            moved = copy.unfinished[key] = Open(where[job.submitted], job.named)
            moved.retries = tuple(where[line] for line in job.retries)
            moved.worker, moved.crashes, moved.errors = job.worker, job.crashes, job.errors
            moved.alone = job.alone
        for key, done in self.finished.items():
            lines = where[done.submitted], where[done.finished]
            copy.finished[key] = Ended(*lines, done.named, done.time)
        copy.workers = self.workers
        copy.live = self.live
        copy._unnamed = self._unnamed
        return copy


def _size(lines: tuple[Where, ...]) -> int:
    return sum(size for _, size in lines)
