"""After each test: nothing may be left of it, and no event loop may have complained.

The order of things around a test, from the outside in:

    nothing_left     notes processes, descriptors and threads; compares when all else is gone
    no_task_left     makes the event loop, if the test is async, before any other async fixture
      fixtures       the test's own
        the test
      fixtures end
    no_task_left     looks for tasks while the loop still lives, then the loop is closed
    nothing_left     ...
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from pytest_asyncio import is_async_test

from . import procs
from .loops import LOOPS

GRACE_SECONDS = 2.0
"""How long the kernel, and threads that reap children, may take to be done."""

GRACE_TURNS = 10
"""How many turns of the loop a task may take to end that was cancelled and not awaited."""

TOKEN = f"ASYNCPOOL_TEST_RUN={os.getpid()}.{time.monotonic_ns()}"
"""Inherited by all processes of this run, so that even those adopted by init can be found."""


@dataclass(frozen=True)
class Inventory:
    """What this process has, as far as a test could leave it behind."""

    processes: frozenset[int]
    zombies: frozenset[int]
    fds: dict[int, str]
    threads: frozenset[threading.Thread]

    def leftovers(self, before: Inventory) -> list[str]:
        """Return a line for each thing that is here and was not before, or the reverse."""
        return [
            *(f"process {procs.describe(pid)}" for pid in self.processes - before.processes),
            *(f"zombie {procs.describe(pid)}" for pid in self.zombies - before.zombies),
            *(f"thread {thread!r}" for thread in self.threads - before.threads),
            *(
                f"descriptor {fd} -> {target}"
                for fd, target in self.fds.items()
                if before.fds.get(fd) != target
            ),
            *(
                f"descriptor {fd} -> {target} was closed, but is older than the test"
                for fd, target in before.fds.items()
                if fd not in self.fds
            ),
        ]


def take_inventory() -> Inventory:
    descendants = procs.descendants()
    live = {process.pid for process in descendants if not process.dead}
    zombies = {process.pid for process in descendants if process.dead}
    return Inventory(
        frozenset({*live, *procs.having_in_environment(TOKEN)}),
        frozenset(zombies),
        procs.fds(),
        frozenset(threading.enumerate()),
    )


class LoopComplaints(logging.Handler):
    """Collects what event loops report, of whatever kind and in whatever thread they are.

    A loop without a handler of its own logs here what its exception handler is called with:
    exceptions in callbacks, tasks destroyed while pending, exceptions never retrieved.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@pytest.fixture(scope="session", autouse=True)
def start_from_a_steady_state() -> None:
    """Have all that is opened once a process opened, and make collecting garbage cheap."""
    name, _, value = TOKEN.partition("=")
    os.environ[name] = value
    for make_loop in LOOPS.values():
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(asyncio.sleep(0))
    gc.collect()
    gc.freeze()


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """What event loops complained of; a test that provokes a complaint clears the list."""
    handler = LoopComplaints()
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    yield handler.texts
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def nothing_left(complaints: list[str]) -> Iterator[None]:
    """Fail if a test left a process, zombie, thread or descriptor, or upset an event loop."""
    before = take_inventory()
    yield
    gc.collect()  # unawaited coroutines, unretrieved exceptions and open files report themselves
    leftovers = _wait_for_none(before)
    if leftovers:
        _clear_away(before)
    found = [f"left behind: {line}" for line in leftovers]
    found += [f"an event loop complained: {text}" for text in complaints]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.fixture(autouse=True)
def no_task_left(nothing_left: None, request: pytest.FixtureRequest) -> None:
    """Fail if an async test, with its fixtures, left a task pending."""
    if is_async_test(request.node):
        request.getfixturevalue("_tasks_watched")


@pytest.fixture
async def _tasks_watched() -> AsyncIterator[None]:
    yield
    for _ in range(GRACE_TURNS):
        await asyncio.sleep(0)
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    if pending:
        lines = "\n".join(f"left behind: task {task!r}" for task in pending)
        pytest.fail(lines, pytrace=False)


def _wait_for_none(before: Inventory) -> list[str]:
    give_up = time.monotonic() + GRACE_SECONDS
    while leftovers := take_inventory().leftovers(before):
        if time.monotonic() > give_up:
            break
        time.sleep(procs.POLL_SECONDS)
    return leftovers


def _clear_away(before: Inventory) -> None:
    """Kill and reap what was left, so that it is reported once."""
    now = take_inventory()
    for pid in now.processes - before.processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in (now.processes | now.zombies) - before.processes - before.zombies:
        with suppress(ChildProcessError):  # somebody else's child
            os.waitpid(pid, 0)
