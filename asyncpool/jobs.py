"""The vocabulary of jobs and workers, as users see it: states, attempts, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class JobState(Enum):
    """Where a job is in its life.

    PENDING ──► SENT ──► RUNNING ──► DONE | FAILED | CANCELLED
       ▲         │          │
       └─recall──┘          └─crash or error──► RETRYING ──► SENT
    """

    PENDING = "pending"
    SENT = "sent"
    RUNNING = "running"
    RETRYING = "retrying"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class Outcome(StrEnum):
    """How one attempt ended."""

    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    RECYCLED = "recycled"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job, begun by the worker's ACK; times are seconds since the epoch."""

    number: int
    pid: int
    started_at: float
    ended_at: float | None
    outcome: Outcome
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running job last said with `current_job().progress(...)`."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A snapshot of an unfinished job; times are seconds since the epoch."""

    id: str
    fn_name: str
    state: JobState
    attempt: int
    pid: int | None
    priority: int
    submitted_at: float
    started_at: float | None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A snapshot of a ready worker; `rss` is its resident memory in bytes, None if unknown."""

    pid: int
    state: str
    job_id: str | None
    jobs_done: int
    rss: int | None


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of a pool: what is unfinished now, what has ended, what it survived."""

    pending: int
    running: int
    done: int
    failed: int
    cancelled: int
    crashes: int
    resent: int
    workers: int
    spares: int
