"""A crash is explained: who died, of what, where in the user's code, and with which last words."""

from __future__ import annotations

import pickle
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from asyncpool import Job, Pool, Retry, WorkerCrashed
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import jobs
from tests.support.marks import Marks

T = TypeVar("T")


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        yield pool
        await assert_sound(pool, 1)


async def crash_of(job: Job[T]) -> WorkerCrashed:
    with pytest.raises(WorkerCrashed) as caught:
        await job
    error = caught.value
    assert "\n" not in str(error)
    assert (error.job_id, error.fn_name, error.attempts) == (job.id, job.fn_name, job.attempts)
    assert error.pid == job.attempts[-1].pid
    for fact in (job.id, job.fn_name, str(error.pid)):
        assert fact in str(error)
    return error


async def test_an_exit_is_told_with_its_code(pool: Pool, marks: Marks) -> None:
    error = await crash_of(pool.submit(jobs.mark_then_die, marks.path, "exit"))
    assert marks.count() == 1
    assert (error.exit_code, error.signal, error.stack, error.oom) == (3, None, None, None)
    assert "exited with code 3" in str(error)


@pytest.mark.parametrize(
    ("function", "signum", "innermost"),
    [
        (deadly.dereference_null, signal.SIGSEGV, "string_at"),
        (deadly.dereference_null_beside_threads, signal.SIGSEGV, "string_at"),
        (deadly.call_abort, signal.SIGABRT, "call_abort"),
    ],
)
async def test_a_fatal_signal_leaves_the_stack(
    pool: Pool, function: Callable[[], None], signum: signal.Signals, innermost: str
) -> None:
    error = await crash_of(pool.submit(function))
    assert (error.exit_code, error.signal) == (None, signum)
    assert error.stack is not None
    assert f"in {function.__name__}" in error.stack
    assert deadly.__file__ in error.stack
    assert signum.name in str(error)
    assert f"in {innermost} (" in str(error)


async def test_the_last_lines_of_stderr_are_kept_and_relayed(
    pool: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    error = await crash_of(pool.submit(deadly.complain_and_exit, 1_000))
    lines = [f"line {number} of the complaint" for number in range(1_000)]
    assert error.stderr.splitlines() == lines[-40:]
    assert "line 999 of the complaint" in str(error)
    assert capfd.readouterr().err.splitlines() == lines


async def test_no_last_words_are_taken_from_another_worker(pool: Pool) -> None:
    await crash_of(pool.submit(deadly.complain_and_exit, 1))
    error = await crash_of(pool.submit(deadly.exit_with, 4))
    assert (error.stderr, error.exit_code) == ("", 4)


async def test_what_was_printed_before_the_crash_is_not_lost(
    pool: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    await crash_of(pool.submit(deadly.complain_and_exit, 2))
    assert "line 1 of the complaint" in capfd.readouterr().err


async def test_the_report_survives_pickling(pool: Pool) -> None:
    error = await crash_of(pool.submit(deadly.dereference_null))
    copy = pickle.loads(pickle.dumps(error))
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


# Out of memory


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that stands for the kernel's count of its out-of-memory kills."""
    path = tmp_path / "memory.events"
    path.write_text("oom_kill 7\n")
    monkeypatch.setattr("asyncpool.processes.oom._counter_paths", lambda: [str(path)])
    return path


@pytest.fixture
def no_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncpool.processes.oom.OOM_BURST_SECONDS", 0.0)


async def test_a_kill_for_memory_is_told(counter: Path, no_bursts: None) -> None:
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        error = await crash_of(pool.submit(deadly.be_killed_for_memory, str(counter), 1))
        assert (error.oom, error.signal) == (True, signal.SIGKILL)
        assert "out-of-memory" in str(error)
        error = await crash_of(pool.submit(deadly.be_killed_for_memory, str(counter), 0))
        assert error.oom is False
        assert "out-of-memory" not in str(error)


async def test_an_earlier_kill_for_memory_is_not_told_again(counter: Path, no_bursts: None) -> None:
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        assert await pool.submit(jobs.add, 1, 1) == 2
        counter.write_text("oom_kill 9\n")
        with pytest.raises(WorkerCrashed):
            await pool.submit(deadly.exit_with, 5)
        error = await crash_of(pool.submit(deadly.be_killed_for_memory, str(counter), 0))
        assert error.oom is False


async def test_kills_for_memory_at_the_same_time_are_all_told(counter: Path) -> None:
    async with Pool(2, retry=Retry(max_crashes=1)) as pool:
        first: Job[None] = pool.submit(deadly.be_killed_for_memory, str(counter), 2)
        assert (await crash_of(first)).oom
        second: Job[None] = pool.submit(deadly.be_killed_for_memory, str(counter), 0)
        assert (await crash_of(second)).oom


async def test_where_nobody_counts_the_kills_none_is_claimed(counter: Path, tmp_path: Path) -> None:
    counter.unlink()
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        error = await crash_of(pool.submit(jobs.mark_then_die, str(tmp_path / "marks"), "sigkill"))
        assert error.oom is None
