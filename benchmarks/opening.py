"""Reading a journal in a process of its own: `python -m benchmarks.opening HOW FILE`.

`ledger` opens it as a pool does, `lines` only parses it; printed are the seconds and megabytes
that it took.
"""

from __future__ import annotations

import json
import resource
import sys
from time import perf_counter

from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal


def open_ledger(path: str) -> int:
    """Open a journal; return how many jobs are unfinished."""
    ledger = Ledger.open(Journal(path))
    unfinished = len(ledger.index.unfinished)
    ledger.close()
    return unfinished


def parse_lines(path: str) -> int:
    """Parse each line as JSON; return how many jobs are unfinished."""
    unfinished: set[str] = set()
    with open(path, "rb") as file:
        for line in file:
            record = json.loads(line)
            if record["kind"] == "submitted":
                unfinished.add(record["id"])
            elif record["kind"] == "finished":
                unfinished.discard(record["id"])
    return len(unfinished)


HOW = {"ledger": open_ledger, "lines": parse_lines}


def peak_megabytes() -> float:
    """Return the largest resident set that this process ever had."""
    try:
        with open("/proc/self/status") as status:
            # Not from getrusage, which also counts what the parent had when this was started.
            peak = next(line for line in status if line.startswith("VmHWM:"))
            return int(peak.split()[1]) / 1024
    except OSError:
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS
        return peak_bytes / 2**20


def main(how: str, path: str) -> None:
    """Read the file, and print what it took."""
    before, begun = peak_megabytes(), perf_counter()
    unfinished = HOW[how](path)
    seconds = perf_counter() - begun
    print(
        json.dumps(
            {
                "seconds": seconds,
                "growth": peak_megabytes() - before,
                "unfinished": unfinished,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
