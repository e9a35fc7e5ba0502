"""A user's program under `mypy --strict`: what it infers, and what it refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import programs

pytest.importorskip("mypy")

HEAD = """\
from collections.abc import AsyncIterator
from dataclasses import dataclass
import asyncio
import functools
import asyncpool
from asyncpool import Job, Pool, Retry

@dataclass
class Point:
    x: int

def area(width: int, height: float = 1.0, *, unit: str = "m") -> str: return unit
def nothing() -> None: ...
def identity(point: Point) -> Point: return point
async def fetch(url: str, tries: int = 1) -> bytes: return b""
async def numbers() -> AsyncIterator[int]:
    yield 1
"""

INFERRED = {
    # expression: what `reveal_type` must say
    "pool.submit(area, 1)": "Job[str]",
    "pool.submit(area, 1, 2.0, unit='km')": "Job[str]",
    "pool.submit(fetch, 'u')": "Job[bytes]",
    "pool.submit(nothing)": "Job[None]",
    "pool.submit(Point, 3)": "Job[Point]",
    "pool.submit(Point(3).__repr__)": "Job[str]",
    "pool.submit(lambda: 3)": "Job[int]",
    "pool.submit(functools.partial(area, 1), unit='km')": "Job[str]",
    "await pool.submit(area, 1)": "str",
    "await pool.submit(fetch, 'u', tries=2)": "bytes",
    "await pool.submit(identity, Point(1))": "Point",
    "await pool.enqueue(area, 1)": "Job[str]",
    "await pool.enqueue(fetch, 'u')": "Job[bytes]",
    "await (await pool.enqueue(fetch, 'u'))": "bytes",
    "pool.options(timeout=1).submit(area, 1)": "Job[str]",
    "await view.submit(fetch, 'u')": "bytes",
    "await view.enqueue(fetch, 'u')": "Job[bytes]",
    "view": "Submitter",
    "await anext(pool.map(identity, [Point(1)]))": "Point",
    "await anext(pool.map(fetch, ['u']))": "bytes",
    "await anext(pool.map(fetch, numbers(), [1], chunksize=2))": "bytes",
    "await anext(view.map(area, numbers(), ordered=False))": "str",
    "[value async for value in pool.map(area, [1])]": "list[str]",
    "await asyncio.gather(pool.submit(area, 1), pool.submit(fetch, 'u'))": "tuple[str, bytes]",
    "await asyncio.wait_for(pool.submit(area, 1), 1)": "str",
    "await asyncio.shield(pool.submit(fetch, 'u'))": "bytes",
    "pool.submit(area, 1).id": "str",
    "pool.submit(area, 1).result()": "str",
    "pool.submit(area, 1).attempts[0].exit_code": "int | None",
    "pool.submit(area, 1).state": "JobState",
    "pool.workers()[0].pid": "int",
    "pool.stats().done": "int",
    "asyncpool.current_job().deadline": "float | None",
}

REFUSED = {
    # statement: the code of the error
    "pool.submit(area)": "call-overload",
    "pool.submit(area, 'one')": "call-overload",
    "pool.submit(area, 1, unit=3)": "call-overload",
    "pool.submit(area, 1, depth=3)": "call-overload",
    "pool.submit(fetch, 3)": "call-overload",
    "pool.submit(fetch('u'))": "call-overload",
    "pool.submit(3)": "call-overload",
    "await pool.enqueue(area, 'one')": "call-overload",
    "await view.enqueue(fetch)": "call-overload",
    "view.submit(identity, 3)": "call-overload",
    "pool.map(3, [1])": "call-overload",
    "pool.map(area, 3)": "call-overload",
    "pool.map(area, [1], chunks=3)": "call-overload",
    "pool.options(timeout='1')": "arg-type",
    "pool.options(retries=3)": "call-arg",
    "pool.options(1)": "call-arg",
    "Pool(2, Retry())": "call-arg",
    "Pool(retry=3)": "arg-type",
    "Retry(3)": "call-arg",
    "wrong: Job[int] = pool.submit(area, 1)": "arg-type|assignment|call-overload",
    "number: int = await pool.submit(fetch, 'u')": "assignment|arg-type|call-overload|misc",
    "for _ in pool.map(area, [1]): ...": "attr-defined",
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of each line of the program."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "program.py").write_text(_program())
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"]
        + ["--show-error-codes", "--no-pretty", "--python-version", "3.11", "program.py"],
        cwd=folder,
        env=programs.environment() | {"MYPYPATH": programs.HOME},
        capture_output=True,
        text=True,
        check=False,
    )
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        found = re.match(r"program\.py:(\d+): (\w+: .*)", line)
        assert found, done.stdout + done.stderr
        number = int(found[1])
        said[number] = f"{said.get(number, '')}{found[2]}\n"
    return said


def _program() -> str:
    lines = [f"    reveal_type({expression})" for expression in INFERRED]
    lines += [f"    {statement}" for statement in REFUSED]
    return f"{HEAD}\nasync def main(pool: Pool) -> None:\n    view = pool.options(priority=1)\n" + (
        "\n".join(lines) + "\n"
    )


def _line_of(text: str) -> int:
    return _program().splitlines().index(f"    {text}") + 1


@pytest.mark.parametrize("expression", INFERRED)
def test_what_is_inferred(complaints: dict[int, str], expression: str) -> None:
    said = complaints[_line_of(f"reveal_type({expression})")]
    assert "error:" not in said
    found = re.search(r'Revealed type is "(.*)"', said)
    assert found, said
    short = re.sub(r"[\w.]+\.(\w+)", r"\1", found[1])
    assert short == INFERRED[expression]


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_refused(complaints: dict[int, str], statement: str) -> None:
    said = complaints.get(_line_of(statement), "")
    assert "error:" in said
    assert re.search(rf"\[({REFUSED[statement]})\]", said), said


def test_nothing_else_is_refused(complaints: dict[int, str]) -> None:
    checked = {_line_of(f"reveal_type({expression})") for expression in INFERRED}
    checked |= {_line_of(statement) for statement in REFUSED}
    assert set(complaints) <= checked
