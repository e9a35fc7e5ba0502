"""From nothing to the first result, and to an answer of every worker."""

from __future__ import annotations

from functools import partial
from time import perf_counter

from .. import peers
from ..model import PPE, Goal, Measure, Metric, Settings, Subject, Values
from ..workloads import noop


async def _first_result(open_peer: peers.OpenPeer, workers: int) -> float:
    begun = perf_counter()
    async with open_peer(workers) as peer:
        await peer.submit(noop)
        return (perf_counter() - begun) * 1e3


async def _all_answered(open_peer: peers.OpenPeer, workers: int) -> float:
    begun = perf_counter()
    async with open_peer(workers) as peer:
        await peers.assemble(peer, workers)
        return (perf_counter() - begun) * 1e3


async def _sample(open_peer: peers.OpenPeer, settings: Settings) -> Values:
    return {
        "first result": await _first_result(open_peer, settings.workers),
        "all workers": await _all_answered(open_peer, settings.workers),
    }


MEASURE = Measure(
    name="start",
    about="opening a pool to its first result, and to an answer of each of its workers",
    subjects=(
        Subject("asyncpool", partial(_sample, peers.open_pool)),
        Subject(PPE, partial(_sample, peers.open_ppe), peers.PPE_HOW),
    ),
    metrics=(Metric("first result", "ms"), Metric("all workers", "ms")),
    goals=(
        Goal("asyncpool", "first result", "<=", 0.75, (PPE, "first result")),
        Goal("asyncpool", "all workers", "<=", 0.6, (PPE, "all workers")),
    ),
)
