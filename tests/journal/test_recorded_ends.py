"""How a job ended is told again in later lives, with all that was known of it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncpool import (
    Attempt,
    Job,
    JobExited,
    JobState,
    JobTimeout,
    Pool,
    Retry,
    SerializationError,
    WorkerCrashed,
)
from tests.cases import chores
from tests.journal import tasks
from tests.journal.lives import ends, left, live, program
from tests.support import jobs
from tests.support.marks import Marks

FACTS = (
    "job_id",
    "fn_name",
    "attempts",
    "pid",
    "exit_code",
    "signal",
    "stack",
    "oom",
    "stderr",
)


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


async def both_lives(
    journal: str, call: tuple[Any, ...], **options: Any
) -> tuple[BaseException, BaseException]:
    """Return how the call ended in the life that ran it, and what the next one says of it."""
    errors: list[BaseException] = []
    for _ in range(2):
        async with Pool(1, journal=journal) as pool:
            job: Job[Any] = pool.options(id="one", **options).submit(*call)
            await asyncio.wait({job})
            error = job.exception()
            assert error is not None
            assert job.state is JobState.FAILED
            errors.append(error)
            assert pool.recovered == []
    _same_facts(*errors)
    return errors[0], errors[1]


def _same_facts(first: BaseException, second: BaseException) -> None:
    assert type(first) is type(second)
    assert str(first) == str(second)
    assert repr(first.args) == repr(second.args)
    assert getattr(first, "__notes__", ()) == getattr(second, "__notes__", ())
    for name in FACTS:
        one, other = getattr(first, name, None), getattr(second, name, None)
        if name == "attempts":
            # Records tell the time in milliseconds.
            times = [*map(_times, other or ())]
            assert [*map(_times, one or ())] == [pytest.approx(each, abs=0.002) for each in times]
            one, other = [*map(_untimed, one or ())], [*map(_untimed, other or ())]
        assert one == other, name
    assert getattr(first, "timeout", None) == pytest.approx(getattr(second, "timeout", None))


def _times(attempt: Attempt) -> tuple[float, float]:
    return attempt.started_at, attempt.ended_at or 0.0


def _untimed(attempt: Attempt) -> tuple[object, ...]:
    return attempt.number, attempt.pid, attempt.outcome, attempt.exit_code, attempt.signal


async def test_an_exception_comes_back_as_itself(journal: str, marks: Marks) -> None:
    _, error = await both_lives(journal, (tasks.raise_with_cause, marks.path))
    assert isinstance(error, tasks.Trouble)
    assert (error.args, error.code, error.__notes__[0]) == (("deep", 7), 7, "a note")
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == ("shallow",)
    shown = "".join(traceback.format_exception(error))
    assert 'tasks.py", line' in shown
    assert "in raise_with_cause" in shown
    assert marks.count() == 1


async def test_a_group_comes_back_with_its_members(journal: str, marks: Marks) -> None:
    _, error = await both_lives(journal, (tasks.raise_group, marks.path))
    assert isinstance(error, ExceptionGroup)
    assert [type(each) for each in error.exceptions] == [ValueError, tasks.Trouble]
    assert error.exceptions[1].args == ("deep", 7)
    assert marks.count() == 1


@pytest.mark.parametrize(("how", "cause"), [("exit", 3), ("segv", -11), ("sigkill", -9)])
async def test_a_crash_comes_back_with_its_facts(
    journal: str, marks: Marks, how: str, cause: int
) -> None:
    call = (jobs.mark_then_die, marks.path, how)
    _, error = await both_lives(journal, call, retry=Retry(max_crashes=2))
    assert isinstance(error, WorkerCrashed)
    assert (error.exit_code, error.signal) == ((cause, None) if cause > 0 else (None, -cause))
    assert (error.job_id, error.fn_name) == ("one", "mark_then_die")
    assert [attempt.outcome for attempt in error.attempts] == ["crashed"] * 2
    assert [attempt.signal for attempt in error.attempts] == [error.signal] * 2
    assert error.pid == error.attempts[1].pid
    assert bool(error.stack) == (how == "segv")
    assert marks.count() == 2


async def test_last_words_come_back(journal: str) -> None:
    _, error = await both_lives(journal, (tasks.say_and_die, "fare\twell ☂"), retry=ONCE)
    assert isinstance(error, WorkerCrashed)
    assert "fare\twell ☂" in error.stderr


ONCE = Retry(max_crashes=1)


async def test_a_timeout_comes_back_with_its_stack(journal: str) -> None:
    _, error = await both_lives(journal, (jobs.spin,), timeout=0.3)
    assert isinstance(error, JobTimeout)
    assert isinstance(error, TimeoutError)
    assert error.timeout == 0.3
    assert error.stack is not None
    assert "in spin" in error.stack
    assert [attempt.outcome for attempt in error.attempts] == ["timeout"]


@pytest.mark.parametrize("delay", [0.0, 60.0], ids=["while it ran", "before it ran"])
async def test_a_missed_deadline_comes_back(journal: str, delay: float) -> None:
    _, error = await both_lives(journal, (jobs.spin,), deadline=0.5, delay=delay)
    assert isinstance(error, JobTimeout)
    assert error.timeout == pytest.approx(0.5, abs=0.01)
    assert bool(error.stack) == (not delay)
    assert len(error.attempts) == (not delay)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ((tasks.exit_with, 3), JobExited),
        ((tasks.return_lock,), SerializationError),
        ((tasks.raise_lock,), SerializationError),
        ((jobs.echo, tasks.Unloadable()), SerializationError),
    ],
    ids=["exit", "result", "exception", "argument"],
)
async def test_what_did_not_cross_comes_back(
    journal: str, call: tuple[Callable[..., Any], Any], kind: type[BaseException]
) -> None:
    _, error = await both_lives(journal, call)
    assert type(error) is kind


async def test_an_exception_whose_class_is_gone_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "passing.py").write_text(
        "class Gone(Exception): pass\ndef fail(): raise Gone('once upon a time')\n"
    )
    body = """
        import passing
        async with Pool(1, journal=JOURNAL) as pool:
            await asyncio.wait({pool.options(id="one").submit(passing.fail)})
        """
    live(program(body.replace("        ", "    "), tmp_path))
    (tmp_path / "passing.py").unlink()
    async with Pool(1, journal=tmp_path / "jobs.log") as pool:
        error = pool.job("one").exception()
    assert isinstance(error, SerializationError)
    assert "Gone: once upon a time" in str(error)
    assert "in fail" in error.__notes__[0]


async def test_a_cancelled_job_comes_back_cancelled(journal: str) -> None:
    async with Pool(1, journal=journal) as pool:
        job = pool.options(id="one").submit(jobs.spin)
        await job.started()
        job.cancel()
    async with Pool(1, journal=journal) as pool:
        again = pool.options(id="one").submit(jobs.spin)
        with pytest.raises(asyncio.CancelledError):
            await again
        assert again.state is JobState.CANCELLED
        assert [attempt.outcome for attempt in again.attempts] == ["cancelled"]


async def test_a_shielded_job_goes_on_and_is_recorded(journal: str, marks: Marks) -> None:
    """EXC-2, CANCEL-3."""
    async with Pool(1, journal=journal) as pool:
        job = pool.options(id="one").submit(chores.sleep_between_marks, marks.path, 0.3)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(job), 0.01)
        assert not job.done()
    assert ends(journal) == {"one": "done"}
    async with left(Pool(1, journal=journal)) as pool:
        assert await pool.job("one") == "slept"
    assert marks.lines() == ["begin", "end"]


async def test_big_and_odd_values_come_back(journal: str) -> None:
    values: list[Any] = [None, b"", b"\0" * 3_000_000, "\ud800☂", {1: ({2},)}, tasks.Point(1, {""})]
    async with Pool(1, journal=journal) as pool:
        for number, value in enumerate(values):
            await pool.options(id=f"value {number}").submit(jobs.echo, value)
    async with Pool(1, journal=journal) as pool:
        for number, value in enumerate(values):
            again = await pool.job(f"value {number}")
            assert (type(again), again) == (type(value), value)
