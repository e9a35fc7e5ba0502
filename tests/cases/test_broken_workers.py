"""Workers that send what no worker sends, and payloads at the limits of what can be sent."""

from __future__ import annotations

import asyncio

import pytest

from asyncpool import Job, Outcome, Pool, Retry, WorkerCrashed, frames
from asyncpool.events import WorkerExited
from tests.cases import deadly
from tests.cases.soundness import assert_sound
from tests.support import jobs, procs


@pytest.mark.parametrize("value", [b"", [], None, {}, "", 0, ()])
async def test_empty_values_cross(value: object) -> None:
    """BIG-1: zero length."""
    async with Pool(1) as pool:
        assert await pool.submit(jobs.echo, value) == value


async def test_large_values_cross() -> None:
    """BIG-1: as far as a test can afford it."""
    value = bytes(range(256)) * (1 << 17)  # 32 MiB
    async with Pool(1) as pool:
        assert await pool.submit(jobs.echo, value) == value


async def test_a_result_above_the_limit_is_a_broken_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """BIG-1: the limit is lowered."""
    monkeypatch.setattr(frames, "MAX_PAYLOAD", 1 << 20)
    async with Pool(1, retry=Retry(max_crashes=2)) as pool:
        assert len(await pool.submit(bytes, 1 << 19)) == 1 << 19
        await assert_is_broken(pool, pool.submit(bytes, 1 << 21), crashes=2)


@pytest.mark.parametrize(
    ("kind", "length"),
    [(frames.RETURNED, 1 << 40), (frames.RETURNED, (1 << 64) - 1), (77, 0), (frames.JOB, 0)],
)
async def test_a_forged_header_is_a_broken_worker(kind: int, length: int) -> None:
    """BIG-1: it claims a terabyte, or is of no kind that a worker may send."""
    async with Pool(1, retry=Retry(max_crashes=2)) as pool:
        before = procs.rss()
        await assert_is_broken(pool, pool.submit(deadly.forge_header, kind, length), crashes=2)
        assert procs.rss() - before < 100 << 20


async def test_a_worker_that_answers_for_another_job_is_broken() -> None:
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        await assert_is_broken(pool, pool.submit(deadly.answer_twice), crashes=1)


async def test_a_worker_that_closes_its_pipe_is_broken() -> None:
    async with Pool(1, retry=Retry(max_crashes=1)) as pool:
        await assert_is_broken(pool, pool.submit(deadly.close_result_pipe), crashes=1)


async def assert_is_broken(pool: Pool, job: Job[object], *, crashes: int) -> None:
    """The worker is killed and the job is charged; the error says why, and blames nobody else."""
    events = pool.events()
    async with asyncio.timeout(30):
        with pytest.raises(WorkerCrashed, match="protocol") as caught:
            await job
    error = caught.value
    assert (error.exit_code, error.signal) == (None, None)
    assert [attempt.outcome for attempt in error.attempts] == [Outcome.CRASHED] * crashes
    assert [attempt.signal for attempt in error.attempts] == [None] * crashes
    assert pool.stats().crashes == crashes
    for _ in range(crashes):
        while not isinstance(event := await anext(events), WorkerExited):
            pass
        assert event.reason == "broken protocol"
    await assert_sound(pool, 1)


# UV-1


async def test_jobs_can_open_the_devices_of_their_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """UV-1: which fails where stdout is a socket."""
    async with Pool(1) as pool:
        await pool.submit(deadly.write_to_devices, "written\n")
    out, err = capfd.readouterr()
    assert (out, err) == ("written\n" * 2, "written\n")
