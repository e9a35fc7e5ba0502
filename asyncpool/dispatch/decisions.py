"""What the dispatcher wants done, in the imperative, and how jobs end.

Not frozen: every job makes a few of these, and to freeze one costs more than to make it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .records import Death, JobRecord, Reason, WorkerRecord


@dataclass(slots=True)
class Spawn:
    """Start a process for this worker."""

    worker: WorkerRecord


@dataclass(slots=True)
class Send:
    """Write these jobs to the worker, in this order."""

    worker: WorkerRecord
    jobs: list[JobRecord]


@dataclass(slots=True)
class Recall:
    """Take back the tickets of all that the worker has not begun; answer with `recalled`."""

    worker: WorkerRecord


@dataclass(slots=True)
class Kill:
    """Kill the worker's process group; first ask for its stack if `want_stack`."""

    worker: WorkerRecord
    want_stack: bool


@dataclass(slots=True)
class Stop:
    """Tell the worker to leave by itself, and kill it if it does not."""

    worker: WorkerRecord


@dataclass(slots=True)
class Started:
    """Tell that the job's attempt has begun."""

    job: JobRecord


@dataclass(slots=True)
class Returned:
    """Tell that the worker ended the attempt by itself."""

    job: JobRecord


@dataclass(slots=True)
class Recalled:
    """Tell that the job is back from the worker, which had not begun it."""

    job: JobRecord
    worker: WorkerRecord


@dataclass(slots=True)
class Resent:
    """Tell that the job is back in the queue; `ran`: an attempt of it has ended."""

    job: JobRecord
    reason: Reason
    charged: bool
    ran: bool = False
    not_before: float = 0.0


@dataclass(slots=True)
class Arrived:
    """Tell that a worker is ready or has become a spare."""

    worker: WorkerRecord


@dataclass(slots=True)
class Departed:
    """Tell that a worker is gone."""

    worker: WorkerRecord
    death: Death
    reason: Reason
    job: JobRecord | None


@dataclass(slots=True)
class Value:
    """The function returned; `payload` is what the worker sent."""

    payload: bytes | bytearray


@dataclass(slots=True)
class Failure:
    """The function raised; `error` is what the worker sent, decoded by whoever fed it."""

    error: bytes | bytearray


@dataclass(slots=True)
class Crash:
    """The worker died once too often."""

    death: Death
    pid: int
    ran_for: float


@dataclass(slots=True)
class Overrun:
    """The attempt took longer than `timeout`, or the job passed its deadline (`timeout` None)."""

    timeout: float | None
    death: Death | None
    pid: int | None


@dataclass(slots=True)
class NoWorkers:
    """No worker can be started."""

    death: Death
    tries: int


@dataclass(slots=True)
class Refused:
    """The job could not be recorded, so it was never accepted."""

    error: Exception


@dataclass(slots=True)
class Cancelled:
    """Somebody cancelled the job."""


Ending: TypeAlias = Value | Failure | Crash | Overrun | NoWorkers | Refused | Cancelled


@dataclass(slots=True)
class Resolve:
    """Tell the caller how the job ended; comes exactly once for every job."""

    job: JobRecord
    ending: Ending


Decision: TypeAlias = (
    Spawn
    | Send
    | Recall
    | Kill
    | Stop
    | Started
    | Returned
    | Recalled
    | Resent
    | Arrived
    | Departed
    | Resolve
)
