"""The worker's end of its lifeline: when the parent is gone, the kernel kills the whole group.

The lifeline is a pipe that never carries a byte. Its other end is held by the parent alone, so it
hangs up when the parent dies, however that comes about; the kernel then sends SIGKILL to the
worker's process group. That needs no cooperation of the worker, which may be in C code with the
GIL held, and unlike PR_SET_PDEATHSIG it does not depend on the thread that spawned it.
"""

import fcntl
import os
import select
import sys

try:
    import _signal as signal  # type: ignore[import-not-found]  # `signal` also imports `enum`: 8 ms at each start
except ImportError:  # pragma: no cover - other Pythons
    import signal


def hang_on(fd: int) -> None:
    """Have this process group killed as soon as the other end of `fd` is closed."""
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if poll.poll(0):  # it had hung up before the kernel was asked
            os._exit(1)
    else:
        import _thread

        _thread.start_new_thread(_wait_and_die, (fd,))


def _wait_and_die(fd: int) -> None:
    """Do the same without F_SETSIG; it cannot strike while C code holds the GIL."""
    os.read(fd, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)
