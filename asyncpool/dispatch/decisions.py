"""What the dispatcher wants done, in the imperative, and how jobs end."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from .records import Death, JobRecord, Reason, WorkerRecord


class Spawn(NamedTuple):
    """Start a process for this worker."""

    worker: WorkerRecord


class Send(NamedTuple):
    """Write these jobs to the worker, in this order."""

    worker: WorkerRecord
    jobs: list[JobRecord]


class Recall(NamedTuple):
    """Take back the tickets of all that the worker has not begun; answer with `recalled`."""

    worker: WorkerRecord


class Kill(NamedTuple):
    """Kill the worker's process group; first ask for its stack if `want_stack`."""

    worker: WorkerRecord
    want_stack: bool


class Stop(NamedTuple):
    """Tell the worker to leave by itself, and kill it if it does not."""

    worker: WorkerRecord


class Started(NamedTuple):
    """Tell that the job's attempt has begun."""

    job: JobRecord


class Returned(NamedTuple):
    """Tell that the worker ended the attempt by itself."""

    job: JobRecord


class Resent(NamedTuple):
    """Tell that the job is back in the queue."""

    job: JobRecord
    reason: Reason
    charged: bool


class Arrived(NamedTuple):
    """Tell that a worker is ready or has become a spare."""

    worker: WorkerRecord


class Departed(NamedTuple):
    """Tell that a worker is gone."""

    worker: WorkerRecord
    death: Death
    reason: Reason
    job: JobRecord | None


class Value(NamedTuple):
    """The function returned; `payload` is what the worker sent."""

    payload: object


class Failure(NamedTuple):
    """The function raised; `error` is what the worker sent, decoded by whoever fed it."""

    error: object


class Crash(NamedTuple):
    """The worker died once too often."""

    death: Death
    pid: int
    ran_for: float


class Overrun(NamedTuple):
    """The attempt took longer than `timeout`, or the job passed its deadline (`timeout` None)."""

    timeout: float | None
    death: Death | None
    pid: int | None


class NoWorkers(NamedTuple):
    """No worker can be started."""

    death: Death
    tries: int


class Cancelled(NamedTuple):
    """Somebody cancelled the job."""


Ending: TypeAlias = Value | Failure | Crash | Overrun | NoWorkers | Cancelled


class Resolve(NamedTuple):
    """Tell the caller how the job ended; comes exactly once for every job."""

    job: JobRecord
    ending: Ending


Decision: TypeAlias = (
    Spawn | Send | Recall | Kill | Stop | Started | Returned | Resent | Arrived | Departed | Resolve
)
