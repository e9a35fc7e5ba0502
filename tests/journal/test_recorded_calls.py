"""A journal takes calls that a restarted program can make again, and no others."""

from __future__ import annotations

import asyncio
import functools
import logging
import operator
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncpool import Pool, SerializationError
from tests.journal import tasks
from tests.journal.lives import ends, left, program, records
from tests.support import jobs
from tests.support.marks import Marks
from tests.support.scripts import How, Script


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


class Stubborn:
    def __getstate__(self) -> object:
        raise LookupError("no state")


class Nonsense:
    def __reduce__(self) -> Any:
        return 42


def nested() -> Callable[[], int]:
    value = 1

    def inner() -> int:
        return value

    return inner


def local() -> object:
    class Local:
        pass

    return Local()


BAD: dict[str, Callable[[], tuple[Any, ...]]] = {
    "lambda": lambda: (lambda: 1,),
    "closure": lambda: (nested(),),
    "open file": lambda: (jobs.echo, open(os.devnull)),  # noqa: SIM115
    "lock": lambda: (jobs.echo, threading.Lock()),
    "generator": lambda: (jobs.echo, (n for n in range(3))),
    "getstate": lambda: (jobs.echo, Stubborn()),
    "reduce": lambda: (jobs.echo, Nonsense()),
    "lambda as argument": lambda: (jobs.echo, [lambda: 1]),
    "partial of a lambda": lambda: (functools.partial(lambda n: n, 1),),
    "class of a function": lambda: (jobs.echo, local()),
}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("kind", BAD)
async def test_what_cannot_be_recorded_is_refused_at_once(journal: str, kind: str) -> None:
    """PICKLE-1."""
    async with Pool(1, journal=journal) as pool:
        await pool.submit(jobs.add, 1, 2)
        before = Path(journal).read_bytes()
        for view in (pool, pool.options(id="bad")):
            with pytest.raises(SerializationError) as told:
                view.submit(*BAD[kind]())
            assert told.value.__cause__ is not None
            with pytest.raises(SerializationError):
                await view.enqueue(*BAD[kind]())
        assert pool.jobs() == []
        (worker,) = pool.workers()
        assert Path(journal).read_bytes() == before
        assert await pool.options(id="bad").submit(jobs.add, 1, 2) == 3
        assert [each.pid for each in pool.workers()] == [worker.pid]
    assert [it["id"] for it in records(journal) if it["kind"] == "submitted"][1:] == ["bad"]


@pytest.mark.parametrize("kind", ["lambda", "closure", "lambda as argument"])
async def test_the_advice_says_where_it_should_be(journal: str, kind: str) -> None:
    advice = r"cannot be recorded in a journal.*restarted program.*the top level of a module"
    async with Pool(1, journal=journal) as pool:
        with pytest.raises(SerializationError, match=advice):
            pool.submit(*BAD[kind]())
        with pytest.raises(SerializationError, match="cannot be recorded"):
            async for _ in pool.map(lambda n: n, range(3)):
                pass
        assert pool.jobs() == []


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ((operator.mul, 6, 7), 42),
        ((functools.partial(operator.mul, 6), 7), 42),
        (("{} {}".format, 1, 2), "1 2"),
        ((tasks.Point(1, {"a"}).__eq__, tasks.Point(1, {"a"})), True),
        ((tasks.Point, 1, {"a"}), tasks.Point(1, {"a"})),
        ((asyncio.sleep, 0, "slept"), "slept"),
    ],
    ids=["builtin", "partial", "method of a value", "bound method", "class", "coroutine"],
)
async def test_whatever_can_be_imported_comes_back(
    journal: str, call: tuple[Any, ...], value: object
) -> None:
    async with left(Pool(1, journal=journal)) as pool:
        busy = pool.submit(jobs.spin)
        await pool.enqueue(*call)
    async with Pool(1, journal=journal) as pool:
        await pool.terminate(busy.id)
        assert await pool.recovered[1] == value


# The main script

MAIN = """
    import asyncio, sys
    from asyncpool import Pool, SerializationError

    class Size:
        def __init__(self, n): self.n = n

    def square(size): return Size(size.n ** 2)

    async def main():
        async with Pool(1, journal="jobs.log") as pool:
            try:
                job = pool.submit(square, Size(4))
            except SerializationError as error:
                print(error)
                try:
                    pool.submit(max, [Size(4)])
                except SerializationError as error:
                    print(error)
            else:
                print((await job).n)

    if __name__ == "__main__":
        asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["-c", "stdin"])
def test_a_script_without_a_file_is_told_to_have_one(tmp_path: Path, how: How) -> None:
    """MAIN-1: nobody could find its functions again."""
    finished = Script(MAIN, tmp_path, how=how).run()
    first, second = finished.stdout.splitlines()
    for line in (first, second):
        assert "cannot be recorded in a journal" in line
        assert "of a script that is run from a file" in line or "or a script file" in line
    assert (finished.stderr, finished.returncode) == ("", 0)
    assert [it["kind"] for it in records(tmp_path / "jobs.log")][1:] == ["opened", "closed"]


@pytest.mark.parametrize("how", ["file", "-m"])
def test_a_script_with_a_file_may_record_its_own(tmp_path: Path, how: How) -> None:
    finished = Script(MAIN, tmp_path, how=how).run()
    assert (finished.stdout, finished.stderr) == ("16\n", "")


# Functions and modules that are not there

LIBRARY = "def work(marks, n):\n    open(marks, 'a').write(f'{n}\\n')\n    return n\n"
WAITING = """
    import library
    async with Pool(1, journal=JOURNAL) as pool:
        hold = pool.options(id="hold").submit(tasks.hold, MARKS + "x", "held", GATE)
        await pool.options(id="lost").enqueue(library.work, MARKS, 1)
        await pool.options(id="kept").enqueue(jobs.mark_then, MARKS, 2)
        await hold.started()
        raise SystemExit(0)
"""


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("gone", ["function", "module"])
async def test_a_function_that_is_gone_fails_its_job_once(
    tmp_path: Path, journal: str, marks: Marks, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    library = tmp_path / "library.py"
    library.write_text(LIBRARY)
    assert program(WAITING, tmp_path).run().returncode == 0
    library.unlink()
    if gone == "function":
        library.write_text("")
    (tmp_path / "gate").touch()
    sys.path.insert(0, str(tmp_path))
    try:
        with caplog.at_level(logging.WARNING, "asyncpool"):
            async with Pool(1, journal=journal) as pool:
                assert await pool.job("kept") == 2
    finally:
        sys.path.remove(str(tmp_path))
    assert "library" not in sys.modules
    assert len(caplog.messages) == 1
    assert "library" in caplog.messages[0]
    assert ends(journal) == {"hold": "done", "lost": "failed", "kept": "done"}
    async with Pool(1, journal=journal) as pool:
        assert pool.recovered == []
        error = pool.job("lost").exception()
    assert isinstance(error, SerializationError)
    assert "library" in str(error)
    assert marks.lines() == ["2"]


REPLAYING = """
    import asyncio, sys
    sys.path.insert(0, ".")
    from asyncpool import DuplicateJob, Pool

    async def main():
        before = set(sys.modules)
        async with Pool(1, journal="jobs.log") as pool:
            print([job.id for job in pool.recovered], [job.fn_name for job in pool.recovered])
            print(pool.job("lost").state.name, await pool.job("lost"))
            await pool.job("kept")
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(sorted(new - sys.stdlib_module_names - {"asyncpool", "cloudpickle"}))

    asyncio.run(main())
"""


def test_replay_imports_nothing_of_the_user(tmp_path: Path, marks: Marks) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    assert program(WAITING, tmp_path).run().returncode == 0
    (tmp_path / "gate").touch()
    finished = Script(REPLAYING, tmp_path, name="replay").run()
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "['hold', 'lost', 'kept'] ['hold', 'work', 'mark_then']",
        "PENDING 1",
        "[]",
    ]
    assert marks.lines() == ["1", "2"]
