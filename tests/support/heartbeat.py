"""Tells for how long something kept the event loop from its other work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

PERIOD_SECONDS = 0.01


class Heartbeat:
    """A task that ticks every 10 ms while the block lasts.

    `longest` is the longest time between two ticks in seconds by the `clock`. By the wall's, that
    includes the period and whatever else the machine does; by `time.thread_time`, it is what the
    loop itself did meanwhile.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.longest = 0.0
        self._clock = clock
        self._last = 0.0
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._last = self._clock()
        self._ticking = loop.create_task(self._tick(), name="heartbeat")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._beat()  # whatever blocked the loop until now counts, too
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            self._beat()

    def _beat(self) -> None:
        now = self._clock()
        self.longest = max(self.longest, now - self._last)
        self._last = now
