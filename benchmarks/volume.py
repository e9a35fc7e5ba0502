"""Where the files of a run go: on what file system, and whether that is a disk at all."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

IN_MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True, slots=True)
class Volume:
    """A file system, and what it lies on."""

    kind: str
    device: str

    @property
    def in_memory(self) -> bool:
        """Whether an fsync there makes nothing durable, and costs nothing."""
        return self.kind in IN_MEMORY

    def __str__(self) -> str:
        warning = ", in memory: durable figures mean nothing" if self.in_memory else ""
        return f"{self.kind} on {self.device}{warning}"


UNKNOWN = Volume("unknown file system", "unknown device")


def volume_of(path: str) -> Volume:
    """Return what a path lies on."""
    try:
        mounts = Path("/proc/mounts").read_text()
    except OSError:
        return UNKNOWN  # not Linux
    return find_volume(os.path.realpath(path), mounts)


def find_volume(path: str, mounts: str) -> Volume:
    """Return what an absolute path lies on, by the text of a mount table."""
    best, found = "", UNKNOWN
    for line in mounts.splitlines():
        device, point, kind, *_ = (_unescaped(field) for field in line.split(" "))
        holds = path == point or path.startswith(point.rstrip("/") + "/")
        if holds and len(point) >= len(best):  # of two at one place the later covers the other
            best, found = point, Volume(kind, device)
    return found


def _unescaped(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


def best_directory() -> str:
    """Return the first place for temporary files that is on a disk."""
    usual = tempfile.gettempdir()
    for directory in (usual, "/var/tmp", os.getcwd()):
        if os.access(directory, os.W_OK | os.X_OK) and not volume_of(directory).in_memory:
            return directory
    return usual


def scratch(directory: str) -> tempfile.TemporaryDirectory[str]:
    """Make a directory there for the files of one sample; a context manager."""
    return tempfile.TemporaryDirectory(prefix="asyncpool-benchmark-", dir=directory)
