"""PICKLE-1, RECUR-1: what does not pickle is refused where it was given; the pool goes on."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncpool import Pool, Retry, SerializationError, WorkerCrashed
from tests.support import jobs
from tests.support.marks import Marks, mark

from .soundness import assert_sound, full_crew

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        before = await full_crew(pool, 1)
        yield pool
        await assert_sound(pool, 1)
        assert await full_crew(pool, 1) == before
        assert pool.stats().crashes == pool.stats().resent == 0


class BadState:
    def __getstate__(self) -> object:
        raise RuntimeError("no state today")


class Nonsense:
    def __reduce__(self) -> Any:
        return 42


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Silent:
    def __reduce__(self) -> Any:
        raise Unspeakable


class HalfLoaded:
    """Pickles, and cannot be loaded."""

    def __reduce__(self) -> Any:
        return _fail_to_load, ()


def _fail_to_load() -> None:
    raise LookupError("not here")


def bad_arguments() -> dict[str, object]:
    """Return what does not pickle, by what its error must name."""
    return {
        "generator": (number for number in range(3)),
        "lock": threading.Lock(),
        "BadState": BadState(),
        "Nonsense": Nonsense(),
        "Silent": Silent(),
        "Task": asyncio.current_task(),
        "frame": sys._getframe(),
    }


def mark_all(path: str, *values: object, **named: object) -> None:
    mark(path)


async def test_bad_arguments_are_refused_at_once(pool: Pool, marks: Marks) -> None:
    """PICKLE-1: with the type, the place and the cause; nothing is queued."""
    with open(marks.path, "a+") as text, open(marks.path, "rb") as binary:
        bad = bad_arguments() | {"TextIOWrapper": text, "BufferedReader": binary}
        for kind, value in bad.items():
            with pytest.raises(SerializationError, match=rf"argument 2 of mark_all \(.*{kind}\)"):
                pool.submit(mark_all, marks.path, value)
            with pytest.raises(SerializationError, match=r"argument 'key' of mark_all") as caught:
                pool.submit(mark_all, marks.path, key=[value])
            assert isinstance(caught.value.__cause__, Exception)
            assert caught.value.fn_name == "mark_all"
            assert pool.jobs() == []
            assert await pool.submit(jobs.add, 1, 2) == 3
    assert marks.count() == 0


async def test_bad_functions_are_refused_at_once(pool: Pool) -> None:
    """PICKLE-1: a function by value takes along what it refers to."""
    lock = threading.Lock()

    def locked() -> bool:
        return lock.locked()

    for function in (locked, lambda: lock, lock.acquire):
        with pytest.raises(SerializationError, match="cannot be sent to a worker") as caught:
            pool.submit(function)
        assert isinstance(caught.value.__cause__, TypeError)
    assert pool.jobs() == []


async def test_lambdas_and_nested_functions_work(pool: Pool) -> None:
    """PICKLE-1: these cross by value."""
    offset = 5

    def nested(number: int) -> int:
        return number + offset

    assert await pool.submit(nested, 1) == 6
    assert await pool.submit(lambda number: number + offset, 2) == 7
    assert await pool.submit(jobs.echo(lambda: nested(3))) == 8


async def test_enqueue_and_map_refuse_as_well(pool: Pool, marks: Marks) -> None:
    """PICKLE-1."""
    with pytest.raises(SerializationError):
        await pool.enqueue(mark_all, marks.path, threading.Lock())
    with pytest.raises(SerializationError):
        async for _ in pool.map(mark_all, [marks.path], [threading.Lock()]):
            pass
    assert marks.count() == 0


async def test_arguments_that_do_not_load(pool: Pool, marks: Marks) -> None:
    """PICKLE-1: found out in the worker only, which goes on."""
    with pytest.raises(SerializationError, match="cannot be rebuilt in the worker") as caught:
        await pool.submit(mark_all, marks.path, HalfLoaded())
    assert "LookupError: not here" in str(caught.value)
    assert "_fail_to_load" in "\n".join(caught.value.__notes__)
    assert marks.count() == 0


async def test_results_that_do_not_pickle(pool: Pool) -> None:
    """PICKLE-1, the other way."""
    for function, kind in ((threading.Lock, "lock"), (BadState, "BadState"), (Silent, "Silent")):
        with pytest.raises(SerializationError, match=f"returned a .*{kind} that does not pickle"):
            await pool.submit(function)


async def test_results_that_do_not_load(pool: Pool) -> None:
    """PICKLE-1: whatever is raised while a result is unpickled here is the job's failure."""
    with pytest.raises(SerializationError, match="cannot be rebuilt here: LookupError") as caught:
        await pool.submit(HalfLoaded)
    assert isinstance(caught.value.__cause__, LookupError)


DEPTH = 100_000


def nested_list(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def return_nested(path: str) -> list[Any]:
    mark(path)
    return nested_list(DEPTH)


def overflow_the_stack(path: str) -> list[Any]:
    """Make pickling recurse until the C stack is full."""
    mark(path)
    sys.setrecursionlimit(1_000_000)
    return nested_list(10 * DEPTH)


class Mirror:
    """Looks for its attributes in itself: endless while it is unpickled."""

    def __init__(self) -> None:
        self.other = 1

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


async def test_deep_arguments(pool: Pool, marks: Marks) -> None:
    """RECUR-1: refused at submit."""
    with pytest.raises(SerializationError, match="deep recursion") as caught:
        pool.submit(mark_all, marks.path, nested_list(DEPTH))
    assert isinstance(caught.value.__cause__, Exception)
    assert marks.count() == 0


async def test_deep_results(pool: Pool, marks: Marks) -> None:
    """RECUR-1: the job's error, after one run."""
    with pytest.raises(SerializationError, match=r"list that does not pickle.*recursion"):
        await pool.submit(return_nested, marks.path)
    assert marks.count() == 1


async def test_endless_getattr(pool: Pool, marks: Marks) -> None:
    """RECUR-1: an error of this job, in either direction."""
    with pytest.raises(SerializationError, match="recursion"):
        await pool.submit(mark_all, marks.path, Mirror())
    with pytest.raises(SerializationError, match="recursion"):
        await pool.submit(Mirror)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="C code no longer overflows the stack")
async def test_a_stack_that_overflows_is_a_crash(marks: Marks) -> None:
    """RECUR-1: after so many crashes the job is given up; the parent is well."""
    async with Pool(1, retry=Retry(max_crashes=2)) as pool:
        with pytest.raises(WorkerCrashed, match="SIGSEGV"):
            await pool.submit(overflow_the_stack, marks.path)
        assert marks.count() == 2
        await assert_sound(pool, 1)
