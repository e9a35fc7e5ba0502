"""The descriptors of one worker: which end is whose, and who closes them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from weakref import WeakSet

from .stack import stack_file

PIPE_BYTES = 1 << 18
"""For jobs and results. Larger ones would let 64 workers use up a user's share of pipe memory."""

_FIRST_FREE = 3

_all: WeakSet[Pipes] = WeakSet()


def _let_go() -> None:
    """In a fork of this process: the workers' lives hang on the parent's, not on the fork's."""
    for pipes in list(_all):
        pipes.cut_lifeline()  # and no more: uvloop runs this in a worker, before it becomes one


os.register_at_fork(after_in_child=_let_go)


class Pipes:
    """All descriptors between the parent and one worker.

    Two ends are kept open here although only the worker reads from them: `tickets_out`, so that
    tickets can be taken back, and `jobs_out`, so that writing to a dead worker is no SIGPIPE (an
    application may have restored that signal's deadly default).
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        try:
            self.jobs_out, self.jobs_in = self._pipe(PIPE_BYTES)
            self.results_out, self.results_in = self._pipe(PIPE_BYTES)
            self.tickets_out, self.tickets_in = self._pipe()
            self.lifeline_out, self.lifeline_in = self._pipe()
            self.stderr_out, self.stderr_in = self._pipe()
            self.stack = self._keep(stack_file())
            for fd in (self.jobs_in, self.results_out, self.tickets_out, self.stderr_out):
                os.set_blocking(fd, False)
        except BaseException:
            self.close()
            raise
        _all.add(self)

    @property
    def for_worker(self) -> tuple[int, ...]:
        """The descriptors that the worker inherits, in the order in which it is told them."""
        return (self.jobs_out, self.results_in, self.tickets_out, self.lifeline_out, self.stack)

    def spawned(self) -> None:
        """Close the ends that are the worker's alone."""
        for fd in (self.results_in, self.lifeline_out, self.stderr_in):
            self._close(fd)

    def cut_lifeline(self) -> None:
        """Close our end of the worker's lifeline."""
        self._close(self.lifeline_in)

    def close(self) -> None:
        """Close all that is open; may be called again."""
        for fd in list(self._open):
            self._close(fd)

    def _pipe(self, size: int = 0) -> tuple[int, int]:
        out, into = os.pipe()
        out, into = self._keep(out), self._keep(into)
        if size and hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # the user's share of pipe memory is used up: stay small
                fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, size)
        return out, into

    def _keep(self, fd: int) -> int:
        if fd < _FIRST_FREE:
            # This process runs without stdin, stdout or stderr: leave their places free.
            fd, low = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE), fd
            os.close(low)
        self._open.add(fd)
        return fd

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)
