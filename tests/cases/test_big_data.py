"""PIPE-1, LIMIT-1: big arguments and results, and those of just the size of some buffer."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncpool import Pool
from asyncpool.dispatch.flow import ACK_SECONDS
from asyncpool.frames import BULK, HEADER
from tests.support import jobs, procs
from tests.support.heartbeat import Heartbeat

from .soundness import assert_sound, full_crew

MIB = 1 << 20
ROUNDS = 4
"""How often a stall is measured: page faults and cold caches cost time, but not every time."""


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool(2) as pool:
        before = await full_crew(pool, 2)
        yield pool
        await assert_sound(pool, 2)
        assert sorted(await full_crew(pool, 2)) == sorted(before)
        assert pool.stats().crashes == pool.stats().resent == 0


def reply(size: int, payload: bytes) -> tuple[int, bytes]:
    """Return what came in, by its length, and as many bytes as asked for."""
    return len(payload), b"r" * size


def checksum(*values: Any) -> list[int]:
    return [len(value) for value in values]


async def echo_all(pool: Pool, payload: bytes, count: int) -> float:
    """Send so much both ways at once, read slowly; return for how long the loop was busy at most.

    In seconds of its own work: what other programs take away is no stall of ours.
    """
    async with Heartbeat(time.thread_time) as heartbeat:
        echoes = []
        for _ in range(count):
            echoes.append(pool.submit(jobs.echo, payload))
            await asyncio.sleep(0)
        while echoes:
            assert await echoes.pop(0) == payload
            await asyncio.sleep(0.005)
    return heartbeat.longest


async def test_big_both_ways_at_once(pool: Pool) -> None:
    """PIPE-1: no deadlock, and no stall of the loop."""
    payload = b"x" * (8 * MIB)
    stalls = []
    async with asyncio.timeout(60):
        for _ in range(ROUNDS):
            stalls.append(await echo_all(pool, payload, 16))
            if stalls[-1] < 0.25:
                break
    assert min(stalls) < 0.25


@pytest.mark.loops("asyncio")
async def test_memory_is_given_back(pool: Pool) -> None:
    """PIPE-1: by the pool. So big that malloc keeps nothing of it for later."""
    payload = b"x" * (33 * MIB)
    await echo_all(pool, payload, 2)
    before = procs.rss()
    await echo_all(pool, payload, 8)
    gc.collect()
    assert procs.rss() - before < 100 * MIB


@pytest.mark.loops("asyncio")
async def test_a_job_that_takes_long_to_write(pool: Pool) -> None:
    """BIG-1, ASSIGN-1: a worker that reads on is at it, however long it takes before the ACK.

    The loop is slowed down, instead of sending gigabytes.
    """

    async def slow_down() -> None:
        while True:
            time.sleep(0.02)
            await asyncio.sleep(0)

    slowing = asyncio.create_task(slow_down())
    begun = asyncio.get_running_loop().time()
    job = pool.submit(checksum, bytes(20 * MIB))
    await job.started()
    assert asyncio.get_running_loop().time() - begun > 1.5 * ACK_SECONDS
    assert await job == [20 * MIB]
    slowing.cancel()
    await asyncio.wait({slowing})
    assert len(job.attempts) == 1


async def test_results_while_arguments_are_written(pool: Pool) -> None:
    """PIPE-1: results of about the size of a pipe, beside arguments that fill one."""
    sizes = [65_535, 65_536, 65_537] * 4
    replies = [pool.submit(reply, size, b"a" * (MIB + size)) for size in sizes]
    for size, job in zip(sizes, replies, strict=True):
        assert await job == (MIB + size, b"r" * size)


def around(*sizes: int) -> list[int]:
    return [size + offset for size in sizes for offset in (-1, 0, 1)]


async def test_sizes_around_buffers(pool: Pool) -> None:
    """LIMIT-1: exact, whatever a line or a pipe may hold; pickled sizes hit them, too."""
    marks = around(1 << 12, 1 << 16, 1 << 17, 1 << 20)
    overhead = 64  # of the pickle, the header and the job's id
    sizes = sorted({size - cut for size in marks for cut in (0, HEADER.size, overhead)})
    values = [bytes([size & 0xFF]) * size for size in sizes]
    assert await asyncio.gather(*(pool.submit(jobs.echo, value) for value in values)) == values


async def test_every_size_near_the_bulk_limit(pool: Pool) -> None:
    """LIMIT-1: where frames begin to travel in another way."""
    sizes = range(BULK - 96, BULK + 8)
    values = [b"b" * size for size in sizes]
    got = [value async for value in pool.map(jobs.echo, values)]
    assert list(map(len, got)) == list(sizes)
    assert got == values


async def test_next_to_nothing(pool: Pool) -> None:
    """BIG-1: values of length zero are values."""
    values: list[object] = [b"", "", [], (), {}, None, 0, bytearray()]
    for value in values:
        echoed = await pool.submit(jobs.echo, value)
        assert echoed == value
        assert type(echoed) is type(value)


async def test_big_and_small_beside_each_other(pool: Pool) -> None:
    """Many small jobs get past the big ones, and all keep their results apart."""
    big = [pool.submit(jobs.echo, bytes([n]) * (4 * MIB)) for n in range(4)]
    small = [pool.submit(jobs.add, n, n) for n in range(500)]
    assert await asyncio.gather(*small) == [2 * n for n in range(500)]
    for n, job in enumerate(big):
        value = await job
        assert (len(value), value[0], value[-1]) == (4 * MIB, n, n)


async def test_a_big_job_that_is_cancelled_while_it_is_written(pool: Pool) -> None:
    """What is left of it in the pipe does no harm."""
    payloads = [bytes(16 * MIB), bytes(16 * MIB)]
    blockers = [pool.submit(checksum, payload) for payload in payloads]
    await asyncio.sleep(0)
    for job in blockers:
        job.cancel()
    await asyncio.wait(blockers)
    assert await pool.submit(checksum, b"abc") == [3]
