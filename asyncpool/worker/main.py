"""The worker's loop: read jobs, take their tickets, ACK, call, answer.

It blocks on its pipes and has one thread. Its frames are explained in `asyncpool.frames`.
"""

import faulthandler
import marshal
import os
import sys
from collections import deque
from time import perf_counter
from types import CoroutineType

try:
    import _signal as signal  # type: ignore[import-not-found]  # `signal` also imports `enum`: 8 ms at each start
    from _pickle import loads
except ImportError:  # pragma: no cover - other Pythons
    import signal
    from pickle import loads

import _thread

from .. import frames, raised
from ..frames import HEADER, JOB_HEAD, Frame
from . import context, lifeline

READ_SIZE = 1 << 16
BULK_READ_SIZE = 1 << 20
MAX_MICROSECONDS = frames.MAX_EXTRA
REPORT_BURST, REPORTS_PER_SECOND = 100, 100


def main() -> None:
    """Run a worker on the descriptors named in the arguments; returns when told to leave."""
    jobs, results, tickets, line, stack, stack_signal = map(int, sys.argv[2:8])
    lifeline.hang_on(line)
    private = (jobs, results, tickets, line, stack)
    for fd in private:
        os.set_inheritable(fd, False)
    _close_inherited()
    _reset_signals()
    faulthandler.enable(stack)
    faulthandler.register(stack_signal, stack, all_threads=True)
    worker = Worker(jobs, results, tickets)
    # A process that a job forks must neither answer for the worker nor hold its pipes open.
    os.register_at_fork(after_in_child=lambda: _close(private[:4]))
    worker.say(frames.HELLO, number=frames.VERSION)
    worker.set_up()
    worker.serve()


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


def _close_inherited() -> None:
    """Close what the parent lets its children inherit: uvloop, unlike asyncio, does not."""
    # What this process opened by itself until now cannot be inherited, and stays.
    for name in os.listdir("/dev/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))
        except OSError:  # the one that listed them
            pass


def _reset_signals() -> None:
    """Undo what the parent blocks or ignores, which a process inherits."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    pythons_own = (signal.SIGPIPE, signal.SIGXFSZ)
    for number in range(1, signal.NSIG):
        if number not in pythons_own and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # Not the handler that raises KeyboardInterrupt in the midst of a job, or of this loop.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Worker:
    """One process that runs one job at a time."""

    def __init__(self, jobs: int, results: int, tickets: int) -> None:
        self._jobs, self._results, self._tickets = jobs, results, tickets
        self._decoder = frames.Decoder()
        self._functions: dict[int, object] = {}  # bytes until first called
        self._held: deque[tuple[int, Frame]] = deque()  # jobs and the tickets they need
        self._received = 0
        self._ticket: int | None = None  # taken, but its job has not arrived yet
        self._leaving = False
        self._out: list[bytes] = []
        self._bulky = False  # one of them is large
        self._writing = _thread.allocate_lock()  # a job's threads may report progress
        self._throttle = context.Throttle(REPORT_BURST, REPORTS_PER_SECOND)
        self._unreported: bytes | None = None
        self._now = (0, 0)  # the attempt and number of the job that runs
        self._memory_fd = -1
        self._reaper: object = None

    # Start-up

    def set_up(self) -> None:
        """Wait for the instructions, carry them out, and say that we are ready."""
        while True:
            setup = [frame for frame in self._read() if self._note(frame)]
            if setup:
                break
        self._prepare(marshal.loads(setup[0][4]))
        self.say(frames.READY)

    def _prepare(self, setup: dict[str, object]) -> None:
        sys.path[:] = setup["path"]  # type: ignore[call-overload]
        sys.argv[:] = setup["argv"]  # type: ignore[call-overload]
        try:
            os.chdir(str(setup["cwd"]))
        except OSError as error:
            print(f"asyncpool worker: cannot enter {setup['cwd']}: {error}", file=sys.stderr)
        if sys.stdout is not None:
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        if setup["chaos"] is not None:
            from .chaos import Reaper

            self._reaper = Reaper(*setup["chaos"])  # type: ignore[misc]
        if setup["watch_memory"]:
            self._memory_fd = _open_memory()
        for name in setup["preload"]:  # type: ignore[attr-defined]
            __import__(name)
        if setup["initializer"] is not None:
            (initializer, initargs), _ = loads(setup["initializer"])  # type: ignore[arg-type]
            initializer(*initargs)

    # The loop

    def serve(self) -> None:
        """Run jobs until told to leave, or until the parent is gone."""
        if self._reaper is not None:
            self._serve_chaotically()
        while (frame := self._next_job()) is not None:
            _, attempt, function, number, payload = frame
            self._out.append(HEADER.pack(frames.ACK, attempt, 0, number, 0))
            self._flush()
            self._run(function, attempt, number, payload)

    def _serve_chaotically(self) -> None:
        """Do the same, but die where the reaper says so."""
        from . import chaos

        reaper: chaos.Reaper = self._reaper  # type: ignore[assignment]
        while (frame := self._next_job()) is not None:
            _, attempt, function, number, payload = frame
            reaper.draw()
            reaper.pass_by(chaos.BEFORE_ACK)
            self._out.append(HEADER.pack(frames.ACK, attempt, 0, number, 0))
            self._flush()
            reaper.pass_by(chaos.AFTER_ACK)
            self._run(function, attempt, number, payload)
            reaper.pass_by(chaos.BEFORE_RESULT)
            self._flush()
            reaper.pass_by(chaos.AFTER_RESULT)

    def _next_job(self) -> "Frame | None":
        """Return the next job that is ours to run; None: leave."""
        while True:
            if self._held and self._ticket is None:
                self._ticket = self._take_ticket()
            if self._ticket is not None:
                while self._held:
                    ticket, frame = self._held.popleft()
                    if ticket == self._ticket:
                        self._ticket = None
                        return frame
                    # Its ticket was taken back: the parent has sent it elsewhere.
            if self._out:
                self._flush()
            if self._leaving:
                return None
            for frame in self._read():
                self._note(frame)

    def _take_ticket(self) -> "int | None":
        try:
            return os.read(self._tickets, 1)[0]
        except BlockingIOError:
            return None  # all that we hold was recalled

    def _read(self) -> list[Frame]:
        """Block until there are bytes; return the frames that they complete."""
        size = BULK_READ_SIZE if self._decoder.missing > READ_SIZE else READ_SIZE
        data = os.read(self._jobs, size)
        if not data:
            self._leaving = True
        return self._decoder.feed(data)

    def _note(self, frame: Frame) -> bool:
        """Store what the frame brings; tell whether it is SETUP, which `set_up` handles."""
        kind = frame[0]
        if kind == frames.JOB:
            self._held.append((self._received, frame))
            self._received = (self._received + 1) & 0xFF
        elif kind == frames.FUNCTION:
            self._functions[frame[2]] = bytes(frame[4])
        elif kind == frames.FORGET:
            self._functions.pop(frame[2], None)
        elif kind == frames.PATH:
            sys.path[:] = marshal.loads(frame[4])
        elif kind == frames.STOP:
            self._leaving = True
        return kind == frames.SETUP

    # One job

    def _run(self, function: int, attempt: int, number: int, payload: "bytes | bytearray") -> None:
        """Call the job's function and queue its result for the next write."""
        deadline, id_size = JOB_HEAD.unpack_from(payload)
        start = JOB_HEAD.size + id_size
        job_id = payload[JOB_HEAD.size : start]
        self._now = (attempt, number)
        context.running = (job_id, attempt, deadline, self._report)
        begun = perf_counter()
        kind, answer = self._call(function, memoryview(payload)[start:])
        elapsed = min(int((perf_counter() - begun) * 1e6), MAX_MICROSECONDS)
        context.running = None
        _flush_output()
        if self._unreported is not None:
            self._out.append(self._unreported)
            self._unreported = None
        if self._memory_fd >= 0:
            self._out.append(frames.encode(frames.MEMORY, number=self._resident()))
        self._out.append(HEADER.pack(kind, attempt, elapsed, number, len(answer)))
        self._out.append(answer)
        self._bulky = len(answer) >= frames.BULK

    def _call(self, number: int, arguments: memoryview) -> tuple[int, bytes]:
        """Return what the call gave: RETURNED or RAISED, and its bytes."""
        try:
            function = self._functions[number]
            if type(function) is bytes:
                function = self._functions[number] = loads(function)
        except BaseException as error:
            return frames.RAISED, raised.encode(error, raised.FUNCTION)
        try:
            args, kwargs = loads(arguments)
        except BaseException as error:
            return frames.RAISED, raised.encode(error, raised.ARGUMENT)
        try:
            value = function(*args, **kwargs)  # type: ignore[operator]
            if type(value) is CoroutineType:
                from . import coroutines

                value = coroutines.run(value)
        except BaseException as error:
            return frames.RAISED, raised.encode(error)
        try:
            return frames.RETURNED, raised.dump(value)
        except BaseException as error:
            subject = raised.type_name(type(value))
            return frames.RAISED, raised.encode(error, raised.RESULT, subject)

    def _report(self, done: float, total: "float | None", message: "str | None") -> None:
        attempt, number = self._now
        payload = marshal.dumps((done, total, message))
        frame = frames.encode(frames.PROGRESS, attempt=attempt, number=number, payload=payload)
        # Without waiting: a signal handler may report while this very thread writes a report.
        if self._throttle.allows() and self._writing.acquire(blocking=False):
            try:
                self._unreported = None
                self._write_all((frame,))
            finally:
                self._writing.release()
        else:
            self._unreported = frame

    def _resident(self) -> int:
        pages = int(os.pread(self._memory_fd, 64, 0).split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    # Writing

    def say(self, kind: int, number: int = 0) -> None:
        """Send a frame without a payload at once."""
        self._write(frames.encode(kind, number=number))

    def _flush(self) -> None:
        """Write all that has been gathered, in one system call unless that costs a big copy."""
        out, self._out = self._out, []
        if self._bulky:
            self._bulky = False
            self._write(*out)
        else:
            self._write(b"".join(out))

    def _write(self, *pieces: bytes) -> None:
        with self._writing:
            self._write_all(pieces)

    def _write_all(self, pieces: tuple[bytes, ...]) -> None:
        for piece in pieces:
            written = os.write(self._results, piece)
            while written < len(piece):
                written += os.write(self._results, memoryview(piece)[written:])


def _flush_output() -> None:
    """Let what the job printed appear before its result, and survive this worker's death."""
    for name in ("stdout", "stderr"):
        try:
            stream = getattr(sys, name, None)
            if stream is not None:
                stream.flush()
        except Exception:  # the job closed or replaced it: its own business
            pass


def _open_memory() -> int:
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1  # no such thing here: the limit cannot be watched
