"""A user's program under `mypy --strict`: what it infers, and what it refuses."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from . import programs

pytest.importorskip("mypy")

HEAD = """\
from collections.abc import AsyncIterator, Callable
from typing import Any
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

MAIN = """\
async def main(pool: Pool, keep: bool, untyped: Callable[..., Any]) -> None:
    view = pool.options(priority=1)"""

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
    "await anext(pool.map(area, [1], return_exceptions=True))": "str | BaseException",
    "await anext(view.map(fetch, ['u'], return_exceptions=keep))": "bytes | BaseException",
    "pool.submit(untyped, 1)": "Job[Any]",
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

REFUSED = [
    "pool.submit(area)",
    "pool.submit(area, 'one')",
    "pool.submit(area, 1, unit=3)",
    "pool.submit(area, 1, depth=3)",
    "pool.submit(fetch, 3)",
    "pool.submit(fetch('u'))",
    "pool.submit(3)",
    "await pool.enqueue(area, 'one')",
    "await view.enqueue(fetch)",
    "view.submit(identity, 3)",
    "pool.map(3, [1])",
    "pool.map(area, 3)",
    "pool.map(area, [1], chunks=3)",
    "pool.options(timeout='1')",
    "pool.options(retries=3)",
    "pool.options(1)",
    "Pool(2, Retry())",
    "Pool(retry=3)",
    "Retry(3)",
    "wrong: Job[int] = pool.submit(area, 1)",
    "number: int = await pool.submit(fetch, 'u')",
    "for _ in pool.map(area, [1]): ...",
]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of each line of the program."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "program.py").write_text(_program())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11"),
            *("--no-error-summary", "--hide-error-context", "--no-pretty", "program.py"),
        ],
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
    return "\n".join([HEAD, MAIN, *lines, ""])


def _line_of(text: str) -> int:
    return _program().splitlines().index(f"    {text}") + 1


def test_what_is_inferred(verdicts: dict[int, str]) -> None:
    assert {expression: _inferred(verdicts, expression) for expression in INFERRED} == INFERRED


def _inferred(verdicts: dict[int, str], expression: str) -> str:
    said = verdicts[_line_of(f"reveal_type({expression})")]
    found = re.search(r'Revealed type is "(.*)"', said)
    if "error:" in said or found is None:
        return said
    return re.sub(r"[\w.]+\.(\w+)", r"\1", found[1])


def test_what_is_refused(verdicts: dict[int, str]) -> None:
    said = {statement: verdicts.get(_line_of(statement), "") for statement in REFUSED}
    assert [statement for statement in REFUSED if "error:" not in said[statement]] == []


def test_nothing_else_is_refused(verdicts: dict[int, str]) -> None:
    checked = {_line_of(f"reveal_type({expression})") for expression in INFERRED}
    checked |= {_line_of(statement) for statement in REFUSED}
    assert set(verdicts) <= checked
