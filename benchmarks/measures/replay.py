"""How long it takes to open a large journal, and how much memory, in a process of its own.

What is remembered grows with the unfinished jobs only, so a tenth of the records, with as many
unfinished jobs, takes as much.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from functools import cache, partial

from .. import recorded
from ..model import Goal, Measure, Metric, Settings, Subject, Values
from ..volume import scratch

POOL, TENTH = "asyncpool", "asyncpool, a tenth of it"
LINES = "limit: json.loads"
RECORDS, QUICK_RECORDS = 1_000_000, 10_000
UNFINISHED, QUICK_UNFINISHED = 1_000, 100


async def _sample(how: str, part: float, settings: Settings) -> Values:
    records = int(part * (QUICK_RECORDS if settings.quick else RECORDS))
    unfinished = QUICK_UNFINISHED if settings.quick else UNFINISHED
    original = _journal(settings.directory, records, unfinished)
    with scratch(settings.directory) as directory:
        # Opening writes to the file, and leaves out what has ended.
        path = shutil.copy(os.path.join(original.name, "jobs.log"), directory)
        found = await _read(how, path)
    if found["unfinished"] != unfinished:
        raise AssertionError(f"{found['unfinished']} jobs came back, not {unfinished}")
    return found


async def _sample_limit(settings: Settings) -> Values:
    found = await _sample("lines", 1, settings)
    return {"seconds": found["seconds"]}  # it remembers too little to compare the memory


@cache
def _journal(directory: str, records: int, unfinished: int) -> tempfile.TemporaryDirectory[str]:
    """Write a journal that all samples copy; it goes when this process does."""
    home = scratch(directory)
    recorded.write_journal(
        os.path.join(home.name, "jobs.log"), lines=records, unfinished=unfinished
    )
    return home


async def _read(how: str, path: str) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.opening", how, path), stdout=asyncio.subprocess.PIPE
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ChildProcessError(f"reading the journal ended with {process.returncode}")
    found: dict[str, float] = json.loads(output)
    return found


MEASURE = Measure(
    name="replay",
    about="opening a journal of 1,000,000 records, 1,000 jobs unfinished",
    subjects=(
        Subject(POOL, partial(_sample, "ledger", 1), "checked, indexed, and compacted"),
        Subject(TENTH, partial(_sample, "ledger", 0.1), "100,000 records, as many unfinished"),
        Subject(LINES, _sample_limit, "each line parsed, unfinished ids kept"),
    ),
    metrics=(Metric("seconds", "s"), Metric("growth", "MB of peak RSS")),
    goals=(
        Goal(POOL, "seconds", "<=", 8),
        Goal(POOL, "growth", "<=", 1.5, (TENTH, "growth")),
    ),
    baseline=LINES,
)
