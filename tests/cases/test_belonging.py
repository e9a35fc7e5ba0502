"""A pool belongs to the loop that entered it: whoever else calls is told so, at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from asyncpool import Pool, PoolClosed
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.loops import LOOPS, LoopFactory
from tests.support.marks import Marks


def error_in_a_thread(call: Callable[[], object]) -> BaseException | None:
    """Return what the call raises in another thread, which has no loop."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught[0] if caught else None


def error_in_another_loop(call: Callable[[], object], make_loop: LoopFactory) -> object:
    """Return what the call raises in another loop, in another thread."""

    async def run() -> None:
        call()

    def run_loop() -> None:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(run())

    return error_in_a_thread(run_loop)


async def test_submitting_from_another_thread_raises_and_queues_nothing(marks: Marks) -> None:
    async with Pool(1) as pool:
        await full_crew(pool, 1)
        error = error_in_a_thread(lambda: pool.submit(jobs.mark_then, marks.path, 1))
        assert isinstance(error, RuntimeError)
        assert not isinstance(error, PoolClosed)
        assert (pool.jobs(), pool.stats().pending) == ([], 0)
        await assert_sound(pool, 1)
    assert marks.lines() == []


@pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS)
async def test_submitting_from_another_loop_raises_and_queues_nothing(
    marks: Marks, make_loop: LoopFactory
) -> None:
    async with Pool(1) as pool:
        await full_crew(pool, 1)
        for submitter in (pool, pool.options(priority=1)):
            error = error_in_another_loop(
                lambda view=submitter: view.submit(jobs.mark_then, marks.path, 1),  # type: ignore[misc]
                make_loop,
            )
            assert isinstance(error, RuntimeError)
            assert "loop" in str(error)
        assert pool.jobs() == []
        await assert_sound(pool, 1)
    assert marks.lines() == []


async def test_enqueueing_from_another_loop_raises(marks: Marks) -> None:
    async with Pool(1, max_pending=1) as pool:

        def enqueue() -> None:
            asyncio.run(pool.enqueue(jobs.mark_then, marks.path, 1))

        assert isinstance(error_in_a_thread(enqueue), RuntimeError)
        full = pool.submit(jobs.sleep_return, 0.3, "full")
        assert isinstance(error_in_a_thread(enqueue), RuntimeError)
        assert await full == "full"
        await assert_sound(pool, 1)
    assert marks.lines() == []


async def test_a_closed_pool_refuses_strangers_as_well() -> None:
    async with Pool(1) as pool:
        pass
    assert isinstance(error_in_a_thread(lambda: pool.submit(jobs.add, 1, 2)), RuntimeError)
    with pytest.raises(PoolClosed):
        pool.submit(jobs.add, 1, 2)
    with pytest.raises(PoolClosed):
        await pool.enqueue(jobs.add, 1, 2)


def test_a_pool_whose_loop_is_gone_refuses_everybody(marks: Marks) -> None:
    async def leave_behind() -> Pool:
        async with Pool(1) as pool:
            return pool

    pool = asyncio.run(leave_behind())
    with pytest.raises(RuntimeError):
        pool.submit(jobs.mark_then, marks.path, 1)
    assert marks.lines() == []


def test_a_pool_that_was_not_entered_takes_no_jobs(marks: Marks) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        Pool(1).submit(jobs.mark_then, marks.path, 1)
    assert marks.lines() == []


async def test_another_thread_can_submit_by_way_of_the_loop() -> None:
    loop = asyncio.get_running_loop()
    async with Pool(1) as pool:

        async def add() -> int:
            return await pool.submit(jobs.add, 1, 2)

        def run() -> int:
            return asyncio.run_coroutine_threadsafe(add(), loop).result(20)

        assert await asyncio.to_thread(run) == 3


# asyncio.run that ends without close


@pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("when", ["starting", "idle", "busy", "queued", "crashed", "cancelling"])
def test_a_loop_that_ends_leaves_no_worker_behind(
    make_loop: LoopFactory, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        pool = await Pool(2).__aenter__()
        if when == "starting":
            return
        pids = await full_crew(pool, 2)
        if when == "crashed":
            os.kill(pids[0], signal.SIGKILL)
            time.sleep(0.2)  # the loop's last turn learns of it
        elif when != "idle":
            count = 2 if when == "busy" else 10
            started = [pool.submit(jobs.spin) for _ in range(count)]
            await asyncio.gather(started[0].started(), started[1].started())
            if when == "cancelling":
                started[0].cancel()  # its worker's replacement is being started in the last turn

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
    assert procs.kids() == []
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_that_fails_leaves_no_worker_behind(make_loop: LoopFactory) -> None:
    async def main() -> None:
        pool = await Pool(2).__aenter__()
        await pool.submit(jobs.add, 1, 2)
        pool.submit(jobs.spin)
        raise LookupError("the program")

    with (
        pytest.raises(LookupError, match="the program"),
        asyncio.Runner(loop_factory=make_loop) as runner,
    ):
        runner.run(main())
    assert procs.kids() == []
