"""A CPU loop is timed out or cancelled: how long until its slot answers again.

The pools have one worker, so that its slot is the only one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic

import asyncpool

from .. import peers, standing
from ..beacon import Beacon
from ..model import PPE, Goal, Measure, Metric, Never, Settings, Subject, Values
from ..summary import percentile
from ..workloads import announce_and_spin, noop

TIMEOUT_SECONDS = 0.05
REBUILT = "PPE, rebuilt by hand"


def _count(settings: Settings) -> int:
    return 3 if settings.quick else 15


def _patience_seconds(settings: Settings) -> float:
    return 0.3 if settings.quick else 1.0


def _values(milliseconds: list[float]) -> Values:
    return {"p50": percentile(milliseconds, 50), "max": max(milliseconds)}


async def _time_out(pool: asyncpool.Pool, beacon: Beacon) -> float:
    """Let a loop run into its timeout; return the seconds from there to the next job's result."""
    job = pool.options(timeout=TIMEOUT_SECONDS).submit(announce_and_spin, beacon.path)
    due = (await beacon.next()).at + TIMEOUT_SECONDS
    await pool.submit(noop)  # it waits behind the loop until then
    took = monotonic() - due
    with suppress(asyncpool.JobTimeout):
        await job
    return took


async def _cancel(pool: asyncpool.Pool, beacon: Beacon) -> float:
    """Cancel a loop; return the seconds from there to the next job's result."""
    job = pool.submit(announce_and_spin, beacon.path)
    await beacon.next()
    begun = monotonic()
    job.cancel()
    await pool.submit(noop)
    return monotonic() - begun


async def _sample(spares: int, cancels: bool, settings: Settings) -> Values:
    stop = _cancel if cancels else _time_out
    took = []
    async with peers.open_pool(1, spares=spares) as pool:
        for _ in range(_count(settings)):
            await standing.until_complete(pool, 1, spares)
            with Beacon() as beacon:
                took.append(await stop(pool, beacon) * 1e3)
    return _values(took)


async def _sample_ppe(settings: Settings) -> Values:
    """Show that the loop burns on, and that the slot is not usable meanwhile."""
    patience = _patience_seconds(settings)
    async with peers.open_ppe(1) as peer:
        with Beacon() as beacon:
            await _burn(peer, beacon)
            begun = monotonic()
            next_job = peer.submit(noop)
            done, _ = await asyncio.wait({next_job}, timeout=patience)
            if not done:
                next_job.cancel()
                raise Never(f"the loop burned on, no answer within {patience} s")
    return _values([(monotonic() - begun) * 1e3])


async def _burn(peer: peers.Peer, beacon: Beacon) -> None:
    """Give up a running loop, as `asyncio.wait_for` does."""
    job = peer.submit(announce_and_spin, beacon.path)
    await beacon.next()
    with suppress(TimeoutError):
        await asyncio.wait_for(job, TIMEOUT_SECONDS)


async def _sample_rebuilt(settings: Settings) -> Values:
    return _values([await _rebuild() for _ in range(_count(settings))])


async def _rebuild() -> float:
    with Beacon() as beacon:
        async with peers.open_ppe(1) as peer:
            await _burn(peer, beacon)
            begun = monotonic()
        async with peers.open_ppe(1) as successor:
            await successor.submit(noop)
            return (monotonic() - begun) * 1e3


MEASURE = Measure(
    name="timeout",
    about="a CPU loop stopped, to the next job's result from its slot (one worker, in a row)",
    subjects=(
        Subject("asyncpool timeout, 1 spare", partial(_sample, 1, False)),
        Subject("asyncpool timeout, no spare", partial(_sample, 0, False)),
        Subject("asyncpool cancel, 1 spare", partial(_sample, 1, True)),
        Subject("asyncpool cancel, no spare", partial(_sample, 0, True)),
        Subject(PPE, _sample_ppe, f"{peers.PPE_HOW} and asyncio.wait_for"),
        Subject(REBUILT, _sample_rebuilt, "its process is killed and a new executor made"),
    ),
    metrics=(Metric("p50", "ms"), Metric("max", "ms")),
    goals=(
        Goal("asyncpool timeout, 1 spare", "p50", "<=", 5),
        Goal("asyncpool cancel, 1 spare", "p50", "<=", 5),
    ),
    baseline=REBUILT,
)
