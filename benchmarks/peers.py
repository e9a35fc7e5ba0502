"""The pools that are measured, behind one small protocol. Each is opened fresh for each sample."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from multiprocessing.pool import Pool as MultiprocessingPool
from typing import Any, Protocol, TypeVar

import asyncpool

from .beacon import Beacon
from .workloads import announce_and_wait

R = TypeVar("R")

PPE_HOW = "concurrent.futures.ProcessPoolExecutor (spawn), through loop.run_in_executor"
MP_POOL_HOW = (
    "multiprocessing.Pool (spawn), apply_async for each job; its callbacks resolve one future a "
    "job by loop.call_soon_threadsafe"
)

ARMED_SECONDS = 60.0
"""The timeout of every job, so that what it costs to watch it is paid."""


class Peer(Protocol):
    """Whoever runs a function in another process and gives a future for it."""

    def submit(self, fn: Callable[..., R], /, *args: Any) -> asyncio.Future[R]:
        """Start a call of `fn`."""


OpenPeer = Callable[[int], AbstractAsyncContextManager[Peer]]
"""Opens a peer with that many workers; leaving it leaves no process behind."""


def open_pool(workers: int, *, spares: int = 0) -> asyncpool.Pool:
    """Open asyncpool with everything on: ACKs, retries, a timeout on every job."""
    return asyncpool.Pool(workers, spares=spares, timeout=ARMED_SECONDS)


def open_durable_pool(directory: str, workers: int) -> asyncpool.Pool:
    """Open the same with a journal in that directory."""
    journal = os.path.join(directory, "jobs.log")
    return asyncpool.Pool(workers, timeout=ARMED_SECONDS, journal=journal)


class ExecutorPeer:
    """A ProcessPoolExecutor, as asyncio programs use it."""

    def __init__(self, executor: ProcessPoolExecutor) -> None:
        self._executor = executor
        self._loop = asyncio.get_running_loop()

    def submit(self, fn: Callable[..., R], /, *args: Any) -> asyncio.Future[R]:
        """Start a call of `fn`."""
        return self._loop.run_in_executor(self._executor, fn, *args)


@asynccontextmanager
async def open_ppe(workers: int) -> AsyncIterator[ExecutorPeer]:
    """Open the pool of the standard library."""
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context)
    try:
        yield ExecutorPeer(executor)
    finally:
        _kill(executor)


def _kill(executor: ProcessPoolExecutor) -> None:
    """End it at once, whatever it runs. Before Python 3.14 there is no public way."""
    for pid in list(executor._processes or ()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    executor.shutdown(wait=True, cancel_futures=True)


class ApplyAsyncPeer:
    """A multiprocessing.Pool, made awaitable."""

    def __init__(self, pool: MultiprocessingPool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()

    def submit(self, fn: Callable[..., R], /, *args: Any) -> asyncio.Future[R]:
        """Start a call of `fn`."""
        future: asyncio.Future[R] = self._loop.create_future()
        in_loop = self._loop.call_soon_threadsafe

        def returned(value: R) -> None:
            in_loop(_resolve, future, value)

        def raised(error: BaseException) -> None:
            in_loop(_fail, future, error)

        self._pool.apply_async(fn, args, callback=returned, error_callback=raised)
        return future


def _resolve(future: asyncio.Future[R], value: R) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


@asynccontextmanager
async def open_mp_pool(workers: int) -> AsyncIterator[ApplyAsyncPeer]:
    """Open the older pool of the standard library."""
    pool = multiprocessing.get_context("spawn").Pool(workers)
    try:
        yield ApplyAsyncPeer(pool)
    finally:
        pool.terminate()
        pool.join()


async def assemble(peer: Peer, workers: int) -> None:
    """Return as soon as every worker of a peer has run a job: none can take two of these."""
    async with all_held(peer, workers):
        pass


@asynccontextmanager
async def all_held(peer: Peer, workers: int) -> AsyncIterator[None]:
    """Keep every worker of a peer waiting in a job."""
    with Beacon() as beacon:
        jobs = [peer.submit(announce_and_wait, beacon.path, beacon.gate) for _ in range(workers)]
        for _ in jobs:
            await beacon.next()
        yield
        beacon.let_through(workers)
        await asyncio.gather(*jobs)


_ECHO = "import os\nwhile data := os.read(0, 64): os.write(1, data)"


class Echo:
    """A process that sends every byte back: the least that any answer must take."""

    def __init__(self, sending: int, receiving: int) -> None:
        self._sending, self._receiving = sending, receiving
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(receiving, self._readable)

    async def ping(self) -> None:
        """Send a byte and wait until it is back."""
        self._waiter = self._loop.create_future()
        os.write(self._sending, b".")
        await self._waiter

    def close(self) -> None:
        """Listen no more."""
        self._loop.remove_reader(self._receiving)

    def _readable(self) -> None:
        os.read(self._receiving, 64)
        if not self._waiter.done():
            self._waiter.set_result(None)


@asynccontextmanager
async def open_echo() -> AsyncIterator[Echo]:
    """Start the echo."""
    with _echo_process() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        echo = Echo(process.stdin.fileno(), process.stdout.fileno())
        try:
            yield echo
        finally:
            echo.close()
            process.kill()


def _echo_process() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-S", "-c", _ECHO]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
