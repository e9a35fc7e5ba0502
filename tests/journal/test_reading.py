"""Reading tells good records, a torn tail and damage apart, wherever a file was cut or changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncpool.errors import JournalCorrupt, JournalError
from asyncpool.journal import records
from asyncpool.journal.lines import Record, seal
from asyncpool.journal.reading import Line, Reading, Tail

PATH = "/some/where/jobs.log"

# Other versions may write text as it is; one character of three bytes, one of four.
TEXTS = ["plain", "漢", "🦆"]


def lines_of(*bodies: str, compacted: int = 0) -> list[bytes]:
    """Return the lines of a journal with its title, numbered as they come."""
    return [seal(seq, body) for seq, body in enumerate([records.title(compacted, 1.0), *bodies])]


SOME = lines_of(*(f'"kind":"test","text":"{text}","more":"{"x" * 5}"' for text in TEXTS))
JOURNAL = b"".join(SOME)


def read(data: bytes) -> tuple[list[Line], Reading]:
    return read_chunks([data])


def read_chunks(chunks: Iterable[bytes]) -> tuple[list[Line], Reading]:
    reading = Reading(chunks, PATH)
    return list(reading), reading


def corrupt_at(data: bytes) -> int:
    """Return the offset of the damage that is found."""
    with pytest.raises(JournalCorrupt, match=rf"{PATH}.* at byte \d+") as caught:
        read(data)
    assert caught.value.path == PATH
    assert f"at byte {caught.value.offset}:" in str(caught.value)
    return caught.value.offset


def chopped(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        yield data[start:end]


# What is whole


def test_all_records_and_where_they_stand() -> None:
    got, reading = read(JOURNAL)
    assert [line.record["seq"] for line in got] == [0, 1, 2, 3]
    assert [line.record["text"] for line in got[1:]] == TEXTS
    assert [JOURNAL[at : at + size] for _, at, size in got] == SOME
    assert (reading.end, reading.seq, reading.tail) == (len(JOURNAL), 3, None)


def test_an_empty_file_is_a_new_journal() -> None:
    for chunks in ([], [b""]):
        got, reading = read_chunks(chunks)
        assert (got, reading.end, reading.seq, reading.tail) == ([], 0, -1, None)


def test_byte_by_byte() -> None:
    torn = JOURNAL + SOME[1][:9]
    got, reading = read_chunks(bytes([byte]) for byte in torn)
    assert got == read(torn)[0]
    assert (reading.end, reading.seq, reading.tail) == (len(JOURNAL), 3, Tail(len(JOURNAL), 9))


@given(
    st.lists(st.integers(0, len(JOURNAL)), max_size=20),
    st.sampled_from([b"", b"\0", b"\n", b"{", SOME[1][:40], b"\0" * 200]),
)
def test_however_the_file_is_chopped(cuts: list[int], tail: bytes) -> None:
    got, reading = read_chunks(chopped(JOURNAL + tail, cuts))
    assert got == read(JOURNAL)[0]
    assert reading.tail == (Tail(len(JOURNAL), len(tail)) if tail else None)


def test_a_line_that_spans_many_chunks() -> None:
    big = seal(4, '"kind":"test","text":"' + "x" * 10_000 + '"')
    got, _ = read_chunks(chopped(JOURNAL + big, list(range(0, 12_000, 7))))
    assert got[-1].size == len(big)


# What a crash leaves


@pytest.mark.parametrize("nuls", [0, 1, 2, 511, 512, 5000])
def test_cut_at_any_byte(nuls: int) -> None:
    every = read(JOURNAL)[0]
    for cut in range(len(SOME[0]), len(JOURNAL)):
        whole = [line for line in every if line.offset + line.size <= cut]
        end = sum(line.size for line in whole)
        got, reading = read(JOURNAL[:cut] + bytes(nuls))
        assert got == whole
        assert (reading.end, reading.seq) == (end, whole[-1].record["seq"])
        left = cut - end + nuls
        assert reading.tail == (Tail(end, left) if left else None)


@given(st.integers(1, 5000), st.booleans())
def test_blocks_of_nuls_behind_the_last_record(nuls: int, glued: bool) -> None:
    # A newline of a later write may have reached the disk, and what is before it not.
    got, reading = read(JOURNAL + bytes(nuls) + b"\n" * glued)
    assert len(got) == len(SOME)
    assert reading.tail == Tail(len(JOURNAL), nuls + glued)


@pytest.mark.parametrize("nuls", [0, 1, 600])
def test_a_title_cut_at_any_byte_is_a_new_journal(nuls: int) -> None:
    for cut in range(len(SOME[0])):
        got, reading = read(SOME[0][:cut] + bytes(nuls))
        assert (got, reading.end, reading.seq) == ([], 0, -1)
        assert reading.tail == (Tail(0, cut + nuls) if cut + nuls else None)


def test_several_broken_lines_at_the_end_are_one_tail() -> None:
    rest = bytes(40) + SOME[2][40:] + bytes(60) + SOME[3][60:] + b"half"
    got, reading = read(b"".join(SOME[:2]) + rest)
    assert len(got) == 2
    assert reading.tail == Tail(len(SOME[0] + SOME[1]), len(rest))


# Damage


def test_a_changed_byte_before_the_last_record() -> None:
    every = read(JOURNAL)[0]
    for at in range(every[-1].offset):
        broken = bytearray(JOURNAL)
        broken[at] ^= 0x20
        start = max(line.offset for line in every if line.offset <= at)
        assert corrupt_at(bytes(broken)) == start


def test_a_changed_byte_in_the_last_record_was_not_torn_by_a_crash() -> None:
    start = len(JOURNAL) - len(SOME[3])
    for at in range(start, len(JOURNAL) - 1):
        assert corrupt_at(JOURNAL[:at] + b"?" + JOURNAL[at + 1 :]) == start


def test_nuls_between_records() -> None:
    assert corrupt_at(SOME[0] + bytes(512) + SOME[1]) == len(SOME[0])


def test_a_missing_line() -> None:
    assert corrupt_at(SOME[0] + SOME[2] + SOME[3]) == len(SOME[0])
    assert corrupt_at(SOME[0] + SOME[1] + SOME[3]) == len(SOME[0] + SOME[1])


def test_a_missing_title() -> None:
    assert corrupt_at(b"".join(SOME[1:])) == 0


def test_a_line_that_stands_twice() -> None:
    assert corrupt_at(SOME[0] + SOME[1] + SOME[1] + SOME[2]) == len(SOME[0] + SOME[1])
    assert corrupt_at(SOME[0] + SOME[0] + SOME[1]) == len(SOME[0])


def test_lines_in_another_order() -> None:
    assert corrupt_at(SOME[0] + SOME[2] + SOME[1] + SOME[3]) == len(SOME[0])


# Other files


@pytest.mark.parametrize(
    "data",
    [
        b"Dear diary,\ntoday I wrote a journal.\n",
        b"\n",
        b"\n\nA text that begins with empty lines.\n",
        b'{\n  "name": "a pretty-printed object"\n}\n',
        b'{"seq":1,"kind":"submitted"}\n{"seq":2,"kind":"finished"}\n',
        b'{"seq":0,"kind":"another journal"}\n',
        b"{}\n",
        b"\x7fELF\x02\x01\x01" + bytes(9) + b"\n" + bytes(300),
        b"\0\0\0\n",
        bytes(512) + b"a disk whose first block is empty",
        bytes(512) + b"\n" + SOME[1],
        b'{"seq":0,"kind":"asyncpool journal"' + bytes(9) + b"}\nand more",
    ],
)
def test_the_file_of_another_program(data: bytes) -> None:
    assert corrupt_at(data) == 0


def test_only_nuls_are_a_title_that_was_promised() -> None:
    got, reading = read(bytes(4096))
    assert (got, reading.end, reading.tail) == ([], 0, Tail(0, 4096))


def test_a_newer_format_is_not_damage() -> None:
    title = records.title(0, 1.0).replace('"format":1', '"format":2')
    with pytest.raises(
        JournalError, match=r"has format 2.*knows 1: use the version that"
    ) as caught:
        read(seal(0, title) + SOME[1])
    assert not isinstance(caught.value, JournalCorrupt)
    assert PATH in str(caught.value)


def test_another_first_record() -> None:
    assert corrupt_at(seal(0, '"kind":"closed"')) == 0
    assert corrupt_at(seal(7, records.title(0, 1.0))) == 0


# After a compaction, numbers are missing up to the one that the title tells


def numbered(*seqs: int, compacted: int) -> bytes:
    title = seal(0, records.title(compacted, 1.0))
    return title + b"".join(seal(seq, '"kind":"test"') for seq in seqs)


@pytest.mark.parametrize(
    "seqs", [(101,), (3, 101), (3, 17, 100, 101, 102), (100, 101), (1, 2, 3, 101, 102, 103)]
)
def test_gaps_up_to_where_it_was_compacted(seqs: tuple[int, ...]) -> None:
    got, reading = read(numbered(*seqs, compacted=100))
    assert [line.record["seq"] for line in got] == [0, *seqs]
    assert (reading.seq, reading.tail) == (seqs[-1], None)


@pytest.mark.parametrize(
    ("seqs", "bad"),
    [
        ((102,), 0),
        ((3, 102), 1),
        ((3, 101, 103), 2),
        ((7, 3, 101), 1),
        ((7, 7), 1),
        ((101, 100), 1),
    ],
)
def test_gaps_where_there_can_be_none(seqs: tuple[int, ...], bad: int) -> None:
    lines: list[Record] = [line.record for line in read(numbered(*seqs[:bad], compacted=100))[0]]
    assert len(lines) == bad + 1
    assert corrupt_at(numbered(*seqs, compacted=100)) == len(numbered(*seqs[:bad], compacted=100))


def test_lines_stay_plain_json() -> None:
    assert [json.loads(line)["seq"] for line in JOURNAL.splitlines()] == [0, 1, 2, 3]
