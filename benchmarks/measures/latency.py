"""How long one job that does nothing takes when it has the pool to itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

from .. import peers
from ..model import PPE, Goal, Measure, Metric, Settings, Subject, Values
from ..summary import percentile
from ..workloads import noop

WARM_UP_JOBS = 200
PING_PONG = "limit: ping-pong"


def _job_count(settings: Settings) -> int:
    return 300 if settings.quick else 2_000


async def _one_by_one(call: Callable[[], Awaitable[None]], count: int) -> list[float]:
    """Return the microseconds of each call; the next begins when the last is over."""
    took = []
    for _ in range(count):
        begun = perf_counter()
        await call()
        took.append((perf_counter() - begun) * 1e6)
    return took


async def _percentiles(call: Callable[[], Awaitable[None]], settings: Settings) -> Values:
    await _one_by_one(call, WARM_UP_JOBS)
    took = await _one_by_one(call, _job_count(settings))
    return {"p50": percentile(took, 50), "p99": percentile(took, 99)}


async def _sample(open_peer: peers.OpenPeer, settings: Settings) -> Values:
    async with open_peer(settings.workers) as peer:
        await peers.assemble(peer, settings.workers)
        return await _percentiles(partial(peer.submit, noop), settings)


async def _sample_echo(settings: Settings) -> Values:
    async with peers.open_echo() as echo:
        return await _percentiles(echo.ping, settings)


MEASURE = Measure(
    name="latency",
    about="one job that does nothing, awaited before the next, 2,000 times",
    subjects=(
        Subject("asyncpool", partial(_sample, peers.open_pool)),
        Subject(PPE, partial(_sample, peers.open_ppe), peers.PPE_HOW),
        Subject(
            PING_PONG,
            _sample_echo,
            "one byte to a process that echoes it over pipes, read by loop.add_reader",
        ),
    ),
    metrics=(Metric("p50", "us"), Metric("p99", "us")),
    goals=(
        Goal("asyncpool", "p50", "<=", 0.33, (PPE, "p50")),
        Goal("asyncpool", "p50", "<=", 1.6, (PING_PONG, "p50")),
        Goal("asyncpool", "p99", "<=", 4, ("asyncpool", "p50")),
    ),
)
