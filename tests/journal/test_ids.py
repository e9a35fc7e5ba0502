"""An id names one call, which is run to its end once, however often the program is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncpool import DuplicateJob, Job, JobState, Pool
from tests.journal import tasks
from tests.journal.lives import left, live, program, records
from tests.support import jobs
from tests.support.marks import Marks


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


async def test_made_up_ids_never_repeat(journal: str) -> None:
    """R-ID."""
    seen: list[str] = []
    for life in range(5):
        async with left(Pool(1, journal=journal)) as pool:
            assert [job.id for job in pool.recovered] == seen[1::2]
            done = pool.submit(jobs.add, life, 1)
            waiting = pool.options(delay=3600.0).submit(jobs.add, life, 2)
            await asyncio.gather(done, waiting.accepted())
            seen += [done.id, waiting.id]
    assert len(set(seen)) == 10
    submitted = [record["id"] for record in records(journal) if record["kind"] == "submitted"]
    assert submitted == seen


async def test_the_same_call_is_run_once(journal: str, marks: Marks) -> None:
    """R-ID."""
    for _ in range(3):
        async with Pool(1, journal=journal) as pool:
            view = pool.options(id="thumb-42")
            first = view.submit(jobs.mark_then, marks.path, 42)
            second = view.submit(jobs.mark_then, marks.path, 42)
            third = await view.enqueue(jobs.mark_then, marks.path, 42)
            await first.accepted()
            assert [await first, await second, await third] == [42, 42, 42]
            assert await view.submit(jobs.mark_then, marks.path, 42) == 42
    assert marks.count() == 1


async def test_while_it_is_unfinished_the_id_gives_the_same_job(
    tmp_path: Path, journal: str, marks: Marks
) -> None:
    """R-ID: pending, running, recovered."""
    call: tuple[Any, ...] = (tasks.hold, marks.path, "held", str(tmp_path / "gate"))
    async with left(Pool(1, journal=journal)) as pool:
        job = pool.options(id="one").submit(*call)
        assert pool.options(id="one").submit(*call) is job
        await job.started()
        assert pool.options(id="one").submit(*call) is job
        assert pool.job("one") is job
    async with Pool(1, journal=journal) as pool:
        (job,) = pool.recovered
        assert pool.job("one") is job
        assert pool.options(id="one").submit(*call) is job
        with pytest.raises(DuplicateJob):
            pool.options(id="one").submit(tasks.hold, marks.path, "other", call[3])
        (tmp_path / "gate").touch()
        assert await job == "held"
        assert pool.options(id="one").submit(*call) is job


@pytest.mark.parametrize("state", ["pending", "done", "failed", "cancelled"])
async def test_another_call_is_refused(journal: str, marks: Marks, state: str) -> None:
    """R-ID."""
    async with left(Pool(1, journal=journal)) as pool:
        view = pool.options(id="mine")
        job = view.submit(*call_that_ends(state), marks.path)
        await job.accepted()
        if state == "cancelled":
            await pool.terminate(job.id)
        elif state != "pending":
            await asyncio.gather(job, return_exceptions=True)
        _assert_refused(pool, state, marks)
    size = len(records(journal))
    async with left(Pool(1, journal=journal)) as pool:
        _assert_refused(pool, state, marks)
    assert [it["kind"] for it in records(journal)[size:]] == ["opened", "closed"]


def call_that_ends(state: str) -> tuple[Callable[..., object]]:
    return {"failed": (tasks.fail,), "done": (tasks.succeed,)}.get(state, (tasks.never_end,))


def _assert_refused(pool: Pool, state: str, marks: Marks) -> None:
    view, (fn,) = pool.options(id="mine"), call_that_ends(state)
    for other in (
        (fn, marks.path + "x"),
        (fn,),
        (fn, marks.path, marks.path),
        (jobs.echo, marks.path),
    ):
        how = f"of {fn.__name__}, not of" if other[0] is not fn else "with other arguments"
        with pytest.raises(DuplicateJob, match=f"'mine' belongs to another call, {how}"):
            view.submit(*other)
    with pytest.raises(DuplicateJob):
        view.submit(fn, marks=marks.path)
    assert view.submit(fn, marks.path) is not None


# The same values, pickled in another process

EQUALS = {
    "set": "{'a', 'b', 'c', 'd', 'e'}",
    "frozenset": "[frozenset({'a', 'b', 'c'}), frozenset('xyzuvw')]",
    "dict of sets": "{'x': {'a', 'b', 'c'}, 'y': ({'d', 'e', 'f'},)}",
    "set as a key": "{frozenset('abcdef'): 1}",
    "object": "tasks.Point(1, {'a', 'b', 'c', 'd'})",
    "object without eq": "tasks.Plain({'a', 'b', 'c', 'd'}, inner=tasks.Plain({'x', 'y', 'z'}))",
    "not a number": "[float('nan'), {'a', 'b', 'c'}]",
    "interned or not": "['ab', 'a' + str('b'), 'ab' * 3]",
    "dict in another order": "{'a': 1, 'b': 2} if life == '1' else {'b': 2, 'a': 1}",
}
OTHERS = {
    "bool": "True if life == '1' else 1",
    "float": "1.0 if life == '1' else 1",
    "zero": "0.0 if life == '1' else -0.0",
    "in a set": "{'a', 'b', True} if life == '1' else {'a', 'b', 2}",
    "in an object": "tasks.Plain(set('abc'), 1 if life == '1' else 1.0)",
    "tuple": "(1, 2) if life == '1' else [1, 2]",
    "order": "['a', 'b'] if life == '1' else ['b', 'a']",
    "case": "'a' if life == '1' else 'A'",
    "longer": "'a' if life == '1' else 'aa'",
}

ANOTHER_PROCESS = """
    from asyncpool import DuplicateJob
    life = os.environ["LIFE"]
    async with Pool(1, journal=JOURNAL) as pool:
        try:
            await pool.options(id="one").submit(tasks.mark_value, MARKS, {value})
        except DuplicateJob:
            print("duplicate")
"""


def two_lives(tmp_path: Path, value: str) -> str:
    out = ""
    for life in "12":
        env = {"PYTHONHASHSEED": life, "LIFE": life}
        out = live(program(ANOTHER_PROCESS.format(value=value), tmp_path, env=env)).stdout
    return out


@pytest.mark.parametrize("value", EQUALS.values(), ids=EQUALS)
def test_equal_arguments_are_the_same_call(tmp_path: Path, marks: Marks, value: str) -> None:
    assert two_lives(tmp_path, value) == ""
    assert marks.count() == 1


@pytest.mark.parametrize("value", OTHERS.values(), ids=OTHERS)
def test_other_arguments_are_another_call(tmp_path: Path, marks: Marks, value: str) -> None:
    assert two_lives(tmp_path, value) == "duplicate\n"
    assert marks.count() == 1


# Looking it up


async def test_jobs_are_found_by_id_in_later_lives(journal: str) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        unnamed = pool.submit(jobs.add, 1, 2)
        named = pool.options(id="named").submit(jobs.echo, [3])
        given_up = pool.options(id="given up").submit(jobs.spin)
        await asyncio.gather(unnamed, named, given_up.accepted())
        assert await pool.terminate("given up")
        waiting = pool.options(id="waiting", delay=3600.0).submit(jobs.add, 3, 4)
        await waiting.accepted()
        ids = [unnamed.id, named.id, given_up.id]
        del unnamed, named, given_up
        await _assert_known(pool, ids)
    for _ in range(2):
        async with left(Pool(1, journal=journal)) as pool:
            await _assert_known(pool, ids)


async def _assert_known(pool: Pool, ids: list[str]) -> None:
    found: list[Job[Any]] = [pool.job(job_id) for job_id in ids]
    assert [job.id for job in found] == ids
    assert [job.state for job in found] == [JobState.DONE] * 2 + [JobState.CANCELLED]
    assert [job.fn_name for job in found] == ["add", "echo", "spin"]
    assert [await found[0], await found[1]] == [3, [3]]
    assert found[2].cancelled()
    assert not pool.job("waiting").done()
    assert await pool.terminate("named") is False
    with pytest.raises(KeyError, match="no job has the id 'nobody'"):
        pool.job("nobody")
