"""The Python stacks of a worker, written by its own faulthandler whatever else it is doing."""

from __future__ import annotations

import os
import signal
import tempfile

STACK_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2) - 3 * hasattr(signal, "SIGRTMAX")
"""Asks a worker for its stack. A real-time signal: jobs use SIGUSR1 and SIGUSR2 themselves."""


def stack_file() -> int:
    """Return a descriptor of an anonymous file into which a worker writes its stack."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("asyncpool-stack", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    return fd


LAST_LINES = (b" in <module>\n", b"...\n")
"""How a dump ends: with the outermost frame of the main thread, which comes last, or cut short."""

QUIET_LOOKS = 20
"""After so many looks without news, a dump that ends otherwise is taken to be complete, too."""


class StackFile:
    """What a worker wrote to its stack file; the descriptor is somebody else's to close."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = 0
        self._quiet = 0

    def is_complete(self) -> bool:
        """Whether a dump has been written to its end, as far as that can be told."""
        before, self._size = self._size, os.fstat(self._fd).st_size
        if not 0 < self._size == before:
            self._quiet = 0
            return False
        self._quiet += 1
        end = os.pread(self._fd, 100, max(0, self._size - 100))
        return end.endswith(LAST_LINES) or self._quiet > QUIET_LOOKS

    def take(self) -> str:
        """Return what is there, and empty the file."""
        text = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)  # the worker shares this position
        self._size = self._quiet = 0
        return text.decode(errors="replace").strip()
