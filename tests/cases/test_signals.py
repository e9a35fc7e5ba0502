"""A pool in a program that does things of its own with signals and with its children."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from asyncpool import Job, Pool, Retry, WorkerCrashed
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import jobs, procs
from tests.support.marks import Marks

ONCE = Retry(max_crashes=1)


@pytest.fixture
def sigchld() -> Iterator[None]:
    """Give the handler of SIGCHLD back as it was."""
    before = signal.getsignal(signal.SIGCHLD)
    yield
    signal.signal(signal.SIGCHLD, before)


async def crash(pool: Pool) -> WorkerCrashed:
    async with asyncio.timeout(2):
        with pytest.raises(WorkerCrashed) as caught:
            await pool.submit(deadly.exit_with, 3)
    return caught.value


# A uvloop that was robbed of a child never closes its handle of it, and complains when it ends.
robbed = pytest.mark.filterwarnings("ignore:unclosed resource <UVProcess:ResourceWarning")


# SIG-1


@contextmanager
def thief() -> Iterator[list[int]]:
    """A thread that reaps whatever child it can get; gives the list of those it got."""
    stolen: list[int] = []
    done = threading.Event()

    def steal() -> None:
        while not done.wait(0.0002):
            with suppress(ChildProcessError):
                pid, _ = os.waitpid(-1, os.WNOHANG)
                stolen.extend([pid] * bool(pid))

    thread = threading.Thread(target=steal)
    thread.start()
    try:
        yield stolen
    finally:
        done.set()
        thread.join()


@robbed
async def test_a_thread_that_reaps_our_children_hides_no_death() -> None:
    """SIG-1."""
    async with Pool(2, retry=ONCE) as pool:
        with thief():
            for _ in range(20):
                error = await crash(pool)
                assert error.signal is None
                assert error.exit_code in (3, None)
                said = "exited with code 3" if error.exit_code else "exit status unknown"
                assert said in str(error)
        assert (pool.stats().crashes, pool.stats().failed) == (20, 20)
        await assert_sound(pool, 2)


@pytest.fixture
async def reaped_in_the_loop() -> AsyncIterator[None]:
    """Have asyncio reap in the loop itself, as it does since Python 3.12, and not in threads."""
    if sys.version_info >= (3, 12):
        yield
        return
    policy = asyncio.get_event_loop_policy()
    before = policy.get_child_watcher()
    with asyncio.PidfdChildWatcher() as watcher:
        watcher.attach_loop(asyncio.get_running_loop())
        policy.set_child_watcher(watcher)
        yield
        policy.set_child_watcher(before)
        watcher.close()


@robbed
async def test_a_wait_on_the_loops_own_thread_hides_no_death(
    reaped_in_the_loop: None, marks: Marks
) -> None:
    """SIG-1: nobody can be faster."""
    async with Pool(2, retry=ONCE) as pool:
        for crashes in range(1, 11):
            job: Job[None] = pool.submit(deadly.sleep_for_ever)
            await job.started()
            kill_and_reap(job.attempts[0].pid)
            async with asyncio.timeout(2):
                with pytest.raises(WorkerCrashed, match="exit status unknown") as caught:
                    await job
            assert (caught.value.exit_code, caught.value.signal) == (None, None)
            assert pool.stats().crashes == crashes
        again = pool.options(retry=Retry()).submit(jobs.write_pid_and_sleep, marks.path, 0.3)
        await again.started()
        kill_and_reap(again.attempts[0].pid)
        assert await again == again.attempts[1].pid
        for worker in pool.workers():
            kill_and_reap(worker.pid)
        await assert_sound(pool, 2)
        assert pool.stats().crashes == 11


def kill_and_reap(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0) == (pid, signal.SIGKILL)


@robbed
async def test_what_a_job_started_dies_although_its_worker_was_reaped(
    reaped_in_the_loop: None, marks: Marks
) -> None:
    """SIG-1: with a tree."""
    async with Pool(1, retry=ONCE) as pool:
        job = pool.submit(deadly.start_processes_and_sleep, marks.path)
        await procs.eventually(lambda: marks.count() == 3)
        kill_and_reap(job.attempts[0].pid)
        with pytest.raises(WorkerCrashed):
            await job
        pids = [int(line) for line in marks.lines()]
        await procs.eventually(lambda: not any(map(procs.alive, pids)), within=1)
        await assert_sound(pool, 1)


# SIG-3


class Handler:
    """A handler of the application, by either way of setting one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *_: object) -> None:
        self.calls += 1


async def own_children() -> None:
    """Run children of the application itself, by asyncio and by hand, which end rightly."""
    code = "import time; time.sleep(0.05); raise SystemExit(7)"
    by_asyncio = await asyncio.create_subprocess_exec(sys.executable, "-ISc", code)
    with subprocess.Popen([sys.executable, "-ISc", code]) as by_hand:
        assert await by_asyncio.wait() == 7
        await procs.eventually(lambda: by_hand.poll() is not None)
        assert by_hand.returncode == 7


async def crash_beside_own_children(pool: Pool) -> None:
    own = asyncio.create_task(own_children())
    for _ in range(5):
        error = await crash(pool)
        assert (error.exit_code, error.signal) == (3, None)
    await own


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("through_the_loop", [False, True])
async def test_handlers_of_the_application_are_left_alone(
    sigchld: None, through_the_loop: bool
) -> None:
    """SIG-3: before the pool is open, while it is, and after it."""
    loop = asyncio.get_running_loop()

    def install(handler: Handler) -> object:
        if through_the_loop:
            loop.add_signal_handler(signal.SIGCHLD, handler)
        else:
            signal.signal(signal.SIGCHLD, handler)
        return signal.getsignal(signal.SIGCHLD)

    before, meanwhile = Handler(), Handler()
    installed = install(before)
    async with Pool(2, retry=ONCE) as pool:
        await crash_beside_own_children(pool)
        assert signal.getsignal(signal.SIGCHLD) is installed
        assert before.calls
        installed = install(meanwhile)
        await crash_beside_own_children(pool)
        assert meanwhile.calls
        await assert_sound(pool, 2)
    assert signal.getsignal(signal.SIGCHLD) is installed
    calls = meanwhile.calls
    await own_children()
    assert meanwhile.calls > calls
    if through_the_loop:
        loop.remove_signal_handler(signal.SIGCHLD)


@pytest.mark.loops("asyncio")
@pytest.mark.parametrize("through_the_loop", [False, True])
async def test_a_handler_that_comes_later_is_left_alone(
    sigchld: None, through_the_loop: bool
) -> None:
    """SIG-3: the pool came first."""
    loop = asyncio.get_running_loop()
    handler = Handler()
    async with Pool(2, retry=ONCE) as pool:
        await crash_beside_own_children(pool)
        if through_the_loop:
            loop.add_signal_handler(signal.SIGCHLD, handler)
        else:
            signal.signal(signal.SIGCHLD, handler)
        installed = signal.getsignal(signal.SIGCHLD)
        await crash_beside_own_children(pool)
        await assert_sound(pool, 2)
    assert signal.getsignal(signal.SIGCHLD) is installed
    calls = handler.calls
    await own_children()
    assert handler.calls > calls
    if through_the_loop:
        loop.remove_signal_handler(signal.SIGCHLD)


async def test_nothing_of_ours_is_left_installed(sigchld: None) -> None:
    """SIG-3: nobody else has a handler; two pools of one loop, closed one after the other."""
    before = signal.getsignal(signal.SIGCHLD)
    async with Pool(1, retry=ONCE) as first:
        async with Pool(1, retry=ONCE) as second:
            await crash_beside_own_children(second)
        await crash_beside_own_children(first)
    assert signal.getsignal(signal.SIGCHLD) is before


@robbed
@pytest.mark.parametrize("when", ["before", "while open"])
async def test_a_program_that_ignores_sigchld_loses_no_job(sigchld: None, when: str) -> None:
    """SIG-3: the kernel reaps the children, and forgets how they ended."""
    if when == "before":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    async with Pool(2, retry=ONCE) as pool:
        await pool.submit(jobs.add, 1, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for _ in range(5):
            await crash(pool)
        await assert_sound(pool, 2)


# SIGINH-1


@pytest.fixture
def blocked() -> Iterator[None]:
    """Block two signals in this thread, as a server may do that waits for them elsewhere."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def test_workers_inherit_nothing_about_signals(blocked: None) -> None:
    """SIGINH-1."""
    loop = asyncio.get_running_loop()
    told: list[int] = []
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, told.append, signum)
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        async with Pool(1, retry=ONCE) as pool:
            assert await pool.submit(deadly.run_children) == [
                7,
                -signal.SIGTERM,
                -signal.SIGPIPE,
                -signal.SIGUSR1,
            ]
            job: Job[None] = pool.submit(deadly.sleep_for_ever)
            await job.started()
            pid = job.attempts[0].pid
            assert _signals_of(pid, "SigBlk") == 0
            os.kill(pid, signal.SIGTERM)
            with pytest.raises(WorkerCrashed, match="SIGTERM"):
                await job
            await assert_sound(pool, 1)
    finally:
        signal.signal(signal.SIGPIPE, before)
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(signum)
    assert not told
    assert not signal.sigpending()


def _signals_of(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1], 16)
    raise LookupError(field)
