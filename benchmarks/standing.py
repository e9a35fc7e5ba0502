"""Waiting until a pool stands again, between one blow and the next."""

from __future__ import annotations

import asyncpool


async def until_complete(pool: asyncpool.Pool, workers: int, spares: int) -> None:
    """Wait until all workers and spares are ready."""
    events = pool.events()  # before looking, so that nothing happens unseen in between
    while (stats := pool.stats()).workers < workers or stats.spares < spares:
        await anext(events)
