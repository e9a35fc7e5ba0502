"""Disks that fail, or at whose calls their process dies; and what is left after such a death."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from asyncpool.journal import file
from asyncpool.journal.disk import Disk


class Death(BaseException):
    """The process ends here: nothing of it handles this."""


class LazyDisk(Disk):
    """Syncs nothing: for tests that open a journal hundreds of times, and cut no power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


class FailingDisk(Disk):
    """Notes its calls by name, and fails at those that `errors` has an errno for."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: dict[str, int] = {}
        self.piece: int | None = None
        """How many bytes a write takes at most."""
        self.room: int | None = None
        """How many bytes still fit; what goes beyond meets `errors["write"]`."""
        self.dies_at: int | None = None
        """The index of the call in which the process dies."""

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if self.dies_at == len(self.calls):
            super().write(fd, data[: len(data) // 2])
        self._called("write", fails=not self.room)
        for limit in (self.piece, self.room):
            data = data[:limit]
        written = super().write(fd, data)
        if self.room is not None:
            self.room -= written
        return written

    def sync(self, fd: int) -> None:
        self._called("sync")
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._called("truncate")
        super().truncate(fd, size)

    def replace(self, new: str, old: str) -> None:
        self._called("replace")
        super().replace(new, old)

    def sync_directory(self, path: str) -> None:
        self._called("sync_directory")
        super().sync_directory(path)

    def _called(self, name: str, *, fails: bool = True) -> None:
        self.calls.append(name)
        if self.dies_at == len(self.calls) - 1:
            raise Death(f"in call {self.dies_at}, {name}")
        if fails and name in self.errors:
            number = self.errors[name]
            raise OSError(number, os.strerror(number))


@contextmanager
def dying() -> Iterator[None]:
    """A block in which the process dies. The kernel closes its files, which frees their locks."""
    try:
        yield
    except Death:
        file._let_go_of_all()  # while its traceback holds those that were about to be used
    else:
        pytest.fail("it did not die")
