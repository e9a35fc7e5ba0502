"""Tells a cancellation that somebody wanted from one that an interrupt brings along.

A Ctrl-C cancels the task that entered the pool, and with it whatever that awaits: jobs, a `gather`,
other tasks. Those jobs have not been given up; they are to come back.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Knows the tasks whose end is the end of the pool."""

    def __init__(self, owner: asyncio.Task[Any] | None) -> None:
        self._tasks = [] if owner is None else [owner]
        self._deliberate = False
        self._owner = owner
        self._survived = 0 if owner is None else owner.cancelling()  # that are still counted

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
        self.look()
        current = _current_task()
        return current is None or self._is_cancelled(current) or self.is_under_way()

    def is_under_way(self) -> bool:
        """Whether one of the tasks is being cancelled."""
        return any(self._is_cancelled(task) and not task.done() for task in self._tasks)

    def look(self) -> None:
        """Notice if the task that entered the pool, and calls this, has survived a cancellation.

        Before Python 3.13, a TaskGroup that fails cancels its own task, and never takes that back.
        """
        owner = self._owner
        if owner is None or _current_task() is not owner or _is_handling_one():
            return
        if not getattr(owner, "_must_cancel", False):  # by which a cancellation is yet to come
            self._survived = owner.cancelling()

    def _is_cancelled(self, task: asyncio.Task[Any]) -> bool:
        return task.cancelling() > (self._survived if task is self._owner else 0)


def _current_task() -> asyncio.Task[Any] | None:
    # `asyncio.run` cancels what is left while the loop does not run.
    return None if asyncio._get_running_loop() is None else asyncio.current_task()


def _is_handling_one() -> bool:
    """Whether this code runs because of a cancellation: in its `finally`, or its `except`."""
    error = sys.exception()
    while error is not None and not isinstance(error, asyncio.CancelledError):
        error = error.__context__
    return error is not None
