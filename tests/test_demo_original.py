"""The known faults of the scenario's original, which a pool must not have."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from asyncpool import Event, JobResent, Pool, Retry, WorkerExited, WorkerStarted
from asyncpool.demo.fib import fib, fib_quickly
from asyncpool.testing import Chaos
from tests.support.jobs import mark_then
from tests.support.marks import Marks
from tests.support.scripts import ROOT

E = TypeVar("E", bound=Event)

SEED = 109
"""With it, workers 1 to 4 die of their first job: a crash is certain."""

NUMBERS = list(range(8, 20))
FIB_47 = 2_971_215_073  # does not fit into 32 bits
FIB_100 = 354_224_848_179_261_915_075  # does not fit into 64


def chaos_at(*points: str) -> Chaos:
    return Chaos(crash_rate=0.5, seed=SEED, points=points, deaths=("SIGSEGV",))


async def test_no_job_is_lost_between_its_arrival_and_its_ack() -> None:
    """The original took a job off its list when it was sent."""
    # Not begun is not charged: a single crash would be too many.
    retry = Retry(max_crashes=1)
    async with Pool(2, chaos=chaos_at("before_ack"), retry=retry) as pool:
        jobs = [pool.submit(fib, n) for n in NUMBERS]
        assert await asyncio.gather(*jobs) == list(map(fib_quickly, NUMBERS))
        assert {len(job.attempts) for job in jobs} == {1}
        assert pool.stats().resent > 0


async def test_a_death_after_the_result_neither_repeats_nor_loses_a_job(marks: Marks) -> None:
    """The original resent a dead worker's last job, though its result was there."""
    async with Pool(2, chaos=chaos_at("after_result")) as pool:
        events = pool.events()
        jobs = [pool.submit(mark_then, marks.path, n) for n in NUMBERS]
        assert await asyncio.gather(*jobs) == NUMBERS
        await next_of(events, WorkerExited)
    assert sorted(map(int, marks.lines())) == NUMBERS
    assert {len(job.attempts) for job in jobs} == {1}


async def test_the_death_of_an_idle_worker_resends_nothing(marks: Marks) -> None:
    async with Pool(1) as pool:
        assert await pool.submit(mark_then, marks.path, 7) == 7
        events = pool.events()
        (worker,) = pool.workers()
        os.kill(worker.pid, signal.SIGKILL)
        death = await next_of(events, WorkerExited)
        assert (death.pid, death.job_id, death.signal) == (worker.pid, None, signal.SIGKILL)
        await next_of(events, WorkerStarted)
        assert pool.stats().resent == 0
        assert await pool.submit(fib, 10) == 55
    assert marks.lines() == ["7"]
    assert not [event async for event in events if isinstance(event, JobResent)]


async def test_large_results_do_not_overflow() -> None:
    """The original put fib(47) into 32 bits."""
    async with Pool(1) as pool:
        assert await pool.submit(fib_quickly, 47) == FIB_47
        assert await pool.submit(fib_quickly, 100) == FIB_100
        assert await pool.submit(fib_quickly, 5_000) == fib_quickly(5_000)


def test_both_ways_to_compute_agree() -> None:
    assert list(map(fib, range(16))) == list(map(fib_quickly, range(16)))
    assert fib_quickly(47) == FIB_47
    assert fib_quickly(100) == FIB_100


def test_the_job_costs_a_new_worker_no_imports() -> None:
    """A worker imports it after each crash."""
    listing = "import asyncpool, sys; before = set(sys.modules); import asyncpool.demo.fib; "
    listing += "print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["asyncpool.demo", "asyncpool.demo.fib"]


async def next_of(events: AsyncIterator[Event], kind: type[E]) -> E:
    """Read the events up to the first of its kind."""
    async for event in events:
        if isinstance(event, kind):
            return event
    pytest.fail(f"the pool was closed without a {kind.__name__}")
