"""The options of a job, checked where they are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from .retry import DEFAULT_RETRY, Retry

Timeout: TypeAlias = "float | Callable[..., float | None] | None"
"""Seconds (`math.inf`: no limit), or a function of the job's arguments that returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What `pool.options(...)` was given; the pool's defaults stand in for None."""

    id: str | None = None
    timeout: Timeout = None
    deadline: float | None = None
    retry: Retry = DEFAULT_RETRY
    priority: int = 0
    delay: float = 0.0

    def __post_init__(self) -> None:
        if self.id is not None and not (isinstance(self.id, str) and 0 < len(self.id) <= 200):
            raise ValueError(f"an id is a text of 1 to 200 characters, not {self.id!r}")
        if self.id is not None and not _is_unicode(self.id):
            raise ValueError(f"an id must be valid Unicode, not {self.id!r}")
        if not callable(self.timeout):
            _check_timeout("timeout", self.timeout)
        check_seconds("deadline", self.deadline)
        check_seconds("delay", self.delay)
        if not isinstance(self.priority, int):
            raise TypeError(f"priority must be an int, not {self.priority!r}")
        if not isinstance(self.retry, Retry):
            raise TypeError(f"retry must be an asyncpool.Retry, not {self.retry!r}")

    def timeout_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
        """Return the timeout of a call with these arguments."""
        seconds = self.timeout
        if callable(seconds):
            seconds = seconds(*args, **kwargs)
            _check_timeout("the result of the timeout function", seconds)
        return None if seconds == math.inf else seconds


def check_seconds(name: str, value: object, *, positive: bool = False) -> None:
    """Raise TypeError or ValueError if it is not None and no sensible number of seconds."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        least = "more than" if positive else "at least"
        raise ValueError(f"{name} must be {least} 0 and finite, not {value!r}")


def _check_timeout(name: str, value: object) -> None:
    if value != math.inf:
        check_seconds(name, value, positive=True)


def check_count(name: str, value: object, least: int) -> None:
    """Raise TypeError or ValueError if it is not None and no integer of at least `least`."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value!r}")


def check_all_text(name: str, values: Iterable[object]) -> None:
    """Raise TypeError unless all values are str."""
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{name} takes only str, not {value!r}")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True
