"""`map`: what comes out, in which order, and how errors come out. SCALE-1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncpool import JobExited, Pool, Retry, SerializationError, WorkerCrashed
from tests.support.marks import Marks

from . import mapped
from .mapped import FAILING, Source
from .soundness import assert_sound

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(2, retry=Retry(max_crashes=1)) as pool:
        yield pool
        await assert_sound(pool, 2)


async def collect(results: AsyncIterator[Any]) -> tuple[list[Any], Exception | None]:
    """Return what is yielded, and what is raised in the end."""
    got: list[Any] = []
    try:
        async for value in results:
            got.append(value)  # noqa: PERF401 - what was got before an error counts
    except Exception as error:
        return got, error
    return got, None


@pytest.mark.parametrize("chunksize", [1, 3, 10, 50])
async def test_results_in_order(pool: Pool, chunksize: int) -> None:
    expected = [number * number for number in range(50)]
    for function in (mapped.square, mapped.square_later):
        for buffersize in (None, 1, 4):
            results = pool.map(function, range(50), chunksize=chunksize, buffersize=buffersize)
            assert [value async for value in results] == expected


@pytest.mark.parametrize("chunksize", [1, 7])
async def test_results_as_they_come(pool: Pool, chunksize: int) -> None:
    results = pool.map(mapped.square, range(50), ordered=False, chunksize=chunksize)
    assert {value async for value in results} == {number * number for number in range(50)}


async def test_a_late_result_is_overtaken_only_if_unordered(pool: Pool, marks: Marks) -> None:
    """Item 0 waits until item 1 runs; unordered, whoever is ready comes first."""
    files = [marks.path] * 4
    ordered = pool.map(mapped.wait_for_file, range(4), files)
    assert [value async for value in ordered] == [0, 1, 2, 3]


async def test_the_shortest_source_ends_it(pool: Pool) -> None:
    source = Source()
    results = pool.map(mapped.join, source.later(), "abc", range(9))
    assert [value async for value in results] == ["0-a-0", "1-b-1", "2-c-2"]
    assert source.closed


async def test_nothing_to_map(pool: Pool) -> None:
    for chunksize in (1, 5):
        empty: list[int] = []
        assert [value async for value in pool.map(mapped.square, empty, chunksize=chunksize)] == []
        assert [v async for v in pool.map(mapped.square, Source(0).later(), chunksize=3)] == []


@pytest.mark.parametrize("chunksize", [1, 2, 4, 20])
async def test_an_item_that_raises(pool: Pool, chunksize: int) -> None:
    """Its error comes in its place, after what was before it."""
    got, error = await collect(pool.map(mapped.fail_at, range(20), chunksize=chunksize))
    assert got == list(range(FAILING))
    assert type(error) is ValueError
    assert error.args == (f"item {FAILING}",)
    assert "mapped.py" in "\n".join(error.__notes__)


@pytest.mark.parametrize("chunksize", [1, 2, 4, 20])
async def test_errors_among_the_results(pool: Pool, chunksize: int) -> None:
    results = pool.map(mapped.fail_at, range(20), chunksize=chunksize, return_exceptions=True)
    got, error = await collect(results)
    assert error is None
    assert isinstance(got[FAILING], ValueError)
    assert got[:FAILING] + got[FAILING + 1 :] == [n for n in range(20) if n != FAILING]


@pytest.mark.parametrize("chunksize", [1, 4])
async def test_an_item_that_exits(pool: Pool, chunksize: int) -> None:
    """It costs its neighbours in the chunk nothing."""
    results = pool.map(mapped.exit_at, range(8), chunksize=chunksize, return_exceptions=True)
    got, _ = await collect(results)
    assert isinstance(got[FAILING], JobExited)
    assert len([value for value in got if isinstance(value, int)]) == 7


@pytest.mark.parametrize("chunksize", [1, 4])
async def test_an_item_that_kills_its_worker(pool: Pool, chunksize: int) -> None:
    """Each item of its chunk has an error: results and items stay side by side."""
    results = pool.map(mapped.die_at, range(12), chunksize=chunksize, return_exceptions=True)
    got, _ = await collect(results)
    lost = range(FAILING, FAILING + 1) if chunksize == 1 else range(4, 8)
    assert len(got) == 12
    for number, value in enumerate(got):
        assert isinstance(value, WorkerCrashed) if number in lost else value == number


@pytest.mark.parametrize("chunksize", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "later"])
async def test_a_source_that_raises(pool: Pool, kind: str, chunksize: int) -> None:
    """SCALE-1: all items before it have results; its `finally` runs."""
    source = Source(raise_at=5)
    got, error = await collect(
        pool.map(mapped.square, getattr(source, kind)(), chunksize=chunksize)
    )
    assert got == [0, 1, 4, 9, 16]
    assert isinstance(error, LookupError)
    assert source.closed


async def test_a_source_that_was_cancelled(pool: Pool) -> None:
    """A task that the source awaited was cancelled: that ends the map, and nothing hangs."""

    async def items() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    results = pool.map(mapped.square, items())
    assert await anext(results) == 1
    with pytest.raises(asyncio.CancelledError):
        await anext(results)


async def test_an_item_that_does_not_pickle(pool: Pool) -> None:
    """What comes before it has results."""
    items = [1, 2, (number for number in range(3)), 4]
    got, error = await collect(pool.map(mapped.join, items))
    assert got == ["1", "2"]
    assert isinstance(error, SerializationError)


async def test_a_terminated_item(pool: Pool, marks: Marks) -> None:
    """With `return_exceptions` it is a result like any other, as in `asyncio.gather`."""
    results = pool.map(mapped.mark_and_hang, [marks.path] * 2, range(2), return_exceptions=True)
    assert await anext(results) == 0
    [hanging] = pool.jobs()
    assert await pool.terminate(hanging.id)
    assert isinstance(await anext(results), asyncio.CancelledError)
    assert await anext(results, None) is None


async def test_bad_arguments(pool: Pool) -> None:
    """They raise at the call, not in the loop."""
    with pytest.raises(TypeError, match="at least one iterable"):
        pool.map(mapped.square)
    with pytest.raises(TypeError, match="not iterable"):
        pool.map(mapped.square, 5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="needs a function"):
        pool.map(5, [1])  # type: ignore[call-overload]
    for bad in ({"buffersize": 0}, {"chunksize": 0}, {"chunksize": -1}):
        with pytest.raises(ValueError, match="at least 1"):
            pool.map(mapped.square, [1], **bad)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="names one job"):
        pool.options(id="one").map(mapped.square, [1])
    with pytest.raises(ValueError, match="chunksize=1"):
        pool.options(retry=Retry(max_errors=1)).map(mapped.square, [1], chunksize=2)
