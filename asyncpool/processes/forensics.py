"""Why a worker died: its last words, its stack, and whether the kernel ran out of memory."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import tempfile
from time import monotonic

STACK_SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2) - 3 * hasattr(signal, "SIGRTMAX")
"""Asks a worker for its stack. A real-time signal: jobs use SIGUSR1 and SIGUSR2 themselves."""

TAIL_BYTES = 8192
OOM_BURST_SECONDS = 1.0
"""Kills so soon after the out-of-memory killer's count grew are all taken for its own."""

_RELAY_CHUNK = 4096  # PIPE_BUF: a pipe that polls writable takes so much without blocking


def stack_file() -> int:
    """Return a descriptor of an anonymous file into which a worker writes its stack."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("asyncpool-stack", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    return fd


def read_stack(fd: int, start: int = 0) -> str:
    """Return what was written since `start`, without moving the writer's position."""
    size = os.fstat(fd).st_size
    return os.pread(fd, max(0, size - start), start).decode(errors="replace").strip()


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


class OomCounter:
    """Tells whether the out-of-memory killer struck in our cgroup.

    To be asked at every death, of whatever cause, so that an old strike is not taken for a new one.
    Sources: `oom_kill` of memory.events (cgroup v2) or memory.oom_control (v1); where neither can
    be read, that of /proc/vmstat, which counts the whole machine.
    """

    def __init__(self, paths: list[str] | None = None) -> None:
        self._paths = _counter_paths() if paths is None else paths
        self._last = self._read()
        self._struck_at = float("-inf")

    def struck(self) -> bool | None:
        """Whether the counter grew since the last call, or just before; None: it is not there."""
        before, self._last = self._last, self._read()
        if before is None or self._last is None:
            return None
        now = monotonic()
        if self._last > before:  # perhaps by several kills, whose deaths are told one by one
            self._struck_at = now
            return True
        return now - self._struck_at < OOM_BURST_SECONDS

    def _read(self) -> int | None:
        for path in self._paths:
            try:
                with open(path) as file:
                    found = re.search(r"^oom_kill (\d+)", file.read(), re.MULTILINE)
            except OSError:
                continue
            if found:
                return int(found[1])
        return None


def _counter_paths() -> list[str]:
    if sys.platform != "linux":
        return []
    paths = []
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        lines = []
    for _, controllers, group in lines:
        if not controllers:
            paths.append(f"/sys/fs/cgroup{group}/memory.events")
        elif "memory" in controllers.split(","):
            paths.append(f"/sys/fs/cgroup/memory{group}/memory.oom_control")
    return [*paths, "/sys/fs/cgroup/memory.events", "/proc/vmstat"]


def signal_name(number: int) -> str:
    """Return `SIGSEGV` and the like."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
