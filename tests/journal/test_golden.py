"""Journals of format 1, as they lie on users' disks: they open for ever, and with these jobs.

The files in `golden` are never written anew. Whoever changes how a record is written, so that
these tests fail, makes a format 2, and lets files of both open.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from asyncpool.dispatch import decisions
from asyncpool.jobs import JobState
from asyncpool.journal import endings, records
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.lines import Record, seal
from asyncpool.journal.options import Journal
from asyncpool.journal.reading import Reading
from asyncpool.retry import Retry

GOLDEN = Path(__file__).parent / "golden"

NOON = 1_790_000_000.0
CALL = b"\x80\x05\x8c\x06chores\x94\x8c\x05paint\x94\x93\x94."
PAYLOAD = b"\x80\x05\x8c\x05red \xc3\xa4\x94\x85\x94}\x94\x86\x94."
DEATH = {
    "exit_code": None,
    "oom": False,
    "signal": 11,
    "stack": 'File "chores.py", line 3 in paint',
    "stderr": "Fatal: \u00e4\n",
    "why": "",
}


def submitted(
    id: str,
    *,
    named: bool = False,
    priority: int = 0,
    deadline: float | None = None,
    not_before: float | None = None,
    timeout: float | None = None,
    retry: Retry = Retry(),  # noqa: B008 - frozen
    script: str | None = None,
) -> str:
    return records.submitted(
        id=id,
        named=named,
        fn_name="chores.paint",
        time=NOON + 1,
        priority=priority,
        deadline=deadline,
        not_before=not_before,
        timeout=timeout,
        retry=retry,
        function=CALL,
        payload=PAYLOAD,
        script=script,
    )


def attempt(number: int, outcome: str, *, code: int | None = None, sig: int | None = None) -> str:
    return records.attempt(number, 4003, NOON + 2, NOON + 2.5, outcome, code, sig)


def finished(id: str, state: str, outcome: str, *attempts: str) -> str:
    return records.finished(id, NOON + 3.25, state, ",".join(attempts), outcome)


ENDS = {
    "value": finished("value", "done", records.value(b"\x80\x05K*."), attempt(1, "done")),
    "error": finished(
        "error", "failed", records.error(b"\x80\x05N.", 'OSError: "\u00e4"'), attempt(1, "error")
    ),
    "crash": finished(
        *("crash", "failed", records.crash(DEATH, 4003, 0.5)),
        *(attempt(1, "crashed", code=3), attempt(2, "crashed", sig=11)),
    ),
    "timeout": finished(
        *("timeout", "failed", records.overrun(2.5, DEATH, 4003)),
        attempt(1, "timeout", sig=9),
    ),
    "deadline": finished("deadline", "failed", records.overrun(None, None, None)),
    "cancelled": finished("cancelled", "cancelled", records.CANCELLED),
}

BODIES = [
    records.title(0, NOON),
    records.opened(4000, NOON),
    *(submitted(key) for key in ENDS),
    *ENDS.values(),
    records.closed(NOON + 4),
    records.opened(4001, NOON + 5),
    submitted("plain"),
    submitted('n\u00e4med "\U0001f986"\n', named=True),
    submitted("urgent", priority=-3),
    submitted("by noon", deadline=NOON + 60.125),
    submitted("later", not_before=NOON + 30.5),
    submitted("short", timeout=2.5),
    submitted("stubborn", retry=Retry(max_crashes=None, max_errors=5, delay=0.5, jitter=False)),
    submitted("choosy", retry=Retry(max_errors=1, on=(OSError,))),
    submitted("of a script", script="/home/anna/thumbs.py"),
    records.sent(["plain", "urgent"], NOON + 6, 7, 4007),
    records.sent(["later"], NOON + 6, 8, 4008),
    records.sent(["short", "choosy"], NOON + 6, 9, 4009),
    records.requeued("later", NOON + 7),
    records.retried("plain", NOON + 8, attempt(1, "error"), crashes=0, errors=1),
    records.retried(
        *("stubborn", NOON + 8, attempt(1, "crashed", sig=9)),
        crashes=1,
        errors=0,
        not_before=NOON + 8.5,
    ),
]

COMPACTED = {
    0: records.title(40, NOON + 9),
    3: submitted("plain"),
    7: submitted("value"),
    17: ENDS["value"],
    41: records.opened(4001, NOON + 9),
    42: records.sent(["plain"], NOON + 6, 7, 4007),
    43: submitted("new"),
}

FILES = {
    "format-1.log": b"".join(map(seal, range(len(BODIES)), BODIES)),
    "format-1-compacted.log": b"".join(map(seal, COMPACTED, COMPACTED.values())),
}


def opened(name: str, tmp_path: Path) -> Ledger:
    copy = tmp_path / name
    shutil.copyfile(GOLDEN / name, copy)
    os.chmod(copy, 0o600)
    return Ledger.open(Journal(copy))


def records_of(name: str) -> list[Record]:
    return [line.record for line in Reading([(GOLDEN / name).read_bytes()], name)]


@pytest.mark.parametrize("name", FILES)
def test_the_same_facts_are_written_the_same(name: str) -> None:
    golden = (GOLDEN / name).read_bytes().splitlines()
    assert FILES[name].splitlines() == golden


def test_every_kind_of_record_is_there() -> None:
    assert {record["kind"] for record in records_of("format-1.log")} == {
        *("asyncpool journal", "opened", "submitted", "sent", "requeued", "retried"),
        *("finished", "closed"),
    }


def test_its_unfinished_jobs(tmp_path: Path) -> None:
    with closing(opened("format-1.log", tmp_path)) as ledger:
        jobs = ledger.index.unfinished
        assert {key: (job.crashes, job.errors, job.named) for key, job in jobs.items()} == {
            "plain": (0, 1, False),
            'n\u00e4med "\U0001f986"\n': (0, 0, True),
            "urgent": (1, 0, False),  # its worker had it when the owner died
            "by noon": (0, 0, False),
            "later": (0, 0, False),
            "short": (0, 0, False),
            "stubborn": (1, 0, False),
            "choosy": (0, 0, False),
            "of a script": (0, 0, False),
        }
        assert [key for key, job in jobs.items() if job.alone] == ["short", "choosy"]
        said = {key: ledger.read(job.submitted) for key, job in jobs.items()}
        retried = ledger.read(jobs["stubborn"].retries[0])
    for record in said.values():
        assert (record["function"], record["time"]) == ("chores.paint", NOON + 1)
        assert records.unpacked(record["call"]) == CALL
        assert records.unpacked(record["payload"]) == PAYLOAD
    assert said["urgent"]["priority"] == -3
    assert said["by noon"]["deadline"] == NOON + 60.125
    assert said["later"]["not_before"] == NOON + 30.5
    assert said["short"]["timeout"] == 2.5
    assert said["of a script"]["script"] == "/home/anna/thumbs.py"
    assert records.retry_of(said["plain"]) == (Retry(), None)
    stubborn = Retry(max_crashes=None, max_errors=5, delay=0.5, jitter=False)
    assert records.retry_of(said["stubborn"]) == (stubborn, None)
    retry, classes = records.retry_of(said["choosy"])
    assert retry == Retry(max_errors=1)
    assert classes is not None
    assert b"OSError" in classes
    assert retried["attempt"] == [1, 4003, NOON + 2, NOON + 2.5, "crashed", None, 9]
    assert retried["not_before"] == NOON + 8.5


def test_its_finished_jobs(tmp_path: Path) -> None:
    with closing(opened("format-1.log", tmp_path)) as ledger:
        ends = {}
        for key in ledger.index.finished:
            both = ledger.read_end(key)
            assert both is not None
            assert both[0]["id"] == both[1]["id"] == key
            ends[key] = both[1]
    assert {key: (end["state"], end["outcome"]) for key, end in ends.items()} == {
        "value": ("done", "value"),
        "error": ("failed", "error"),
        "crash": ("failed", "crashed"),
        "timeout": ("failed", "timeout"),
        "deadline": ("failed", "timeout"),
        "cancelled": ("cancelled", "cancelled"),
    }
    assert records.unpacked(ends["value"]["payload"]) == b"\x80\x05K*."
    assert records.unpacked(ends["error"]["payload"]) == b"\x80\x05N."
    assert ends["error"]["error"] == 'OSError: "\u00e4"'
    crash, timeout, deadline = ends["crash"], ends["timeout"], ends["deadline"]
    assert (crash["death"], crash["pid"], crash["ran_for"]) == (DEATH, 4003, 0.5)
    assert crash["attempts"] == [
        [1, 4003, NOON + 2, NOON + 2.5, "crashed", 3, None],
        [2, 4003, NOON + 2, NOON + 2.5, "crashed", None, 11],
    ]
    assert (timeout["timeout"], timeout["death"], timeout["pid"]) == (2.5, DEATH, 4003)
    assert (deadline["timeout"], deadline["death"], deadline["pid"]) == (None, None, None)
    assert deadline["attempts"] == []


def test_its_ends_can_be_told() -> None:
    told = {
        record["id"]: (endings.state_of(record), endings.ending_of(record))
        for record in records_of("format-1.log")
        if record["kind"] == "finished"
    }
    assert {key: (state, type(ending)) for key, (state, ending) in told.items()} == {
        "value": (JobState.DONE, decisions.Value),
        "error": (JobState.FAILED, decisions.Failure),
        "crash": (JobState.FAILED, decisions.Crash),
        "timeout": (JobState.FAILED, decisions.Overrun),
        "deadline": (JobState.FAILED, decisions.Overrun),
        "cancelled": (JobState.CANCELLED, decisions.Cancelled),
    }


def test_a_compacted_one(tmp_path: Path) -> None:
    with closing(opened("format-1-compacted.log", tmp_path)) as ledger:
        jobs = ledger.index.unfinished
        assert {key: job.crashes for key, job in jobs.items()} == {"plain": 1, "new": 0}
        assert list(ledger.index.finished) == ["value"]


@pytest.mark.parametrize("name", FILES)
def test_it_can_be_written_to(name: str, tmp_path: Path) -> None:
    with closing(opened(name, tmp_path)) as ledger:
        path = ledger.path
        ledger.write([("submitted", "today", submitted("today"), (False,))], sync=True)
        jobs = list(ledger.index.unfinished)
    with closing(Ledger.open(Journal(path))) as ledger:
        assert list(ledger.index.unfinished) == jobs
        ledger.compact()
    with closing(Ledger.open(Journal(path))) as ledger:
        assert list(ledger.index.unfinished) == jobs
