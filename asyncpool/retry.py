"""When a job that failed is run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and how soon, a job is run again after a crash or an error.

    `max_crashes` counts deaths of the worker after it acknowledged this job: with 3, the third
    death fails the job; None never gives up. `max_errors` is how many exceptions of the function
    are retried, if they are instances of `on`. Timeouts and cancellations are never retried.
    Before the n-th retry the job waits `delay * factor ** (n - 1)` seconds, at most `max_delay`;
    `jitter` shortens that by a random part of up to one half.
    """

    max_crashes: int | None = 3
    max_errors: int = 0
    on: tuple[type[BaseException], ...] = (Exception,)
    delay: float = 0.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: bool = True

    def __post_init__(self) -> None:
        for name in ("max_crashes", "max_errors"):
            count = getattr(self, name)
            if not (isinstance(count, int) or (count is None and name == "max_crashes")):
                raise TypeError(f"{name} must be an int, not {count!r}")
        for name in ("delay", "factor", "max_delay"):
            if not isinstance(getattr(self, name), (int, float)):
                raise TypeError(f"{name} must be a number, not {getattr(self, name)!r}")
        if not isinstance(self.on, tuple) or not all(map(_is_exception, self.on)):
            raise TypeError(f"on must be a tuple of exception classes, not {self.on!r}")
        if self.max_crashes is not None and self.max_crashes < 1:
            raise ValueError(f"max_crashes must be at least 1 or None, not {self.max_crashes!r}")
        if self.max_errors < 0:
            raise ValueError(f"max_errors must not be negative, not {self.max_errors!r}")
        if not (self.delay >= 0 and self.max_delay >= 0 and self.factor >= 1):
            raise ValueError("delay and max_delay must be at least 0, and factor at least 1")

    def gives_up_after_crashes(self, crashes: int) -> bool:
        """Tell whether that many crashes are too many."""
        return self.max_crashes is not None and crashes >= self.max_crashes

    def wait_before(self, retry: int, random: Callable[[], float]) -> float:
        """Return the seconds to wait before the `retry`-th run again (1 is the first)."""
        if not self.delay:
            return 0.0
        try:
            wait = min(self.max_delay, self.delay * self.factor ** (retry - 1))
        except OverflowError:
            wait = self.max_delay
        return wait * (1.0 - 0.5 * random()) if self.jitter else wait


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


DEFAULT_RETRY = Retry()
