"""Python programs, run as users run them: from a file, with -m or -c, from stdin, in a terminal.

Each runs in a session of its own, so that signals to its group reach nobody else, and under a time
limit, after which its group is killed and the test fails. `asyncpool` and `tests` can be imported.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import IO, Literal, NoReturn

import pytest

How = Literal["file", "-m", "-c", "stdin"]

ROOT = Path(__file__).resolve().parents[2]

LAST_WORDS_SECONDS = 5.0
"""After a kill: how long others may hold the pipes of its output open."""

# Gives the program the terminal on its stdin for a controlling one, so that Ctrl-C works.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True)
class Finished:
    """How a program ended; `stderr` is empty if it ran in a terminal, which has one output."""

    returncode: int
    stdout: str
    stderr: str


class Script:
    """A program and how it is to be called; `directory` gets its file and is its working one.

    `flags` are the interpreter's, `argv` the program's. `env` comes on top of this process's
    environment; None takes a variable out of it. With `how="-m"` the module is called `name`.
    """

    def __init__(
        self,
        source: str,
        directory: Path,
        *,
        how: How = "file",
        name: str = "program",
        argv: Sequence[str] = (),
        flags: Sequence[str] = (),
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        self.source = dedent(source)
        self.directory = directory
        self.path = directory / f"{name}.py"
        called = {
            "file": [self.path.name],
            "-m": ["-m", name],
            "-c": ["-c", self.source],
            "stdin": ["-"],
        }[how]
        self.command = [sys.executable, *flags, *called, *argv]
        self.env = _environment(env or {})
        self._reads_itself = how == "stdin"
        self.path.write_text(self.source)

    def run(self, *, within: float = 30.0) -> Finished:
        """Run it to its end. Fails the test if that takes longer than `within` seconds."""
        with self.running() as process:
            try:
                out, err = process.communicate(timeout=within)
            except subprocess.TimeoutExpired:
                _fail_overdue(process, within)
            return Finished(process.returncode, out, err)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Start it and let the test go on beside it; its group is killed at the end."""
        stdin: IO[bytes] | int = subprocess.DEVNULL
        if self._reads_itself:
            stdin = self.path.open("rb")
        try:
            process = self._start(stdin)
        finally:
            if not isinstance(stdin, int):
                stdin.close()
        with process:
            try:
                yield process
            finally:
                _kill_group(process)

    def _start(self, stdin: IO[bytes] | int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
            env=self.env,
            start_new_session=True,
        )

    def run_in_terminal(self, typed: str = "", *, within: float = 30.0) -> Finished:
        """Like `run`, in a pseudo-terminal in which `typed` is typed ahead."""
        with self.in_terminal() as terminal:
            terminal.type(typed)
            return terminal.finish(within=within)

    @contextmanager
    def in_terminal(self) -> Iterator[Terminal]:
        """Like `running`, as the foreground program of a pseudo-terminal."""
        ours, its = pty.openpty()
        try:
            with self._start_in_terminal(its) as process:
                try:
                    yield Terminal(process, ours)
                finally:
                    _kill_group(process)
        finally:
            os.close(ours)

    def _start_in_terminal(self, its: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *self.command],
                stdin=its,
                stdout=its,
                stderr=its,
                cwd=self.directory,
                env=self.env,
                start_new_session=True,
            )
        finally:
            os.close(its)


class Terminal:
    """The keyboard and the screen of a program that runs in a pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], fd: int) -> None:
        self.process = process
        self.screen = ""
        """All that was written so far, with plain newlines; what is typed is echoed, too."""
        self._fd = fd
        self._raw = b""

    def type(self, text: str) -> None:
        r"""Type; "\n" is the enter key, "\x03" is Ctrl-C, "\x04" is Ctrl-D."""
        os.write(self._fd, text.encode())

    def until(self, text: str, *, within: float = 10.0) -> None:
        """Wait until the screen shows the text."""
        give_up = time.monotonic() + within
        while text not in self.screen:
            if not self._read(give_up):
                pytest.fail(f"{text!r} not shown within {within} s:\n{self.screen}")

    def finish(self, *, within: float = 30.0) -> Finished:
        """Wait for the program's end."""
        give_up = time.monotonic() + within
        while self._read(give_up):
            pass
        try:
            self.process.wait(max(0.0, give_up - time.monotonic()))
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {within} s; it showed:\n{self.screen}")
        return Finished(self.process.returncode, self.screen, "")

    def _read(self, give_up: float) -> bool:
        """Wait for more; return False if there was none in time, or there will be none."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, give_up - time.monotonic()))
        if not ready:
            return False
        try:
            self._raw += os.read(self._fd, 1 << 16)
        except OSError:  # Linux says EIO once nobody has the terminal open any more
            return False
        self.screen = self._raw.decode(errors="replace").replace("\r\n", "\n")
        return True


def _environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    # On a terminal, Python 3.13 and later colour their tracebacks.
    changed = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHON_COLORS": "0", **changes}
    return {name: value for name, value in changed.items() if value is not None}


def _kill_group(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # the last of the group is gone
        os.killpg(process.pid, signal.SIGKILL)


def _fail_overdue(process: subprocess.Popen[str], within: float) -> NoReturn:
    """Fail with whatever the program said until now."""
    ended = process.poll()
    _kill_group(process)
    try:
        out, err = process.communicate(timeout=LAST_WORDS_SECONDS)
    except subprocess.TimeoutExpired:
        out = err = "(somebody outside of its group still holds its output open)"
    state = "still running" if ended is None else f"ended with {ended}, but its output is held open"
    pytest.fail(f"{state} after {within} s\n--- stdout\n{out}\n--- stderr\n{err}")
