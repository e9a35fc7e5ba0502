"""What a journal adds to the parent's CPU time per job, that of its thread included."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from time import process_time

import asyncpool
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal

from .. import peers, recorded, stores
from ..model import Goal, Measure, Metric, Settings, Subject, Values
from ..volume import scratch
from ..workloads import noop

POOL, IN_MEMORY = "asyncpool", "asyncpool, no journal"
SUBMITTERS = 1_000
WARM_UP_ROUNDS = 1


def _job_count(settings: Settings) -> int:
    return SUBMITTERS * (1 if settings.quick else 20)


async def _sample(settings: Settings) -> Values:
    with scratch(settings.directory) as directory:
        async with peers.open_durable_pool(directory, settings.workers) as pool:
            return await _pool_cpu(pool, settings)


async def _sample_in_memory(settings: Settings) -> Values:
    async with peers.open_pool(settings.workers) as pool:
        return await _pool_cpu(pool, settings)


async def _pool_cpu(pool: asyncpool.Pool, settings: Settings) -> Values:
    await peers.assemble(pool, settings.workers)
    await _run(pool, WARM_UP_ROUNDS)
    jobs = _job_count(settings)
    begun = process_time()
    await _run(pool, jobs // SUBMITTERS)
    return _values(process_time() - begun, jobs)


async def _run(pool: asyncpool.Pool, rounds: int) -> None:
    """Let each submitter have so many jobs done, one after the other."""

    async def submitter() -> None:
        for _ in range(rounds):
            await (await pool.enqueue(noop))

    await asyncio.gather(*[submitter() for _ in range(SUBMITTERS)])


def _values(seconds: float, jobs: int) -> Values:
    return {"CPU": seconds * 1e6 / jobs}


async def _sample_ledger(settings: Settings) -> Values:
    jobs = _job_count(settings)
    with scratch(settings.directory) as directory:
        ledger = Ledger.open(Journal(os.path.join(directory, "jobs.log")))
        begun = process_time()
        for notes in recorded.batches(jobs, together=recorded.SENT_TOGETHER):
            ledger.write(notes, sync=notes[0][0] == "submitted")
        seconds = process_time() - begun
        ledger.close()
    return _values(seconds, jobs)


async def _sample_store(open_store: stores.OpenStore, settings: Settings) -> Values:
    jobs = 50 if settings.quick else 2_000
    with scratch(settings.directory) as directory, open_store(directory) as put:
        put()
        begun = process_time()
        for _ in range(jobs):
            put()
        return _values(process_time() - begun, jobs)


MEASURE = Measure(
    name="journal-cpu",
    about="CPU of the parent per job, from `enqueue` to its result, 1,000 submitters",
    subjects=(
        Subject(POOL, _sample, "with a journal"),
        Subject(IN_MEMORY, _sample_in_memory),
        Subject(
            "limit: the ledger",
            _sample_ledger,
            "such records, made and sealed and written for 1,000 jobs at a time; no pool, no loop",
        ),
        Subject(
            "SQLite WAL FULL",
            partial(_sample_store, stores.open_sqlite),
            f"one record a job: {stores.SQLITE_HOW}",
        ),
    ),
    metrics=(Metric("CPU", "us/job"),),
    goals=(Goal(POOL, "CPU", "<=", 6, above=(IN_MEMORY, "CPU")),),
    baseline=IN_MEMORY,
)
