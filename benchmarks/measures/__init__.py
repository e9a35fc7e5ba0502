"""The registry: every measure there is. A new one is a module here and a name in this list."""

from __future__ import annotations

from ..model import Measure
from . import (
    accepted,
    completed,
    fib,
    journal_cpu,
    latency,
    mixed,
    recovery,
    replay,
    start,
    throughput,
    timeout,
)

_IN_MEMORY = (throughput, latency, recovery, timeout, start, fib, mixed)
_DURABLE = (accepted.ONE, accepted.MANY, completed.MEASURE, replay.MEASURE, journal_cpu.MEASURE)

MEASURES: dict[str, Measure] = {
    measure.name: measure for measure in (*(module.MEASURE for module in _IN_MEMORY), *_DURABLE)
}

GROUPS: dict[str, tuple[str, ...]] = {"durable": tuple(measure.name for measure in _DURABLE)}
"""Names that stand for several measures."""
