"""The facts about the machine without which no figure means anything."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import os
import platform
from dataclasses import dataclass

import asyncpool

from .volume import volume_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where a run took place."""

    system: str
    processor: str
    cpus: int
    load: str
    python: str
    loop: str
    asyncpool: str
    gc: str
    volume: str


def inspect_machine(loop: asyncio.AbstractEventLoop, directory: str) -> Machine:
    """Look at the machine as it is now, and at what the directory lies on."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cpus=_cpus(),
        load=" ".join(f"{load:.2f}" for load in os.getloadavg()),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        loop=_loop_name(loop),
        asyncpool=asyncpool.__version__,
        gc=f"{'on' if gc.isenabled() else 'off'}, thresholds {gc.get_threshold()}",
        volume=str(volume_of(directory)),
    )


def _loop_name(loop: asyncio.AbstractEventLoop) -> str:
    home = type(loop).__module__.split(".")[0]
    return f"uvloop {importlib.metadata.version('uvloop')}" if home == "uvloop" else home


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.machine()
