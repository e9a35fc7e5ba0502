"""MAIN-5, MAIN-7, DEADLOCK-1: what may be submitted, and what is refused with advice."""

from __future__ import annotations

import asyncio
import functools
import math
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from asyncpool import Pool, SerializationError
from tests.support import jobs

from .soundness import assert_sound, full_crew

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        before = await full_crew(pool, 1)
        yield pool
        await assert_sound(pool, 1)
        assert await full_crew(pool, 1) == before


def twice(fn: Callable[[int], int]) -> Callable[[int], int]:
    @functools.wraps(fn)
    def wrapper(number: int) -> int:
        return fn(fn(number))

    return wrapper


@twice
def plus_two(number: int) -> int:
    return number + 1


@functools.lru_cache
def cached(number: int) -> int:
    return number + 1


@functools.singledispatch
def kind(value: object) -> str:
    return "object"


@kind.register
def _(value: int) -> str:
    return "int"


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, number: int) -> int:
        return self.factor * number

    def plus(self, number: int) -> int:
        return self.factor + number

    async def later(self, number: int) -> int:
        await asyncio.sleep(0)
        return self.factor - number

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    @staticmethod
    def negative(number: int) -> int:
        return -number

    class Inner:
        @staticmethod
        def deep() -> str:
            return "deep"


def undecorated(number: int) -> int:
    return number


original = undecorated


def undecorated(number: int) -> int:  # type: ignore[no-redef]
    return number + 100


def make_coroutine(number: int) -> Any:
    return Scale(number).later(0)


CALLABLES: dict[str, tuple[Callable[..., object], tuple[object, ...], object]] = {
    "decorated": (plus_two, (1,), 3),
    "cached": (cached, (1,), 2),
    "dispatched": (kind, (1,), "int"),
    "partial of partial": (functools.partial(functools.partial(operator.add, 3), 4), (), 7),
    "partial of bound": (functools.partial(Scale(3).plus, number=1), (), 4),
    "bound": (Scale(3).plus, (1,), 4),
    "bound coroutine": (Scale(3).later, (1,), 2),
    "class method": (Scale.name, (), "Scale"),
    "static method": (Scale.negative, (1,), -1),
    "inner": (Scale.Inner.deep, (), "deep"),
    "instance": (Scale(3), (2,), 6),
    "class": (Scale, (3,), None),
    "builtin": (math.sqrt, (4,), 2.0),
    "operator": (operator.add, (1, 2), 3),
    "itemgetter": (operator.itemgetter(1), ("abc",), "b"),
    "method of a type": (str.upper, ("a",), "A"),
    "method of a constant": (",".join, (["a", "b"],), "a,b"),
    "type": (int, ("12",), 12),
    "returns a coroutine": (make_coroutine, (5,), 5),
}


async def test_whatever_pickle_accepts_is_a_job(pool: Pool) -> None:
    """MAIN-5, MAIN-7."""
    for name, (function, arguments, expected) in CALLABLES.items():
        value = await pool.submit(function, *arguments)
        assert value == expected or (name == "class" and isinstance(value, Scale)), name


async def test_a_function_hidden_by_another_of_its_name(pool: Pool) -> None:
    """MAIN-5: the worker would run the other one."""
    with pytest.raises(SerializationError, match=r"undecorated .* holds another object") as caught:
        pool.submit(original, 1)
    assert caught.value.fn_name == "undecorated"
    assert await pool.submit(undecorated, 1) == 101


async def test_names_for_people(pool: Pool) -> None:
    """MAIN-5."""
    calls: dict[str, Callable[[], object]] = {
        "Scale.plus": functools.partial(pool.submit, Scale(3).plus, 1),
        "partial(add)": functools.partial(pool.submit, functools.partial(operator.add, 1), 1),
        "Scale": functools.partial(pool.submit, Scale(3), 1),
        "sqrt": functools.partial(pool.submit, math.sqrt, 1),
    }
    for name, call in calls.items():
        job: Any = call()
        await job
        assert job.fn_name == name


async def numbers() -> AsyncIterator[int]:
    yield 1


def plain_numbers() -> Iterator[int]:
    yield 1


async def test_a_coroutine_object_is_refused_and_closed(pool: Pool) -> None:
    """MAIN-7: with advice, and without a warning that it was never awaited."""
    with pytest.raises(TypeError, match=r"coroutine function.*submit\(later"):
        pool.submit(Scale(3).later(1))  # type: ignore[call-overload]


async def test_generator_functions_are_refused(pool: Pool) -> None:
    """MAIN-7: also wrapped, of either kind."""
    for function, advice in (
        (numbers, r"return \[item async for item in numbers"),
        (plain_numbers, r"return list\(plain_numbers"),
        (functools.partial(numbers), r"async for item in partial\(numbers\)"),
    ):
        with pytest.raises(TypeError, match=f"is a generator function.*{advice}"):
            pool.submit(function)


async def test_what_is_no_function_is_refused(pool: Pool) -> None:
    """MAIN-7."""
    for value in (5, "text", None):
        with pytest.raises(TypeError, match="a job needs a function"):
            pool.submit(value)  # type: ignore[call-overload]
    assert pool.jobs() == []


the_pool: Pool | None = None


def use_the_global_pool() -> object:
    assert the_pool is not None, "this is the worker's own module: there is no pool here"
    return the_pool.submit(jobs.add, 1, 2)


async def test_the_pool_cannot_be_sent_to_itself(pool: Pool) -> None:
    """DEADLOCK-1: an error at once, instead of jobs that wait for their own places."""
    job = pool.submit(jobs.add, 1, 1)
    calls: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (jobs.echo, (pool,)),
        (pool.submit, (jobs.add,)),
        (lambda: pool, ()),
        (jobs.echo, (job,)),
        (jobs.echo, (pool.options(timeout=1),)),
    ]
    for function, arguments in calls:
        with pytest.raises(SerializationError, match="cannot be sent to a worker"):
            pool.submit(function, *arguments)
    assert await job == 2


async def test_a_global_pool_is_not_there_in_workers(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEADLOCK-1: a module's own pool does not exist in a worker."""
    monkeypatch.setattr("tests.cases.test_callables.the_pool", pool)
    with pytest.raises(AssertionError, match="no pool here"):
        await pool.submit(use_the_global_pool)
