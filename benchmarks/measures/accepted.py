"""How many jobs are accepted in a second, each of them on the disk before its submitter goes on.

The other stores only take jobs in, and nobody runs them meanwhile. A pool does both at once, in
the same process; what taking them in costs alone shows while its workers are held by other jobs.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from time import perf_counter

import asyncpool

from .. import peers, stores
from ..model import Goal, Measure, Metric, Settings, Subject, Values
from ..volume import scratch
from ..workloads import noop

POOL, HELD = "asyncpool", "asyncpool, workers held"
RAW, SQLITE = "raw append + fdatasync", "SQLite WAL FULL"
GROUP_COMMIT = "limit: raw group commit"
HELD_HOW = "none of the jobs runs before all are accepted"
SUBMITTERS = 1_000
WARM_UP_JOBS = 50


def _job_count(submitters: int, settings: Settings) -> int:
    if submitters == 1:
        return 50 if settings.quick else 2_000
    return submitters * (2 if settings.quick else 20)


async def _sample(submitters: int, held: bool, settings: Settings) -> Values:
    workers, jobs = settings.workers, _job_count(submitters, settings)
    with scratch(settings.directory) as directory:
        async with peers.open_durable_pool(directory, workers) as pool:
            await peers.assemble(pool, workers)
            await _enqueue(pool, WARM_UP_JOBS)
            await pool.drain()
            async with peers.all_held(pool, workers) if held else nullcontext():
                begun = perf_counter()
                each = jobs // submitters
                await asyncio.gather(*[_enqueue(pool, each) for _ in range(submitters)])
                return {"jobs/s": jobs / (perf_counter() - begun)}


async def _enqueue(pool: asyncpool.Pool, jobs: int) -> None:
    """Enqueue so many jobs, each when the one before it is accepted."""
    for _ in range(jobs):
        await pool.enqueue(noop)


async def _sample_store(open_store: stores.OpenStore, settings: Settings) -> Values:
    return _rate(open_store, _job_count(1, settings), settings)


async def _sample_group_commit(settings: Settings) -> Values:
    open_store = partial(stores.open_raw, group=stores.GROUP)
    puts = 10 if settings.quick else 100
    return {"jobs/s": stores.GROUP * _rate(open_store, puts, settings)["jobs/s"]}


def _rate(open_store: stores.OpenStore, puts: int, settings: Settings) -> Values:
    with scratch(settings.directory) as directory, open_store(directory) as put:
        put()
        begun = perf_counter()
        for _ in range(puts):
            put()
        return {"jobs/s": puts / (perf_counter() - begun)}


def _pools(submitters: int) -> tuple[Subject, ...]:
    return (
        Subject(POOL, partial(_sample, submitters, False), "runs the jobs at the same time"),
        Subject(HELD, partial(_sample, submitters, True), HELD_HOW),
    )


_QUEUES = (
    Subject(SQLITE, partial(_sample_store, stores.open_sqlite), stores.SQLITE_HOW),
    Subject("huey", partial(_sample_store, stores.open_sqlite_huey), stores.HUEY_HOW),
    Subject(
        "persist-queue",
        partial(_sample_store, stores.open_persist_queue),
        stores.PERSIST_QUEUE_HOW,
    ),
)

ONE = Measure(
    name="accepted",
    about="durable jobs accepted, one submitter that awaits each before the next",
    subjects=(
        *_pools(1),
        Subject(RAW, partial(_sample_store, stores.open_raw), stores.RAW_HOW),
        *_QUEUES,
    ),
    metrics=(Metric("jobs/s", "jobs/s"),),
    goals=tuple(Goal(pool, "jobs/s", ">=", 0.5, (RAW, "jobs/s")) for pool in (POOL, HELD)),
    baseline=RAW,
)

MANY = Measure(
    name="accepted-1000",
    about="durable jobs accepted, 1,000 submitters that each await one before the next",
    subjects=(
        *_pools(SUBMITTERS),
        *_QUEUES,
        Subject(GROUP_COMMIT, _sample_group_commit, stores.GROUP_HOW),
    ),
    metrics=(Metric("jobs/s", "jobs/s"),),
    goals=tuple(
        goal
        for pool in (POOL, HELD)
        for goal in (
            Goal(pool, "jobs/s", ">=", 50_000),
            Goal(pool, "jobs/s", ">=", 10, (SQLITE, "jobs/s")),
        )
    ),
    baseline=SQLITE,
)
