"""Earlier lives: programs with a journal that end as a test wants, and what they leave in it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from asyncpool import Pool
from asyncpool.journal.lines import seal
from tests.support.scripts import Finished, Script

_PROGRAM = """
import asyncio, os, signal, sys, time
from asyncpool import Job, Journal, Pool, Retry
from tests.cases import chores
from tests.journal import tasks
from tests.support import jobs
from tests.support.loops import LOOPS

JOURNAL, MARKS, GATE = map(os.path.abspath, ("jobs.log", "marks", "gate"))

def ready():
    print("ready", flush=True)

async def marked(count):
    while not os.path.exists(MARKS) or len(open(MARKS).readlines()) < count:
        await asyncio.sleep(0.01)

async def main():
{body}

with asyncio.Runner(loop_factory=LOOPS[{loop!r}]) as runner:
    runner.run(main())
"""


def program(
    body: str,
    directory: Path,
    *,
    loop: str = "asyncio",
    env: Mapping[str, str | None] | None = None,
) -> Script:
    """Return a program that runs this body of a coroutine.

    Its journal is `jobs.log`, its marks and its gate are the files of these names in `directory`.
    """
    source = _PROGRAM.format(body=indent(dedent(body), "    "), loop=loop)
    return Script(source, directory, env=env)


def live_until_killed(script: Script) -> int:
    """Run the program until it says that it is `ready`, then kill -9 it; return its pid."""
    with script.running() as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise AssertionError(process.communicate()[1])
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return process.pid


def live(script: Script, code: int = 0) -> Finished:
    """Run the program to its own end."""
    finished = script.run()
    assert finished.returncode == code, finished.stderr
    return finished


class _Left(Exception):
    pass


@asynccontextmanager
async def left(pool: Pool) -> AsyncIterator[Pool]:
    """Enter the pool, and leave its block by an exception: what is unfinished is to come back."""
    with suppress(_Left):
        async with pool:
            yield pool
            raise _Left


def records(path: str | Path) -> list[dict[str, Any]]:
    """Return all that stands in a journal."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def ends(path: str | Path) -> dict[str, str]:
    """Return the state in which each finished job of a journal ended."""
    return {it["id"]: it["state"] for it in records(path) if it["kind"] == "finished"}


def shift_times(path: str | Path, seconds: float) -> None:
    """Rewrite a journal as if all of it had happened so much later (or earlier, if negative)."""
    lines = []
    for record in records(path):
        del record["crc"]
        for name in ("time", "deadline", "not_before"):
            if name in record:
                record[name] += seconds
        for attempt in [record["attempt"]] if "attempt" in record else record.get("attempts", ()):
            attempt[2] += seconds
            attempt[3] += seconds
        seq = record.pop("seq")
        lines.append(seal(seq, json.dumps(record, separators=(",", ":"))[1:-1]))
    Path(path).write_bytes(b"".join(lines))
