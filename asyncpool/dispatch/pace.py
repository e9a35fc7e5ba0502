"""How many jobs a worker may hold ahead, so that short ones flow and none waits for a long one.

A worker is given more than one job only while all of them together are expected to take about
a millisecond. What to expect of a function is learned from its calls; one that was never seen, or
has just taken long, is sent alone.
"""

from __future__ import annotations

from .records import JobRecord, Paced

WINDOW_SECONDS = 0.001
WINDOW_JOBS = 64
"""At most 256, since tickets count modulo 256; more did not make it faster."""

OVERHEAD_SECONDS = 15e-6
"""What a call costs a worker beside the function itself; keeps the window of no-ops finite."""

ALONE_SECONDS = 1e9
"""What a job counts for that is to be alone with its worker."""

_MEMORY = 8


def cost_of(job: JobRecord) -> float:
    """Return the seconds of its worker that a job is expected to take."""
    return ALONE_SECONDS if job.alone else job.function.seconds + OVERHEAD_SECONDS


def observe(function: Paced, seconds: float) -> None:
    """Learn from one call: longer ones count at once, shorter ones bit by bit."""
    expected = function.seconds
    if seconds >= expected or expected >= 1e6:
        function.seconds = seconds
    else:
        function.seconds = expected + (seconds - expected) / _MEMORY
