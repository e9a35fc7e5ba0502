"""`map`: items in, results out, with a bounded number of both under way.

A feeder task takes items and submits them, while the generator hands out results: so a source
that is slow, or asynchronous, never holds back results that are ready. The generator owns the
feeder, the jobs and the sources, and ends all of them when it is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, TypeAlias

from . import explain, raised
from .functions import function_name
from .intake import Intake
from .job import Job
from .options import JobOptions
from .worker.chunk import Chunk

Args: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a `map` was asked to do."""

    fn: Callable[..., Any]
    sources: tuple[AsyncIterator[Any], ...]
    chunksize: int
    chunks_ahead: int
    ordered: bool
    return_exceptions: bool


class _End:
    """The sources are exhausted, or one of them raised."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


async def run(intake: Intake, options: JobOptions, plan: Plan) -> AsyncGenerator[Any, None]:
    """Yield the results; owns everything that is under way."""
    flow = _Flow(intake, options, plan)
    feeder = asyncio.create_task(flow.feed(), name="asyncpool map")
    try:
        while (job := await flow.next_job()) is not None:
            left = flow.begin_handing_out(job)
            for value in _results(job, plan, left):
                left -= 1
                if not left:
                    flow.make_room()
                yield value
        if flow.error is not None:
            raise flow.error
    finally:
        feeder.cancel()
        flow.drop_jobs()
        await asyncio.wait({feeder})
        flow.drop_jobs()  # the feeder may have submitted one more
        async with AsyncExitStack() as closing:  # all of them, even if one raises
            for each in plan.sources:
                closing.push_async_callback(_close, each)


class _Flow:
    """The jobs under way between the feeder and the generator."""

    def __init__(self, intake: Intake, options: JobOptions, plan: Plan) -> None:
        self._intake = intake
        self._options = options
        self._plan = plan
        self._call: Callable[..., Any] = plan.fn
        if plan.chunksize > 1:
            self._call = Chunk(plan.fn, function_name(plan.fn))
            self._options = replace(options, timeout=_chunk_timeout(options))
        self._room = asyncio.Semaphore(plan.chunks_ahead)
        self._jobs: asyncio.Queue[Job[Any] | _End] = asyncio.Queue()
        self._open: dict[Job[Any], int] = {}  # how many items each of them has
        self._ended = False
        self.error: BaseException | None = None

    async def feed(self) -> None:
        """Take items and submit them while there is room."""
        end = None
        try:
            while end is None:
                await self._room.acquire()
                calls, end = await _take(self._plan.sources, self._plan.chunksize)
                if calls:
                    await self._submit(calls)
        except BaseException as failed:  # whatever a source raises is the reader's
            end = _End(failed)
        self._jobs.put_nowait(end)

    async def _submit(self, calls: list[Args]) -> None:
        args = (calls,) if self._plan.chunksize > 1 else calls[0]
        job = await self._intake.admit(self._options, self._call, args, {})
        self._open[job] = len(calls)
        if self._plan.ordered:
            self._jobs.put_nowait(job)
        else:
            job.add_done_callback(lambda _: self._jobs.put_nowait(job))

    async def next_job(self) -> Job[Any] | None:
        """Return the next job to hand out; None: there are no more."""
        while not self._ended or self._open:
            got = await self._jobs.get()
            if isinstance(got, _End):
                self._ended = True
                self.error = got.error
            else:
                await asyncio.wait({got})
                return got
        return None

    def begin_handing_out(self, job: Job[Any]) -> int:
        """The generator owns the job now; return how many items it has."""
        return self._open.pop(job)

    def make_room(self) -> None:
        """The last item of a job is being handed out."""
        self._room.release()

    def drop_jobs(self) -> None:
        """Cancel what nobody will read."""
        for job in self._open:
            if not job.cancel() and not job.cancelled():
                job.exception()  # so that it is not reported as never retrieved
        self._open.clear()


def _results(job: Job[Any], plan: Plan, count: int) -> Iterator[Any]:
    """Yield what became of each of the job's items; raises what they raised, in their place."""
    try:
        value = job.result()
    except (Exception, asyncio.CancelledError) as error:
        if not plan.return_exceptions:
            raise
        yield from repeat(error, count)
        return
    if plan.chunksize == 1:
        yield value
        return
    for item in value:
        yield _item(job, item, plan)


def _item(job: Job[Any], item: tuple[bool, Any], plan: Plan) -> Any:
    well, value = item
    if well:
        return value
    error = explain.failure(job._record, job.attempts, raised.decode(value))
    if plan.return_exceptions:
        return error
    raise error


def _chunk_timeout(options: JobOptions) -> Callable[[list[Args]], float | None] | None:
    """Return the timeout of a chunk: the sum of those of its items."""
    if options.timeout is None:
        return None

    def total(calls: list[Args]) -> float | None:
        each = [options.timeout_for(args, {}) for args in calls]
        return None if None in each else sum(seconds for seconds in each if seconds is not None)

    return total


def source(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    """Return an asynchronous iterator over either kind. Raises TypeError for neither."""
    if isinstance(items, AsyncIterable):
        return aiter(items)
    iter(items)  # raises here, not at the first item
    return _Plain(items)


class _Plain(AsyncIterator[Any]):
    """A synchronous iterable; its iterator is closed if it can be."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)

    async def __anext__(self) -> Any:
        for item in self._items:
            return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None and hasattr(self._items, "send"):  # a generator, and no file
            close()


async def _take(
    sources: tuple[AsyncIterator[Any], ...], count: int
) -> tuple[list[Args], _End | None]:
    """Take up to `count` items side by side, or what comes before the end of a source."""
    calls: list[Args] = []
    try:
        while len(calls) < count:
            calls.append(tuple([await anext(each) for each in sources]))
    except StopAsyncIteration:
        return calls, _End(None)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return calls, _End(error)
    return calls, None


async def _close(items: AsyncIterator[Any]) -> None:
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        await aclose()
