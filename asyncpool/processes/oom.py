"""Whether the kernel ran out of memory."""

from __future__ import annotations

import re
import sys
from time import monotonic

OOM_BURST_SECONDS = 1.0
"""Kills so soon after the out-of-memory killer's count grew are all taken for its own."""


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
