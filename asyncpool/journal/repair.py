"""Repair: a journal that is damaged before its end is replaced by what is still whole of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from ..errors import JournalCorrupt, JournalWriteError
from .disk import Disk
from .file import JournalFile, is_at, write_all
from .reading import Reading
from .survey import Survey

BATCH = 1 << 20


@dataclass(frozen=True, slots=True)
class Repair:
    """What was found, and, if that was damage, where a copy of it is and the new size."""

    found: Survey
    copy: str | None
    size: int


def repair(path: str, disk: Disk) -> Repair:
    """Rewrite the journal if it is damaged; the damaged file is kept, as `PATH.damaged-1`.

    Until the new file has its name, the old one stands untouched. Raises JournalLocked,
    JournalCorrupt for what holds nothing of a journal, JournalError for a newer format, and
    JournalWriteError.
    """
    file = JournalFile.open(path, disk, create=False)
    try:
        found = Survey(file.chunks(), file.path)
        if not found.records:
            _refuse_what_is_no_journal(file)
        if found.damage is None:
            return Repair(found, None, file.size)
        copy = _keep_copy(file)
        try:
            return Repair(found, copy, _replace(file, found))
        except BaseException:
            if is_at(file.fd, file.path):  # or the copy would be all that is left of it
                _discard(copy)
            raise
    finally:
        file.close()


def _refuse_what_is_no_journal(file: JournalFile) -> None:
    try:
        for _ in Reading(file.chunks(), file.path):
            pass
    except JournalCorrupt as error:
        raise JournalCorrupt(
            f"journal {file.path} cannot be repaired: it holds no whole record. Is it another "
            f"program's? It was left as it is",
            path=file.path,
            offset=error.offset,
        ) from None


def _keep_copy(file: JournalFile) -> str:
    """Copy the file, in all its damage, to where no other is."""
    name = ""
    try:
        name, fd = _new_file(f"{file.path}.damaged")
        try:
            for chunk in file.chunks():
                write_all(file.disk, fd, chunk)
            file.disk.sync(fd)
        finally:
            os.close(fd)
        file.disk.sync_directory(os.path.dirname(file.path))
    except BaseException as error:
        _discard(name)
        if isinstance(error, OSError):
            raise _failed(f"the copy {name or file.path + '.damaged'}", error) from error
        raise
    return name


def _new_file(stem: str) -> tuple[str, int]:
    for number in count(1):
        name = f"{stem}-{number}"
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return name, os.open(name, flags, 0o600)
    raise AssertionError("numbers do not end")


def _replace(file: JournalFile, found: Survey) -> int:
    """Put a new file in the place of the damaged one; return its size."""
    disk, beside = file.disk, f"{file.path}.repairing"
    _discard(beside)  # of one who died over it; nobody else has our lock
    new = JournalFile.open(beside, disk)
    try:
        for data in _batches(found.repaired(file.read, time.time())):
            write_all(disk, new.fd, data)
        disk.sync(new.fd)
        for _ in Reading(new.chunks(), beside):  # or we would replace damage by damage
            pass
        disk.replace(beside, file.path)
        disk.sync_directory(os.path.dirname(file.path))
        return os.fstat(new.fd).st_size
    except BaseException as error:
        _discard(beside)
        if isinstance(error, OSError):
            raise _failed(beside, error) from error
        raise
    finally:
        new.close()


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    batch = bytearray()
    for line in lines:
        batch += line
        if len(batch) >= BATCH:
            yield bytes(batch)
            batch.clear()
    yield bytes(batch)


def _discard(name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name)


def _failed(what: str, error: OSError) -> JournalWriteError:
    text = f"{what} cannot be written: {error.strerror or error}. The journal was not repaired"
    return JournalWriteError(text, errno=error.errno)
