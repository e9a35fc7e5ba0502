"""The stream of events: what happened, in order, to everybody who listens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

import asyncpool
from asyncpool import JobState, Pool, events, hub
from tests.support import jobs


def crash_in_first_attempt() -> str:
    if asyncpool.current_job().attempt == 1:
        os.kill(os.getpid(), 9)
    return "survived"


async def collect(stream: AsyncIterator[events.Event]) -> list[events.Event]:
    return [event async for event in stream]


async def test_the_story_of_a_job_that_loses_its_worker() -> None:
    async with Pool(1) as pool:
        reader = asyncio.create_task(collect(pool.events()))
        job = pool.submit(crash_in_first_attempt)
        assert await job == "survived"
    story = await reader
    about_job = [e for e in story if isinstance(e, events.JobEvent) or _is_exit_of(e, job.id)]
    assert [type(event).__name__ for event in about_job] == [
        "JobSubmitted",
        "JobSent",
        "JobStarted",
        "WorkerExited",
        "JobResent",
        "JobSent",
        "JobStarted",
        "JobReturned",
        "JobFinished",
    ]
    started = [e for e in story if isinstance(e, events.JobStarted)]
    assert [(e.job_id, e.attempt) for e in started] == [(job.id, 1), (job.id, 2)]
    assert started[0].pid != started[1].pid
    (exited,) = [e for e in story if _is_exit_of(e, job.id)]
    assert isinstance(exited, events.WorkerExited)
    assert (exited.pid, exited.signal, exited.exit_code) == (started[0].pid, 9, None)
    assert exited.reason == "crashed"
    (resent,) = [e for e in story if isinstance(e, events.JobResent)]
    assert (resent.reason, resent.charged) == ("crashed", True)
    (finished,) = [e for e in story if isinstance(e, events.JobFinished)]
    assert (finished.state, finished.error) == (JobState.DONE, None)
    times = [event.time for event in story]
    assert times == sorted(times)


def _is_exit_of(event: events.Event, job_id: str) -> bool:
    return isinstance(event, events.WorkerExited) and event.job_id == job_id


async def test_everybody_who_listens_gets_everything() -> None:
    async with Pool(1) as pool:
        readers = [asyncio.create_task(collect(pool.events())) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="broken"):
            await pool.submit(jobs.raise_, ValueError("broken"))
    stories = await asyncio.gather(*readers)
    assert stories[0] == stories[1] == stories[2]
    (finished,) = [e for e in stories[0] if isinstance(e, events.JobFinished)]
    assert finished.error == "ValueError: broken"


async def test_a_slow_reader_loses_old_events_and_never_slows_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "EVENTS_KEPT", 10)
    async with Pool(1) as pool:
        stream = pool.events()
        await asyncio.gather(*(pool.submit(jobs.add, n, n) for n in range(100)))
        first = await anext(stream)
        assert isinstance(first, asyncpool.EventsLost)
        rest = await asyncio.wait_for(anext(stream), 10)
        assert not isinstance(rest, asyncpool.EventsLost)
        assert first.count >= 300


async def test_the_stream_of_a_closed_pool_is_empty() -> None:
    async with Pool(1) as pool:
        pass
    assert await collect(pool.events()) == []


async def test_a_forgotten_stream_is_not_kept() -> None:
    async with Pool(1) as pool:
        pool.events()
        await pool.submit(jobs.add, 1, 2)
        assert not pool._hub.heard
