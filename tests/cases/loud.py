"""Jobs that write to stdout and stderr in all ways there are."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

from asyncpool import frames
from tests.support.marks import mark

FAKE_FRAME = frames.encode(frames.RETURNED, attempt=1, number=1, payload=b"forged")
ALL_BYTES = bytes(range(256))


def shout(number: int, path: str) -> int:
    """Write in the way that the number says, and return it."""
    mark(path)
    WAYS[number % len(WAYS)]()
    return number


def _print() -> None:
    print("P" * 10_000)  # noqa: T201


def _print_without_end() -> None:
    print("E", end="")  # noqa: T201


def _write_bytes() -> None:
    os.write(1, ALL_BYTES)


def _write_stderr() -> None:
    os.write(2, b"S" * 100 + b"\n")


def _print_stderr() -> None:
    print("Q" * 100, file=sys.stderr)  # noqa: T201


def _system() -> None:
    os.system("echo HELLO")


def _child() -> None:
    subprocess.run(["cat"], input=b"CHILD\n", check=True)


def _puts() -> None:
    libc = ctypes.CDLL(None)
    libc.puts(b"LIBC")
    libc.fflush(None)


def _forge() -> None:
    os.write(1, FAKE_FRAME)


def _from_a_thread() -> None:
    thread = threading.Thread(target=os.write, args=(1, b"THREAD\n"))
    thread.start()
    thread.join()


WAYS = (
    _print,
    _print_without_end,
    _write_bytes,
    _write_stderr,
    _print_stderr,
    _system,
    _child,
    _puts,
    _forge,
    _from_a_thread,
)


def write_much(fd: int, size: int) -> int:
    """Write so many bytes without a newline."""
    left = size
    while left:
        left -= os.write(fd, b"M" * min(left, 1 << 16))
    return size


def read_stdin() -> str:
    return sys.stdin.read() + input_or_error()


def input_or_error() -> str:
    try:
        return input()
    except EOFError:
        return "EOFError"


def close_stdout() -> None:
    sys.stdout.close()


def replace_stdout() -> None:
    sys.stdout = None
    sys.stderr = None


def reopen_stdout() -> str:
    with open("/dev/stdout", "w", encoding="ascii") as out:
        out.write("REOPENED\n")
    return os.readlink("/proc/self/fd/1")
