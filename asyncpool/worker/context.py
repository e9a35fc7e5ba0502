"""What a running job can ask about itself, and say to its caller."""

from collections.abc import Callable
from time import monotonic

Report = Callable[[float, "float | None", "str | None"], None]

running: "tuple[bytes | bytearray, int, float, Report] | None" = None
"""The id, attempt, deadline (or NaN) and reporter of the job that this worker runs.

Set by the worker's loop alone; plain facts, since few jobs ever ask.
"""


class CurrentJob:
    """The job whose code is running.

    `id` is the job's id, `attempt` counts from 1, `deadline` is in seconds since the epoch or
    None.
    """

    __slots__ = ("_report", "attempt", "deadline", "id")

    def __init__(self, id: str, attempt: int, deadline: "float | None", report: Report) -> None:
        self.id = id
        self.attempt = attempt
        self.deadline = deadline
        self._report = report

    def progress(
        self, done: float, total: "float | None" = None, message: "str | None" = None
    ) -> None:
        """Tell the caller how far the job is: see `Job.progress` and `Job.updates()`.

        A flood is thinned out to 100 a second, but the last report always arrives. Raises
        TypeError for what are not numbers and text.
        """
        if not isinstance(done, (int, float)) or not isinstance(total, (int, float, type(None))):
            raise TypeError("progress takes numbers: progress(done, total=None, message=None)")
        if not isinstance(message, (str, type(None))):
            raise TypeError(f"the message must be a str, not {type(message).__name__}")
        # Exact types: a subclass, such as an IntEnum or numpy's float, does not cross.
        exact_total = None if total is None else float(total)
        self._report(float(done), exact_total, None if message is None else str.__str__(message))

    def __repr__(self) -> str:
        return f"<CurrentJob {self.id} attempt={self.attempt}>"


def current_job() -> CurrentJob:
    """Return the job whose code is running. Raises RuntimeError outside of a job."""
    if running is None:
        raise RuntimeError("current_job() works only inside a job, in a worker process")
    job_id, attempt, deadline, report = running
    known = None if deadline != deadline else deadline
    return CurrentJob(str(job_id, "utf-8"), attempt, known, report)


class Throttle:
    """Lets a burst pass, and then a bounded number per second."""

    __slots__ = ("_allowance", "_checked_at", "_interval", "_most")

    def __init__(self, burst: int, per_second: float) -> None:
        self._most = burst
        self._interval = 1 / per_second
        self._allowance = float(burst)
        self._checked_at = monotonic()

    def allows(self) -> bool:
        """Whether one more may pass now; if so, it is counted."""
        now = monotonic()
        self._allowance += (now - self._checked_at) / self._interval
        self._allowance = min(self._allowance, self._most)
        self._checked_at = now
        if self._allowance < 1:
            return False
        self._allowance -= 1
        return True
