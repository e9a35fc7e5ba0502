"""What a pool remembers of jobs that have ended: enough to find them by id, little else."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from .dispatch.records import JobRecord
    from .job import Job

FINISHED_KEPT = 1_000


class FinishedJobs:
    """The last thousand jobs that ended.

    Their results are held weakly, so that a large one dies with its last user; only a job that was
    given an id keeps its own, since that id must not run again.
    """

    def __init__(self, capacity: int = FINISHED_KEPT) -> None:
        self._capacity = capacity
        self._jobs: OrderedDict[str, tuple[JobRecord, ref[Job[Any]], Job[Any] | None]]
        self._jobs = OrderedDict()

    def add(self, record: JobRecord, job: Job[Any], *, keep_result: bool) -> None:
        """Remember a job that has just ended; the oldest one is forgotten."""
        self._jobs[record.id] = (record, ref(job), job if keep_result else None)
        if len(self._jobs) > self._capacity:
            self._jobs.popitem(last=False)

    def find(self, id: str) -> tuple[JobRecord, Job[Any] | None] | None:
        """Return the record, and the handle if it still lives."""
        found = self._jobs.get(id)
        if found is None:
            return None
        record, weak, _ = found
        return record, weak()
