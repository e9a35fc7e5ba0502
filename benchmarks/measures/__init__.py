"""The registry: every measure there is. A new one is a module here and a name in this list."""

from __future__ import annotations

from ..model import Measure
from . import fib, latency, mixed, recovery, start, throughput, timeout

MEASURES: dict[str, Measure] = {
    module.MEASURE.name: module.MEASURE
    for module in (throughput, latency, recovery, timeout, start, fib, mixed)
}
