"""The jobs that wait: by priority, then in the order of submission, or until their time comes."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from .records import NEVER, JobRecord


class ReadyQueue:
    """Jobs that may be sent now.

    The heap holds plain integers, priority in the high bits and number in the low ones: they
    compare fast, and a job that comes back takes its old place. Jobs that were cancelled stay in
    the heap as numbers until they surface.
    """

    __slots__ = ("_heap", "_jobs")

    _SHIFT = 64
    _MASK = (1 << 64) - 1

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._jobs: dict[int, JobRecord] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[JobRecord]:
        return iter(self._jobs.values())

    def push(self, job: JobRecord) -> None:
        self._jobs[job.number] = job
        heappush(self._heap, (-job.priority << self._SHIFT) + job.number)

    def peek(self) -> JobRecord | None:
        """Return the job whose turn it is."""
        heap, jobs = self._heap, self._jobs
        while heap:
            job = jobs.get(heap[0] & self._MASK)
            if job is not None:
                return job
            heappop(heap)
        return None

    def pop(self) -> JobRecord | None:
        """Remove and return the job whose turn it is."""
        heap, jobs = self._heap, self._jobs
        while heap:
            job = jobs.pop(heappop(heap) & self._MASK, None)
            if job is not None:
                return job
        return None

    def discard(self, job: JobRecord) -> bool:
        """Remove the job, wherever it stands; tell whether it was here."""
        if self._jobs.pop(job.number, None) is None:
            return False
        if len(self._heap) > 2 * len(self._jobs) + 64:
            self._heap = [key for key in self._heap if key & self._MASK in self._jobs]
            heapify(self._heap)
        return True


class Agenda:
    """Jobs by a moment: those that wait for their delay, or that must end by their deadline."""

    __slots__ = ("_heap", "_jobs")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._jobs: dict[int, JobRecord] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: JobRecord) -> bool:
        return job.number in self._jobs

    def add(self, moment: float, job: JobRecord) -> None:
        self._jobs[job.number] = job
        heappush(self._heap, (moment, job.number))

    def discard(self, job: JobRecord) -> bool:
        """Forget the job; tell whether it was here."""
        if self._jobs.pop(job.number, None) is None:
            return False
        if len(self._heap) > 2 * len(self._jobs) + 64:
            self._heap = [entry for entry in self._heap if entry[1] in self._jobs]
            heapify(self._heap)
        return True

    def due(self, now: float) -> list[JobRecord]:
        """Remove and return the jobs whose moment has come, in order."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            job = self._jobs.pop(heappop(self._heap)[1], None)
            if job is not None:
                due.append(job)
        return due

    @property
    def next_moment(self) -> float:
        """When the next job is due, or NEVER."""
        while self._heap and self._heap[0][1] not in self._jobs:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER
