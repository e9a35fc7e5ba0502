"""Processes and descriptors as the kernel sees them, read from /proc (Linux)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import pytest

T = TypeVar("T")

POLL_SECONDS = 0.005


class Process(NamedTuple):
    pid: int
    parent: int
    state: str

    @property
    def dead(self) -> bool:
        """Whether it has ended, and only waits to be reaped."""
        return self.state in "ZX"


def descendants(pid: int | None = None) -> list[Process]:
    """Return the children of a process, their children and so on, dead or alive."""
    children: dict[int, list[Process]] = {}
    for process in map(_inspect, _all_pids()):
        if process is not None:
            children.setdefault(process.parent, []).append(process)
    found = list(children.get(pid or os.getpid(), ()))
    for process in found:  # grows while it is walked
        found.extend(children.get(process.pid, ()))
    return found


def kids(pid: int | None = None) -> list[int]:
    """Return the live descendants of a process (default: this one), zombies excepted."""
    return [process.pid for process in descendants(pid) if not process.dead]


def zombies(pid: int | None = None) -> list[int]:
    """Return the descendants of a process that are dead and not reaped."""
    return [process.pid for process in descendants(pid) if process.dead]


def alive(pid: int) -> bool:
    """Return whether the process exists and is more than a zombie."""
    process = _inspect(pid)
    return process is not None and not process.dead


def fds(pid: int | None = None) -> dict[int, str]:
    """Return the open descriptors of a process, each with what it leads to."""
    folder = f"/proc/{pid or os.getpid()}/fd"
    found = {}
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # the one that listed the folder
            found[int(name)] = os.readlink(f"{folder}/{name}")
    return found


def rss(pid: int | None = None) -> int:
    """Return the resident set of a process, in bytes."""
    with open(f"/proc/{pid or os.getpid()}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def having_in_environment(assignment: str) -> list[int]:
    """Return the live processes that were started with `NAME=value` in their environment."""
    wanted = assignment.encode()
    return [pid for pid in _all_pids() if wanted in _read(pid, "environ").split(b"\0")]


def describe(pid: int) -> str:
    """Return a line that tells a person which process this is."""
    process = _inspect(pid)
    if process is None:
        return f"{pid} (gone)"
    command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{pid} (state {process.state}, parent {process.parent}) {command[:200]}"


async def eventually(predicate: Callable[[], T], *, within: float = 10.0, what: str = "") -> T:
    """Poll until the predicate is true, and return what it gave; fail after `within` seconds.

    A poll, with a bound: only for facts outside of this loop that nobody tells us of, such as
    the death of some other process. Whatever can be awaited should be.
    """
    give_up = time.monotonic() + within
    while not (value := predicate()):
        if time.monotonic() > give_up:
            pytest.fail(f"not within {within} s: {what or predicate!r} (last: {value!r})")
        await asyncio.sleep(POLL_SECONDS)
    return value


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _inspect(pid: int) -> Process | None:
    """Return what is known of a process, or None if there is none of that number."""
    # The second field is the command in brackets, which may hold anything; what follows is clean.
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return Process(pid, int(fields[1]), fields[0].decode()) if fields else None


def _read(pid: int, name: str) -> bytes:
    """Return a file of the process; empty if it is gone, a zombie or somebody else's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
