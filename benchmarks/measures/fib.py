"""Plain computing: how much faster than one process, which does it all in a row."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter

from .. import peers
from ..model import PPE, Goal, Measure, Metric, Settings, Subject, Values
from ..workloads import fib

CALLS, N = 40, 24
SERIAL = "serial"


def _call_count(settings: Settings) -> int:
    return CALLS // 4 if settings.quick else CALLS


async def _sample(open_peer: peers.OpenPeer, settings: Settings) -> Values:
    calls = _call_count(settings)
    async with open_peer(settings.workers) as peer:
        await peers.assemble(peer, settings.workers)
        await asyncio.gather(*[peer.submit(fib, N) for _ in range(settings.workers)])
        begun = perf_counter()
        await asyncio.gather(*[peer.submit(fib, N) for _ in range(calls)])
        return {"calls/s": calls / (perf_counter() - begun)}


async def _sample_serial(settings: Settings) -> Values:
    calls = _call_count(settings)
    begun = perf_counter()
    for _ in range(calls):
        fib(N)
    return {"calls/s": calls / (perf_counter() - begun)}


MEASURE = Measure(
    name="fib",
    about=f"{CALLS} calls of fib({N}), beside as many in a row in one process",
    subjects=(
        Subject("asyncpool", partial(_sample, peers.open_pool)),
        Subject(PPE, partial(_sample, peers.open_ppe), peers.PPE_HOW),
        Subject(SERIAL, _sample_serial, "in the parent, with no pool"),
    ),
    metrics=(Metric("calls/s", "calls/s"),),
    goals=(Goal("asyncpool", "calls/s", ">=", 1.9, (SERIAL, "calls/s")),),
)
