"""How many durable jobs that do nothing get done in a second, from submission to result."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from functools import partial
from time import perf_counter

from .. import peers
from ..huey_tasks import HueyQueue
from ..model import Goal, Measure, Metric, Settings, Subject, Values
from ..volume import scratch
from .throughput import WARM_UP_JOBS, run_noops

POOL, IN_MEMORY = "asyncpool", "asyncpool, no journal"
HUEY, HUEY_KEEPING = "huey", "huey, results kept"
HUEY_HOW = (
    "SqliteHuey(fsync=True), filled while a consumer with as many processes empties it; it keeps "
    "no result that is None"
)
HUEY_WARM_UP_JOBS = 20
POLL_SECONDS = 0.005


def _job_count(settings: Settings) -> int:
    return 2_000 if settings.quick else 20_000


async def _sample(settings: Settings) -> Values:
    with scratch(settings.directory) as directory:
        async with peers.open_durable_pool(directory, settings.workers) as pool:
            return await _rate(pool, settings)


async def _sample_in_memory(settings: Settings) -> Values:
    async with peers.open_pool(settings.workers) as pool:
        return await _rate(pool, settings)


async def _rate(peer: peers.Peer, settings: Settings) -> Values:
    await peers.assemble(peer, settings.workers)
    await run_noops(peer, WARM_UP_JOBS)
    jobs = _job_count(settings)
    return {"jobs/s": jobs / await run_noops(peer, jobs)}


async def _sample_huey(keep_results: bool, settings: Settings) -> Values:
    jobs = 50 if settings.quick else 2_000
    with scratch(settings.directory) as directory:
        path = os.path.join(directory, "huey")
        with closing(HueyQueue(path, keep_results=keep_results)) as queue:
            return {"jobs/s": jobs / await _huey_seconds(queue, jobs, settings.workers)}


async def _huey_seconds(queue: HueyQueue, jobs: int, workers: int) -> float:
    with queue.consumer(workers) as process:

        async def run(jobs: int, ever: int) -> None:
            for _ in range(jobs):
                queue.put()
            while not queue.is_done(ever):
                if process.poll() is not None:
                    raise ChildProcessError(f"huey's consumer ended with {process.returncode}")
                await asyncio.sleep(POLL_SECONDS)

        await run(HUEY_WARM_UP_JOBS, HUEY_WARM_UP_JOBS)
        begun = perf_counter()
        await run(jobs, HUEY_WARM_UP_JOBS + jobs)
        return perf_counter() - begun


MEASURE = Measure(
    name="completed",
    about="20,000 durable jobs that do nothing, submitted at once and gathered",
    subjects=(
        Subject(POOL, _sample, "accepted on disk, results delivered"),
        Subject(HUEY, partial(_sample_huey, False), HUEY_HOW),
        Subject(HUEY_KEEPING, partial(_sample_huey, True), "the same with store_none=True"),
        Subject(IN_MEMORY, _sample_in_memory),
    ),
    metrics=(Metric("jobs/s", "jobs/s"),),
    goals=tuple(Goal(POOL, "jobs/s", ">=", 10, (huey, "jobs/s")) for huey in (HUEY, HUEY_KEEPING)),
    baseline=HUEY,
)
