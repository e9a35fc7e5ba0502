"""What the tests of `map` run, and the sources that they feed it with."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator

from tests.support.marks import mark

FAILING = 5


def square(number: int) -> int:
    return number * number


async def square_later(number: int) -> int:
    await asyncio.sleep(0)
    return number * number


def join(*parts: object) -> str:
    return "-".join(map(str, parts))


def fail_at(number: int, failing: int = FAILING) -> int:
    if number == failing:
        raise ValueError(f"item {number}")
    return number


def exit_at(number: int) -> int:
    if number == FAILING:
        raise SystemExit(number)
    return number


def die_at(number: int) -> int:
    if number == FAILING:
        os._exit(3)
    return number


def mark_and_hang(path: str, number: int) -> int:
    """Mark; all but item 0 never end."""
    mark(path, str(number))
    if number:
        time.sleep(300)
    return number


def wait_for_file(number: int, path: str) -> int:
    """Return once the file exists; item 1 makes it."""
    if number == 1:
        mark(path)
    give_up = time.monotonic() + 30
    while not os.path.exists(path):
        if time.monotonic() > give_up:
            raise TimeoutError(path)
        time.sleep(0.005)
    return number


class Source:
    """Counts what is taken from it, and tells whether it was closed."""

    def __init__(self, end: int | None = None, raise_at: int | None = None) -> None:
        self.taken = 0
        self.closed = False
        self._end = end
        self._raise_at = raise_at

    def plain(self) -> Iterator[int]:
        try:
            while self.taken != self._end:
                if self.taken == self._raise_at:
                    raise LookupError("the source broke")
                self.taken += 1
                yield self.taken - 1
        finally:
            self.closed = True

    async def later(self) -> AsyncIterator[int]:
        try:
            for number in self.plain():
                await asyncio.sleep(0)
                yield number
        finally:
            await asyncio.sleep(0)
            self.closed = True
