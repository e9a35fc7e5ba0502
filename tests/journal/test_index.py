"""The index knows what matters of a journal, whether it was read or is being written."""

from __future__ import annotations

from typing import Any

import pytest

from asyncpool.journal import index as index_module
from asyncpool.journal.index import Index


def record(kind: str, id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"seq": 1, "kind": kind, "id": id, "time": 1.0, **fields}


def entangled(index: Index) -> list[str]:
    names = {id(job): key for key, job in index.unfinished.items()}
    return [names[id(job)] for job in index.entangled()]


def running(index: Index) -> list[tuple[str, int, float]]:
    return [(key, pid, sent_at) for key, _, pid, sent_at in index.running()]


def with_jobs(*ids: str) -> Index:
    index = Index()
    for number, key in enumerate(ids):
        index.submitted(key, False, (100 * number, 100))
    return index


@pytest.fixture
def two_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "UNNAMED_KEPT", 2)


def test_from_submission_to_end() -> None:
    index = Index()
    index.submitted("a", True, (10, 5))
    assert index.unfinished["a"].lines == ((10, 5),)
    index.sent("a", 3, 77, 2.5)
    assert running(index) == [("a", 77, 2.5)]
    index.ended("a", 9.0, (20, 7))
    assert index.unfinished == {}
    assert running(index) == []
    ended = index.finished["a"]
    assert (ended.lines, ended.named, ended.time) == (((10, 5), (20, 7)), True, 9.0)
    assert index.live == 12


def test_records_say_the_same() -> None:
    index = Index()
    index.note(record("submitted"), (10, 5))
    index.note(record("submitted", "b", named=True), (20, 5))
    index.note(record("sent", ids=["a"], worker=3, pid=77), (30, 5))
    index.note(record("sent", ids=["b"], worker=4, pid=78), (40, 5))
    assert running(index) == [("a", 77, 1.0), ("b", 78, 1.0)]
    index.note(record("retried", crashes=1, errors=2), (50, 5))
    index.note(record("requeued", "b"), (60, 5))
    assert running(index) == []
    job = index.unfinished["a"]
    assert (job.lines, job.crashes, job.errors) == (((10, 5), (50, 5)), 1, 2)
    index.note(record("finished", "b"), (70, 5))
    assert index.finished["b"].named
    assert not index.unfinished["a"].named


@pytest.mark.parametrize("kind", ["closed", "opened"])
def test_an_owner_that_closed_or_opened_left_nothing_running(kind: str) -> None:
    index = with_jobs("a")
    index.sent("a", 3, 77, 2.5)
    index.note({"seq": 5, "kind": kind, "time": 1.0, "pid": 1}, (500, 5))
    assert running(index) == []
    assert list(index.unfinished) == ["a"]


@pytest.mark.parametrize("kind", ["title", "a kind of a later version"])
def test_other_records_change_nothing(kind: str) -> None:
    index = with_jobs("a")
    index.sent("a", 3, 77, 2.5)
    index.note(record(kind), (500, 5))
    assert running(index) == [("a", 77, 2.5)]
    assert index.live == 100


def test_of_several_at_one_worker_any_may_have_been_running() -> None:
    index = with_jobs("a", "b", "c")
    for time, key in enumerate("abc"):
        index.sent(key, 3, 77, float(time))
    assert (running(index), entangled(index)) == ([], ["a", "b", "c"])
    index.ended("a", 5.0, (900, 9))
    assert (running(index), entangled(index)) == ([], ["b", "c"])
    index.requeued("b")
    assert (running(index), entangled(index)) == ([("c", 77, 2.0)], [])
    index.sent("b", 3, 77, 6.0)
    assert (running(index), entangled(index)) == ([], ["c", "b"])


def test_each_worker_speaks_for_itself() -> None:
    index = with_jobs("a", "b", "c")
    index.sent("a", 3, 77, 1.0)
    index.sent("b", 4, 78, 1.0)
    index.sent("c", 4, 78, 1.0)
    assert (running(index), entangled(index)) == ([("a", 77, 1.0)], ["b", "c"])


def test_sent_again_it_is_no_longer_where_it_was() -> None:
    # That it came back was not written, as the disk was full.
    index = with_jobs("a", "b")
    index.sent("a", 3, 77, 1.0)
    index.sent("b", 3, 77, 1.0)
    index.sent("a", 4, 78, 2.0)
    assert running(index) == [("b", 77, 1.0), ("a", 78, 2.0)]
    index.ended("a", 3.0, (900, 9))
    assert running(index) == [("b", 77, 1.0)]


def test_sent_to_the_same_worker_again_it_is_the_last() -> None:
    index = with_jobs("a", "b")
    index.sent("a", 3, 77, 1.0)
    index.sent("b", 3, 77, 1.0)
    index.sent("a", 3, 77, 2.0)
    assert (running(index), entangled(index)) == ([], ["b", "a"])


def test_submitted_again_it_is_with_no_worker() -> None:
    # The end of the first was not written, as the disk was full.
    index = with_jobs("a")
    index.sent("a", 3, 77, 1.0)
    index.submitted("a", False, (500, 50))
    assert running(index) == []
    assert index.live == 50
    index.ended("a", 3.0, (900, 9))
    assert running(index) == []
    assert index.live == 59


def test_an_end_needs_no_attempts_beside_it() -> None:
    index = with_jobs("a")
    index.retried("a", 1, 0, (200, 40))
    index.retried("a", 1, 1, (300, 40))
    assert index.live == 180
    index.ended("a", 3.0, (900, 9))
    assert index.live == 109
    assert index.finished["a"].lines == ((0, 100), (900, 9))


@pytest.mark.parametrize("kind", ["sent", "requeued", "retried", "finished"])
def test_what_is_told_of_an_unknown_job_is_nothing(kind: str) -> None:
    index = Index()
    index.note(record(kind, ids=["a"], worker=1, pid=2, crashes=1, errors=1), (0, 9))
    assert (index.unfinished, index.finished, running(index), index.live) == ({}, {}, [], 0)


def test_ended_twice_the_first_counts() -> None:
    index = with_jobs("a")
    index.ended("a", 1.0, (100, 9))
    index.ended("a", 2.0, (200, 9))
    assert index.finished["a"].time == 1.0
    assert index.live == 109


@pytest.mark.usefixtures("two_kept")
def test_the_last_of_the_unnamed_are_kept() -> None:
    index = with_jobs("a", "b", "c")
    for key in "cab":
        index.ended(key, 1.0, (900, 9))
    assert list(index.finished) == ["a", "b"]
    assert index.live == 2 * 109


@pytest.mark.usefixtures("two_kept")
def test_named_ones_are_kept_beside_them() -> None:
    index = Index()
    for number in range(5):
        index.submitted(f"named {number}", True, (number, 100))
        index.ended(f"named {number}", float(number), (number, 9))
    assert len(index.finished) == 5
    index.forget_before(3.0)
    assert list(index.finished) == ["named 3", "named 4"]
    assert index.live == 2 * 109


@pytest.mark.usefixtures("two_kept")
def test_an_id_that_was_used_again_is_as_old_as_its_last_use() -> None:
    index = with_jobs("a", "b", "c")
    index.ended("a", 1.0, (900, 9))
    index.ended("b", 2.0, (900, 9))
    index.submitted("a", False, (300, 100))
    index.ended("a", 3.0, (900, 9))
    index.ended("c", 4.0, (900, 9))
    assert list(index.finished) == ["a", "c"]


@pytest.mark.usefixtures("two_kept")
def test_an_id_that_was_used_again_as_a_name_is_kept() -> None:
    index = with_jobs("a", "b", "c")
    index.ended("a", 1.0, (900, 9))
    index.submitted("a", True, (300, 100))
    index.ended("a", 3.0, (900, 9))
    index.ended("b", 4.0, (900, 9))
    index.ended("c", 5.0, (900, 9))
    assert list(index.finished) == ["a", "b", "c"]


def test_age_is_not_for_the_unnamed() -> None:
    index = with_jobs("a")
    index.ended("a", 1.0, (900, 9))
    index.forget_before(100.0)
    assert list(index.finished) == ["a"]


def test_moved_to_another_file() -> None:
    index = with_jobs("a", "b")
    index.retried("a", 1, 2, (200, 40))
    index.sent("a", 3, 77, 5.0)
    index.ended("b", 7.0, (300, 9))
    moved = index.moved(
        {(0, 100): (1, 100), (200, 40): (2, 40), (100, 100): (3, 100), (300, 9): (4, 9)}
    )
    job, ended = moved.unfinished["a"], moved.finished["b"]
    assert (job.lines, job.crashes, job.errors) == (((1, 100), (2, 40)), 1, 2)
    assert (ended.lines, ended.time, ended.named) == (((3, 100), (4, 9)), 7.0, False)
    assert running(moved) == [("a", 77, 5.0)]
    assert moved.live == index.live
    assert index.unfinished["a"].lines == ((0, 100), (200, 40))


@pytest.mark.usefixtures("two_kept")
def test_what_was_moved_is_still_forgotten_in_its_turn() -> None:
    index = with_jobs("a", "b", "c")
    index.ended("a", 1.0, (900, 9))
    index.ended("b", 2.0, (900, 9))
    lines = [line for job in index.finished.values() for line in job.lines]
    lines += index.unfinished["c"].lines
    moved = index.moved({line: line for line in lines})
    moved.ended("c", 3.0, (900, 9))
    assert list(moved.finished) == ["b", "c"]
    assert moved.live == 2 * 109
