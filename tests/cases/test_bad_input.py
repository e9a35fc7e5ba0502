"""Bad input gets a clear error where it was given, and costs no other job anything."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

import asyncpool
from asyncpool import Pool, Retry
from asyncpool.testing import Chaos
from tests.support import jobs

from . import programs
from .soundness import assert_sound


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(1) as pool:
        yield pool
        await assert_sound(pool, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"on": "ValueError"},
        {"on": 5},
        {"on": None},
        {"on": ValueError},
        {"on": [ValueError]},
        {"on": (ValueError, "KeyError")},
        {"on": (int,)},
        {"max_crashes": "3"},
        {"max_errors": None},
        {"factor": "2"},
        {"delay": None},
    ],
    ids=str,
)
def test_a_retry_that_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        Retry(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"preload": "json"},
        {"preload": [json]},
        {"preload": [1]},
        {"env": {"A": 1}},
        {"env": {1: "a"}},
        {"chaos": 0.3},
    ],
    ids=str,
)
def test_a_pool_that_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        Pool(1, **options)


def test_arguments_without_an_initializer() -> None:
    with pytest.raises(ValueError, match="without an initializer"):
        Pool(1, initargs=(1,))


async def test_an_id_that_nobody_knows(pool: Pool) -> None:
    with pytest.raises(KeyError, match="no job has the id 'nope'"):
        pool.job("nope")


@pytest.mark.parametrize("options", [{"seed": object()}, {"deaths": "exit"}, {"points": "a"}])
def test_chaos_that_makes_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        Chaos(crash_rate=0.5, **options)


async def test_an_id_that_is_no_unicode(pool: Pool) -> None:
    with pytest.raises(ValueError, match="Unicode"):
        pool.options(id="a\ud800")


@pytest.mark.parametrize("options", [{"deadline": -1}, {"delay": -1}, {"timeout": 0}], ids=str)
async def test_negative_times(pool: Pool, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="0 and finite"):
        pool.options(**options)


def test_submit_where_no_loop_runs() -> None:
    pool = Pool(1)

    async def use() -> None:
        async with pool:
            with pytest.raises(RuntimeError, match="run_coroutine_threadsafe"):
                await asyncio.to_thread(pool.submit, jobs.add, 1, 1)

    asyncio.run(use())


class Ending(BaseException):
    pass


async def test_a_source_of_map_that_raises_no_exception(pool: Pool) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise Ending

    results = pool.map(jobs.echo, source())
    async with asyncio.timeout(20):
        assert await anext(results) == 1
        with pytest.raises(Ending):
            await anext(results)


class Unruly(Exception):
    """Its `__getattr__` raises what no `__getattr__` should."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.fields: dict[str, object] = {}

    def __getattr__(self, name: str) -> object:
        return self.__dict__["fields"][name]


def raise_unruly() -> None:
    raise Unruly("boo")


async def test_an_exception_with_an_unruly_getattr(pool: Pool) -> None:
    async with asyncio.timeout(20):
        # Not `pytest.raises`: pytest looks for notes, too.
        [error] = await asyncio.gather(pool.submit(raise_unruly), return_exceptions=True)
    assert type(error) is Unruly
    assert error.args == ("boo",)
    assert pool.stats().failed == 1


class Text(str):
    __slots__ = ()


class Wordy(Exception):
    def __str__(self) -> str:
        return Text("many words")


def raise_wordy() -> None:
    raise Wordy


async def test_an_exception_whose_text_is_no_plain_str(pool: Pool) -> None:
    with pytest.raises(Wordy):
        await pool.submit(raise_wordy)
    assert pool.stats().crashes == 0


def drop_stdout() -> int:
    del sys.stdout
    return 1


async def test_a_job_that_deletes_stdout(pool: Pool) -> None:
    assert await pool.submit(drop_stdout) == 1
    assert pool.stats().crashes == 0


class Step(IntEnum):
    FIRST = 1


def report_odd_types() -> None:
    asyncpool.current_job().progress(Step.FIRST, Step.FIRST, Text("one"))


async def test_progress_of_subclasses(pool: Pool) -> None:
    job = pool.submit(report_odd_types)
    await job
    assert job.progress is not None
    assert (job.progress.done, job.progress.total, job.progress.message) == (1, 1, "one")


class Meddler:
    """Cancels the job whose result it is as soon as it is unpickled in the parent."""

    job: asyncpool.Job[Any] | None = None

    def __reduce__(self) -> Any:
        return meddle, (os.getpid(),)


def meddle(made_in: int) -> str:
    if os.getpid() != made_in and Meddler.job is not None:
        Meddler.job.cancel()
    return "meddled"


def report_from_a_signal_handler() -> int:
    """Report progress as fast as it goes, and also from a handler that interrupts just that."""
    done = 0

    def interrupt(*_: object) -> None:
        nonlocal done
        done += 1
        asyncpool.current_job().progress(done, message="handler")

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    try:
        while done < 2_000:
            asyncpool.current_job().progress(done, message="job")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return done


async def test_progress_from_a_signal_handler(pool: Pool) -> None:
    job = pool.submit(report_from_a_signal_handler)
    async with asyncio.timeout(20):
        assert await job >= 2_000
    assert job.progress is not None


async def test_a_result_that_cancels_its_own_job(pool: Pool) -> None:
    Meddler.job = pool.submit(Meddler)
    with pytest.raises(asyncio.CancelledError):
        await Meddler.job
    Meddler.job = None
    async with asyncio.timeout(20):
        await pool.drain()


async def test_methods_of_builtin_objects_are_never_stale(pool: Pool) -> None:
    numbers = {"k": 1}
    assert await pool.submit(numbers.get, "k") == 1
    numbers["k"] = 2
    assert await pool.submit(numbers.get, "k") == 2


def test_functions_by_value_are_never_stale(tmp_path: Path) -> None:
    """Not even within one turn of the loop, when what changes is out of the function's sight."""
    program = """\
import asyncio, asyncpool
settings = {"x": 0}
def inner():
    return K
def outer():
    return inner()
def look():
    return settings["x"]
async def main():
    global K
    async with asyncpool.Pool(1) as pool:
        jobs = []
        for K in (1, 2, 3):
            settings["x"] = K * 10
            jobs += [pool.submit(outer), pool.submit(look), pool.submit(lambda: [inner()])]
        print(*await asyncio.gather(*jobs))
asyncio.run(main())
"""
    (tmp_path / "program.py").write_text(program)
    finished = programs.run("program.py", cwd=tmp_path)
    assert finished.out == "1 10 [1] 2 20 [2] 3 30 [3]\n"


def test_a_deleted_directory_and_a_relative_path(tmp_path: Path) -> None:
    program = """\
import asyncio, asyncpool, os, pathlib, shutil, sys
sys.path.insert(0, "")
sys.argv.append(pathlib.Path("odd"))
async def main():
    async with asyncpool.Pool(1) as pool:
        print(await pool.submit(abs, -1))
        shutil.rmtree(os.getcwd())
        print(await pool.submit(lambda: 2))
    async with asyncpool.Pool(1) as pool:
        print(await pool.submit(lambda: 3))
asyncio.run(main())
"""
    (tmp_path / "gone").mkdir()
    assert programs.run("-c", program, cwd=tmp_path / "gone").out == "1\n2\n3\n"
