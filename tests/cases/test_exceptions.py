"""EXC-1, EXC-2: what a job raises reaches its caller, whatever it is made of."""

from __future__ import annotations

import asyncio
import traceback
import weakref
from collections.abc import AsyncIterator

import pytest

import asyncpool
from asyncpool import Job, JobFinished, Pool, SerializationError
from tests.support import jobs
from tests.support.marks import Marks

from . import raisers
from .soundness import assert_sound

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        yield pool
        await assert_sound(pool, 1)


async def test_exceptions_that_do_not_unpickle(pool: Pool, marks: Marks) -> None:
    """EXC-1: their type, text and traceback arrive, and nothing is lost over them."""
    await pool.submit(jobs.add, 1, 1)
    before = pool.workers()[0].pid
    for name, make in raisers.STUBBORN.items():
        with pytest.raises(SerializationError) as caught:
            async with asyncio.timeout(5):
                await pool.submit(raisers.raise_stubborn, marks.path, name)
        text = str(caught.value)
        assert f"tests.cases.raisers.{name}" in text
        assert "passes all it is given to super().__init__()" in text
        assert name == "Unspeakable" or str(make()) in text
        assert caught.value.fn_name == "raise_stubborn"
        assert "raise error" in _notes(caught.value)
        assert marks.count(name) == 1
        assert await pool.submit(jobs.add, 1, 1) == 2
        assert [worker.pid for worker in pool.workers()] == [before]
    assert pool.stats().crashes == pool.stats().resent == 0


async def test_somebody_listens_to_an_unspeakable_error(pool: Pool, marks: Marks) -> None:
    """EXC-1: an error whose `__str__` raises is no trouble for those who report errors."""
    events = pool.events()
    job: Job[object] = pool.submit(jobs.raise_, raisers.Direct("x"))
    with pytest.raises(SerializationError):
        await pool.submit(raisers.raise_stubborn, marks.path, "Unspeakable")
    with pytest.raises(asyncpool.JobExited):
        await job
    finished = [await _next_finished(events) for _ in range(2)]
    assert all(event.state is asyncpool.JobState.FAILED for event in finished)


async def _next_finished(events: object) -> JobFinished:
    async for event in events:  # type: ignore[attr-defined]
        if isinstance(event, JobFinished):
            return event
    raise AssertionError("the events ended")


async def test_a_class_that_exists_in_the_worker_only(pool: Pool) -> None:
    """EXC-1: it comes along."""
    with pytest.raises(Exception, match="made here") as caught:
        await pool.submit(raisers.raise_of_a_local_class)
    assert type(caught.value).__name__ == "Local"
    assert "raise Local" in _notes(caught.value)


async def test_cause_notes_and_arguments_are_kept(pool: Pool) -> None:
    """EXC-2."""
    with pytest.raises(ValueError, match="first") as caught:
        await pool.submit(raisers.raise_from_a_key_error)
    error = caught.value
    assert type(error) is ValueError
    assert error.args == ("first", 2)
    assert error.__notes__[0] == "a note"
    assert type(error.__cause__) is KeyError
    assert error.__cause__.args == ("absent",)
    assert error.__suppress_context__


async def test_context_is_kept(pool: Pool) -> None:
    """EXC-2."""
    with pytest.raises(KeyError) as caught:
        await pool.submit(raisers.raise_within_a_handler)
    assert type(caught.value.__context__) is ZeroDivisionError
    assert caught.value.__cause__ is None
    assert not caught.value.__suppress_context__


async def test_the_structure_of_groups_is_kept(pool: Pool) -> None:
    """EXC-2."""
    with pytest.raises(ExceptionGroup) as caught:
        await pool.submit(raisers.raise_a_group)
    first, inner = caught.value.exceptions
    assert (caught.value.message, repr(first), first.__notes__) == (
        "outer",
        "ValueError(1)",
        ["of a member"],
    )
    assert isinstance(inner, ExceptionGroup)
    assert repr(inner.exceptions) == "(TypeError('t'),)"


async def test_the_traceback_of_the_worker_is_printed_by_default(pool: Pool) -> None:
    """EXC-2: with the file and line of the raise."""
    with pytest.raises(ValueError, match="first") as caught:
        await pool.submit(raisers.raise_from_a_key_error)
    lines = raisers.raise_from_a_key_error.__code__
    printed = "".join(traceback.format_exception(caught.value))
    assert f'File "{lines.co_filename}", line {lines.co_firstlineno + 7}, in' in printed
    assert "raise error from cause" in printed
    assert "asyncpool/worker" not in _notes(caught.value)


async def test_a_frozen_dataclass_arrives_as_itself(pool: Pool) -> None:
    """EXC-1, EXC-2: it refuses to have its attributes set, and gets its traceback all the same."""
    with pytest.raises(raisers.Frozen) as caught:
        await pool.submit(raisers.raise_a_frozen)
    assert caught.value.number == 5
    assert "raise Frozen(5)" in _notes(caught.value)


async def test_stop_iteration_does_not_end_the_caller(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await pool.submit(raisers.raise_stop_iteration)
    assert isinstance(caught.value.__cause__, StopIteration)
    assert caught.value.__cause__.value == 4


async def test_endless_recursion_is_an_ordinary_error(pool: Pool) -> None:
    with pytest.raises(RecursionError):
        await pool.submit(raisers.overflow)
    assert pool.stats().crashes == 0


async def test_users_may_raise_the_errors_of_the_package(pool: Pool) -> None:
    for kind in (asyncpool.WorkerCrashed, asyncpool.JobTimeout, asyncpool.PoolFull):
        with pytest.raises(kind, match="by the user") as caught:
            await pool.submit(jobs.raise_, kind("by the user"))
        assert getattr(caught.value, "job_id", None) is None


class _Payload(ValueError):
    """An error to which a weak reference can be had."""


@pytest.mark.parametrize("error", [_Payload("x"), _Payload(b"x" * 1000)])
async def test_errors_die_without_the_collector(pool: Pool, error: Exception) -> None:
    """EXC-2: no reference cycle is made on the way."""
    job: Job[object] = pool.submit(jobs.raise_, error)
    await asyncio.wait({job})
    received = job.exception()
    assert isinstance(received, _Payload)
    alive = weakref.ref(received)
    del received, job
    await pool.submit(jobs.add, 1, 1)  # whoever held the job for this turn has let it go
    assert alive() is None


@pytest.mark.parametrize("name", ["NeedsTwo", "BadSetState"])
async def test_explanations_die_without_the_collector(pool: Pool, marks: Marks, name: str) -> None:
    """EXC-2: nor for what could not be rebuilt."""
    job: Job[object] = pool.submit(raisers.raise_stubborn, marks.path, name)
    await asyncio.wait({job})
    received = job.exception()
    assert received is not None
    alive = weakref.ref(received)
    del received, job
    await pool.submit(jobs.add, 1, 1)
    assert alive() is None


async def test_a_big_argument_that_refers_to_its_error(pool: Pool) -> None:
    """EXC-2: 20 MB cross once, and are free again."""
    job: Job[object] = pool.submit(raisers.raise_with_a_big_argument, 20_000_000)
    await asyncio.wait({job})
    error = job.exception()
    assert isinstance(error, ValueError)
    assert len(error.args[0]) == 20_000_000
    assert error.me is error  # type: ignore[attr-defined]
    assert len(_notes(error)) < 200_000


def _notes(error: BaseException) -> str:
    return "\n".join(error.__notes__)
