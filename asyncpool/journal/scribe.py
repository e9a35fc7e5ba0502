"""The scribe: a thread that writes down what the loop hands it, one batch after the other.

The loop never waits for the disk. While a batch is written, whatever arrives gathers, and then
shares the next write and the next fsync; a lone note waits for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..errors import JournalWriteError
from .ledger import Ledger, Note, Unwritten

logger = logging.getLogger("asyncpool")

Told = Callable[["Unwritten | None"], None]


class Scribe:
    """A thread of its own, from `open` to `close`; nobody else uses the disk meanwhile.

    aiofiles would take a thread of the loop's default executor for each call, which other users
    may fill for long, and which `asyncio.run` joins while jobs still end. Write, fsync and what
    follows are one step here, whose outcome is known even when every task is cancelled.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="asyncpool journal", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                order()
            except Exception:  # a bug of ours; those who wait for the next order must not hang
                logger.exception("the journal's thread met an error")
            del order

    def call(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Let the thread call a function; its result or exception is the future's."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def order() -> None:
            try:
                result = function(*args)
            except Exception as error:
                self._tell(_fail, future, error)
            else:
                self._tell(_succeed, future, result)

        self._orders.put(order)
        return future

    def write(self, ledger: Ledger, notes: Sequence[Note], told: Told, *, sync: bool) -> None:
        """Let the thread write the notes, and call `told` in the loop when that is done."""

        def order() -> None:
            unwritten: Unwritten | None = None
            try:
                if notes:
                    unwritten = ledger.write_what_fits(notes, sync=sync)
                else:
                    ledger.sync()
            except JournalWriteError as failed:
                unwritten = Unwritten(failed, [])
            except Exception as failed:  # a bug of ours must not look like a durable write
                error = JournalWriteError(f"the journal failed: {type(failed).__name__}: {failed}")
                error.__cause__ = failed
                unwritten = Unwritten(error, list(notes))
            self._tell(told, unwritten)
            if unwritten is None and notes:
                ledger.tidy()

        self._orders.put(order)

    def _tell(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop was closed: nobody is left to be told
            pass

    async def end(self, last: Callable[[], object]) -> None:
        """Let the thread do one more thing, and end."""
        done = self.call(last)
        self._orders.put(None)
        await persist(done)
        self._thread.join()
        done.result()


async def persist(future: asyncio.Future[Any]) -> None:
    """Wait until it is done; who is cancelled meanwhile, as by a second Ctrl-C, waits on."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({future})


def _succeed(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
