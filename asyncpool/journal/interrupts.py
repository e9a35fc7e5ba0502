"""Tells a cancellation that somebody wanted from one that an interrupt brings along.

A Ctrl-C cancels the task that entered the pool, and with it whatever that awaits: jobs, a `gather`,
other tasks. Those jobs have not been given up; they are to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Knows the tasks whose end is the end of the pool."""

    def __init__(self, owner: asyncio.Task[Any] | None) -> None:
        self._tasks = [] if owner is None else [owner]
        self._deliberate = False

    def add(self, task: asyncio.Task[Any]) -> None:
        """Let the cancellation of this task be an interrupt, too."""
        self._tasks.append(task)

    @contextmanager
    def deliberately(self) -> Iterator[None]:
        """Within this, what is cancelled is meant to be."""
        before, self._deliberate = self._deliberate, True
        try:
            yield
        finally:
            self._deliberate = before

    def is_possible(self) -> bool:
        """Whether the cancellation of this moment may come from an interrupt.

        A loop that tears down its tasks, or a signal, cancels from no task; who passes on a
        cancellation is being cancelled.
        """
        if self._deliberate:
            return False
        current = asyncio.current_task()
        return current is None or bool(current.cancelling()) or self.is_under_way()

    def is_under_way(self) -> bool:
        """Whether one of the tasks is being cancelled."""
        return any(task.cancelling() and not task.done() for task in self._tasks)
