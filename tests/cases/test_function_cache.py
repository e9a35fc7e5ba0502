"""Functions cross to a worker once; those that no job has called for long are forgotten."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from asyncpool import Pool
from asyncpool.functions import FunctionTable
from tests.support import jobs

from .soundness import assert_sound, full_crew

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part

CAPACITY = 256


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        before = await full_crew(pool, 2)
        yield pool
        await assert_sound(pool, 2)
        assert sorted(await full_crew(pool, 2)) == sorted(before)


def known_functions() -> int:
    """Return how many functions this worker remembers."""
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        assert frame.f_back is not None
        frame = frame.f_back
    return len(frame.f_locals["self"]._functions)


def adder(number: int) -> Callable[[int], int]:
    return lambda other: number + other


async def test_forgotten_functions_work_again(pool: Pool) -> None:
    """By the workers, too; the functions are sent again when they are called again."""
    adders = [adder(number) for number in range(CAPACITY + 100)]
    for _ in range(2):
        calls = [pool.submit(function, 1000) for function in adders]
        assert await asyncio.gather(*calls) == [1000 + n for n in range(len(adders))]
        for function in adders[:3]:
            assert await pool.submit(function, 0) == adders.index(function)
    for _ in range(4):
        assert await pool.submit(known_functions) <= CAPACITY


async def test_functions_with_unfinished_jobs_are_kept(pool: Pool) -> None:
    """However many there are."""
    blockers = [pool.submit(jobs.sleep_return, 0.5, n) for n in range(2)]
    calls = [pool.submit(adder(number), 1) for number in range(2 * CAPACITY)]
    assert await asyncio.gather(*calls) == [number + 1 for number in range(2 * CAPACITY)]
    assert await asyncio.gather(*blockers) == [0, 1]


async def test_a_loop_that_makes_a_lambda_each_time(pool: Pool) -> None:
    """The same text is the same function: it is remembered once."""
    for number in range(50):
        assert await pool.submit(lambda x: x + 1, number) == number + 1
    assert await pool.submit(known_functions) <= 3


def test_the_least_recently_used_goes_first() -> None:
    table = FunctionTable(capacity=2)
    first = table.find(jobs.add)
    second = table.find(jobs.fib)
    assert table.find(jobs.add) is first
    third = table.find(adder(1))
    assert len(table) == 2
    assert set(table.forgotten) <= {first.number, second.number}
    assert third.number not in table.forgotten


def test_a_function_in_use_is_never_forgotten() -> None:
    table = FunctionTable(capacity=1)
    kept = table.find(jobs.add)
    kept.users = 1
    for number in range(5):
        table.find(adder(number))
    assert kept.number not in table.forgotten
    assert table.find(jobs.add) is kept
    assert len(table.forgotten) == len(set(table.forgotten))


def test_a_forgotten_function_has_a_new_number() -> None:
    """So that a worker which has not been told yet cannot mistake one for the other."""
    table = FunctionTable(capacity=1)
    first = table.find(jobs.add)
    table.find(jobs.fib)
    assert table.forgotten == [first.number]
    assert table.find(jobs.add).number != first.number
