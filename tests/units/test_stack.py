"""A stack is taken when it is whole, however slowly the worker writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from asyncpool.processes.stack import QUIET_LOOKS, StackFile, stack_file

FRAMES = (
    b"Current thread 0x1 (most recent call first):\n",
    b'  File "jobs.py", line 3 in spin\n',
    b'  File "<string>", line 1 in <module>\n',
)


@pytest.fixture
def fd() -> Iterator[int]:
    fd = stack_file()
    yield fd
    os.close(fd)


def test_a_writer_that_pauses_between_two_lines_is_waited_for(fd: int) -> None:
    stack = StackFile(fd)
    assert not stack.is_complete()
    for line in FRAMES[:-1]:
        os.write(fd, line)
        assert [stack.is_complete() for _ in range(3)] == [False] * 3
    os.write(fd, FRAMES[-1])
    assert [stack.is_complete() for _ in range(2)] == [False, True]
    assert stack.take().encode() + b"\n" == b"".join(FRAMES)


def test_a_deep_stack_is_cut_short_and_whole(fd: int) -> None:
    stack = StackFile(fd)
    os.write(fd, FRAMES[0] + FRAMES[1] * 100 + b"  ...\n")
    assert [stack.is_complete() for _ in range(2)] == [False, True]


def test_a_stack_that_ends_otherwise_is_taken_after_a_while(fd: int) -> None:
    stack = StackFile(fd)
    os.write(fd, FRAMES[0] + FRAMES[1])
    looks = [stack.is_complete() for _ in range(QUIET_LOOKS + 2)]
    assert looks == [False] * (QUIET_LOOKS + 1) + [True]


def test_the_next_dump_begins_with_an_empty_file(fd: int) -> None:
    stack = StackFile(fd)
    os.write(fd, b"".join(FRAMES))
    stack.take()
    os.write(fd, FRAMES[0])
    assert [stack.is_complete() for _ in range(3)] == [False] * 3
    assert stack.take() == FRAMES[0].decode().strip()
