"""The process pool for asyncio in which every job survives its workers.

    async with asyncpool.Pool(4) as pool:
        print(await pool.submit(fib, 32))

The names are loaded when they are first used, because every worker passes through this file when
it starts and needs none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would cost every worker 5 ms
if TYPE_CHECKING:
    from .errors import AsyncPoolError as AsyncPoolError
    from .errors import DuplicateJob as DuplicateJob
    from .errors import JobError as JobError
    from .errors import JobExited as JobExited
    from .errors import JobTimeout as JobTimeout
    from .errors import JournalCorrupt as JournalCorrupt
    from .errors import JournalError as JournalError
    from .errors import JournalLocked as JournalLocked
    from .errors import JournalWriteError as JournalWriteError
    from .errors import PoolClosed as PoolClosed
    from .errors import PoolFull as PoolFull
    from .errors import ProtocolError as ProtocolError
    from .errors import SerializationError as SerializationError
    from .errors import WorkerCrashed as WorkerCrashed
    from .errors import WorkerStartError as WorkerStartError
    from .events import Event as Event
    from .events import EventsLost as EventsLost
    from .events import JobEvent as JobEvent
    from .events import JobFinished as JobFinished
    from .events import JobRecalled as JobRecalled
    from .events import JobResent as JobResent
    from .events import JobReturned as JobReturned
    from .events import JobSent as JobSent
    from .events import JobStarted as JobStarted
    from .events import JobSubmitted as JobSubmitted
    from .events import JournalFailed as JournalFailed
    from .events import WorkerEvent as WorkerEvent
    from .events import WorkerExited as WorkerExited
    from .events import WorkerStarted as WorkerStarted
    from .job import Job as Job
    from .jobs import Attempt as Attempt
    from .jobs import JobInfo as JobInfo
    from .jobs import JobState as JobState
    from .jobs import Outcome as Outcome
    from .jobs import Progress as Progress
    from .jobs import Stats as Stats
    from .jobs import WorkerInfo as WorkerInfo
    from .journal.options import Journal as Journal
    from .pool import Pool as Pool
    from .retry import Retry as Retry
    from .submitter import Submitter as Submitter
    from .worker.context import CurrentJob as CurrentJob
    from .worker.context import current_job as current_job

__version__ = "0.1.0"

_HOMES = {
    "errors": (
        "AsyncPoolError",
        "DuplicateJob",
        "JobError",
        "JobExited",
        "JobTimeout",
        "JournalCorrupt",
        "JournalError",
        "JournalLocked",
        "JournalWriteError",
        "PoolClosed",
        "PoolFull",
        "ProtocolError",
        "SerializationError",
        "WorkerCrashed",
        "WorkerStartError",
    ),
    "events": (
        "Event",
        "EventsLost",
        "JobEvent",
        "JobFinished",
        "JobRecalled",
        "JobResent",
        "JobReturned",
        "JobSent",
        "JobStarted",
        "JobSubmitted",
        "JournalFailed",
        "WorkerEvent",
        "WorkerExited",
        "WorkerStarted",
    ),
    "job": ("Job",),
    "jobs": ("Attempt", "JobInfo", "JobState", "Outcome", "Progress", "Stats", "WorkerInfo"),
    "journal.options": ("Journal",),
    "pool": ("Pool",),
    "retry": ("Retry",),
    "submitter": ("Submitter",),
    "worker.context": ("CurrentJob", "current_job"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - a list of text


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
