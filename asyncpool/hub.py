"""Streams to readers who may be slow: bounded, never slowing down whoever writes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar
from weakref import WeakSet

from .events import Event, EventsLost

T = TypeVar("T")

EVENTS_KEPT = 10_000
"""How many unread events a reader of `pool.events()` may have before it loses the oldest."""


class Feed(AsyncIterator[T], Generic[T]):
    """One reader's stream. Ends after `close`, when what was pushed before has been read."""

    def __init__(self, capacity: int, tell_lost: Callable[[int], T] | None = None) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._tell_lost = tell_lost
        self._lost = 0
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def push(self, item: T) -> None:
        """Add an item; the oldest one gives way if the reader is too slow."""
        if len(self._items) >= self._capacity:
            self._items.popleft()
            self._lost += 1
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """Let the reader's loop end."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Feed[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("this stream is being read by another task already")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._lost and self._tell_lost is not None:
            lost, self._lost = self._lost, 0
            return self._tell_lost(lost)
        return self._items.popleft()


class EventHub:
    """Hands every event to all who listen."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._feeds: WeakSet[Feed[Event]] = WeakSet()
        self._closed = False
        self.heard = False
        """Whether anybody listens: nothing is built for nobody."""

    def listen(self) -> Feed[Event]:
        """Return a stream of all events from now on."""
        feed: Feed[Event] = Feed(
            EVENTS_KEPT, lambda count: EventsLost(time=self.clock(), count=count)
        )
        if self._closed:
            feed.close()
        else:
            self._feeds.add(feed)
            self.heard = True
        return feed

    def publish(self, event: Event) -> None:
        """Hand the event to everybody."""
        for feed in self._feeds:
            feed.push(event)
        self.heard = bool(self._feeds)

    def close(self) -> None:
        """Let all streams end."""
        self._closed = True
        for feed in self._feeds:
            feed.close()
        self._feeds.clear()
