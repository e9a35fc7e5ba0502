"""Reading a journal: good records, a torn tail and damage are told apart.

A crash leaves a tail: a record that was not written whole, or blocks of NULs that the file system
had promised. Nothing good can follow it. So what is broken with no good record behind it is a
tail, which was never acknowledged; what is broken in front of a good record is damage. So is a
line that was written to its newline and holds no NULs: no crash leaves such a one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..errors import JournalCorrupt, JournalError
from .lines import Record, unseal

TITLE = "asyncpool journal"
FORMAT = 1

_RECORD_START = b'{"seq":'
_TITLE_START = b'{"seq":0,"kind":"asyncpool journal"'

GOOD_BEHIND_BROKEN = "a record is broken, and good ones follow it"


class Line(NamedTuple):
    """A good record and where it stands; both in bytes."""

    record: Record
    offset: int
    size: int


class Tail(NamedTuple):
    """What a crash left behind the last good record."""

    offset: int
    size: int


def split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut bytes into lines, which keep their newline; the last one may have none."""
    parts: list[bytes] = []  # of a line that may span many chunks, joined once
    for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line, b"\n"))
            parts.clear()
        if rest:
            parts.append(rest)
    if parts:
        yield b"".join(parts)


class Reading:
    """Iterate over the records of a journal, title included, once.

    Afterwards `end` is the offset behind the last good record, `seq` its number (-1: none), and
    `tail` what stands there, if anything. Raises JournalCorrupt for damage and for a file that is
    no journal, JournalError for a newer format.
    """

    def __init__(self, chunks: Iterable[bytes], path: str) -> None:
        self.end = 0
        self.seq = -1
        self.tail: Tail | None = None
        self._chunks = chunks
        self._path = path
        self._compacted = 0

    def __iter__(self) -> Iterator[Line]:
        offset = 0
        for line in split(self._chunks):
            size = len(line)
            record = unseal(line)
            if record is None:
                self._broken(line, offset)
            else:
                self._check(record, offset)
                yield Line(record, offset, size)
                self.end = offset + size
            offset += size

    def _broken(self, line: bytes, offset: int) -> None:
        if self.seq < 0 and (offset or not _may_be_torn_title(line)):
            raise self.corrupt(0, "it does not begin like a journal; maybe it is something else")
        if self.tail is None:
            self.tail = Tail(offset, 0)
        self.tail = Tail(self.tail.offset, offset + len(line) - self.tail.offset)
        if _ends_in_record(line):
            raise self.corrupt(self.tail.offset, GOOD_BEHIND_BROKEN)
        if was_whole(line):
            raise self.corrupt(self.tail.offset, "a record is broken, though it was written whole")

    def _check(self, record: Record, offset: int) -> None:
        if self.tail is not None:
            raise self.corrupt(self.tail.offset, GOOD_BEHIND_BROKEN)
        seq = record["seq"]
        if self.seq < 0:
            self._check_title(record)
        elif not (seq == self.seq + 1 or self.seq < seq <= self._compacted + 1):
            raise self.corrupt(offset, f"record {seq} follows record {self.seq}")
        self.seq = seq

    def _check_title(self, record: Record) -> None:
        if record["kind"] != TITLE or record["seq"] != 0:
            raise self.corrupt(0, "its first record is missing")
        if record["format"] != FORMAT:
            raise JournalError(
                f"journal {self._path} has format {record['format']}, and this version of "
                f"asyncpool knows {FORMAT}: use the version that wrote it, or a newer one"
            )
        self._compacted = record["compacted"]

    def corrupt(self, offset: int, why: str) -> JournalCorrupt:
        """Return the error for a record that is not what this package writes."""
        return JournalCorrupt(
            f"journal {self._path} is damaged at byte {offset}: {why}. It was left as it is; "
            f"`asyncpool journal verify` tells more",
            path=self._path,
            offset=offset,
        )


def was_whole(line: bytes) -> bool:
    """Whether a broken line was written to its end once."""
    return line.endswith(b"\n") and b"\0" not in line and line != b"\n"


def _ends_in_record(line: bytes) -> bool:
    # A newline that was lost hides the record behind it. In texts, JSON escapes the quotes.
    start = line.rfind(_RECORD_START)
    return start > 0 and unseal(line[start:]) is not None


def _may_be_torn_title(line: bytes) -> bool:
    # Or else it is somebody's file, which must not be cut off: "{" and a newline begin many.
    return line.startswith(_TITLE_START) or _TITLE_START.startswith(line.rstrip(b"\0"))
