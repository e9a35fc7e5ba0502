"""A script that names its jobs goes on where it was when it is run again, and that is all it does.

Functions, arguments, results and exceptions are of the script itself.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.journal.lives import ends
from tests.support import procs
from tests.support.loops import LOOPS
from tests.support.marks import Marks
from tests.support.scripts import Finished, Script

PICTURES = 40
PATIENCE_SECONDS = 30.0

SCRIPT = """
    import asyncio, os, sys, time
    from dataclasses import dataclass
    from asyncpool import Pool, Retry
    from tests.support.loops import LOOPS
    from tests.support.marks import mark

    @dataclass(frozen=True)
    class Picture:
        number: int
        tags: frozenset[str]

    class Unreadable(Exception):
        pass

    QUALITY = 3

    def area(picture):
        return picture.number ** 2 * QUALITY

    def thumbnail(picture, *, seconds=0.02):
        mark("marks", str(picture.number))
        time.sleep(seconds)
        if picture.number % 10 == 7:
            raise Unreadable(picture)
        return picture, area(picture)

    async def main():
        async with Pool(2, journal="jobs.log", retry=Retry(max_crashes=None)) as pool:
            thumbs = [
                pool.options(id=f"thumb-{n}").submit(thumbnail, Picture(n, frozenset("abcdef")))
                for n in range(int(sys.argv[2]))
            ]
            results = await asyncio.gather(*thumbs, return_exceptions=True)
        for n, result in enumerate(results):
            picture = Picture(n, frozenset("fedcba"))
            if isinstance(result, Unreadable):
                assert result.args == (picture,), result
                print(n, "unreadable")
            else:
                assert result[0] == picture, result
                print(n, result[1])

    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(main())
"""

RIGHT = [f"{n} {'unreadable' if n % 10 == 7 else 3 * n * n}" for n in range(PICTURES)]


class Impatient:
    """Kills a script before it ends, unless that is faster."""

    def __init__(self, marks: Marks, seed: int) -> None:
        self.kills = 0
        self._marks = marks
        self._chance = random.Random(seed)

    def run(self, script: Script) -> Finished:
        with script.running() as process:
            self._watch(process)
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            return Finished(process.returncode, out, err)

    def _watch(self, process: subprocess.Popen[str]) -> None:
        """Kill the script, or one of its workers, when some more jobs have begun."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        if self._chance.random() < 0.2:
            give_up = time.monotonic() + self._chance.uniform(0.0, 0.3)
        wanted = self._marks.count() + self._chance.randint(1, 15)
        while process.poll() is None and time.monotonic() < give_up:
            if self._marks.count() >= wanted:
                break
            time.sleep(procs.POLL_SECONDS)
        if process.poll() is None:
            self.kills += 1
            process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_script_is_run_again_until_it_ends(tmp_path: Path, marks: Marks, loop: str) -> None:
    impatient = Impatient(marks, seed=len(loop))
    script = Script(SCRIPT, tmp_path, argv=[loop, str(PICTURES)])
    finished = impatient.run(script)
    while finished.returncode == -signal.SIGKILL:
        finished = impatient.run(script)
    assert (finished.stdout.splitlines(), finished.stderr) == (RIGHT, "")
    assert impatient.kills > 2
    executions = Counter(map(int, marks.lines()))
    assert sorted(executions) == list(range(PICTURES))
    assert executions.total() <= PICTURES + 2 * impatient.kills
    assert max(executions.values()) <= 1 + impatient.kills
    before = marks.count()
    assert script.run().stdout.splitlines() == RIGHT
    assert marks.count() == before


def test_a_script_may_have_more_to_do_than_last_time(tmp_path: Path, marks: Marks) -> None:
    for count in (5, 5, 20, 10):
        finished = Script(SCRIPT, tmp_path, argv=["asyncio", str(count)]).run()
        assert (finished.stdout.splitlines(), finished.stderr) == (RIGHT[:count], "")
    assert sorted(map(int, marks.lines())) == list(range(20))


def test_what_was_changed_in_the_script_counts_for_what_is_left(
    tmp_path: Path, marks: Marks
) -> None:
    """A recovered job runs the function as it stands in the script of today."""
    argv = ["asyncio", "20"]
    with Script(SCRIPT, tmp_path, argv=argv).running() as process:
        while marks.count() < 5:
            assert process.poll() is None
            time.sleep(procs.POLL_SECONDS)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = [int(job_id[6:]) for job_id, state in ends(tmp_path / "jobs.log").items()]
    assert 0 < len(done) < 20
    better = Script(SCRIPT.replace("QUALITY = 3", "QUALITY = 4"), tmp_path, argv=argv).run()
    expected = [RIGHT[n] if n in done or n % 10 == 7 else f"{n} {4 * n * n}" for n in range(20)]
    assert (better.stdout.splitlines(), better.stderr) == (expected, "")


def test_a_changed_call_is_refused(tmp_path: Path, marks: Marks) -> None:
    argv = ["asyncio", "3"]
    Script(SCRIPT, tmp_path, argv=argv).run()
    other = SCRIPT.replace('frozenset("abcdef"))', 'frozenset("abc"))')
    refused = Script(other, tmp_path, argv=argv).run()
    assert refused.returncode == 1
    assert (
        "DuplicateJob: the id 'thumb-0' belongs to another call, with other arguments"
        in refused.stderr
    )
    assert marks.count() == 3
    assert os.path.exists(tmp_path / "jobs.log")


KINDS = """
    import asyncio, sys
    from dataclasses import dataclass
    from enum import Enum
    from typing import NamedTuple
    from asyncpool import Pool

    @dataclass
    class Base:
        number: int

    class Derived(Base):
        __slots__ = ("more",)

        class Inner(Exception):
            pass

    class Colour(Enum):
        RED = 1
        BLUE = 2

    class Pair(NamedTuple):
        one: object
        two: object

    def make(kind):
        derived = Derived(1)
        derived.more = [Base(2)]
        if kind == "raised":
            raise Derived.Inner(derived)
        return {"value": derived, "enum": {Colour.RED: Colour.BLUE}, "tuple": Pair(derived, Base),
                "class": Derived.Inner, "function": make}[kind]

    async def main():
        async with Pool(1, journal="jobs.log") as pool:
            kinds = ["value", "enum", "tuple", "class", "raised", "function"]
            made = [pool.options(id=kind).submit(make, kind) for kind in kinds]
            value, enum, pair, kind, error, fn = await asyncio.gather(*made, return_exceptions=True)
        assert type(value) is Derived and value.more == [Base(2)], value
        assert enum[Colour.RED] is Colour.BLUE
        assert type(pair) is Pair and type(pair.one) is Derived and pair.two is Base
        assert kind is Derived.Inner
        assert type(error) is Derived.Inner and type(error.args[0]) is Derived
        assert fn("enum") == {Colour.RED: Colour.BLUE}

    asyncio.run(main())
"""


def test_what_a_script_defines_comes_back_as_its_own(tmp_path: Path) -> None:
    for _ in range(3):
        finished = Script(KINDS, tmp_path).run()
        assert (finished.stderr, finished.returncode) == ("", 0)


def test_what_a_script_defined_comes_back_although_that_is_gone(tmp_path: Path) -> None:
    Script(KINDS, tmp_path).run()
    source = """
        import asyncio
        from asyncpool import Pool

        async def main():
            async with Pool(1, journal="jobs.log") as pool:
                print((await pool.job("value")).number, await pool.job("enum"))

        asyncio.run(main())
        """
    finished = Script(source, tmp_path).run()
    assert finished.stdout == "1 {<Colour.RED: 1>: <Colour.BLUE: 2>}\n", finished.stderr
