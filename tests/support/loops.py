"""Every async test runs on each event loop; `@pytest.mark.loops("asyncio")` restricts that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

LOOPS: dict[str, LoopFactory] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Tell pytest-asyncio on which loops to run a test."""
    marker = item.get_closest_marker("loops")
    if marker is None:
        return LOOPS
    unknown = set(marker.args) - set(LOOPS)
    if unknown or not marker.args:
        raise pytest.UsageError(f"{item.nodeid}: loops{marker.args}, but there are {list(LOOPS)}")
    return {name: LOOPS[name] for name in marker.args}
