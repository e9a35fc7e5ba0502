"""The show as programs read it: an object on a line for each event, and one for the summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from ..events import Event, JobEvent, WorkerStarted
from ..explain import signal_name
from ..jobs import Attempt
from .show import Ending, Result, Show


class JsonLines:
    """Tells a show to programs."""

    def __init__(self, show: Show) -> None:
        self._show = show

    def opening(self) -> list[str]:
        """Return nothing: no event has happened."""
        return []

    def event(self, event: Event, elapsed: float, predecessors: Mapping[int, int]) -> list[str]:
        """Return the event as an object."""
        fields = {"event": type(event).__name__, "elapsed": round(elapsed, 6), **_fields(event)}
        if isinstance(event, JobEvent):
            fields["n"] = self._show.jobs[event.job_id]
        if isinstance(event, WorkerStarted):
            fields["replaces"] = predecessors.get(event.pid or 0)
        return [_dump(fields)]

    def ending(self, ending: Ending) -> list[str]:
        """Return the summary as an object."""
        show = self._show
        return [
            _dump(
                {
                    "event": "Summary",
                    "elapsed": round(ending.seconds, 6),
                    "workers": show.workers,
                    "crash_rate": show.crash_rate,
                    "seed": show.seed,
                    "loop": show.loop,
                    "jobs": len(ending.results),
                    "right": ending.right,
                    "crashes": ending.stats.crashes,
                    "resent": ending.stats.resent,
                    "replacements": ending.replacements,
                    "results": [_result(result) for result in ending.results],
                }
            )
        ]


def _result(result: Result) -> dict[str, Any]:
    attempts = [_fields(attempt) for attempt in result.attempts]
    return {**asdict(result), "right": result.right, "attempts": attempts}


def _fields(item: Event | Attempt) -> dict[str, Any]:
    """Return the fields of an event or attempt, a signal as its name."""
    fields = asdict(item)
    if fields.get("signal") is not None:
        fields["signal"] = signal_name(fields["signal"])
    return fields


def _dump(fields: dict[str, Any]) -> str:
    return json.dumps(fields, default=_value)


def _value(member: Enum) -> object:
    return member.value
