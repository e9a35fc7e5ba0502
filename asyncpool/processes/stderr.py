"""The stderr of a worker: shown as it comes, and remembered for the report of its death."""

from __future__ import annotations

import os
import select

TAIL_BYTES = 8192

_RELAY_CHUNK = 4096  # PIPE_BUF: a pipe that polls writable takes so much without blocking


def is_stream(fd: int) -> bool:
    """Whether this standard descriptor is what its number says.

    If a program was started without it, or closed it, whatever was opened next has its number;
    but what Python opens is not inheritable, and a standard stream is.
    """
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


class Stderr:
    """Relays what a worker writes to stderr to this process's own, and keeps the end of it.

    A relay never blocks the loop: while the real stderr takes nothing, nothing is read either,
    and the worker waits as it would if it had that stderr itself.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._tail = b""
        self._unwritten = b""

    def relay(self) -> bool:
        """Move a bounded part; False: the real stderr is full, come back later."""
        if self._unwritten and not self._write():
            return False
        try:
            data = os.read(self.fd, _RELAY_CHUNK)
        except (BlockingIOError, InterruptedError):
            return True
        if not data:
            raise EOFError
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        self._unwritten = data
        return self._write()

    def drain(self) -> None:
        """Take what is left after the worker's death, without waiting; then `write_rest`."""
        try:
            for _ in range(1 + (1 << 20) // _RELAY_CHUNK):
                before = self._tail
                full = not self.relay()
                if full:
                    self._keep_rest()
                if full or self._tail is before:
                    return
        except (EOFError, OSError):
            return

    def show(self, text: str) -> None:
        """Print a text of our own to the real stderr."""
        data = text.encode(errors="replace") + b"\n"
        self._unwritten += data
        self.write_rest()

    def write_rest(self) -> bool:
        """Write what was not written yet as far as it goes; tell whether that is all of it."""
        while self._unwritten:
            before = len(self._unwritten)
            if not self._write() and len(self._unwritten) == before:
                return False
        return True

    def _keep_rest(self) -> None:
        """Read the rest for later: the real stderr is slow, or stuck."""
        for _ in range(16):  # somebody who is not dead may write there as well
            data = os.read(self.fd, 1 << 16)
            self._tail = (self._tail + data)[-TAIL_BYTES:]
            self._unwritten += data

    def _write(self) -> bool:
        try:
            if not is_stream(2):
                written = len(self._unwritten)
            elif select.select([], [2], [], 0)[1]:
                written = os.write(2, self._unwritten[:_RELAY_CHUNK])
            else:
                return False
        except (OSError, ValueError):  # this process has no stderr
            written = len(self._unwritten)
        self._unwritten = self._unwritten[written:]
        return not self._unwritten

    @property
    def tail(self) -> str:
        """The last lines, as text."""
        text = self._tail.decode(errors="replace").strip()
        lines = text.splitlines()
        return "\n".join(lines[-40:])
