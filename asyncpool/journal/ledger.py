"""A journal that is open: its file, and the index of what stands in it.

Everything here blocks, and is done by the scribe's thread; only `find` and `read` may be called
from another.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from ..errors import JournalWriteError
from . import records
from .file import JournalFile, failed, write_all
from .index import Index, Open, Where
from .lines import Record, is_sealed, seal, unseal
from .options import Journal
from .reading import Reading

logger = logging.getLogger("asyncpool")

Note: TypeAlias = "tuple[str, str, str, tuple[Any, ...]]"
"""Kind of record, job id, body, and what the index wants to know beside (see `_take_in`).

A record of several jobs has no id, and their ids are the first of those facts.
"""

GARBAGE_AT_OPEN = 1 << 20
GARBAGE_WHILE_OPEN = 16 << 20
"""How many bytes, beyond twice of what matters, a journal may have before it is rewritten."""

BATCH = 1 << 20


class Unwritten(NamedTuple):
    """Notes that the disk did not take, and why."""

    error: JournalWriteError
    notes: list[Note]


class Ledger:
    """The journal of one owner."""

    def __init__(self, file: JournalFile, options: Journal) -> None:
        self.index = Index()
        self._file = file
        self._retention = options.retention
        self._seq = -1
        self._swapping = Lock()
        self._tidy_from = 0

    @classmethod
    def open(cls, options: Journal) -> Ledger:
        """Open the journal, read it, cut off a torn tail, and charge what its last owner ran."""
        self = cls(JournalFile.open(os.fspath(options.path), options._disk), options)
        try:
            self.replay()
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    @classmethod
    def open_as_it_is(cls, options: Journal) -> Ledger:
        """Open and read an existing journal, and note nothing in it."""
        file = JournalFile.open(os.fspath(options.path), options._disk, create=False)
        self = cls(file, options)
        try:
            self.replay()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def path(self) -> str:
        """Where the file really is."""
        return self._file.path

    @property
    def size(self) -> int:
        """The size of the file, in bytes."""
        return self._file.size

    @property
    def is_poisoned(self) -> bool:
        """Whether nothing can be written until the journal is opened anew."""
        return self._file.poison is not None

    def close(self) -> None:
        """Give up the file and its lock."""
        with self._swapping:
            self._file.close()

    # Opening

    def replay(self) -> None:
        """Read all records. Raises JournalCorrupt, or JournalError for a newer format."""
        reading, note = Reading(self._file.chunks(), self.path), self.index.note
        for record, offset, size in reading:
            try:
                note(record, (offset, size))
            except (KeyError, TypeError) as error:
                why = f"record {record['seq']} is whole, but not as it is written: {error!r}"
                raise reading.corrupt(offset, why) from error
        self._seq = reading.seq
        if reading.tail is not None:
            logger.warning(
                "journal %s ended in %d bytes of a record that was never acknowledged, at byte %d: "
                "they were cut off",
                self.path,
                reading.tail.size,
                reading.tail.offset,
            )
            self._file.cut(reading.end)

    def _begin(self) -> None:
        now = time.time()
        if self._seq < 0:
            self._file.append(seal(0, records.title(0, now)), sync=True)
            self._seq = 0
        self._sync_directory()  # the last owner may have died just before it
        charges = [_charge(*suspect, now) for suspect in self.index.running()]
        for job in self.index.entangled():
            job.alone = True
        # First: of charges that were torn apart, those that are left must not make it the turn of
        # the next job of the same worker.
        opened: Note = ("opened", "", records.opened(os.getpid(), now), ())
        self.write([opened, *charges], sync=True)
        self._tidy(GARBAGE_AT_OPEN)

    def _sync_directory(self) -> None:
        try:
            self._file.disk.sync_directory(os.path.dirname(self.path))
        except OSError as error:
            raise failed(f"the directory of journal {self.path} fails", error) from error

    # Writing

    def write(self, notes: Sequence[Note], *, sync: bool) -> None:
        """Append the notes, all or none. Raises JournalWriteError."""
        seq, lines = self._seq, []
        for note in notes:
            seq += 1
            lines.append(seal(seq, note[2]))
        self._file.append(b"".join(lines), sync=sync)
        self._seq = seq
        offset = self._file.size - sum(map(len, lines))
        for note, line in zip(notes, lines, strict=True):
            self._take_in(note, (offset, len(line)))
            offset += len(line)

    def write_what_fits(self, notes: Sequence[Note], *, sync: bool) -> Unwritten | None:
        """Append what the disk takes, and return the rest: a large record may find no room."""
        try:
            self.write(notes, sync=sync)
        except JournalWriteError as error:
            if self.is_poisoned or len(notes) < 2:
                return Unwritten(error, list(notes))
        else:
            return None
        half = len(notes) // 2
        parts = [self.write_what_fits(part, sync=False) for part in (notes[:half], notes[half:])]
        rest = [part for part in parts if part is not None]
        if not rest:
            return None
        lost = [note for part in rest for note in part.notes]
        try:
            if sync and len(lost) < len(notes):
                self.sync()
        except JournalWriteError as error:
            return Unwritten(error, list(notes))
        return Unwritten(rest[-1].error, lost)

    def _take_in(self, note: Note, where: Where) -> None:
        kind, job_id, _, facts = note
        index = self.index
        if kind == "submitted":
            index.submitted(job_id, facts[0], where)
        elif kind == "sent":
            for each in facts[0]:
                index.sent(each, *facts[1:])
        elif kind == "finished":
            index.ended(job_id, facts[0], where)
        elif kind == "requeued":
            index.requeued(job_id)
        elif kind == "retried":
            index.retried(job_id, facts[0], facts[1], where)
        else:
            index.workers.clear()

    def sync(self) -> None:
        """Let all that was written be on the disk."""
        self._file.sync()

    def tidy(self) -> None:
        """Rewrite the file if it has grown too much. A failure leaves it as it is."""
        if self._file.size >= self._tidy_from:
            self._tidy(GARBAGE_WHILE_OPEN)

    def _tidy(self, garbage: int) -> None:
        if self._file.size <= 2 * self.index.live + garbage:
            return
        try:
            self.compact()
            self._tidy_from = 0
        except JournalWriteError as error:
            self._tidy_from = 2 * self._file.size  # not again after every batch
            logger.warning("journal %s was not compacted: %s", self.path, error)

    # Looking

    def read_end(self, id: str) -> tuple[Record, Record] | None:
        """Return the submission and the end of a job that is remembered."""
        with self._swapping:  # or the file might be exchanged between the look and the reading
            ended = self.index.finished.get(id)
            if ended is None or self._file.is_closed:
                return None
            return self.read(ended.submitted), self.read(ended.finished)

    def read(self, where: Where) -> Record:
        """Return a record that was written or replayed. Raises JournalWriteError if it is gone."""
        record = unseal(self._file.read(*where))
        if record is None:
            raise self._changed()
        return record

    def _changed(self) -> JournalWriteError:
        return JournalWriteError(
            f"journal {self.path} was changed by another program while it was open: "
            f"`asyncpool journal verify` tells what is left"
        )

    # Compaction

    def compact(self) -> None:
        """Write what matters into a new file, and put that in the place of the old one.

        Until the new one has its name, the old one is valid; a crash leaves a file beside it that
        is never read. Raises JournalWriteError, after which the one in use is whole, too.
        """
        self._file.check_place()  # or it would take the place of somebody else's
        self.index.forget_before(time.time() - self._retention)
        beside = f"{self.path}.compacting"
        disk = self._file.disk
        try:
            with suppress(FileNotFoundError):
                os.unlink(beside)  # of one who died over it; nobody else has our lock
            new = JournalFile.open(beside, disk)
        except OSError as error:
            raise failed(f"{beside} cannot be made", error) from error
        try:
            index, seq = self._copy_into(new)
            disk.sync(new.fd)
            disk.replace(beside, self.path)
            with self._swapping:
                new.path = self.path
                old, self._file = self._file, new
                self.index, self._seq = index, seq
        except Exception as error:
            new.close()
            with suppress(OSError):
                os.unlink(beside)
            if isinstance(error, OSError):
                raise failed(f"{beside} cannot be written", error) from error
            raise
        old.close()
        self._sync_replacement()

    def _sync_replacement(self) -> None:
        try:
            self._sync_directory()
        except JournalWriteError as error:
            # A power cut might bring the old file back, without what is written from now on.
            self._file.poison = error
            raise

    def _copy_into(self, new: JournalFile) -> tuple[Index, int]:
        """Copy the lines that matter, in their order.

        Returns the index of where they are now, and the number of the last record.
        """
        lines = [line for job in self.index.finished.values() for line in job.lines]
        lines += [line for job in self.index.unfinished.values() for line in job.lines]
        lines.sort()
        moved: dict[Where, Where] = {}
        copy = _Copy(new)
        now = time.time()
        copy.add(seal(0, records.title(self._seq, now)))
        for where in lines:
            moved[where] = (copy.size, where[1])
            line = self._file.read(*where)
            if not is_sealed(line):
                raise self._changed()
            copy.add(line)
        bodies = [records.opened(os.getpid(), now)]
        for worker, suspect in self.index.workers.items():
            for job_id, sent_at in suspect.time.items():
                bodies.append(records.sent([job_id], sent_at, worker, suspect.pid))
        seq = self._seq
        for body in bodies:
            seq += 1
            copy.add(seal(seq, body))
        copy.flush()
        return self.index.moved(moved), seq


class _Copy:
    """A new file that is written in large pieces."""

    def __init__(self, file: JournalFile) -> None:
        self.size = 0
        self._file = file
        self._parts: list[bytes] = []
        self._waiting = 0

    def add(self, line: bytes) -> None:
        self._parts.append(line)
        self.size += len(line)
        self._waiting += len(line)
        if self._waiting > BATCH:
            self.flush()

    def flush(self) -> None:
        write_all(self._file.disk, self._file.fd, b"".join(self._parts))
        self._file.size = self.size
        self._parts, self._waiting = [], 0


def _charge(id: str, job: Open, pid: int, sent_at: float, now: float) -> Note:
    """Return the note of a crash: the job was running when the owner of the journal died."""
    crashes = job.crashes + 1
    number = len(job.retries) + 1
    attempt = records.attempt(number, pid, sent_at, now, "crashed", None, None)
    body = records.retried(id, now, attempt, crashes=crashes, errors=job.errors)
    return "retried", id, body, (crashes, job.errors)
