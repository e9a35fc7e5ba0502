"""NESTED-1: jobs that start processes of their own, in every way."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import asyncpool
from asyncpool import Pool
from tests.support import jobs

from . import programs
from .soundness import full_crew

pytestmark = pytest.mark.loops("asyncio")  # whatever loop there is, it takes no part

NUMBERS = [1.0, 4.0, 9.0]


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        before = await full_crew(pool, 1)
        yield pool
        assert await pool.submit(jobs.add, 1, 1) == 2
        # What multiprocessing keeps for the worker's next use goes when the worker goes.
        assert await full_crew(pool, 1) == before
        assert pool.stats().crashes == 0


def with_multiprocessing(method: str) -> list[float]:
    with multiprocessing.get_context(method).Pool(2) as workers:
        return workers.map(math.sqrt, NUMBERS)


def with_an_executor() -> list[float]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        return list(executor.map(math.sqrt, NUMBERS))


def with_asyncio() -> bytes:
    return asyncio.run(with_a_subprocess())


async def with_a_subprocess() -> bytes:
    program = "print(sum(range(4)))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    return output


async def with_a_pool_of_its_own() -> list[int]:
    async with asyncpool.Pool(2) as pool:
        return [value async for value in pool.map(jobs.fib, range(8))]


def with_a_pool_in_a_loop_of_its_own() -> list[int]:
    return asyncio.run(with_a_pool_of_its_own())


def fork_and_wait() -> int:
    """Fork without exec: the child must neither answer for the worker nor disturb it."""
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_multiprocessing(pool: Pool, method: str) -> None:
    """NESTED-1."""
    assert await pool.submit(with_multiprocessing, method) == [1, 2, 3]


async def test_an_executor(pool: Pool) -> None:
    """NESTED-1."""
    assert await pool.submit(with_an_executor) == [1, 2, 3]


async def test_subprocesses(pool: Pool) -> None:
    """NESTED-1: in a loop of the job's own, and in the worker's."""
    assert await pool.submit(with_asyncio) == b"6\n"
    assert await pool.submit(with_a_subprocess) == b"6\n"


async def test_a_pool_within_a_job(pool: Pool) -> None:
    """NESTED-1."""
    expected = [0, 1, 1, 2, 3, 5, 8, 13]
    assert await pool.submit(with_a_pool_of_its_own) == expected
    assert await pool.submit(with_a_pool_in_a_loop_of_its_own) == expected


async def test_a_forked_child(pool: Pool) -> None:
    """NESTED-1."""
    for _ in range(3):
        assert await pool.submit(fork_and_wait) == 7


def test_the_main_module_within_a_job(tmp_path: Path) -> None:
    """NESTED-1: what MAIN-1 demands holds two levels down, and classes stay what they are."""
    program = """\
import asyncio, asyncpool
print("top")
class Point:
    def __init__(self, x): self.x = x
def double(point):
    assert type(point) is Point
    return Point(2 * point.x)
async def nested(point):
    async with asyncpool.Pool(1) as pool:
        doubled = await pool.submit(double, point)
        assert type(doubled) is Point
        return await pool.submit(lambda: Point(doubled.x + 1))
async def main():
    async with asyncpool.Pool(1) as pool:
        point = await pool.submit(nested, Point(4))
        assert type(point) is Point
        print(point.x)
asyncio.run(main())
"""
    (tmp_path / "my-job.py").write_text(program)
    assert programs.run("my-job.py", cwd=tmp_path).out == "top\n9\n"


def test_processes_of_a_job_of_the_main_module(tmp_path: Path) -> None:
    """NESTED-1: `multiprocessing` in a worker does not run the program again."""
    program = """\
import asyncio, asyncpool, math, multiprocessing
print("top")
def roots():
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        return workers.map(math.sqrt, [1.0, 4.0])
async def main():
    async with asyncpool.Pool(1) as pool:
        print(await pool.submit(roots))
asyncio.run(main())
"""
    (tmp_path / "program.py").write_text(program)
    assert programs.run("program.py", cwd=tmp_path).out == "top\n[1.0, 2.0]\n"
