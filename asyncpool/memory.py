"""What a pool knows by id: every unfinished job, and of those that ended enough to find them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from .dispatch.records import JobRecord
    from .job import Job

FINISHED_KEPT = 1_000


class JobBook:
    """The jobs of a pool: all that are unfinished, and the last thousand that ended.

    Results of ended jobs are held weakly, so that a large one dies with its last user; only a job
    that was given an id keeps its own, since that id must not run again.
    """

    def __init__(self, capacity: int = FINISHED_KEPT) -> None:
        self._capacity = capacity
        self._records: dict[str, JobRecord] = {}
        self._ended: deque[JobRecord] = deque()
        self.unfinished = 0
        """How many jobs have not been told to have ended."""

    def add(self, record: JobRecord) -> None:
        """Enter a new job, whose handle is `record.handle`."""
        self._records[record.id] = record
        self.unfinished += 1

    def end(self, record: JobRecord, job: Job[Any]) -> None:
        """Note that a job has ended; the oldest one that has is forgotten."""
        self.unfinished -= 1
        if not record.named:
            record.handle = ref(job)
            record.payload = b""
        ended = self._ended
        ended.append(record)
        if len(ended) > self._capacity:
            oldest = ended.popleft()
            if self._records.get(oldest.id) is oldest:  # its id may have been used again
                del self._records[oldest.id]

    def find(self, id: str) -> JobRecord | None:
        """Return the record of that id, if it is known."""
        return self._records.get(id)

    def handle(self, record: JobRecord) -> Job[Any] | None:
        """Return the handle of a known job, if it still lives."""
        handle = record.handle
        job: Job[Any] | None = handle() if isinstance(handle, ref) else handle
        return job
