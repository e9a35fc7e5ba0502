"""`map` on a pool with a journal, and a journal that many jobs went through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asyncpool import Pool
from tests.journal.lives import ends, left, records
from tests.support import jobs, procs
from tests.support.marks import Marks


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


@pytest.mark.parametrize("chunksize", [1, 7])
@pytest.mark.parametrize("ordered", [True, False])
async def test_every_item_is_recorded(journal: str, chunksize: int, ordered: bool) -> None:
    async with Pool(2, journal=journal) as pool:
        results = pool.map(jobs.echo, range(50), chunksize=chunksize, ordered=ordered)
        assert sorted([value async for value in results]) == list(range(50))
    assert set(ends(journal).values()) == {"done"}
    assert len(ends(journal)) == -(-50 // chunksize)


@pytest.mark.parametrize("chunksize", [1, 3])
async def test_what_was_left_of_a_map_comes_back(
    journal: str, marks: Marks, chunksize: int
) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        busy = await pool.options(priority=1).enqueue(jobs.spin)
        mapping = pool.map(jobs.mark_then, [marks.path] * 9, range(9), chunksize=chunksize)
        first = asyncio.ensure_future(anext(mapping))
        await procs.eventually(lambda: len(pool.jobs()) == 1 + 9 // chunksize)
        await pool.enqueue(jobs.add, 1, 2)  # accepted after all of them
    with pytest.raises(asyncio.CancelledError):
        await first
    async with Pool(1, journal=journal) as pool:
        assert len(pool.recovered) == 1 + 9 // chunksize + 1
        await pool.terminate(busy.id)
        await asyncio.gather(*pool.recovered[1:])
    assert marks.lines() == [*map(str, range(9))]


async def test_leaving_the_loop_gives_up_the_rest_for_good(journal: str, marks: Marks) -> None:
    async with Pool(1, journal=journal) as pool:
        async for value in pool.map(jobs.mark_then, [marks.path] * 20, range(20), buffersize=5):
            if value == 3:
                break
        await pool.submit(jobs.add, 1, 2)
        runs = marks.count()
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []
    assert marks.count() == runs < 20


async def test_a_journal_does_not_grow_with_what_ended_long_ago(journal: str) -> None:
    """J-GROW, SCALE-2: one job of the beginning stays unfinished."""
    async with left(Pool(2, journal=journal)) as pool:
        first = await pool.options(delay=3600.0).enqueue(jobs.add, 1, 2)
        assert [n async for n in pool.map(jobs.echo, range(8000))] == list(range(8000))
    assert Path(journal).stat().st_size > 3_000_000
    async with left(Pool(1, journal=journal)) as pool:
        assert Path(journal).stat().st_size < 1_000_000
        assert [job.id for job in pool.recovered] == [first.id]
    assert sorted(path.name for path in Path(journal).parent.iterdir()) == ["jobs.log"]
    assert len(ends(journal)) == 1000
    assert records(journal)[0]["compacted"] >= 16_000
