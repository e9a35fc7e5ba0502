"""A pool in a loop of whatever thread, beside whatever other threads do."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from asyncpool import Pool, Retry, WorkerCrashed
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import jobs
from tests.support.loops import LOOPS, LoopFactory

CRASHES = 10


async def crash_and_recover() -> list[float]:
    """Crash jobs one after the other; return how long each recovery took."""
    took = []
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        for i in range(CRASHES):
            begun = time.monotonic()
            with pytest.raises(WorkerCrashed) as caught:
                await pool.submit(deadly.exit_with, 3)
            assert caught.value.exit_code == 3
            assert await pool.submit(jobs.add, i, 1) == i + 1
            took.append(time.monotonic() - begun)
        assert pool.stats().crashes == CRASHES
    return took


def assert_prompt(took: list[float]) -> None:
    """Less than two seconds each, but for one that the system may have kept waiting."""
    *most, longest = sorted(took)
    assert max(most) < 2
    assert longest < 10


def run(loop_factory: LoopFactory) -> list[float]:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(crash_and_recover())


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("loops", [1, 2])
def test_loops_in_other_threads_recover_from_crashes(loop_factory: LoopFactory, loops: int) -> None:
    """THREAD-1: the main thread sleeps meanwhile, in C."""
    with ThreadPoolExecutor(loops) as threads:
        running = [threads.submit(run, loop_factory) for _ in range(loops)]
        time.sleep(1)  # the main thread runs no Python, and handles no signal
        took = [seconds for future in running for seconds in future.result()]
    assert len(took) == loops * CRASHES
    assert_prompt(took)


def test_one_loop_of_each_kind_in_threads_of_one_process() -> None:
    """THREAD-1: two loops, a pool each."""
    with ThreadPoolExecutor(len(LOOPS)) as threads:
        for took in threads.map(run, LOOPS.values()):
            assert_prompt(took)


async def test_a_pool_beside_one_in_another_thread() -> None:
    """THREAD-1: one of the two loops is the main thread's."""
    factory = type(asyncio.get_running_loop())
    with ThreadPoolExecutor(1) as threads:
        other = asyncio.get_running_loop().run_in_executor(threads, run, factory)
        ours, theirs = await asyncio.gather(crash_and_recover(), other)
    assert_prompt(ours)
    assert_prompt(theirs)


# FORK-1


@contextmanager
def busy_logging(path: Path, threads: int) -> Iterator[None]:
    """Have threads that hold the locks of logging most of the time."""
    logger = logging.getLogger("tests.busy")
    handler = logging.FileHandler(path)
    logger.addHandler(handler)
    logger.propagate = False
    done = threading.Event()

    def log() -> None:
        while not done.is_set():
            logger.warning("%s", "x" * 100)

    crowd = [threading.Thread(target=log) for _ in range(threads)]
    for thread in crowd:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in crowd:
            thread.join()
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def import_under_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a thread that holds the import lock of a module."""
    gate = folder / "importing"
    gate.touch()
    (folder / "slow_module.py").write_text(
        f"import os, time\nwhile os.path.exists({str(gate)!r}):\n    time.sleep(0.005)\n"
    )
    monkeypatch.syspath_prepend(folder)
    thread = threading.Thread(target=importlib.import_module, args=("slow_module",))
    thread.start()
    try:
        yield
    finally:
        gate.unlink()
        thread.join()
        del sys.modules["slow_module"]


async def test_workers_inherit_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORK-1."""
    with ExitStack() as stack:
        stack.enter_context(busy_logging(tmp_path / "log", 8))
        stack.enter_context(import_under_way(tmp_path, monkeypatch))
        pool = Pool(1, retry=Retry(max_crashes=1))
        async with pool:
            for _ in range(10):
                with pytest.raises(WorkerCrashed):
                    await pool.submit(deadly.exit_with, 3)
                async with asyncio.timeout(5):
                    pid = await pool.submit(deadly.log_and_tell_pid, "still here")
                _assert_is_fresh(pid)
            await assert_sound(pool, 1)


def _assert_is_fresh(pid: int) -> None:
    """The process runs its own program, and is not a copy of this one."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert b"asyncpool.worker.main" in command
    assert command != Path(f"/proc/{os.getpid()}/cmdline").read_bytes()
