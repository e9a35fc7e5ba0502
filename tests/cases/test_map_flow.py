"""`map`: how far it takes ahead, and what leaving it early leaves behind. SCALE-1."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from asyncpool import Pool
from tests.support import jobs, procs
from tests.support.marks import Marks

from . import mapped
from .mapped import Source
from .soundness import assert_sound, full_crew


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        yield pool
        await assert_sound(pool, 2)


async def turns(count: int = 50) -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["plain", "later"])
@pytest.mark.parametrize(("buffersize", "chunksize"), [(1, 1), (4, 1), (8, 3), (6, 6), (3, 10)])
async def test_no_more_than_buffersize_is_taken_ahead(
    pool: Pool, kind: str, buffersize: int, chunksize: int
) -> None:
    """SCALE-1: of an endless source, however slowly the results are read."""
    source = Source()
    results = pool.map(
        mapped.square, getattr(source, kind)(), buffersize=buffersize, chunksize=chunksize
    )
    async with aclosing(results):
        for received in range(1, 3 * buffersize):
            await anext(results)
            assert source.taken - received <= buffersize
            await turns()
            assert source.taken - received <= buffersize
    assert source.closed


async def test_the_whole_buffer_is_used(pool: Pool) -> None:
    """While somebody reads, `buffersize` items are under way."""
    source = Source()
    results = pool.map(mapped.square, source.plain(), buffersize=7)
    async with aclosing(results):
        await anext(results)
        await turns()
        assert source.taken == 8


async def test_an_endless_source_begins_at_once(pool: Pool) -> None:
    """SCALE-1: with the documented window of 16 items for each worker."""
    source = Source()
    results = pool.map(mapped.square, source.plain())
    async with aclosing(results):
        async with asyncio.timeout(2):
            assert await anext(results) == 0
        assert [await anext(results) for _ in range(9)] == [n * n for n in range(1, 10)]
        assert source.taken <= 10 + 16 * 2
    assert source.closed
    assert pool.jobs() == []


async def test_itertools_count(pool: Pool) -> None:
    """SCALE-1: an iterator that cannot be closed."""
    results = pool.map(mapped.square, itertools.count())
    async with aclosing(results):
        assert [await anext(results) for _ in range(10)] == [n * n for n in range(10)]
    assert pool.jobs() == []


@pytest.mark.parametrize("ordered", [True, False])
async def test_leaving_the_loop_cancels_the_rest(pool: Pool, marks: Marks, ordered: bool) -> None:
    """SCALE-1: running items are stopped, waiting ones never run, the source is closed."""
    before = await full_crew(pool, 2)
    source = Source()
    async with aclosing(
        pool.map(
            mapped.mark_and_hang,
            itertools.repeat(marks.path),
            source.later(),
            buffersize=20,
            ordered=ordered,
        )
    ) as results:
        async for value in results:
            assert value == 0
            break
        await procs.eventually(lambda: marks.count() == 3, what="two more items run")
    assert source.closed
    assert pool.jobs() == []
    await assert_sound(pool, 2)
    assert not set(before) & set(await full_crew(pool, 2))
    assert marks.count() == 3
    assert pool.stats().crashes == 0


async def test_break_without_closing(pool: Pool, marks: Marks) -> None:
    """Nobody holds the iterator after `break`: the loop itself closes it."""
    source = Source()
    async for _ in pool.map(mapped.mark_and_hang, itertools.repeat(marks.path), source.plain()):
        break
    async with asyncio.timeout(10):
        await pool.drain()
    await turns()
    assert source.closed


async def test_the_reader_is_cancelled(pool: Pool, marks: Marks) -> None:
    """Its jobs go with it."""
    source = Source()
    first = asyncio.Event()

    async def read() -> None:
        paths = itertools.repeat(marks.path)
        async with aclosing(pool.map(mapped.mark_and_hang, paths, source.plain())) as results:
            async for _ in results:
                first.set()

    reader = asyncio.create_task(read())
    await first.wait()
    await turns()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert source.closed
    assert pool.jobs() == []


async def test_a_slow_source_holds_nothing_back(pool: Pool) -> None:
    """A result that is ready is handed out while the source waits."""
    more = asyncio.Event()

    async def items() -> AsyncGenerator[int, None]:
        yield 3
        yield 4
        await more.wait()
        yield 5

    for ordered in (True, False):
        more.clear()
        results = pool.map(mapped.square, items(), ordered=ordered)
        assert {await anext(results), await anext(results)} == {9, 16}
        more.set()
        assert [value async for value in results] == [25]


async def test_leaving_while_the_source_waits(pool: Pool) -> None:
    """The source is told by a cancellation, and its `finally` runs."""
    closed = asyncio.Event()

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 3
            await asyncio.get_running_loop().create_future()
        finally:
            closed.set()

    results = pool.map(mapped.square, items())
    assert await anext(results) == 9
    await results.aclose()
    assert closed.is_set()


async def test_within_max_pending(marks: Marks) -> None:
    """`map` waits for room, beside other jobs."""
    async with Pool(2, max_pending=3) as pool:
        source = Source(40)
        results = pool.map(mapped.square, source.plain(), buffersize=30)
        others = [await pool.enqueue(jobs.add, n, 1) for n in range(3)]
        got = []
        async for value in results:
            got.append(value)
            assert len(pool.jobs()) <= 3
        assert got == [n * n for n in range(40)]
        assert await asyncio.gather(*others) == [1, 2, 3]


async def test_many_submits_behind_a_semaphore(pool: Pool) -> None:
    """SCALE-1: as people do it by hand; nothing piles up."""
    room = asyncio.Semaphore(100)

    async def square(number: int) -> int:
        async with room:
            assert len(pool.jobs()) < 100
            return await pool.submit(mapped.square, number)

    assert await asyncio.gather(*map(square, range(1000))) == [n * n for n in range(1000)]


async def test_a_map_that_is_never_read(pool: Pool) -> None:
    """Nothing is taken, nothing runs."""
    source = Source()
    results = pool.map(mapped.square, source.plain())
    await turns()
    assert source.taken == 0
    await results.aclose()


async def test_two_maps_at_once(pool: Pool) -> None:
    """They share the workers, and neither waits for the other's reader."""
    one = pool.map(mapped.square, itertools.count(), buffersize=50)
    other = pool.map(mapped.square, range(100))
    async with aclosing(one):
        assert await anext(one) == 0
        assert len([value async for value in other]) == 100


async def test_the_pool_is_closed_under_a_map() -> None:
    """The reader learns it; nothing hangs."""
    async with Pool(1) as pool:
        results = pool.map(mapped.square, itertools.count())
        assert await anext(results) == 0
        await pool.close(cancel=True)
        with pytest.raises((asyncio.CancelledError, RuntimeError)):
            async for _ in results:
                pass
