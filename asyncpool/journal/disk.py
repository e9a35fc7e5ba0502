"""The system calls of a journal, one method each: tests put failing disks in their place."""

from __future__ import annotations

import fcntl
import os
import sys


class Disk:
    """A disk that works, or fails as the system says."""

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write as much as the system takes; return how many bytes that were."""
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Return when all that was written to the file is on the disk."""
        if sys.platform == "darwin":  # where fsync stops at the drive's cache
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to that size."""
        os.ftruncate(fd, size)

    def replace(self, new: str, old: str) -> None:
        """Put a new file in the place of an old one."""
        os.replace(new, old)

    def sync_directory(self, path: str) -> None:
        """Return when the names of the files in a directory are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
