"""No test may hang for ever, except soak tests.

An overdue test fails, and is told where its tasks wait. If that does not end it, or if it is its
setup or teardown that hangs, its process ends with the same story (and so does the run, or xdist
goes on in a new one): the checks for leaks cannot be trusted any more. What hangs in C code is
left to pytest's `faulthandler_timeout`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Generator
from types import CoroutineType
from typing import NoReturn

import pytest

LIMIT_SECONDS = 120.0
LAST_LIMIT_SECONDS = 20.0
"""How long an overdue test may take to end once its tasks are cancelled."""

IS_CALLED = pytest.StashKey[bool]()
"""Whether the test itself runs, rather than its fixtures, and was not interrupted yet."""

Wrapper = Generator[None, object, object]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Wrapper:
    if item.get_closest_marker("soak"):
        return (yield)
    before = signal.signal(signal.SIGALRM, lambda *_: _overdue(item))
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Wrapper:
    if item.get_closest_marker("soak"):
        faulthandler.cancel_dump_traceback_later()
    item.stash[IS_CALLED] = True
    try:
        return (yield)
    finally:
        item.stash[IS_CALLED] = False


def _overdue(item: pytest.Item) -> None:
    """Interrupt what hangs; called in the main thread, wherever that is at this moment."""
    tasks = _tasks()
    story = "\n".join([f"{item.nodeid} hangs", *map(_tell, tasks)])
    if not item.stash.get(IS_CALLED, False):
        _end_run(item, story)
    item.stash[IS_CALLED] = False
    signal.setitimer(signal.ITIMER_REAL, LAST_LIMIT_SECONDS)
    if not tasks:
        pytest.fail(story)
    sys.stderr.write(story)
    for task in tasks:
        # The loop sleeps, and wakes up for what comes from elsewhere, such as a signal handler.
        task.get_loop().call_soon_threadsafe(task.cancel, "the test hangs")


def _tasks() -> set[asyncio.Task[object]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # no loop runs
        return set()


def _tell(task: asyncio.Task[object]) -> str:
    """Return what the task waits for: a task's own stack would end at its outermost function."""
    lines = [repr(task)]
    awaited: object = task.get_coro()
    while isinstance(awaited, CoroutineType):
        frame = awaited.cr_frame
        if frame is not None:
            lines.append(f"  {frame.f_code.co_filename}:{frame.f_lineno} {awaited.__qualname__}")
        awaited = awaited.cr_await
    return "\n".join(lines)


def _end_run(item: pytest.Item, story: str) -> NoReturn:
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    sys.stderr.write(f"\n{story}\n")
    faulthandler.dump_traceback()
    os._exit(pytest.ExitCode.INTERRUPTED)
