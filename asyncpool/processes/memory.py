"""How much memory a process has."""

from __future__ import annotations

import os


def resident_bytes(pid: int) -> int | None:
    """Return the resident set of a process, or None where that cannot be read."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return None
