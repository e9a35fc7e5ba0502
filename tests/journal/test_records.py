"""Whatever the facts of a job are, its record is JSON that says them."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncpool import raised
from asyncpool.journal import records
from asyncpool.journal.lines import Record, seal, unseal
from asyncpool.retry import Retry


class Seconds(float):
    """As numpy's floats: one of Python's by descent, and another by `repr`."""

    def __repr__(self) -> str:
        return f"Seconds({float(self)})"

    __str__ = __repr__


class Urgency(enum.IntEnum):
    HIGH = 7


def written(body: str) -> Record:
    record = unseal(seal(1, body))
    assert record is not None, body
    return record


def submitted(**changes: Any) -> Record:
    facts: dict[str, Any] = {
        "id": "a",
        "named": False,
        "fn_name": "f",
        "time": 1.0,
        "priority": 0,
        "deadline": None,
        "not_before": None,
        "timeout": None,
        "retry": Retry(),
        "function": b"f",
        "payload": b"p",
    }
    return written(records.submitted(**{**facts, **changes}))


times = st.floats(0, 1e11).map(lambda seconds: round(seconds, 3))
seconds = st.one_of(st.integers(0, 10**9), st.floats(0), st.floats(0).map(Seconds))


@given(
    st.text(),
    st.text(),
    st.one_of(st.integers(), st.booleans(), st.sampled_from(Urgency)),
    st.one_of(st.none(), seconds),
    st.one_of(st.none(), seconds),
    st.one_of(st.none(), seconds),
    st.binary(),
)
def test_a_submission_says_what_it_was_given(
    id: str,
    fn_name: str,
    priority: int,
    deadline: float | None,
    not_before: float | None,
    timeout: float | None,
    payload: bytes,
) -> None:
    record = submitted(
        id=id,
        fn_name=fn_name,
        priority=priority,
        deadline=deadline,
        not_before=not_before,
        timeout=timeout,
        payload=payload,
    )
    assert (record["id"], record["function"]) == (id, fn_name)
    assert record.get("priority", 0) == priority
    assert record.get("deadline") == deadline
    assert record.get("not_before") == not_before
    assert record.get("timeout") == timeout
    assert records.unpacked(record["call"]) == b"f"
    assert records.unpacked(record["payload"]) == payload


def test_what_is_usual_is_not_said() -> None:
    assert set(submitted()) == {
        *("seq", "kind", "id", "function", "time", "state", "call", "payload"),
    }
    assert submitted(named=True)["named"] is True


@pytest.mark.parametrize(
    "retry",
    [
        Retry(),
        Retry(max_crashes=None),
        Retry(max_crashes=7, max_errors=2, delay=0.5, factor=3, max_delay=9, jitter=False),
        Retry(delay=Seconds(1.5), max_delay=math.inf),
    ],
)
def test_a_retry_comes_back(retry: Retry) -> None:
    assert records.retry_of(submitted(retry=retry)) == (retry, None)


def test_which_errors_are_retried_is_not_loaded() -> None:
    retry = Retry(max_errors=1, on=(OSError, KeyError))
    found, on = records.retry_of(submitted(retry=retry))
    assert found == Retry(max_errors=1)
    assert on == raised.dump((OSError, KeyError))


@given(st.lists(st.text()), times)
def test_jobs_that_are_sent(ids: list[str], time: float) -> None:
    assert written(records.sent(ids, time, 3, 77)) == {
        "seq": 1,
        "kind": "sent",
        "ids": ids,
        "time": time,
        "state": "sent",
        "worker": 3,
        "pid": 77,
    }


@given(st.text(), times)
def test_a_job_that_is_back(id: str, time: float) -> None:
    assert written(records.requeued(id, time)) == {
        "seq": 1,
        "kind": "requeued",
        "id": id,
        "time": time,
        "state": "pending",
    }


@given(times, st.one_of(st.none(), times), st.one_of(st.none(), seconds))
def test_an_attempt_that_was_not_the_last(
    started_at: float, ended_at: float | None, not_before: float | None
) -> None:
    attempt = records.attempt(2, 77, started_at, ended_at, "crashed", None, 11)
    body = records.retried("a", 5.0, attempt, crashes=2, errors=1, not_before=not_before)
    record = written(body)
    assert record["attempt"] == [2, 77, started_at, ended_at, "crashed", None, 11]
    assert (record["crashes"], record["errors"]) == (2, 1)
    assert record.get("not_before") == not_before


def test_a_cause_is_only_told_if_there_is_one() -> None:
    assert records.attempt(1, 77, 2.0, 3.0, "value", None, None) == '[1,77,2.000,3.000,"value"]'


DEATH = {"exit_code": None, "signal": 11, "stack": 'File "ä.py"', "oom": None, "stderr": "\0\n"}


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (records.CANCELLED, {"outcome": "cancelled"}),
        (records.value(b"\xff"), {"outcome": "value", "payload": "/w=="}),
        (
            records.error(bytearray(b"\xff"), 'ValueError: "no"\n'),
            {"outcome": "error", "error": 'ValueError: "no"\n', "payload": "/w=="},
        ),
        (
            records.crash(DEATH, 77, 1.5),
            {"outcome": "crashed", "pid": 77, "ran_for": 1.5, "death": DEATH},
        ),
        (
            records.overrun(Seconds(2.5), DEATH, 77),
            {"outcome": "timeout", "timeout": 2.5, "pid": 77, "death": DEATH},
        ),
        (
            records.overrun(None, None, None),
            {"outcome": "timeout", "timeout": None, "pid": None, "death": None},
        ),
    ],
)
def test_an_end(outcome: str, said: dict[str, Any]) -> None:
    attempts = ",".join(records.attempt(n, 77, 1.0, 2.0, "error", None, None) for n in (1, 2))
    record = written(records.finished("a", 5.0, "failed", attempts, outcome))
    assert record == {
        "seq": 1,
        "kind": "finished",
        "id": "a",
        "time": 5.0,
        "state": "failed",
        "attempts": [[1, 77, 1.0, 2.0, "error"], [2, 77, 1.0, 2.0, "error"]],
        **said,
    }


@given(st.binary())
def test_bytes_come_back(data: bytes) -> None:
    assert records.unpacked(records.packed(data)) == data
    assert records.unpacked(records.packed(bytearray(data))) == data
