"""The three ways to hand in work: `submit`, `enqueue` and `map`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar, overload

from . import mapping
from .intake import Intake
from .job import Job
from .options import JobOptions, check_count

P = ParamSpec("P")
R = TypeVar("R")

ITEMS_AHEAD_PER_WORKER = 16


class Submitter:
    """Hands in work with fixed options: a view of a pool, or the pool itself with its defaults."""

    def __init__(self, intake: Intake, options: JobOptions) -> None:
        self._intake = intake
        self._options = options

    @overload
    def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Queue a call of `fn` and return its handle at once, like `loop.create_task`.

        Raises SerializationError for what does not pickle, or would make no sense to another
        process that finds it in the journal, TypeError for what is no function, DuplicateJob if
        the id belongs to another call, PoolFull if `max_pending` jobs are unfinished, RuntimeError
        (as PoolClosed, if it is closed) outside of the pool's loop; then nothing was queued. If
        the journal cannot be written, the job ends with JournalWriteError, and never ran.
        """
        return self._intake.submit(self._options, fn, args, kwargs)

    @overload
    async def enqueue(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    async def enqueue(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    async def enqueue(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Like `submit`, but wait for room, and with a journal until the job is on disk.

        There is room while less than `max_pending` jobs are unfinished. Raises what `submit`
        raises, except PoolFull, and JournalWriteError.
        """
        return await self._intake.enqueue(self._options, fn, args, kwargs)

    @overload
    def map(
        self,
        fn: Callable[..., Coroutine[Any, Any, R]],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: Literal[False] = False,
    ) -> AsyncGenerator[R, None]: ...
    @overload
    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: Literal[False] = False,
    ) -> AsyncGenerator[R, None]: ...
    @overload
    def map(
        self,
        fn: Callable[..., Coroutine[Any, Any, R]],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool,
    ) -> AsyncGenerator[R | BaseException, None]: ...
    @overload
    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool,
    ) -> AsyncGenerator[R | BaseException, None]: ...
    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Iterate over `fn` of each item, or of the items of several iterables side by side.

        At most `buffersize` items are taken ahead of the loop that reads the results (None: 16
        chunks for each worker). Results come in the order of the items, or as they are ready if
        not `ordered`. `chunksize` items travel as one job, whose timeout is the sum of theirs. An
        item's exception is raised in its place and ends the iteration, or is yielded if
        `return_exceptions`. Leaving the loop cancels the rest and closes the iterables.
        """
        check_count("buffersize", buffersize, 1)
        check_count("chunksize", chunksize, 1)
        if not iterables:
            raise TypeError("map needs at least one iterable")
        if self._options.id is not None:
            raise ValueError("an id names one job, and map makes many: leave it out")
        if chunksize > 1 and self._options.retry.max_errors:
            raise ValueError("Retry(max_errors=...) retries whole jobs: use chunksize=1 with it")
        self._intake.check(fn)  # raises here rather than at the first item
        ahead = buffersize or ITEMS_AHEAD_PER_WORKER * self._intake.max_workers * chunksize
        chunksize = min(chunksize, ahead)
        plan = mapping.Plan(
            fn=fn,
            sources=tuple(map(mapping.source, iterables)),
            chunksize=chunksize,
            chunks_ahead=ahead // chunksize,
            ordered=ordered,
            return_exceptions=return_exceptions,
        )
        return mapping.run(self._intake, self._options, plan)

    def __repr__(self) -> str:
        return f"<Submitter {self._options}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Pool cannot be sent to a worker: a job that needs workers of its own opens a Pool"
        )
