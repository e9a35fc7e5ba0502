"""Lets only one thread of this program take a step of its kind at a time."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class OneThreadAtATime(Generator[Any, Any, T]):
    """Awaits a coroutine; while it takes a step, in whatever thread, none of its kind does.

    A step that forks must be alone: of two uvloops that fork at the same time one refuses, and
    leaks three descriptors.
    """

    _stepping = threading.Lock()

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def send(self, value: Any, /) -> Any:
        with self._stepping:
            return self._work.send(value)

    def throw(self, *error: Any) -> Any:
        with self._stepping:
            return self._work.throw(*error)
