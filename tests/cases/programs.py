"""Users' programs, started as users start them, and what must hold after each of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpool
from tests.support import procs

HOME = str(Path(asyncpool.__file__).resolve().parents[1])
COMPLAINTS = ("never retrieved", "Exception ignored in", "never awaited", "Traceback")


@dataclass(frozen=True)
class Finished:
    """What a program left behind: its output, and how long it took in seconds."""

    code: int
    out: str
    err: str
    seconds: float
    raw_out: bytes


def run(
    *arguments: str,
    cwd: str | Path,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    complaints: Sequence[str] = COMPLAINTS,
) -> Finished:
    """Run `python *arguments`; no descendant may be left, and stderr may hold no complaint."""
    mark = uuid.uuid4().hex
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, *arguments],
        input=stdin.encode(),
        cwd=cwd,
        env={**environment(), **(env or {}), "PROGRAM": mark},
        capture_output=True,
        timeout=60,
        check=False,
    )
    seconds = time.monotonic() - begun
    out, err = _text(done.stdout), _text(done.stderr)
    finished = Finished(done.returncode, out, err, seconds, done.stdout)
    for complaint in complaints:
        assert complaint not in finished.err, finished.err
    assert procs.having_in_environment(f"PROGRAM={mark}") == []
    return finished


def environment() -> dict[str, str]:
    """Return this environment, with the package to be found from everywhere."""
    path = os.environ.get("PYTHONPATH", "")
    path = f"{HOME}:{path}" if path else HOME
    # Unbuffered, print() writes a line and its end apart, and others may get in between.
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": ""}


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
