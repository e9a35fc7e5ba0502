"""What can go wrong, named after whose fault it is.

    AsyncPoolError
    ├── JobError                  one job did not give a value
    │   ├── WorkerCrashed         its worker died under it too often
    │   ├── JobTimeout            it ran, or waited, longer than it was allowed to
    │   ├── JobExited             it raised no Exception, or what would read as our cancelling
    │   └── SerializationError    something of it does not cross between processes
    ├── PoolClosed                the pool takes no more jobs
    ├── PoolFull                  `max_pending` jobs are unfinished
    ├── WorkerStartError          no worker can be started
    ├── DuplicateJob              the id belongs to another call
    ├── JournalError              the journal cannot be used
    │   ├── JournalLocked         another process, or pool, has it open
    │   ├── JournalCorrupt        what stands in it is not what was written
    │   └── JournalWriteError     the disk refused
    └── ProtocolError             an impossible frame: a bug of this package

Every class takes plain text first, so users may raise them too; the facts are attributes.
All of them survive pickling with their attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .jobs import Attempt


class AsyncPoolError(Exception):
    """Base class of every error that asyncpool itself raises."""


class JobError(AsyncPoolError):
    """A job ended without a value, for a reason other than its own exception."""

    def __init__(
        self,
        message: str = "",
        *,
        job_id: str | None = None,
        fn_name: str | None = None,
        attempts: tuple[Attempt, ...] = (),
    ) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.fn_name = fn_name
        self.attempts = attempts


class WorkerCrashed(JobError):
    """The worker died while it ran this job, as often as its `Retry.max_crashes` allows.

    `exit_code` is set for a worker that exited, `signal` for one that was killed; both are None
    when somebody else in this process reaped the child, so that its status is unknown. `stack` is
    the Python stack at the moment of a fatal signal, `stderr` the last lines the worker wrote,
    `oom` whether the kernel's out-of-memory killer struck (None: cannot be known here).
    """

    def __init__(
        self,
        message: str = "",
        *,
        job_id: str | None = None,
        fn_name: str | None = None,
        attempts: tuple[Attempt, ...] = (),
        pid: int | None = None,
        exit_code: int | None = None,
        signal: int | None = None,
        stack: str | None = None,
        oom: bool | None = None,
        stderr: str = "",
    ) -> None:
        super().__init__(message, job_id=job_id, fn_name=fn_name, attempts=attempts)
        self.pid = pid
        self.exit_code = exit_code
        self.signal = signal
        self.stack = stack
        self.oom = oom
        self.stderr = stderr


class JobTimeout(JobError, TimeoutError):
    """The job exceeded its `timeout` or `deadline` and was stopped.

    `timeout` is the limit in seconds, `stack` the Python stack where the job hung, or None if it
    was not running or did not answer.
    """

    def __init__(
        self,
        message: str = "",
        *,
        job_id: str | None = None,
        fn_name: str | None = None,
        attempts: tuple[Attempt, ...] = (),
        timeout: float | None = None,
        stack: str | None = None,
    ) -> None:
        super().__init__(message, job_id=job_id, fn_name=fn_name, attempts=attempts)
        self.timeout = timeout
        self.stack = stack


class JobExited(JobError):
    """The function raised SystemExit, KeyboardInterrupt, CancelledError or the like.

    Raised as themselves, these would stop the caller's loop or read as a cancellation of the job.
    """


class SerializationError(JobError):
    """An argument, a result or an exception cannot cross between the processes."""


class PoolClosed(AsyncPoolError, RuntimeError):
    """The pool is closed, or closing, and takes no more jobs."""


class PoolFull(AsyncPoolError):
    """`max_pending` jobs are unfinished; `await pool.enqueue(...)` waits for room instead."""


class WorkerStartError(AsyncPoolError):
    """Workers cannot be started; `stderr` holds the last lines that the last one wrote."""

    def __init__(self, message: str = "", *, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class DuplicateJob(AsyncPoolError):
    """The id belongs to a job that calls another function or has other arguments."""


class JournalError(AsyncPoolError):
    """The journal cannot be used: it is not ours, too new, unsafe, or the disk fails."""


class JournalLocked(JournalError):
    """The journal is open elsewhere, in the process `pid` (None: unknown)."""

    def __init__(self, message: str = "", *, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class JournalCorrupt(JournalError):
    """Something before the end of the journal is damaged; it was left as it is.

    `offset` is where the first bad record of the file `path` begins, in bytes.
    """

    def __init__(self, message: str = "", *, path: str | None = None, offset: int = 0) -> None:
        super().__init__(message)
        self.path = path
        self.offset = offset


class JournalWriteError(JournalError, OSError):
    """The journal could not be written: what was not acknowledged is not accepted.

    `errno` is the system's reason, or None if the file itself is gone.
    """

    def __init__(self, message: str = "", *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __reduce__(self) -> tuple[object, ...]:
        # OSError would leave out what it did not get as its first argument.
        return _rebuilt, (type(self), self.args, self.errno, self.__dict__)


def _rebuilt(
    cls: type[JournalWriteError], args: tuple[str, ...], errno: int | None, state: dict[str, object]
) -> JournalWriteError:
    error = cls(*args, errno=errno)
    error.__dict__.update(state)
    return error


class ProtocolError(AsyncPoolError):
    """A worker sent what no worker may send; please report it with its message."""
