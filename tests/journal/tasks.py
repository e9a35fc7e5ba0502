"""Jobs for the tests about restarts; module-level, so that a later life can import them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tests.support.marks import mark

PRELOAD = (__name__, "tests.support.jobs")
"""For pools whose jobs have little time: importing this may take longer than they have."""


def hold(marks: str, text: str, gate: str) -> str:
    """Mark, then wait until the gate is there."""
    mark(marks, text)
    return wait_for(gate, text)


def wait_for(gate: str, text: str) -> str:
    while not os.path.exists(gate):
        time.sleep(0.005)
    return text


def kill_parent(marks: str) -> None:
    """Mark, then take the pool's process along, unless that is the test's own."""
    mark(marks, "killing")
    if "SPARE_THE_PARENT" in os.environ:
        time.sleep(60)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def fail_until(marks: str, text: str, runs: int) -> str:
    """Mark; raise until there are so many marks."""
    mark(marks, text)
    with open(marks) as file:
        seen = file.read().split("\n").count(text)
    if seen < runs:
        raise LookupError(f"run {seen}")
    return text


def die_until(marks: str, text: str, runs: int) -> str:
    """Mark; be killed until there are so many marks."""
    mark(marks, text)
    with open(marks) as file:
        seen = file.read().split("\n").count(text)
    if seen < runs:
        os.kill(os.getpid(), signal.SIGKILL)
    return text


def die_until_then_hold(marks: str, text: str, runs: int, gate: str) -> str:
    die_until(marks, text, runs)
    return wait_for(gate, text)


class Fleeting(Exception):
    """A failure that passes."""


def fail_fleetingly(marks: str, text: str, runs: int) -> str:
    try:
        return fail_until(marks, text, runs)
    except LookupError as error:
        raise Fleeting(*error.args) from error


def succeed(marks: str) -> str:
    return marks


def fail(marks: str) -> None:
    raise LookupError(marks)


def never_end(marks: str) -> None:
    while True:
        time.sleep(60)


def mark_value(marks: str, value: object) -> None:
    mark(marks, type(value).__name__)


@dataclass
class Point:
    """A value that knows its equals."""

    x: int
    tags: set[str]


class Plain:
    """A value that is equal to itself only."""

    def __init__(self, tags: set[str], inner: object = None) -> None:
        self.tags = tags
        self.inner = inner


class Trouble(Exception):
    """An exception with a fact and a note."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text, code)
        self.code = code


def raise_with_cause(marks: str) -> None:
    mark(marks, "raised")
    error = Trouble("deep", 7)
    error.add_note("a note")
    raise error from KeyError("shallow")


def raise_group(marks: str) -> None:
    mark(marks, "raised")
    raise ExceptionGroup("both", [ValueError("one"), Trouble("deep", 7)])


def say_and_die(text: str) -> None:
    os.write(2, f"{text}\n".encode())
    os._exit(4)


def exit_with(code: int) -> None:
    sys.exit(code)


def return_lock() -> object:
    return Lock()


def raise_lock() -> None:
    raise LookupError(Lock())


class Unloadable:
    """Pickles, but does not come out again."""

    def __reduce__(self) -> tuple[object, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise LookupError("it does not come out")


_MISSING = object()


def describe(value: object, *, named: object = _MISSING) -> str:
    """Tell the types and values of all that is in it."""
    told = _told(value)
    return told if named is _MISSING else f"{told} {_told(named)}"


def _told(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, dict):
        return f"{kind} {{{', '.join(f'{_told(k)}: {_told(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple, deque)):
        return f"{kind} [{', '.join(map(_told, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"{kind} {{{', '.join(sorted(map(_told, value)))}}}"
    if callable(value):
        return f"{kind} {value.__module__}.{value.__qualname__}"
    return f"{kind} {value!r}"
