"""Streams to slow readers: bounded, and honest about what they lost."""

from __future__ import annotations

import asyncio

import pytest

from asyncpool.hub import Feed


def feed(capacity: int) -> Feed[str]:
    return Feed(capacity, lambda count: f"lost {count}")


async def test_items_come_in_order_and_then_the_end() -> None:
    stream = feed(10)
    for item in "abc":
        stream.push(item)
    stream.close()
    assert [item async for item in stream] == ["a", "b", "c"]


async def test_a_slow_reader_loses_the_oldest_and_is_told_how_many() -> None:
    stream = feed(2)
    for item in "abcde":
        stream.push(item)
    stream.close()
    assert [item async for item in stream] == ["lost 3", "d", "e"]


async def test_a_waiting_reader_is_woken_by_an_item_and_by_the_end() -> None:
    stream = feed(2)
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    stream.push("a")
    assert await reader == "a"
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    stream.close()
    with pytest.raises(StopAsyncIteration):
        await reader


async def test_a_cancelled_reader_leaves_the_stream_usable() -> None:
    stream = feed(2)
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    stream.push("a")
    assert await anext(stream) == "a"


async def test_two_readers_of_one_stream_are_refused() -> None:
    stream = feed(2)
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task"):
        await anext(stream)
    stream.close()
    with pytest.raises(StopAsyncIteration):
        await reader
