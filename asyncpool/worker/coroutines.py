"""Coroutines as jobs: the worker's own event loop, made when the first one comes."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

_runner: asyncio.Runner | None = None


def run(coroutine: Coroutine[Any, Any, object]) -> object:
    """Run the coroutine in the worker's loop, then end the tasks that it left behind."""
    global _runner
    if _runner is None:
        _runner = asyncio.Runner()
    try:
        return _runner.run(coroutine, context=contextvars.copy_context())  # not the last job's
    finally:
        _runner.run(_end_the_others())


async def _end_the_others() -> None:
    """Cancel what the job has not awaited: it must not run on inside the next job."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
