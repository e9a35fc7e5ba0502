"""One worker process: spawned, fed, heard, killed, and accounted for when it is dead.

The facts behind the ways of noticing a death:

- asyncio reaps its children; `process_exited` is the proof and brings the status. A SIGCHLD
  handler or a pidfd only makes us look sooner, with a `waitid` that peeks and never reaps.
- Somebody else in this program may reap the child. Then asyncio reports 255 and uvloop nothing at
  all; the peek finds no such child, which means dead with an unknown status.
- Exit and end-of-pipe come in either order, and a process that the job started can hold the pipe
  open for ever. So after the exit the pipe is read without blocking, and then the worker is
  declared dead; nobody waits for the end-of-pipe.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

from .. import frames
from ..dispatch.records import Death
from ..frames import Frame
from . import interpreter
from .channel import Channel
from .one_at_a_time import OneThreadAtATime
from .oom import OomCounter
from .pipes import Pipes
from .stack import STACK_SIGNAL, StackFile
from .stderr import Stderr, is_stream

STATUS_SECONDS = 0.25
"""After the peek finds no such child: how long asyncio's own notice may be under way."""

CLOSING_SECONDS = 1.0
"""How long a worker may live on after its end of the result pipe was closed."""

STACK_SECONDS = 0.1
"""How long a worker that is about to be killed may take to write its stack."""

STDERR_RETRY_SECONDS = 0.05
LAST_WORDS_SECONDS = 2.0
"""How long a dead worker's stderr may wait for somebody who is slow to read ours."""

T = TypeVar("T")


class Listener(Protocol):
    """Who wants to know what happens to a worker process."""

    def heard(self, worker: WorkerProcess, said: list[Frame]) -> None:
        """The worker wrote these frames."""

    def taken(self, worker: WorkerProcess) -> None:
        """The worker took a part of a job that is too big to be written at once."""

    def misbehaved(self, worker: WorkerProcess, why: str) -> None:
        """The worker wrote what is no frame, or closed its pipe and lives on."""

    def died(self, worker: WorkerProcess, death: Death) -> None:
        """The worker is dead and all that it wrote has been told; comes once."""


class WorkerProcess:
    """A child process and all our ends of its pipes."""

    def __init__(
        self,
        serial: int,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        oom: OomCounter,
    ) -> None:
        self.serial = serial
        self.pid = 0
        self.gone: asyncio.Future[None] = loop.create_future()
        """Done when the process is reaped and nothing of it is left here."""
        self.known_functions: set[int] = set()
        self.known_path: list[str] = []
        self._loop = loop
        self._listener = listener
        self._oom = oom
        self._pipes: Pipes | None = None
        self._channel: Channel | None = None
        self._stack: StackFile | None = None
        self._stderr: Stderr | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._pidfd = -1
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._reaping: asyncio.TimerHandle | None = None
        self._condemned = False
        self._why = ""
        self._reaped = False
        self._exit: asyncio.Future[None] | None = None
        self._looking = asyncio.Lock()
        self._dead = False

    def __repr__(self) -> str:
        state = "dead" if self._dead else "condemned" if self._condemned else "alive"
        return f"<WorkerProcess {self.serial} pid={self.pid} {state}>"

    # Birth

    async def spawn(self, env: Mapping[str, str] | None, *, use_pidfd: bool) -> None:
        """Start the process. Raises OSError if the system or the interpreter refuses."""
        pipes = self._pipes = Pipes()
        try:
            await self._execute(pipes, env)
        except BaseException as error:
            pipes.close()
            if isinstance(error, asyncio.CancelledError):
                await self._until_reaped()
            if self._transport is not None:
                self._transport.close()
            raise
        pipes.spawned()
        if self._dead:  # so fast that its end was told already
            return
        self._stack = StackFile(pipes.stack)
        self._stderr = Stderr(pipes.stderr_out)
        self._channel = Channel(
            self._loop,
            pipes,
            heard=lambda said: self._listener.heard(self, said),
            taken=lambda: self._listener.taken(self),
            ended=self._pipe_ended,
            broken=lambda why: self._listener.misbehaved(self, why),
        )
        self._loop.add_reader(pipes.stderr_out, self._relay)
        if use_pidfd and hasattr(os, "pidfd_open"):
            self._watch_pidfd()
        if self._reaped:
            self._process_exited()
        elif self._condemned:
            self.kill()

    async def _execute(self, pipes: Pipes, env: Mapping[str, str] | None) -> None:
        command = interpreter.worker_command(pipes.for_worker, STACK_SIGNAL)
        try:
            transport, _ = await OneThreadAtATime(
                self._loop.subprocess_exec(
                    lambda: _ExitWatch(self),
                    *command,
                    stdin=subprocess.DEVNULL,
                    stdout=None if is_stream(1) else subprocess.DEVNULL,
                    stderr=pipes.stderr_in,
                    pass_fds=pipes.for_worker,
                    start_new_session=True,
                    env=interpreter.worker_environment(env),
                )
            )
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            error.filename = command[0]  # uvloop does not tell
            raise
        self._transport = transport
        self.pid = transport.get_pid()

    async def _until_reaped(self) -> None:
        """Wait for the end of a process whose spawn was cancelled, as it can by now only die."""
        # asyncio has done so; uvloop has killed it, and fails if its loop is closed before the end.
        if not self._reaped and not isinstance(self._loop, asyncio.SelectorEventLoop):
            self._exit = self._loop.create_future()
            await asyncio.wait({self._exit}, timeout=CLOSING_SECONDS)

    def _watch_pidfd(self) -> None:
        with suppress(OSError):  # reaped already: process_exited tells
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self.look)

    # Talking

    def send_jobs(self, count: int, pieces: list[bytes]) -> None:
        """Write frames, `count` of which are jobs."""
        if self._channel is not None:
            self._channel.send_jobs(count, pieces)

    def send(self, pieces: list[bytes]) -> None:
        """Write frames as far as the pipe takes them, the rest as it empties."""
        if self._channel is not None:
            self._channel.send(pieces)

    def take_back_tickets(self) -> int:
        """Recall all that the worker has not begun; return how many jobs that are."""
        return 0 if self._channel is None else self._channel.take_back_tickets()

    def _relay(self) -> None:
        if self._stderr is None:
            return
        try:
            if self._stderr.relay():
                return
        except (EOFError, OSError):
            self._loop.remove_reader(self._stderr.fd)
            return
        self._loop.remove_reader(self._stderr.fd)
        self._later("stderr", STDERR_RETRY_SECONDS, self._resume_relay)

    def _resume_relay(self) -> None:
        if self._stderr is not None and not self._dead:
            self._loop.add_reader(self._stderr.fd, self._relay)

    # The stack of a running job

    async def dump_stack(self, within: float) -> str:
        """Return the Python stacks of the process, or an empty text if it does not answer."""
        async with self._looking:  # all looks share one file
            self._ask_for_stack()
            end = self._loop.time() + within
            pause = 0.001
            # Once it is condemned, the next stack is for the report of its death.
            while not (self._dead or self._condemned) and self._loop.time() < end:
                if self._stack is not None and self._stack.is_complete():
                    return self._stack.take()
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.02)
        return ""

    def _ask_for_stack(self) -> None:
        if self._stack is not None:
            self._stack.take()
        if self._is_ours_to_signal():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, STACK_SIGNAL)

    # Death

    def stop(self, grace: float) -> None:
        """Ask the worker to leave when it has done what it has; kill it after `grace` seconds."""
        self.send([frames.encode(frames.STOP)])
        self._later("grace", grace, self.kill)

    def blame(self, why: str) -> None:
        """Remember what it did: if it is killed, then for that."""
        self._why = why

    def kill(self) -> None:
        """Kill the process group, now or as soon as it exists."""
        self._condemned = True
        if self.pid and self._is_ours_to_signal():
            _kill_group(self.pid)

    def kill_with_stack(self) -> None:
        """Kill the process group after the worker has told where it hangs, or will not."""
        self._condemned = True
        self._ask_for_stack()
        self._last_words(self._loop.time() + STACK_SECONDS, 0.0005)

    def _last_words(self, end: float, pause: float) -> None:
        if self._dead:
            return
        if self._stack is None or self._stack.is_complete() or self._loop.time() >= end:
            self.kill()
        else:
            self._later("words", pause, lambda: self._last_words(end, min(2 * pause, 0.01)))

    def _is_ours_to_signal(self) -> bool:
        """Whether the pid still names our child, dead or alive, and nobody else."""
        if self._dead or self._reaped:
            return False
        if not hasattr(os, "waitid"):
            return True
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _pipe_ended(self) -> None:
        """The worker's end is closed: it dies, or a job closed what it should not."""
        self.look()
        self._later("closing", CLOSING_SECONDS, self._still_there)

    def _still_there(self) -> None:
        self.look()
        if not self._dead:
            self._listener.misbehaved(self, "it closed its pipe")

    def look(self) -> None:
        """Look whether the process is dead, without reaping it."""
        if self._dead or not self.pid or not hasattr(os, "waitid"):
            return
        try:
            status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._forget_pidfd()
            self._later("status", STATUS_SECONDS, self._status_is_lost)
            return
        if status is None:
            return
        if status.si_code == os.CLD_EXITED:
            self._finish(status.si_status, None)
        else:
            self._finish(None, status.si_status)

    def _process_exited(self) -> None:
        """asyncio has reaped it."""
        self._reaped = True
        if self._exit is not None and not self._exit.done():
            self._exit.set_result(None)
        if self._transport is None or not self.pid:
            return  # `spawn` goes on from here
        code = self._transport.get_returncode()
        self._transport.close()
        if code is None or code == 255:
            # 255 is also what asyncio invents when somebody else took the status.
            self._finish(None, None)
        else:
            self._finish(None if code < 0 else code, -code if code < 0 else None)
        self._is_gone()

    def _status_is_lost(self) -> None:
        """Somebody else reaped the child, and no notice will come."""
        if not self._dead:
            self._bury()

    def _bury(self) -> None:
        """End what the loop will not end; nothing is told of a death that was told before."""
        self._reaped = True
        self._finish(None, None)
        if self._transport is not None and isinstance(self._loop, asyncio.SelectorEventLoop):
            # uvloop would first send a signal to what it takes for a living child.
            self._transport.close()
        self._is_gone()

    def _finish(self, exit_code: int | None, signal_: int | None) -> None:
        """Hear its last words, sweep up what it left behind, and tell."""
        if self._dead or self._pipes is None:
            return
        if self._channel is not None:
            self._channel.drain()
        self._dead = True
        for name in list(self._timers):
            self._timers.pop(name).cancel()
        self._sweep_group()
        death = self._explain(exit_code, signal_)
        self._release()
        if not self._reaped:
            self._reaping = self._loop.call_later(STATUS_SECONDS, self._see_to_reaping, True)
        self._listener.died(self, death)

    def _see_to_reaping(self, wait: bool) -> None:
        """Bury what the loop has not: somebody was faster, or has taken SIGCHLD from uvloop."""
        peek = os.WNOWAIT if wait else 0
        try:
            left = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | peek)
        except ChildProcessError:
            left = None
        if left is not None and wait:
            self._reaping = self._loop.call_later(STATUS_SECONDS, self._see_to_reaping, False)
            return
        self._bury()

    def _explain(self, exit_code: int | None, signal_: int | None) -> Death:
        if self._stderr is not None:
            self._stderr.drain()
        oom = self._oom.struck()
        if signal_ != signal.SIGKILL or self._condemned:
            oom = None
        stack = self._stack.take() if self._stack is not None else None
        if stack and not self._condemned and self._stderr is not None and faulthandler.is_enabled():
            self._stderr.show(stack)  # where the parent's own dump would go
        why = self._why if signal_ == signal.SIGKILL else ""
        return Death(
            exit_code,
            None if why else signal_,
            stack=stack or None,
            stderr=self._stderr.tail if self._stderr is not None else "",
            oom=oom,
            why=why,
        )

    def _sweep_group(self) -> None:
        """Kill what the worker's jobs started and left behind."""
        if not self._reaped:
            _kill_group(self.pid)  # the dead leader still holds its number
            return
        try:
            os.getpgid(self.pid)
        except ProcessLookupError:
            # No process has this number, and the system gives out no number that a group still
            # bears: if there is such a group, it is the one that our worker led.
            _kill_group(self.pid)
        except PermissionError:
            pass

    def _release(self) -> None:
        """Give back everything but the transport, which waits for its loop."""
        if self._pipes is None:
            return
        self._forget_pidfd()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._loop.remove_reader(self._pipes.stderr_out)
        self._pipes.close()
        self._pipes = self._stack = None

    def _forget_pidfd(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _is_gone(self) -> None:
        if self._reaping is not None:
            self._reaping.cancel()
        self._let_be_read(self._loop.time() + LAST_WORDS_SECONDS)

    def _let_be_read(self, end: float) -> None:
        """Be gone as soon as all that it said is written."""
        if self.gone.done():
            return
        if self._stderr is None or self._stderr.write_rest() or self._loop.time() >= end:
            self.gone.set_result(None)
        else:
            self._loop.call_later(STDERR_RETRY_SECONDS, self._let_be_read, end)

    def _later(self, name: str, seconds: float, call: object) -> None:
        """Keep one timer of that name, so that a dead worker leaves none."""
        if self._dead:
            return
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._loop.call_later(seconds, call)  # type: ignore[arg-type]


class _ExitWatch(asyncio.SubprocessProtocol):
    """Hears of the exit from asyncio."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def process_exited(self) -> None:
        self._worker._process_exited()


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
