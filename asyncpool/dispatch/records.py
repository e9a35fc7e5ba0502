"""What the dispatcher knows of a job, an attempt and a worker. Only the dispatcher changes it."""

from __future__ import annotations

from collections import deque
from enum import Enum, StrEnum
from typing import Any, Protocol

from ..jobs import JobState, Outcome
from ..retry import Retry

NEVER = float("inf")

_PENDING, _RUNNING = JobState.PENDING, Outcome.RUNNING  # see `dispatcher`


class Paced(Protocol):
    """A function, as far as the dispatcher cares: how long a call of it is expected to take."""

    seconds: float


class AttemptRecord:
    """One ACK and what became of it; times are those of the dispatcher's clock."""

    ended_at: float | None = None
    outcome = _RUNNING
    exit_code: int | None = None
    signal: int | None = None

    def __init__(self, number: int, pid: int, started_at: float) -> None:
        self.number = number
        self.pid = pid
        self.started_at = started_at

    def end(self, outcome: Outcome, now: float) -> None:
        self.outcome = outcome
        self.ended_at = now


class JobRecord:
    """A job from its submission to its end.

    `number` orders the submissions; `deadline`, `not_before` and `timeout` are in seconds, the
    first two on the dispatcher's clock. `function` is Paced; what else it is, and `payload`,
    `handle` and `named` (the user gave the id), is the caller's business.
    """

    # What every job begins with is the class's: a million pending jobs need not carry it each.
    state = _PENDING
    start_awaited = False  # somebody waits for the first ACK
    crashes = 0
    errors = 0
    cost = 0.0
    worker: WorkerRecord | None = None
    alone = (
        False  # its worker may have nothing beside it, so that a death is charged to the right job
    )
    accepted = True  # with a journal: once it is recorded
    late_on: bytes | None = None  # `retry.on` of a recovered job: its classes are not loaded yet
    is_shared = False  # others may hold its handle than who submitted it
    is_void = False  # it ended without having had its chance: its id may be used again
    call: Any = None  # of a job with a name: what it calls, to be told from another call
    attempts: tuple[AttemptRecord, ...] = ()

    def __init__(
        self,
        number: int,
        function: Any,
        *,
        id: str = "",
        named: bool = False,
        payload: bytes = b"",
        priority: int = 0,
        retry: Retry,
        timeout: float | None = None,
        deadline: float = NEVER,
        not_before: float = 0.0,
        submitted_at: float = 0.0,
        handle: Any = None,
    ) -> None:
        self.number = number
        self.function = function
        self.id = id
        self.named = named
        self.payload = payload
        self.priority = priority
        self.retry = retry
        self.timeout = timeout
        self.deadline = deadline
        self.not_before = not_before
        self.submitted_at = submitted_at
        self.handle = handle

    @property
    def next_attempt(self) -> int:
        """The number that the next ACK gives to its attempt."""
        return len(self.attempts) + 1

    def __repr__(self) -> str:
        return f"<Job {self.number} {self.state.name} attempts={len(self.attempts)}>"


class Phase(Enum):
    """The life of a worker.

    STARTING ──► LOADING ──► SPARE ──► READY ──► LEAVING ──► (lost)
        └───────────┴──────────┴─────────┴──► CONDEMNED ──► (lost)
    """

    STARTING = "starting"  # spawned, nothing heard of it
    LOADING = "loading"  # it said hello and runs preload and initializer
    SPARE = "spare"
    READY = "ready"
    LEAVING = "leaving"  # told to stop after what it has
    CONDEMNED = "condemned"  # its kill is booked


class Reason(StrEnum):
    """Why a worker had to go, or went; or why a job went back to the queue."""

    CRASHED = "crashed"
    ERROR = "error"
    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    RECYCLED = "recycled"
    CLOSED = "closed"
    UNRESPONSIVE = "unresponsive"
    BROKEN = "broken protocol"
    NOT_STARTED = "did not start"


class WorkerRecord:
    """A worker from the decision to spawn it until its death has been told."""

    __slots__ = (
        "backlog",
        "begun",
        "doomed",
        "expires_at",
        "jobs_done",
        "memory",
        "phase",
        "pid",
        "reason",
        "running",
        "sent",
        "serial",
        "since",
        "unsent",
    )

    def __init__(self, serial: int, now: float) -> None:
        self.serial = serial
        self.pid = 0
        self.phase = Phase.STARTING
        self.since = now  # when it last did, or was given, something
        self.sent: deque[JobRecord] = deque()  # written to it, not acknowledged yet
        self.unsent = 0  # of these, the newest that wait for the journal
        self.running: JobRecord | None = None
        self.expires_at = NEVER  # when the running job has run for too long
        self.backlog = 0.0  # expected seconds of all that it has
        self.begun = 0  # ACKs so far
        self.jobs_done = 0
        self.memory = 0
        self.reason: Reason | None = None  # why it was condemned or told to leave
        self.doomed: JobRecord | None = None  # the job for whose sake it was condemned

    @property
    def idle(self) -> bool:
        """Whether it is ready and has nothing at all to do."""
        return self.phase is Phase.READY and self.running is None and not self.sent

    def __repr__(self) -> str:
        has = f"running={self.running} sent={len(self.sent)}"
        return f"<Worker {self.serial} {self.phase.name} pid={self.pid} {has}>"


PARENT_DIED = "the process that owned the pool died"
"""The `why` of the deaths that nobody was left to see."""


class Death:
    """What is known of a death; both `exit_code` and `signal` None: the status is unknown."""

    __slots__ = ("exit_code", "oom", "signal", "stack", "stderr", "why")

    def __init__(
        self,
        exit_code: int | None = None,
        signal: int | None = None,
        *,
        stack: str | None = None,
        stderr: str = "",
        oom: bool | None = None,
        why: str = "",
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.stack = stack
        self.stderr = stderr
        self.oom = oom
        self.why = why  # for a death that the parent caused or that was no death of a process
