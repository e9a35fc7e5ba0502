"""A busy worker is killed: how long until its job runs again.

The pools have one worker, since an idle neighbour would hide what a replacement takes. The job
itself tells when it runs, by its first act, in the same way for every peer.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from time import monotonic

from .. import peers, standing
from ..beacon import Beacon
from ..model import PPE, Goal, Measure, Metric, Never, Settings, Subject, Values
from ..summary import percentile
from ..workloads import announce_and_spin_once, noop

REBUILT = "PPE, rebuilt by hand"


def _kill_count(settings: Settings) -> int:
    return 3 if settings.quick else 15


def _values(milliseconds: list[float]) -> Values:
    return {"p50": percentile(milliseconds, 50), "max": max(milliseconds)}


async def _kill_running(beacon: Beacon) -> float:
    """Kill the process that runs the job as soon as it does; return when that was."""
    pid = (await beacon.next()).pid
    killed_at = monotonic()
    os.kill(pid, signal.SIGKILL)
    return killed_at


async def _sample(spares: int, settings: Settings) -> Values:
    took: list[float] = []
    async with peers.open_pool(1, spares=spares) as pool:
        for number in range(_kill_count(settings)):
            await standing.until_complete(pool, 1, spares)
            with Beacon() as beacon:
                job = pool.submit(announce_and_spin_once, beacon.path, beacon.file(str(number)))
                killed_at = await _kill_running(beacon)
                again = await beacon.next()
                await job
            took.append((again.at - killed_at) * 1e3)
    return _values(took)


async def _sample_ppe(_: Settings) -> Values:
    """Show what becomes of the job, and of the pool."""
    async with peers.open_ppe(1) as peer:
        with Beacon() as beacon:
            job = peer.submit(announce_and_spin_once, beacon.path, beacon.file("0"))
            await _kill_running(beacon)
            with suppress(BrokenProcessPool):
                await job
        try:
            await peer.submit(noop)
        except BrokenProcessPool as error:
            raise Never(f"{type(error).__name__}, for the job and for every later one") from error
    raise AssertionError("a broken pool ran another job")


async def _sample_rebuilt(settings: Settings) -> Values:
    """Do what a program can do about it: make a new pool and submit the job again."""
    took = [await _rebuild() for _ in range(_kill_count(settings))]
    return _values(took)


async def _rebuild() -> float:
    with Beacon() as beacon:
        marker = beacon.file("0")
        async with peers.open_ppe(1) as peer:
            job = peer.submit(announce_and_spin_once, beacon.path, marker)
            killed_at = await _kill_running(beacon)
            with suppress(BrokenProcessPool):
                await job
            async with peers.open_ppe(1) as successor:
                again = successor.submit(announce_and_spin_once, beacon.path, marker)
                seen = await beacon.next()
                await again
    return (seen.at - killed_at) * 1e3


MEASURE = Measure(
    name="recovery",
    about="kill -9 of a busy worker to its job running again (one worker, kills in a row)",
    subjects=(
        Subject("asyncpool, 1 spare", partial(_sample, 1)),
        Subject("asyncpool, no spare", partial(_sample, 0)),
        Subject(PPE, _sample_ppe, peers.PPE_HOW),
        Subject(
            REBUILT, _sample_rebuilt, "the program notices, makes a new executor and submits again"
        ),
    ),
    metrics=(Metric("p50", "ms"), Metric("max", "ms")),
    goals=(
        Goal("asyncpool, 1 spare", "p50", "<=", 5),
        Goal("asyncpool, no spare", "p50", "<=", 45),
    ),
    baseline=REBUILT,
)
