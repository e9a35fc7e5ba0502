"""What was written is there after a reopening, and whoever ran when the owner died is charged."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from asyncpool.errors import JournalCorrupt, JournalWriteError
from asyncpool.journal import records
from asyncpool.journal.ledger import Ledger, Note
from asyncpool.journal.options import Journal

from .failing import LazyDisk
from .notes import CLOSED, finished, requeued, retried, sent, submitted


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


def journal(path: str) -> Journal:
    return Journal(path, _disk=LazyDisk())


def write(path: str, notes: Sequence[Note]) -> None:
    """Open the journal, write the notes, and leave as one who dies."""
    with closing(Ledger.open(journal(path))) as ledger:
        ledger.write(notes, sync=True)


def charges(path: str) -> dict[str, tuple[int, int]]:
    """Return what a new owner finds: crashes and errors of each unfinished job."""
    with closing(Ledger.open(journal(path))) as ledger:
        return {key: (job.crashes, job.errors) for key, job in ledger.index.unfinished.items()}


# Replay


def test_what_was_written_is_there(path: str) -> None:
    write(path, [submitted("a", payload=b"A"), submitted("b", named=True), submitted("c")])
    write(path, [retried("a", crashes=2, errors=1), finished("b", b"B", time=6.0)])
    with closing(Ledger.open(journal(path))) as ledger:
        assert list(ledger.index.unfinished) == ["a", "c"]
        job = ledger.index.unfinished["a"]
        assert (job.crashes, job.errors) == (2, 1)
        assert [ledger.read(line)["kind"] for line in job.lines] == ["submitted", "retried"]
        assert records.unpacked(ledger.read(job.submitted)["payload"]) == b"A"
        ended = ledger.index.finished["b"]
        assert (ended.named, ended.time) == (True, 6.0)
        both = ledger.read_end("b")
        assert both is not None
        assert [record["kind"] for record in both] == ["submitted", "finished"]
        assert records.unpacked(both[1]["payload"]) == b"B"
        assert ledger.read_end("a") is None
        assert ledger.read_end("unknown") is None


def test_it_is_the_same_before_and_after_a_reopening(path: str) -> None:
    notes = [submitted("a"), submitted("b"), sent("a", "b", worker=1), finished("a"), CLOSED]
    with closing(Ledger.open(journal(path))) as ledger:
        ledger.write(notes, sync=False)
        before = ledger.index
    with closing(Ledger.open(journal(path))) as ledger:
        after = ledger.index
        assert ledger.size == os.path.getsize(path)
    assert after.live == before.live
    assert {k: v.lines for k, v in after.unfinished.items()} == {
        k: v.lines for k, v in before.unfinished.items()
    }
    assert {k: v.lines for k, v in after.finished.items()} == {
        k: v.lines for k, v in before.finished.items()
    }


@pytest.mark.parametrize("times", [(1e11, 5.0), (-1e9, 0.0), (5.0, 1e11)])
def test_what_the_clock_said_does_not_matter(path: str, times: tuple[float, float]) -> None:
    before, after = times
    write(
        path,
        [
            *(submitted("a"), sent("a", worker=1, time=before), finished("a", time=after)),
            *(submitted("b"), sent("b", worker=1, time=after)),
            *(submitted("c"), sent("c", worker=2, time=before)),
        ],
    )
    assert charges(path) == {"b": (1, 0), "c": (1, 0)}


def test_a_torn_record_is_cut_off_wherever_it_was_torn(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, [submitted("a"), submitted("b")])
    whole = os.path.getsize(path)
    write(path, [submitted("torn", payload=b"x" * 20)])
    data = Path(path).read_bytes()
    for cut in range(whole, len(data)):
        nuls = cut % 3
        Path(path).write_bytes(data[:cut] + bytes(nuls))
        write(path, [submitted("new")])
        assert list(charges(path)) == ["a", "b", "new"]
        end = data.rindex(b"\n", 0, cut) + 1
        told = [text for text in caplog.messages if "never acknowledged" in text]
        if cut + nuls == end:
            assert told == []
        else:
            [text] = told
            assert f"ended in {cut + nuls - end} bytes" in text
            assert f"at byte {end}: " in text
        caplog.clear()


def test_damage_leaves_the_file_as_it_is(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "asyncpool")
    write(path, [submitted("a"), submitted("b")])
    data = Path(path).read_bytes()
    broken = data.replace(b'"id":"a"', b'"id":"x"')
    Path(path).write_bytes(broken)
    with pytest.raises(JournalCorrupt) as caught:
        Ledger.open(journal(path))
    assert caught.value.offset == data.rindex(b"\n", 0, data.index(b'"id":"a"')) + 1
    assert Path(path).read_bytes() == broken
    Path(path).write_bytes(data)
    assert list(charges(path)) == ["a", "b"]


def test_one_who_only_looks_notes_nothing(path: str) -> None:
    write(path, [submitted("a"), sent("a", worker=1)])
    before = Path(path).read_bytes()
    with closing(Ledger.open_as_it_is(journal(path))) as ledger:
        assert list(ledger.index.unfinished) == ["a"]
        assert [found[0] for found in ledger.index.running()] == ["a"]
    assert Path(path).read_bytes() == before


def test_one_who_only_looks_makes_no_journal(path: str) -> None:
    with pytest.raises(JournalWriteError) as caught:
        Ledger.open_as_it_is(journal(path))
    assert caught.value.errno == errno.ENOENT
    assert not os.path.exists(path)


def test_a_record_that_somebody_changed_is_not_given(path: str) -> None:
    with closing(Ledger.open(journal(path))) as ledger:
        ledger.write([submitted("a"), finished("a", b"the result")], sync=True)
        data = Path(path).read_bytes()
        with open(path, "r+b") as file:
            file.write(data.replace(b'"done"', b'"DONE"'))
        with pytest.raises(JournalWriteError, match="was changed by another program"):
            ledger.read_end("a")


# Charges


def test_only_what_a_worker_had_begun_for_sure_is_charged(path: str) -> None:
    jobs = [submitted(key) for key in "abcd"]
    write(path, [*jobs, sent("a", "b", worker=1), sent("c", worker=2, pid=78)])
    assert charges(path) == {"a": (0, 0), "b": (0, 0), "c": (1, 0), "d": (0, 0)}


def test_the_others_are_to_run_alone_next_time(path: str) -> None:
    jobs = [submitted(key) for key in "abcd"]
    write(path, [*jobs, sent("a", "b", worker=1), sent("c", worker=2, pid=78)])
    with closing(Ledger.open(journal(path))) as ledger:
        ledger.compact()
        alone = [key for key, job in ledger.index.unfinished.items() if job.alone]
    assert alone == ["a", "b"]


def test_a_charge_is_told_as_an_attempt(path: str) -> None:
    write(path, [submitted("a"), retried("a", crashes=1, errors=1)])
    write(path, [sent("a", worker=3, pid=99, time=7.5)])
    with closing(Ledger.open(journal(path))) as ledger:
        job = ledger.index.unfinished["a"]
        charge = ledger.read(job.retries[-1])
    assert (job.crashes, job.errors) == (2, 1)
    assert (charge["kind"], charge["crashes"], charge["errors"]) == ("retried", 2, 1)
    number, pid, started_at, ended_at, outcome = charge["attempt"]
    assert (number, pid, started_at, outcome) == (2, 99, 7.5, "crashed")
    assert ended_at == charge["time"]


def test_it_is_charged_once(path: str) -> None:
    write(path, [submitted("a"), sent("a", worker=1)])
    for _ in range(3):
        assert charges(path) == {"a": (1, 0)}
    write(path, [sent("a", worker=1)])
    for _ in range(3):
        assert charges(path) == {"a": (2, 0)}


@pytest.mark.parametrize(
    "then",
    [
        [CLOSED],
        [requeued("a"), requeued("b")],
        [requeued("b"), requeued("a"), CLOSED],
        [finished("a"), requeued("b")],
    ],
)
def test_an_orderly_end_charges_nobody(path: str, then: list[Note]) -> None:
    write(path, [submitted("a"), submitted("b"), sent("a", "b", worker=1), *then])
    assert set(charges(path).values()) == {(0, 0)}


def test_it_is_the_turn_of_the_next_when_the_first_has_ended(path: str) -> None:
    write(path, [submitted("a"), submitted("b"), sent("a", "b", worker=1)])
    with closing(Ledger.open_as_it_is(journal(path))) as ledger:
        ledger.write([retried("a", crashes=0, errors=1)], sync=True)
    assert charges(path) == {"a": (0, 1), "b": (1, 0)}


def test_charges_that_were_torn_apart_charge_nobody_else(path: str) -> None:
    write(path, [submitted(key) for key in "abcd"])
    with closing(Ledger.open(journal(path))) as ledger:
        ledger.write([sent("a", worker=1), sent("c", worker=2)], sync=True)
    before = os.path.getsize(path)
    assert charges(path) == {"a": (1, 0), "b": (0, 0), "c": (1, 0), "d": (0, 0)}
    data = Path(path).read_bytes()
    for cut in range(before, len(data)):
        Path(path).write_bytes(data[:cut])
        found = charges(path)
        assert (found["b"], found["d"]) == ((0, 0), (0, 0)), f"cut at {cut}"
        assert {found["a"], found["c"]} <= {(0, 0), (1, 0)}
