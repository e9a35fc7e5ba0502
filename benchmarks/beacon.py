"""How jobs tell from within when they run, in the same way for every kind of pool.

A named pipe carries their sightings here, with the system-wide monotonic clock; another one is a
gate at which they may be told to wait.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import deque
from dataclasses import dataclass
from types import TracebackType

from .workloads import SIGHTING


@dataclass(frozen=True, slots=True)
class Sighting:
    """A job was running in process `pid` at `at` (`time.monotonic`)."""

    pid: int
    at: float


class Beacon:
    """The two pipes; a context manager, for use in a running loop."""

    def __enter__(self) -> Beacon:
        self._directory = tempfile.TemporaryDirectory(prefix="beacon-")
        self.path = self.file("beacon")
        self.gate = self.file("gate")
        os.mkfifo(self.path)
        os.mkfifo(self.gate)
        # For reading and writing: so opening waits for nobody, and nothing ever ends.
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._gate_fd = os.open(self.gate, os.O_RDWR | os.O_NONBLOCK)
        self._seen: deque[Sighting] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._readable)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        os.close(self._gate_fd)
        self._directory.cleanup()

    def file(self, name: str) -> str:
        """Return a path of that name which lives as long as the beacon."""
        return os.path.join(self._directory.name, name)

    async def next(self) -> Sighting:
        """Wait for the next job to say that it runs."""
        while not self._seen:
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._seen.popleft()

    def let_through(self, count: int) -> None:
        """Let that many jobs pass the gate."""
        os.write(self._gate_fd, bytes(count))

    def _readable(self) -> None:
        # Writes of a sighting's size are atomic, and so they arrive whole.
        data = os.read(self._fd, 64 * SIGHTING.size)
        self._seen.extend(Sighting(pid, at) for pid, at in SIGHTING.iter_unpack(data))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
