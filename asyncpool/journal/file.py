"""The file of a journal: owned by one, appended to by whole batches, cut back when one fails."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from weakref import WeakSet

from ..errors import JournalError, JournalLocked, JournalWriteError
from .disk import Disk

CHUNK = 1 << 20

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH

_open_files: WeakSet[JournalFile] = WeakSet()


class JournalFile:
    """An open, locked journal, whose last `size` bytes are known to be good.

    The lock is the kernel's (`flock`): it is free as soon as the owner is gone, however it went.
    """

    def __init__(self, fd: int, path: str, disk: Disk) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self.poison: JournalWriteError | None = None
        """Why nothing may be written any more, if so."""
        self.fd = fd
        self.disk = disk
        _open_files.add(self)

    @classmethod
    def open(cls, path: str, disk: Disk, *, create: bool = True) -> JournalFile:
        """Open and lock the journal, which is made if it does not exist.

        Raises JournalLocked, JournalError for what is no file of ours alone, and
        JournalWriteError for what the system refuses.
        """
        path = os.path.realpath(path)
        try:
            while True:
                fd = _opened(path, create=create)
                try:
                    _lock(fd, path)
                    _check_owner(fd, path)
                except BaseException:
                    os.close(fd)
                    raise
                if is_at(fd, path):
                    return cls(fd, path, disk)
                os.close(fd)  # its last owner had just put a new file in its place
        except OSError as error:
            if isinstance(error, JournalWriteError):
                raise
            there = os.path.lexists(path)
            what = "cannot be opened" if there else f"cannot be made in {os.path.dirname(path)}"
            raise failed(f"journal {path} {what}", error) from error

    def chunks(self) -> Iterator[bytes]:
        """Yield all that stands in the file. Raises JournalWriteError, as `read` does."""
        offset = 0
        while chunk := self.read(offset, CHUNK):
            offset += len(chunk)
            yield chunk

    def read(self, offset: int, size: int) -> bytes:
        """Return that part of the file."""
        try:
            return os.pread(self.fd, size, offset)
        except OSError as error:
            raise failed(f"journal {self.path} cannot be read", error) from error

    @property
    def is_closed(self) -> bool:
        """Whether it was given up."""
        return self.fd < 0

    def append(self, data: bytes, *, sync: bool) -> None:
        """Write all of it or nothing; with `sync`, return when it is on the disk.

        Raises JournalWriteError. After a failed sync nobody knows what the disk holds, so the
        file takes nothing more; neither does it if it was moved or deleted.
        """
        self._check_poison()
        if sync:
            self.check_place()
        try:
            write_all(self.disk, self.fd, data)
        except OSError as error:
            self._cut_back()
            raise failed(f"journal {self.path} cannot be written", error) from error
        if sync:
            self.sync()
        self.size += len(data)

    def sync(self) -> None:
        """Return when all that was written is on the disk. Raises JournalWriteError."""
        self._check_poison()  # the kernel tells of a failure once, and then says all is well
        try:
            self.disk.sync(self.fd)
        except OSError as error:
            why = failed(f"fsync of journal {self.path} failed, it must be reopened", error)
            self._poison(why, error)

    def check_place(self) -> None:
        """Raise JournalWriteError, now and ever after, if it is not where, or what, it was."""
        if os.fstat(self.fd).st_size != self.size:
            self._poison(
                JournalWriteError(
                    f"journal {self.path} was cut or added to by another program while it was "
                    f"open: `asyncpool journal verify` tells what is left"
                )
            )
        if not is_at(self.fd, self.path):
            self._poison(
                JournalWriteError(
                    f"journal {self.path} was moved, replaced or deleted while it was open: "
                    f"what is written to it now would not be found after a restart"
                )
            )

    def _check_poison(self) -> None:
        if self.poison is not None:
            raise JournalWriteError(str(self.poison), errno=self.poison.errno)

    def _cut_back(self) -> None:
        try:
            self.disk.truncate(self.fd, self.size)
        except OSError as error:
            self.poison = failed(f"journal {self.path} holds half a record", error)

    def _poison(self, why: JournalWriteError, cause: OSError | None = None) -> None:
        self.poison = why
        raise why from cause

    def cut(self, size: int) -> None:
        """Drop what stands behind the first `size` bytes: a torn tail."""
        try:
            self.disk.truncate(self.fd, size)
            self.disk.sync(self.fd)
        except OSError as error:
            raise failed(f"the torn end of journal {self.path} cannot be cut", error) from error
        self.size = size

    def close(self) -> None:
        """Give up file and lock."""
        if self.fd >= 0:
            # Not by closing alone: a child has a copy of it from its fork until its exec.
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            self.let_go()

    def let_go(self) -> None:
        """Close the file in this process; the lock is its owner's until all have closed it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write all of `data`. Raises OSError, with some of it written."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(fd, rest) :]


def _opened(path: str, *, create: bool) -> int:
    # Not blocking, or a FIFO of that name would wait for its other end.
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    return os.open(path, flags | os.O_CREAT if create else flags, 0o600)


def _lock(fd: int, path: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = owner_of(fd)
        who = "another process" if pid is None else f"process {pid}"
        if pid == os.getpid():
            who = f"this process ({pid})"
        raise JournalLocked(f"journal {path} is in use by {who}", pid=pid) from None


def owner_of(fd: int) -> int | None:
    """Return the pid that the last `opened` record names: that of the owner, if it is locked."""
    mark = b'"kind":"opened","time":'
    end, rest = os.fstat(fd).st_size, b""
    while end > 0:
        start = max(0, end - CHUNK)
        text = os.pread(fd, end - start, start) + rest
        at = text.rfind(mark)
        if at >= 0:
            digits = text[at:].partition(b'"pid":')[2].partition(b",")[0]
            return int(digits) if digits.isdigit() else None
        end, rest = start, text[:100]
    return None


def _check_owner(fd: int, path: str) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise JournalError(f"{path} is no regular file, so it cannot be a journal")
    if status.st_uid != os.geteuid():
        raise JournalError(
            f"journal {path} belongs to user {status.st_uid}, who could put anything into it, and "
            f"to replay it would run that: chown it to {os.geteuid()}, the user of this process"
        )
    if status.st_mode & OTHERS_MAY_WRITE:
        raise JournalError(
            f"others may write to journal {path}, and to replay it would run what they wrote: "
            f"chmod it to 0600"
        )


def is_at(fd: int, path: str) -> bool:
    """Whether the open file is still the one of that path."""
    try:
        there = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def failed(what: str, error: OSError) -> JournalWriteError:
    """Return the error for what the system refused."""
    text = f"{what}: {error.strerror or error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        text += ". When there is room again, later jobs are accepted"
    return JournalWriteError(text, errno=error.errno)


def _let_go_of_all() -> None:
    # A child by fork shares the lock, and would hold it when this process is long dead.
    for file in list(_open_files):
        file.let_go()


os.register_at_fork(after_in_child=_let_go_of_all)
