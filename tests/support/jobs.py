"""Small functions for workers to run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from .marks import mark

T = TypeVar("T")

EXIT_CODE = 3
"""What `die("exit")` exits with."""


def add(a: int, b: int) -> int:
    return a + b


def echo(value: T) -> T:
    return value


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def sleep_return(seconds: float, value: T) -> T:
    time.sleep(seconds)
    return value


def mark_then(path: str, value: T) -> T:
    """Mark that this ran, and with which value, then return it."""
    mark(path, str(value))
    return value


def mark_then_die(path: str, how: str) -> None:
    """Mark that this ran, then die."""
    mark(path, how)
    die(how)


def write_pid_and_sleep(path: str, seconds: float) -> int:
    """Append this process's id to the file, sleep, and return it."""
    pid = os.getpid()
    mark(path, str(pid))
    time.sleep(seconds)
    return pid


def spin() -> None:
    """Keep a CPU busy for ever."""
    while True:
        pass


def raise_(exc: BaseException) -> None:
    raise exc


def die(how: str) -> None:
    """End this process for real: by exit, abort, segv, sigbus or sigkill."""
    _DEATHS[how]()
    sys.exit(f"still alive after {how}")


def _exit() -> None:
    os._exit(EXIT_CODE)


def _read_null() -> None:
    import ctypes

    ctypes.string_at(0)


def _read_past_end_of_file() -> None:
    import mmap
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        view = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        view[0]


def _kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


_DEATHS: dict[str, Callable[[], None]] = {
    "exit": _exit,
    "abort": os.abort,
    "segv": _read_null,
    "sigbus": _read_past_end_of_file,
    "sigkill": _kill_itself,
}
