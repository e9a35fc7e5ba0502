"""Short jobs beside a long one of the same function: nothing idles, and nobody waits behind it.

The jobs spin by the clock, so the ideal is arithmetic; what of it a busy machine takes away shows
in the limit, which shares out the same work beforehand and dispatches nothing.

What a job waits for its turn in the queue is no fault; that another job, submitted later, began
before it, is: `overtaken` is the longest time that a short job still waited after that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from time import monotonic

from .. import peers
from ..model import PPE, Goal, Measure, Metric, Settings, Subject, Values
from ..workloads import spin, spin_all

SHORTEST_SECONDS, LONGEST_SECONDS = 0.0001, 0.01
WARM_UP_JOBS = 100
LONG_JOB_AT = 100
"""How many short jobs stand before the long one."""

LIMIT = "limit: dealt out"

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Load:
    """The seconds of each short job, in order, and of the long one."""

    short: tuple[float, ...]
    long: float

    def ideal_seconds(self, workers: int) -> float:
        """Return what all of it takes if no worker is ever idle."""
        return max(self.long, (sum(self.short) + self.long) / workers)

    def shares(self, workers: int) -> list[list[float]]:
        """Share it all out, so that the workers have about equally much."""
        shares = [[self.long], *([] for _ in range(workers - 1))]
        totals = [self.long] + [0.0] * (workers - 1)
        for seconds in self.short:
            least = totals.index(min(totals))
            shares[least].append(seconds)
            totals[least] += seconds
        return shares


def load_of(settings: Settings) -> Load:
    """Return the load: durations spread evenly over the orders of magnitude, always the same."""
    count = 500 if settings.quick else 10_000
    span = LONGEST_SECONDS / SHORTEST_SECONDS
    short = tuple(SHORTEST_SECONDS * span ** (i * _GOLDEN % 1) for i in range(count))
    return Load(short, 0.5 if settings.quick else 5.0)


def longest_overtaken(begun: list[float]) -> float:
    """Return the longest that a job began after one which was submitted later than it."""
    longest, earliest_later = 0.0, float("inf")
    for moment in reversed(begun):
        longest = max(longest, moment - earliest_later)
        earliest_later = min(earliest_later, moment)
    return longest


async def _sample(open_peer: peers.OpenPeer, settings: Settings) -> Values:
    load = load_of(settings)
    async with open_peer(settings.workers) as peer:
        await peers.assemble(peer, settings.workers)
        await asyncio.gather(*[peer.submit(spin, s) for s in load.short[:WARM_UP_JOBS]])
        return await _run(peer, load, settings.workers)


async def _run(peer: peers.Peer, load: Load, workers: int) -> Values:
    submitted = monotonic()
    before = [peer.submit(spin, seconds) for seconds in load.short[:LONG_JOB_AT]]
    long = peer.submit(spin, load.long)
    after = [peer.submit(spin, seconds) for seconds in load.short[LONG_JOB_AT:]]
    begun = await asyncio.gather(*before, *after)
    await long
    elapsed = monotonic() - submitted
    return {
        "of ideal": elapsed / load.ideal_seconds(workers),
        "overtaken": longest_overtaken(begun) * 1e3,
        "longest wait": max(begun) - submitted,
    }


async def _sample_limit(settings: Settings) -> Values:
    load, workers = load_of(settings), settings.workers
    async with peers.open_ppe(workers) as peer:
        await peers.assemble(peer, workers)
        begun = monotonic()
        await asyncio.gather(*[peer.submit(spin_all, share) for share in load.shares(workers)])
        return {"of ideal": (monotonic() - begun) / load.ideal_seconds(workers)}


MEASURE = Measure(
    name="mixed",
    about="10,000 jobs of 0.1 to 10 ms, and among them one of 5 s",
    subjects=(
        Subject("asyncpool", partial(_sample, peers.open_pool)),
        Subject(PPE, partial(_sample, peers.open_ppe), peers.PPE_HOW),
        Subject(LIMIT, _sample_limit, "one job for each worker, which has its share of it all"),
    ),
    metrics=(Metric("of ideal", "x"), Metric("overtaken", "ms"), Metric("longest wait", "s")),
    goals=(
        Goal("asyncpool", "of ideal", "<=", 1.1),
        Goal("asyncpool", "of ideal", "<=", 1.1, (LIMIT, "of ideal")),
        Goal("asyncpool", "overtaken", "<=", LONGEST_SECONDS * 1e3 * 2),
    ),
)
