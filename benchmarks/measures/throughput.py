"""How many jobs that do nothing get done in a second, when all are submitted at once."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter

from .. import peers
from ..model import PPE, Goal, Measure, Metric, Settings, Subject, Values
from ..workloads import noop

WARM_UP_JOBS = 1_000


def _job_count(settings: Settings) -> int:
    return 2_000 if settings.quick else 20_000


async def run_noops(peer: peers.Peer, jobs: int) -> float:
    """Return the seconds that so many jobs take, submitted at once and gathered."""
    begun = perf_counter()
    await asyncio.gather(*[peer.submit(noop) for _ in range(jobs)])
    return perf_counter() - begun


async def _sample(open_peer: peers.OpenPeer, settings: Settings) -> Values:
    async with open_peer(settings.workers) as peer:
        await peers.assemble(peer, settings.workers)
        await run_noops(peer, WARM_UP_JOBS)
        jobs = _job_count(settings)
        return {"jobs/s": jobs / await run_noops(peer, jobs)}


async def _sample_with_reader(settings: Settings) -> Values:
    """Take a sample while somebody reads all events."""
    async with peers.open_pool(settings.workers) as pool:
        await peers.assemble(pool, settings.workers)

        async def read() -> None:
            async for _ in pool.events():
                pass

        reader = asyncio.create_task(read())
        await run_noops(pool, WARM_UP_JOBS)
        jobs = _job_count(settings)
        rate = jobs / await run_noops(pool, jobs)
        reader.cancel()
        return {"jobs/s": rate}


async def _sample_futures(settings: Settings) -> Values:
    """Take a sample of what the loop alone allows: futures resolved in its next turn."""
    loop = asyncio.get_running_loop()

    def submit() -> asyncio.Future[None]:
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(future.set_result, None)
        return future

    jobs = _job_count(settings)
    begun = perf_counter()
    await asyncio.gather(*[submit() for _ in range(jobs)])
    return {"jobs/s": jobs / (perf_counter() - begun)}


MEASURE = Measure(
    name="throughput",
    about="20,000 jobs that do nothing, submitted at once and gathered",
    subjects=(
        Subject(
            "asyncpool",
            partial(_sample, peers.open_pool),
            "ACK, retry and a timeout on each job, events available",
        ),
        Subject(PPE, partial(_sample, peers.open_ppe), peers.PPE_HOW),
        Subject("mp.Pool", partial(_sample, peers.open_mp_pool), peers.MP_POOL_HOW),
        Subject("asyncpool, events read", _sample_with_reader),
        Subject("limit: bare futures", _sample_futures, "no process at all"),
    ),
    metrics=(Metric("jobs/s", "jobs/s"),),
    goals=(
        Goal("asyncpool", "jobs/s", ">=", 15, (PPE, "jobs/s")),
        Goal("asyncpool", "jobs/s", ">=", 2, ("mp.Pool", "jobs/s")),
    ),
)
