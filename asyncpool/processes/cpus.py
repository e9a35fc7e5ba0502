"""How many CPUs this process may use."""

from __future__ import annotations

import os
from math import ceil


def usable_cpus() -> int:
    """Return the number of CPUs that affinity and the cgroup's quota leave us, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, min(cpus, ceil(quota))) if quota else max(1, cpus)


def cgroup_quota(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> float | None:
    """Return the CPU quota of our cgroup in CPUs, or None if there is no limit."""
    for group in ("", *_groups(own)):
        for read in (_quota_v2, _quota_v1):
            quota = read(root, group)
            if quota is not None:
                return quota
    return None


def _groups(own: str) -> list[str]:
    try:
        with open(own) as file:
            lines = [line.strip().split(":", 2) for line in file]
    except OSError:
        return []
    return [group for _, controllers, group in lines if controllers in ("", "cpu", "cpu,cpuacct")]


def _quota_v2(root: str, group: str) -> float | None:
    words = _read(f"{root}{group}/cpu.max").split()
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(root: str, group: str) -> float | None:
    quota = _read(f"{root}/cpu{group}/cpu.cfs_quota_us").strip()
    period = _read(f"{root}/cpu{group}/cpu.cfs_period_us").strip()
    if not quota or not period or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
