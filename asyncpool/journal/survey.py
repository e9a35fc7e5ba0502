"""What can be read of a journal, damaged or not: its whole records, and what they tell of jobs.

`Reading` stops at the first damage, as a pool must; a survey goes on behind it. Nothing here is
ever unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..dispatch.records import Death
from ..explain import cause_of
from . import records
from .lines import SEAL_SIZE, Record, seal, unseal
from .reading import TITLE, Reading, Tail, split, was_whole

# Inside of a JSON string the quotes would have backslashes, so these stand nowhere else.
_START = re.compile(rb'\{"seq":')
_SEAL = b',"crc":"'


class Piece(NamedTuple):
    """Bytes that are a whole record, or in which there is none; `line` counts from 1."""

    offset: int
    text: bytes
    line: int
    record: Record | None
    why: str
    """What is wrong with it, if anything: a whole record may have lost its newline."""


def pieces(chunks: Iterable[bytes]) -> Iterator[Piece]:
    """Cut a journal into its records, and the broken pieces between them."""
    offset = 0
    for number, line in enumerate(split(chunks), 1):
        record = unseal(line)
        if record is not None:
            yield Piece(offset, line, number, record, "")
        else:
            yield from _pieces_of(line, offset, number)
        offset += len(line)


def _pieces_of(line: bytes, offset: int, number: int) -> Iterator[Piece]:
    """Cut a broken line; records in it are whole if it lacks a newline, or half a one is first."""
    starts = sorted({0, *(found.start() for found in _START.finditer(line))})
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        rest, at = line[start:end], offset + start
        record, size = _beginning_of(rest)
        if record is not None:
            glued = rest[size - 1 : size] == b"\n"
            why = "something else is before it" if glued else "its newline is overwritten"
            yield Piece(at, rest[:size], number, record, why)
            rest, at = rest[size:], at + size
        if rest:
            yield Piece(at, rest, number, None, _why_broken(rest))


def _beginning_of(text: bytes) -> tuple[Record | None, int]:
    """Return the record that a text begins with, whatever is in its newline's place, and its size.

    With nothing in that place, or only zeros, it is how a crash leaves the end of a file.
    """
    size = text.find(_SEAL) + SEAL_SIZE
    if size < SEAL_SIZE or not text[size - 1 :].strip(b"\0"):
        return None, 0
    return unseal(text[: size - 1] + b"\n"), size


def _why_broken(text: bytes) -> str:
    if not text.strip(b"\0\n"):
        return "zeros stand where a record should be"
    if _START.match(text) and text[-SEAL_SIZE:].startswith(_SEAL):
        return "its checksum is wrong"
    if _START.match(text):
        return "it is only the beginning of a record, or its end is overwritten"
    return "it does not begin like a record"


@dataclass(slots=True)
class Entry:
    """A job, and the state it is in; times are seconds since the epoch."""

    id: str
    function: str
    submitted_at: float
    state: str
    last: int
    """The offset of the last record that tells of it."""
    attempts: int = 0
    ended_at: float | None = None
    error: str | None = None
    """How it failed; of an unfinished job, how its last attempt ended."""


class Table:
    """The jobs of a journal, in the order of their submission."""

    def __init__(self) -> None:
        self.jobs: dict[str, Entry] = {}
        self.lost: dict[str, None] = {}
        """Jobs without a submission, and without an end."""
        self._sent: dict[str, Entry] = {}

    @property
    def unfinished(self) -> list[Entry]:
        return [entry for entry in self.jobs.values() if entry.ended_at is None]

    @property
    def finished(self) -> list[Entry]:
        return [entry for entry in self.jobs.values() if entry.ended_at is not None]

    def note(self, record: Record, offset: int) -> None:
        """Take in the next record, which stands at that offset."""
        if record["kind"] == "submitted":
            self._submitted(record, offset)
        elif record["kind"] in ("opened", "closed"):
            for entry in self._sent.values():
                entry.state = "pending"  # of this owner; who had it before is no more
            self._sent.clear()
        else:
            for job_id in record.get("ids") or filter(None, (record.get("id"),)):
                self._happened(job_id, record, offset)

    def _submitted(self, record: Record, offset: int) -> None:
        job_id = record["id"]
        for known in (self.jobs, self._sent, self.lost):
            known.pop(job_id, None)
        function, time, state = record["function"], record["time"], record["state"]
        self.jobs[job_id] = Entry(job_id, function, time, state, offset)

    def _happened(self, job_id: str, record: Record, offset: int) -> None:
        kind = record["kind"]
        entry = self.jobs.get(job_id)
        if entry is None:
            self._happened_to_unknown(job_id, kind)
            return
        if entry.ended_at is not None:
            return
        entry.state, entry.last = record["state"], offset
        self._sent.pop(job_id, None)
        if kind == "sent":
            self._sent[job_id] = entry
        elif kind == "retried":
            number, *_ = attempt = record["attempt"]
            entry.attempts, entry.error = number, f"attempt {number} ended: {attempt[4]}"
        elif kind == "finished":
            entry.attempts, entry.ended_at = len(record["attempts"]), record["time"]
            entry.error = _error_of(record)

    def _happened_to_unknown(self, id: str, kind: str) -> None:
        if kind == "finished":
            self.lost.pop(id, None)
        else:
            self.lost[id] = None


def _error_of(finished: Record) -> str | None:
    outcome = finished["outcome"]
    if outcome == "error":
        error: str = finished["error"]
        return error
    if outcome == "crashed":
        return f"worker {finished['pid']} {cause_of(Death(**finished['death']))}"
    if outcome == "timeout":
        limit = finished["timeout"]
        return "missed its deadline" if limit is None else f"ran longer than {limit:g} s"
    return None


class Spot(NamedTuple):
    """Where a journal is damaged, and why one thinks so."""

    offset: int
    line: int
    why: str


class Broken(NamedTuple):
    """Bytes in which there is no whole record."""

    offset: int
    size: int
    line: int


class Kept(NamedTuple):
    """A record that a repaired journal has, too, under the number `seq`."""

    offset: int
    size: int
    seq: int


class Survey:
    """All of a journal. Raises JournalError for a newer format.

    `damage` is where it begins, if there is any: what `Reading` refuses, or takes for a torn tail
    although whole records stand in it. `tail` is what stands behind the last whole record.
    """

    def __init__(self, chunks: Iterable[bytes], path: str) -> None:
        self.table = Table()
        self.size = self.records = 0
        self.damage: Spot | None = None
        self.behind = 0
        """Whole records from the damage on."""
        self.dropped = 0
        """Bytes that a repair leaves out."""
        self.broken_lines: set[int] = set()
        self.missing = 0
        """How many records are not there, to go by the numbers of the others."""
        self._path = path
        self._kept: list[Kept] = []
        self._seen: set[tuple[int, bytes]] = set()
        self._highest = -1
        self._title: tuple[bytes, Record] | None = None
        self._compacted = 0
        self._last_loss = -1
        self._doubt: Spot | None = None  # it is damage, if a whole record follows
        self._loose: list[Broken] = []
        last = b""
        for piece in pieces(chunks):
            self._take(piece)
            last = piece.text
        if self._loose and was_whole(last):  # no crash leaves such a record
            self.damage = self.damage or self._doubt
            self._lose()
        self.tail = self._what_is_loose()

    @property
    def affected(self) -> list[Entry]:
        """Unfinished jobs whose end may have stood in what was lost."""
        return [entry for entry in self.table.unfinished if entry.last < self._last_loss]

    def _take(self, piece: Piece) -> None:
        size = len(piece.text)
        self.size += size
        if piece.why and self._doubt is None:
            self._doubt = Spot(piece.offset, piece.line, piece.why)
        if piece.record is None:
            self._loose.append(Broken(piece.offset, size, piece.line))
            self.dropped += size
        else:
            self._take_whole(piece, piece.record)

    def _take_whole(self, piece: Piece, record: Record) -> None:
        self.records += 1
        self._check_order(piece, record["seq"], is_title=record["kind"] == TITLE)
        self.damage = self.damage or self._doubt
        self.behind += self.damage is not None
        self._lose()
        mark = record["seq"], piece.text[-SEAL_SIZE:-1]
        if mark in self._seen:
            self.dropped += len(piece.text)  # written twice: it must not happen twice
        elif record["kind"] == TITLE:
            self._take_title(piece, record)
        else:
            self._keep(piece, record)
        self._seen.add(mark)

    def _lose(self) -> None:
        """What was loose is no torn end."""
        for broken in self._loose:
            self.broken_lines.add(broken.line)
            self._last_loss = max(self._last_loss, broken.offset)
        self._loose.clear()

    def _check_order(self, piece: Piece, seq: int, *, is_title: bool) -> None:
        """Find where records are missing, or come twice; the rule is that of `Reading`."""
        last = self._highest
        if last < 0:
            why = "" if is_title and seq == 0 else "its first record is missing"
        elif seq == last + 1 or last < seq <= self._compacted + 1:
            why = ""
        else:
            why = f"record {seq} follows record {last}"
        if why and self._doubt is None:
            self._doubt = Spot(piece.offset, piece.line, why)
        if why and seq > last + 1:
            self._last_loss = piece.offset
            self.missing += seq - last - 1
        self._highest = max(seq, last)

    def _take_title(self, piece: Piece, record: Record) -> None:
        line = piece.text[:-1] + b"\n"
        for _ in Reading([line], self._path):  # which refuses a newer format
            pass
        if self._title is None and not self._kept:
            self._title, self._compacted = (line, record), record["compacted"]
        else:
            self.dropped += len(piece.text)  # of another journal, glued to this one

    def _keep(self, piece: Piece, record: Record) -> None:
        self.table.note(record, piece.offset)
        last = self._kept[-1].seq if self._kept else 0
        self._kept.append(Kept(piece.offset, len(piece.text), max(record["seq"], last + 1)))

    def _what_is_loose(self) -> Tail | None:
        if not self._loose:
            return None
        offset = self._loose[0].offset
        return Tail(offset, self.size - offset)

    # Repair

    def repaired(self, read: Callable[[int, int], bytes], now: float) -> Iterator[bytes]:
        """Yield the lines of a journal that has all whole records of this one.

        They are as they were, but for numbers that would run backwards. `read` returns bytes of
        the damaged journal, by offset and size.
        """
        yield self._new_title(now)
        for offset, size, seq in self._kept:
            line = read(offset, size)[:-1] + b"\n"
            yield line if line.startswith(b'{"seq":%d,' % seq) else _renumbered(line, seq)

    def _new_title(self, now: float) -> bytes:
        """Return a title that allows for the gaps; the old one, if that does."""
        compacted, last = self._compacted, 0
        for kept in self._kept:
            if kept.seq != last + 1:
                compacted = max(compacted, kept.seq - 1)
            last = kept.seq
        if self._title is None:
            return seal(0, records.title(compacted, now))
        line, record = self._title
        if compacted == record["compacted"]:
            return line
        return seal(0, records.title(compacted, record["time"]))


def _renumbered(line: bytes, seq: int) -> bytes:
    body = line[line.index(b",") + 1 : -SEAL_SIZE]
    return seal(seq, body.decode())
