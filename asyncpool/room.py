"""The bound on unfinished jobs, and those who wait for a place among them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sized

from .errors import PoolClosed


class Room:
    """Places for `size` unfinished jobs (None: no bound), given out in the order of asking."""

    def __init__(self, size: int | None, unfinished: Sized) -> None:
        self.size = size
        self._unfinished = unfinished
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._kept = 0  # for those who were let in and have not woken up yet

    @property
    def is_full(self) -> bool:
        """Whether there is no place but those that are kept for somebody."""
        return self.size is not None and len(self._unfinished) + self._kept >= self.size

    async def wait(self) -> None:
        """Wait until `admit` keeps a place for the caller, who must take it without a pause."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._kept -= 1
                self.admit()
            raise
        self._kept -= 1

    def admit(self) -> None:
        """Let the first of those who wait go on, as many as there is room for."""
        while self._waiting and not self.is_full:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._kept += 1

    def turn_away(self) -> None:
        """Tell all who wait that they wait in vain."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(PoolClosed("the pool was closed while this waited for room"))
        self._waiting.clear()
