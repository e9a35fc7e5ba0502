"""The frames to and from one worker, without ever blocking: its job, ticket and result pipes."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from .. import frames
from ..frames import Frame
from .pipes import Pipes

READ_SIZE = 1 << 16
"""Stays below malloc's threshold for fresh pages, which would fault in at every read."""

BULK_READ_SIZE = 1 << 20
DRAIN_BYTES = 1 << 26


class Channel:
    """Writes as far as the pipe takes it, and reads whatever comes.

    `heard` gets the frames, `taken` is called when the worker has taken a part of what did not fit
    into the pipe at once, `ended` is called when the worker has closed its end, and `broken`
    with a reason when what it wrote is no frame; after either nothing more is read.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pipes: Pipes,
        *,
        heard: Callable[[list[Frame]], None],
        taken: Callable[[], None],
        ended: Callable[[], None],
        broken: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._pipes = pipes
        self._heard = heard
        self._taken = taken
        self._ended = ended
        self._broken = broken
        self._decoder = frames.Decoder()
        self._out: deque[bytes | memoryview] = deque()
        self._writing = False
        self._jobs_sent = 0
        loop.add_reader(pipes.results_out, self._read)

    def send_jobs(self, count: int, pieces: list[bytes]) -> None:
        """Write frames, `count` of which are jobs; each job's ticket goes ahead of it."""
        first = self._jobs_sent
        self._jobs_sent += count
        tickets = bytes((first + i) & 0xFF for i in range(count))
        os.write(self._pipes.tickets_in, tickets)
        self.send(pieces)

    def send(self, pieces: list[bytes]) -> None:
        """Write frames as far as the pipe takes them, the rest as it empties."""
        if sum(map(len, pieces)) <= frames.BULK:
            self._out.append(b"".join(pieces))
        else:
            self._out.extend(pieces)
        if not self._writing:
            self._write()

    def take_back_tickets(self) -> int:
        """Recall all that the worker has not begun; return how many jobs that are."""
        try:
            return len(os.read(self._pipes.tickets_out, 256))
        except BlockingIOError:
            return 0

    def drain(self) -> None:
        """Read what a dead worker left; somebody else may hold its end open, so without an end."""
        left = DRAIN_BYTES
        with suppress(OSError, frames.BadFrame):
            while left > 0 and (data := os.read(self._pipes.results_out, BULK_READ_SIZE)):
                left -= len(data)
                self._decode(data)

    def close(self) -> None:
        """Leave the loop; the descriptors are the owner's to close."""
        self._stop_reading()
        if self._writing:
            self._loop.remove_writer(self._pipes.jobs_in)
        self._out.clear()

    def _write(self) -> None:
        """Write until the pipe is full; then the loop calls again."""
        fd = self._pipes.jobs_in
        if self._writing:
            self._taken()
        while self._out:
            piece = self._out.popleft()
            try:
                written = os.write(fd, piece)
            except BlockingIOError:
                written = 0
            if written < len(piece):
                self._out.appendleft(memoryview(piece)[written:])
                if not self._writing:
                    self._writing = True
                    self._loop.add_writer(fd, self._write)
                return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(fd)

    def _read(self) -> None:
        bulk = self._decoder.missing > READ_SIZE
        try:
            data = os.read(self._pipes.results_out, BULK_READ_SIZE if bulk else READ_SIZE)
        except BlockingIOError:
            return
        if not data:
            self._stop_reading()
            self._ended()
            return
        try:
            self._decode(data)
        except frames.BadFrame as error:
            self._stop_reading()
            self._broken(str(error))

    def _decode(self, data: bytes) -> None:
        """Tell what came; what came before nonsense counts."""
        try:
            said = self._decoder.feed(data)
        except frames.BadFrame as error:
            if error.before:
                self._heard(error.before)
            raise
        if said:
            self._heard(said)

    def _stop_reading(self) -> None:
        self._loop.remove_reader(self._pipes.results_out)
