"""Damage of any kind, anywhere: a repair keeps all that it left whole."""

from __future__ import annotations

import stat
from contextlib import redirect_stdout
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncpool.errors import JournalCorrupt
from asyncpool.journal.reading import Reading
from asyncpool.journal.survey import Survey

from . import sample
from .sample import accepted, run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "jobs.log"
    sample.a_day(path)
    return path.read_bytes()


def after_repair(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> list[bytes]:
    """Repair a journal of these bytes, check the copy, and return the lines without the title."""
    path = tmp_path_factory.mktemp("repair") / "jobs.log"
    path.write_bytes(data)
    path.chmod(0o600)
    with redirect_stdout(StringIO()):
        assert run("repair", path) == 0
    copy = path.with_name("jobs.log.damaged-1")
    if copy.exists():
        assert copy.read_bytes() == data
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    else:
        assert path.read_bytes() == data
    assert {path, copy} >= set(path.parent.iterdir())
    return accepted(path.read_bytes())[1:]


def outside(whole: bytes, start: int, end: int) -> list[bytes]:
    """Return the lines of a journal, without its title, that have no byte in that range."""
    found, offset = [], 0
    for line in whole.splitlines(keepends=True):
        if offset and (offset + len(line) <= start or offset >= end):
            found.append(line)
        offset += len(line)
    return found


def check_kept(whole: bytes, start: int, end: int, found: list[bytes]) -> None:
    """All that was not hit is there, byte by byte and in its order, and nothing new is."""
    expected = outside(whole, start, end)
    assert [line for line in found if line in expected] == expected
    assert set(found) <= set(whole.splitlines(keepends=True))


places = st.integers(0, 1 << 20)


@given(place=places, bit=st.integers(0, 7))
def test_a_changed_bit_costs_one_record_at_most(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, place: int, bit: int
) -> None:
    data = bytearray(whole)
    place %= last_line(whole)
    data[place] ^= 1 << bit
    check_kept(whole, place, place + 1, after_repair(tmp_path_factory, bytes(data)))


@given(start=places, size=st.integers(1, 600), filling=st.sampled_from([b"", b"\0", b"x", b"\n"]))
def test_a_hole_costs_what_it_hits(
    tmp_path_factory: pytest.TempPathFactory,
    whole: bytes,
    start: int,
    size: int,
    filling: bytes,
) -> None:
    start %= last_line(whole)
    end = min(start + size, last_line(whole))
    data = whole[:start] + filling * (end - start) + whole[end:]
    check_kept(whole, start, end, after_repair(tmp_path_factory, data))


def last_line(whole: bytes) -> int:
    """Return where the last line begins: with damage behind that, a journal has a torn tail."""
    return whole.rindex(b"\n", 0, -1) + 1


@given(st.lists(st.tuples(places, st.sampled_from(["cut", "double", "junk", "zeros"])), max_size=4))
def test_a_survey_and_a_reading_agree(whole: bytes, harms: list[tuple[int, str]]) -> None:
    data = whole
    for place, harm in harms:
        at = place % (len(data) + 1)
        end = at + place % 400
        data = {
            "cut": data[:at] + data[end:],
            "double": data[:end] + data[at:],
            "junk": data[:at] + b"junk" + data[at:],
            "zeros": data[:at] + b"\0" * len(data[at:end]) + data[end:],
        }[harm]
    survey = Survey([data], "jobs.log")
    reading = Reading([data], "jobs.log")
    refused = _refused_at(reading)
    if refused is not None:
        assert (0 if survey.damage is None else survey.damage.offset) == refused
        assert survey.damage is not None or not survey.records
    elif survey.damage is None:
        assert survey.tail == reading.tail
    else:  # whole records stand in what would be cut off
        assert reading.tail is not None
        assert survey.damage.offset >= reading.tail.offset
    assert survey.size == len(data)


def _refused_at(reading: Reading) -> int | None:
    try:
        for _ in reading:
            pass
    except JournalCorrupt as error:
        return error.offset
    return None
