"""A view of a pool that submits with fixed options."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from . import mapping
from .job import Job
from .options import JobOptions, check_count

if TYPE_CHECKING:
    from .pool import Pool

P = ParamSpec("P")
R = TypeVar("R")

ITEMS_AHEAD_PER_WORKER = 16


class Submitter:
    """What `pool.options(...)` returns: submits like the pool, with these options."""

    __slots__ = ("_options", "_pool")

    def __init__(self, pool: Pool, options: JobOptions) -> None:
        self._pool = pool
        self._options = options

    @overload
    def submit(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Queue a call of `fn` and return its handle at once; see `Pool.submit`."""
        return self._pool._submit(self._options, fn, args, kwargs)

    @overload
    async def enqueue(
        self, fn: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Job[R]: ...
    @overload
    async def enqueue(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    async def enqueue(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Wait for room, then submit; see `Pool.enqueue`."""
        return await self._pool._enqueue(self._options, fn, args, kwargs)

    @overload
    def map(
        self,
        fn: Callable[..., Coroutine[Any, Any, R]],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[R, None]: ...
    @overload
    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[R, None]: ...
    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any] | AsyncIterable[Any],
        buffersize: int | None = None,
        chunksize: int = 1,
        ordered: bool = True,
        return_exceptions: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Iterate over `fn` of each item; see `Pool.map`.

        The timeout is that of one item: a chunk gets the sum.
        """
        check_count("buffersize", buffersize, 1)
        check_count("chunksize", chunksize, 1)
        if not iterables:
            raise TypeError("map needs at least one iterable")
        if self._options.id is not None:
            raise ValueError("an id names one job, and map makes many: leave it out")
        if chunksize > 1 and self._options.retry.max_errors:
            raise ValueError("Retry(max_errors=...) retries whole jobs: use chunksize=1 with it")
        self._pool._functions.find(fn)  # raises here rather than at the first item
        ahead = buffersize or ITEMS_AHEAD_PER_WORKER * self._pool._max_workers * chunksize
        chunksize = min(chunksize, ahead)
        plan = mapping.Plan(
            fn=fn,
            sources=tuple(map(mapping.source, iterables)),
            chunksize=chunksize,
            chunks_ahead=ahead // chunksize,
            ordered=ordered,
            return_exceptions=return_exceptions,
        )
        return mapping.run(self._pool, self._options, plan)

    def __repr__(self) -> str:
        return f"<Submitter {self._options}>"
