"""The jobs. Workers import this module when they start, so it loads as little as it can."""

from __future__ import annotations

import os
import struct
import time

SIGHTING = struct.Struct("=qd")
"""What a job writes to a beacon: its process's id and the system-wide monotonic clock."""

LONGEST_HANG_SECONDS = 20.0
"""No job burns for longer, even if everybody forgot it."""


def noop() -> None:
    """Do nothing."""


def fib(n: int) -> int:
    """Return the n-th Fibonacci number, the slow way."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def spin(seconds: float) -> float:
    """Burn CPU until that much time has passed; return when this began."""
    begun = time.monotonic()
    end = begun + seconds
    while time.monotonic() < end:
        pass
    return begun


def spin_all(durations: list[float]) -> None:
    """Burn CPU for each of these seconds in turn."""
    for seconds in durations:
        spin(seconds)


def announce(beacon: str, running_since: float | None = None) -> None:
    """Say that this job runs, and since when: now, if it is not told."""
    at = time.monotonic() if running_since is None else running_since
    fd = os.open(beacon, os.O_WRONLY)
    os.write(fd, SIGHTING.pack(os.getpid(), at))
    os.close(fd)


def announce_and_wait(beacon: str, gate: str) -> None:
    """Say that this job runs, and keep its worker until the gate lets one more through."""
    announce(beacon)
    fd = os.open(gate, os.O_RDONLY)
    os.read(fd, 1)
    os.close(fd)


def announce_and_spin(beacon: str) -> None:
    """Say that this job runs, and burn CPU."""
    announce(beacon)
    spin(LONGEST_HANG_SECONDS)


def announce_and_spin_once(beacon: str, marker: str) -> None:
    """Say that this job runs. The first time burn CPU; later, when the marker exists, return."""
    running_since = time.monotonic()
    is_first = not os.path.exists(marker)
    if is_first:
        # Before anybody hears of it: whoever does kills this process at once.
        os.close(os.open(marker, os.O_CREAT))
    announce(beacon, running_since)
    if is_first:
        spin(LONGEST_HANG_SECONDS)
