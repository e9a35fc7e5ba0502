"""The demo's lines for people: pure functions of what happened."""

from __future__ import annotations

from collections.abc import Mapping
from signal import SIGRTMIN, SIGSEGV
from typing import Any

import pytest

from asyncpool import (
    Attempt,
    Event,
    EventsLost,
    JobFinished,
    JobRecalled,
    JobResent,
    JobReturned,
    JobSent,
    JobStarted,
    JobState,
    JobSubmitted,
    Outcome,
    Stats,
    WorkerExited,
    WorkerStarted,
)
from asyncpool.demo.show import Ending, Places, Result, Show, named
from asyncpool.demo.text import Text

HIGHEST_PID = 4_194_304
JOB: dict[str, Any] = {
    "time": 0.0,
    "job_id": "fib-30-1",
    "fn_name": "fib",
    "attempt": 1,
    "pid": HIGHEST_PID,
}


def started(pid: int | None) -> WorkerStarted:
    return WorkerStarted(time=0.0, pid=pid, spare=False)


def exited(
    pid: int | None, reason: str = "crashed", exit_code: int | None = None, sig: int | None = None
) -> WorkerExited:
    return WorkerExited(
        time=0.0, pid=pid, exit_code=exit_code, signal=sig, reason=reason, job_id=None
    )


def text(numbers: list[int], *, coloured: bool = False) -> Text:
    jobs = named(numbers)
    show = Show(jobs=jobs, workers=4, crash_rate=1 / 3, seed=9, loop="uvloop")
    return Text(show, coloured=coloured)


NOBODY: Mapping[int, int] = {}

EVENTS = [
    (JobSubmitted(**JOB), None),
    (JobSent(**JOB), "sent fib-30-1 fib(30) 4194304"),
    (JobStarted(**JOB), "ACKed fib-30-1 fib(30) 4194304 attempt 1"),
    (JobReturned(**JOB, outcome=Outcome.DONE), "returned fib-30-1 fib(30) 4194304"),
    (JobReturned(**JOB, outcome=Outcome.ERROR), "raised fib-30-1 fib(30) 4194304"),
    (
        JobRecalled(**JOB),
        "recalled fib-30-1 fib(30) 4194304 had not begun",
    ),
    (
        JobResent(**JOB, reason="crashed", charged=True),
        "resent fib-30-1 fib(30) goes back to the queue",
    ),
    (JobFinished(**JOB, state=JobState.DONE, error=None), None),
    (
        JobFinished(**JOB, state=JobState.FAILED, error="E: so\nand so"),
        "failed fib-30-1 fib(30) 4194304 E: so",
    ),
    (started(8), "started 8"),
    (started(7), "replaced 7 takes the place of 4194304"),
    (exited(8, sig=SIGSEGV), "crashed 8 SIGSEGV"),
    (exited(8, sig=SIGRTMIN + 1), f"crashed 8 signal {SIGRTMIN + 1}"),
    (exited(8, exit_code=3), "crashed 8 exit code 3"),
    (exited(8), "crashed 8 unknown cause"),
    (exited(8, "closed", 0), "closed 8"),
    (
        exited(None, "did not start"),
        "lost did not start: unknown cause",
    ),
    (EventsLost(time=0.0, count=5), "missed 5 events"),
]


@pytest.mark.parametrize(("event", "line"), EVENTS, ids=lambda value: type(value).__name__)
def test_each_event_has_its_line(event: Event, line: str | None) -> None:
    told = text([30]).event(event, 1.5, {7: HIGHEST_PID})
    assert [one.split() for one in told] == ([] if line is None else [["1.500", *line.split()]])


def test_lines_fit_into_80_columns() -> None:
    teller = text([30] * 12)
    longest = [
        *teller.opening(),
        *(line for event, _ in EVENTS for line in teller.event(event, 999.0, {7: HIGHEST_PID})),
        *teller.ending(ending_of([result_of(832040, attempts=50)] * 12)),
    ]
    assert max(map(len, longest)) <= 80


def test_columns_grow_with_what_stands_in_them() -> None:
    (head,) = text([5, 1000]).opening()[2:]
    (line,) = text([5, 1000]).event(JobSent(**{**JOB, "job_id": "fib-1000-1"}), 0.0, NOBODY)
    assert line.index("fib(1000)") == head.index("call")
    assert len(line) == len(head)


def test_colours_wrap_whole_lines() -> None:
    (line,) = text([30], coloured=True).event(JobReturned(**JOB, outcome=Outcome.DONE), 0, NOBODY)
    assert line.startswith("\033[32m")
    assert line.endswith("\033[0m")
    (plain,) = text([30], coloured=True).event(JobStarted(**JOB), 0.0, NOBODY)
    assert "\033" not in plain


def result_of(value: int | None, *, error: str | None = None, attempts: int = 1) -> Result:
    outcomes = [Outcome.CRASHED] * (attempts - 1) + [Outcome.DONE]
    tries = [Attempt(i, HIGHEST_PID, 0.0, 1.0, outcome) for i, outcome in enumerate(outcomes, 1)]
    return Result(job_id="fib-30-1", n=30, value=value, error=error, attempts=tuple(tries))


def ending_of(results: list[Result]) -> Ending:
    stats = Stats(
        pending=0,
        running=0,
        done=1,
        failed=0,
        cancelled=0,
        crashes=1,
        resent=2,
        workers=0,
        spares=0,
    )
    return Ending(results=tuple(results), stats=stats, replacements=0, seconds=9.96)


def test_a_wrong_value_is_called_wrong() -> None:
    ending = ending_of([result_of(832040), result_of(832041)])
    table = text([30]).ending(ending)
    assert (ending.right, ending.all_right) == (1, False)
    assert [line.endswith("  wrong") for line in table if line.startswith("fib")] == [False, True]
    assert (
        table[-1] == "1 of 2 results right in 10.0 s: 1 crash survived, 2 resends, 0 replacements"
    )


def test_an_error_stands_below_the_table_once() -> None:
    failed = result_of(None, error="RecursionError: too deep")
    table = text([30]).ending(ending_of([failed, failed]))
    assert "\n2 jobs failed: RecursionError: too deep" in table
    assert sum(" failed " in line for line in table) == 2
    assert sum("RecursionError" in line for line in table) == 1


def test_a_worker_takes_a_new_place_first_then_the_one_vacant_for_longest() -> None:
    places = Places(2)
    for event in [started(1), exited(1), started(2), exited(2), started(3), started(4)]:
        places.note(event)
    assert places.predecessors == {3: 1, 4: 2}


def test_who_never_had_a_place_leaves_none() -> None:
    places = Places(1)
    for event in [exited(1, "did not start"), started(2), exited(2), exited(3), started(4)]:
        places.note(event)
    assert places.predecessors == {4: 2}


def test_ids_are_readable_and_different() -> None:
    assert named([30, 31, 30]) == {"fib-30-1": 30, "fib-31-1": 31, "fib-30-2": 30}
