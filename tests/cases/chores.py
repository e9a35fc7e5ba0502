"""What the jobs of the tests about time do; module-level, so that workers can import it.

Imports that only one job needs are its own: some jobs here have little time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from tests.support.marks import mark

FOR_EVER = 300.0

PRELOAD = (__name__, "tests.support.jobs")
"""For pools whose jobs have little time: importing this may take longer than they have."""


def sleep_between_marks(path: str, seconds: float = FOR_EVER) -> str:
    mark(path, "begin")
    time.sleep(seconds)
    mark(path, "end")
    return "slept"


def pid_between_marks(path: str, seconds: float) -> int:
    """Like `sleep_between_marks`, but mark with a name of this run, and return our pid."""
    mark(path, f"begin {os.getpid()}")
    time.sleep(seconds)
    mark(path, f"end {os.getpid()}")
    return os.getpid()


def mark_after_gate(path: str, text: str, gate: Path | None = None) -> None:
    """Mark; with a gate, not before that file is there."""
    while gate is not None and not gate.exists():
        time.sleep(0.005)
    mark(path, text)


def die_at_first(path: str, text: str) -> None:
    """Mark, and be killed the first time."""
    first = not os.path.exists(path) or text not in Path(path).read_text().split()
    mark(path, text)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)


# What cannot be stopped by asking


def ignore_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(FOR_EVER)


def match_for_ever() -> None:
    import re

    re.match(r"(a+)+$", "a" * 64 + "b")


def hold_the_gil() -> None:
    sum(range(1 << 60))


def swallow_everything() -> NoReturn:
    while True:
        try:
            time.sleep(FOR_EVER)
        except BaseException:
            continue


def stop_oneself(signum: int) -> None:
    os.kill(os.getpid(), signum)
    time.sleep(FOR_EVER)


async def sleep_in_a_coroutine() -> None:
    import asyncio

    await asyncio.sleep(FOR_EVER)


def exit_after(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(3)


# What outlives its job


def leave_thread_and_exit_handler() -> int:
    """Leave behind what holds up the interpreter's end."""
    import atexit
    import threading

    threading.Thread(target=time.sleep, args=(FOR_EVER,)).start()
    atexit.register(time.sleep, FOR_EVER)
    return 1


def spoil_the_process(home: str, *, alarm: bool = True) -> None:
    """Change what a process has only once."""
    import random

    os.mkdir(home)
    os.chdir(home)
    os.rmdir(home)
    os.umask(0o777)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if alarm:
        signal.alarm(1)
        signal.setitimer(signal.ITIMER_PROF, 1)
    sys.setrecursionlimit(80)
    sys.stdout = None
    random.seed(1)
    os.environ["LEFT_BEHIND_BY_A_JOB"] = "yes"


def start_a_process() -> int:
    """Leave a process behind, and return its pid."""
    import subprocess

    return subprocess.Popen(["sleep", "300"]).pid


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def stop_when_idle() -> None:
    """Have this process stopped when the job is over."""
    import threading

    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGSTOP)).start()


def lead_own_group(path: str) -> None:
    """Try to leave the worker's session and its group, then sleep."""
    for escape in (os.setsid, lambda: os.setpgid(0, 0)):
        try:
            escape()
        except PermissionError:  # what leads a session has to stay
            continue
    mark(path, "begin")
    time.sleep(FOR_EVER)


# Initializers


def fail_while_there(path: str, marks: str) -> None:
    """Fail as long as that file is there, and mark each try."""
    mark(marks, "tried")
    if os.path.exists(path):
        raise LookupError("no model to be found, says the initializer")
