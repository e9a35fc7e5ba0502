"""What the jobs of the tests about deaths do; module-level, so that workers can import it."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

from asyncpool.frames import HEADER, RETURNED
from tests.support.marks import mark

FOR_EVER = 300.0


def sleep_for_ever(path: str = os.devnull) -> NoReturn:
    mark(path)
    while True:
        time.sleep(FOR_EVER)


def pid_after_mark(path: str) -> int:
    mark(path)
    return os.getpid()


def exit_with(code: int) -> NoReturn:
    os._exit(code)


def exit_until(path: str, runs: int) -> int:
    """Mark and exit, but return our pid in the run of that number."""
    mark(path)
    if len(Path(path).read_text().splitlines()) < runs:
        os._exit(3)
    return os.getpid()


def allocate_beyond_the_limit(path: str) -> int:
    """Ask for more memory than the address space may hold."""
    mark(path)
    resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
    return len(bytearray(1 << 30))


def hold_the_gil(path: str, seconds: int) -> str:
    """Sleep in C without releasing the GIL: no other thread of this process can run."""
    mark(path, "begin")
    ctypes.PyDLL(None).sleep(seconds)
    return "done"


# How they die


def dereference_null() -> None:
    ctypes.string_at(0)


def dereference_null_beside_threads() -> None:
    """Crash while other threads, which are younger, wait."""
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(FOR_EVER,), daemon=True).start()
    dereference_null()


def call_abort() -> None:
    os.abort()


def complain_and_exit(lines: int) -> NoReturn:
    for number in range(lines):
        sys.stderr.write(f"line {number} of the complaint\n")
    sys.stderr.flush()
    os._exit(9)


def be_killed_for_memory(counter: str, kills: int) -> NoReturn:
    """Book so many kills in what the test takes for the kernel's counter, then be killed."""
    with open(counter, "r+") as file:
        struck = int(file.read().split()[1]) + kills
        file.seek(0)
        file.write(f"oom_kill {struck}\n")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("survived SIGKILL")


def forge_header(kind: int, length: int) -> NoReturn:
    """Write the head of a frame that claims to be so long, on the pipe of the results."""
    arguments = Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0")
    results = int(arguments[-5])
    os.write(results, HEADER.pack(kind, 1, 0, 1, length))
    while True:
        time.sleep(FOR_EVER)


def close_result_pipe() -> NoReturn:
    arguments = Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0")
    os.close(int(arguments[-5]))
    while True:
        time.sleep(FOR_EVER)


def answer_twice() -> NoReturn:
    """Answer for a job that was never sent."""
    arguments = Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0")
    os.write(int(arguments[-5]), HEADER.pack(RETURNED, 1, 0, 987_654, 0))
    while True:
        time.sleep(FOR_EVER)


# What they leave


def start_processes(path: str) -> None:
    """Start a process, and a shell that starts another; mark their pids."""
    one = subprocess.Popen(["sleep", "300"])
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 300 & echo $!; wait"], stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    for pid in (one.pid, shell.pid, int(shell.stdout.readline())):
        mark(path, str(pid))


def start_processes_and_sleep(path: str) -> None:
    start_processes(path)
    time.sleep(FOR_EVER)


def keep_memory(megabytes: int) -> int:
    """Use that much memory for as long as this process lives."""
    kept.append(b"x" * (megabytes << 20))
    return os.getpid()


kept: list[bytes] = []


# What they see


def log_and_tell_pid(text: str) -> int:
    logging.getLogger("tests.cases").info(text)
    return os.getpid()


def run_children() -> list[int]:
    """Return how some child processes ended."""
    commands = ("exit 7", "kill -TERM $$", "kill -PIPE $$", "kill -USR1 $$")
    return [subprocess.run(["sh", "-c", text], check=False).returncode for text in commands]


def write_to_devices(text: str) -> None:
    for path in ("/dev/stdout", "/proc/self/fd/1", "/dev/stderr"):
        with open(path, "a") as file:
            file.write(text)


# Initializers


def wait_while_there(path: str) -> None:
    """Do not get ready as long as that file is there."""
    while os.path.exists(path):
        time.sleep(0.005)
