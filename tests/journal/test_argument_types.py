"""A call that comes back is made with what it was given, in value and type."""

from __future__ import annotations

from collections import OrderedDict, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from asyncpool import JobState, Pool
from tests.journal import tasks
from tests.journal.lives import left
from tests.support import jobs
from tests.support.marks import Marks

VALUES: list[Any] = [
    (1, (2, [3, (4,)])),
    [(1, 2), {"a": (3,)}],
    {1, "a", (2,)},
    frozenset({1}),
    b"bytes",
    b"\xff\x00\n",
    bytearray(b"array"),
    "\ud800 ☂ \n \0 \u2028",
    datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
    date(2024, 2, 29),
    timedelta(days=-1, microseconds=1),
    Decimal("1.10"),
    Fraction(1, 3),
    float("nan"),
    float("-inf"),
    -0.0,
    2**64 + 1,
    -(2**200),
    {1: "int", (1, 2): "tuple", None: "none", "1": "str"},
    OrderedDict(b=1, a=2),
    deque([1, 2], maxlen=2),
    UUID(int=7),
    complex(1, -0.0),
    range(0, 10, 3),
    JobState.RUNNING,
    tasks.Point(1, {"a"}),
    True,
    1,
    1.0,
    None,
    Ellipsis,
    jobs.add,
    tasks.Point,
    LookupError("text", 1),
]


@pytest.fixture
def journal(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


async def test_arguments_are_the_same_in_value_and_type(journal: str, marks: Marks) -> None:
    """J-ARGS."""
    expected = [tasks.describe(value) for value in VALUES]
    half = len(VALUES) // 2
    async with left(Pool(1, journal=journal)) as pool:
        direct = [await pool.submit(tasks.describe, value) for value in VALUES[:half]]
        busy = pool.submit(jobs.spin)
        for value in VALUES:
            await pool.enqueue(tasks.describe, value, named=value)
    assert direct == expected[:half]
    async with Pool(1, journal=journal) as pool:
        await pool.terminate(busy.id)
        replayed = [await job for job in pool.recovered[1:]]
        direct += [await pool.submit(tasks.describe, value) for value in VALUES[half:]]
    assert direct == expected
    assert replayed == [f"{text} {text}" for text in expected]


async def test_missing_and_given_are_told_apart(journal: str) -> None:
    """J-ARGS."""
    async with left(Pool(1, journal=journal)) as pool:
        busy = pool.submit(jobs.spin)
        await pool.enqueue(tasks.describe, 1)
        await pool.enqueue(tasks.describe, 1, named=None)
    async with Pool(1, journal=journal) as pool:
        await pool.terminate(busy.id)
        assert [await job for job in pool.recovered[1:]] == ["int 1", "int 1 NoneType None"]
