"""What happened, in the past tense: the typed events that `pool.events()` yields.

`time` is seconds since the epoch; `attempt` is the number of the attempt that the event belongs
to (0 before the first), `pid` the worker it concerns, if any.
"""

from __future__ import annotations

from dataclasses import dataclass

from .jobs import JobState, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base class of all events."""

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Base class of the events about one job."""

    job_id: str
    fn_name: str
    attempt: int
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(JobEvent):
    """The job was taken by the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSent(JobEvent):
    """The job was written to a worker, which has not begun it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(JobEvent):
    """The worker acknowledged the job: from here on its death is charged to the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReturned(JobEvent):
    """The worker ended the attempt by itself; `outcome` is `done` or `error`."""

    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecalled(JobEvent):
    """The job was sent ahead to a worker, and taken back before that had begun it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResent(JobEvent):
    """The job went back to the queue and will be sent again, because of `reason`.

    `charged` tells whether that counts against its `Retry`.
    """

    reason: str
    charged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished(JobEvent):
    """The job ended for good; `error` is the text of what the caller gets, if it failed."""

    state: JobState
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """Base class of the events about one worker; `pid` is None if it never came to life."""

    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    """A worker is ready for jobs, or, as a `spare`, to take a dead worker's place."""

    spare: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExited(WorkerEvent):
    """A worker is gone; `reason` is a short text such as `crashed` or `timeout`.

    `exit_code` and `signal` are both None if the status is unknown or it never came to life.
    """

    pid: int | None
    exit_code: int | None
    signal: int | None
    reason: str
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFailed(Event):
    """Something could not be recorded: a job that has ended may run again after a restart."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsLost(Event):
    """This reader was too slow: `count` older events were dropped before the next one."""

    count: int
