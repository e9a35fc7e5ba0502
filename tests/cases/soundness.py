"""What must hold after whatever happened to a pool: it works, with as many workers as wanted."""

from __future__ import annotations

import asyncio

import asyncpool
from tests.support import jobs, procs

PATIENCE_SECONDS = 15.0


async def full_crew(pool: asyncpool.Pool, size: int) -> list[int]:
    """Wait until so many workers are ready, and return their pids."""
    events = pool.events()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(pool.workers()) < size:
            await anext(events)
    return [worker.pid for worker in pool.workers()]


async def assert_sound(pool: asyncpool.Pool, size: int) -> None:
    """A trivial job works, and there are exactly so many workers, for the kernel as well."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await pool.submit(jobs.add, 40, 2) == 42
    assert len(await full_crew(pool, size)) == size

    def only_the_crew() -> bool:
        # Looked at anew: one that was killed just before may still have been among them.
        pids = [worker.pid for worker in pool.workers()]
        return len(pids) == size and sorted(procs.kids()) == sorted(pids)

    await procs.eventually(only_the_crew, what="only the crew")
