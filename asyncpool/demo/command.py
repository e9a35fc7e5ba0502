"""The command line of the demo."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from .json_lines import JsonLines
from .show import Show, Teller, named, play
from .text import Text

DESCRIPTION = """\
Compute Fibonacci numbers on workers that crash: with some probability, a worker
that has computed one dies of a real SIGSEGV before it can tell the result. The
pool replaces the worker and sends the job again, until every result is there.
"""

EPILOG = """\
With --json, each event is an object on a line of its own, as it happens. Its
"event" is the name of its class in asyncpool, "elapsed" is in seconds. The last
line is the "Summary", which holds all results.

examples:
  asyncpool demo
  asyncpool demo --workers 2 --jobs 25,26,27 --crash-rate 0.9 --seed 7
  asyncpool demo --json | jq -r 'select(.reason == "crashed") | .job_id'
  asyncpool demo --json | jq 'select(.event == "Summary").crashes'

The exit code is 0 only if every result is right, which is checked by computing
it in another way.
"""

JOBS = "31,33,32,34,31,33,32,34,31,33,32,34"
"""About ten seconds on two cores."""


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command `demo`."""
    parser = commands.add_parser(
        "demo",
        help="watch jobs survive the crashes of their workers",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    loops = ["uvloop", "asyncio"] if find_spec("uvloop") else ["asyncio"]
    add = parser.add_argument
    add("--workers", type=_workers, default=4, metavar="N", help="worker processes (%(default)s)")
    add(
        "--jobs",
        type=_numbers,
        default=JOBS,
        metavar="N,N,...",
        help="compute fib of each of these",
    )
    add(
        "--crash-rate", type=_rate, default=1 / 3, metavar="P", help="from 0 to below 1 (one third)"
    )
    add("--seed", type=int, metavar="N", help="repeat the crashes of a run: all, if on one worker")
    add("--loop", choices=loops, default=loops[0], help="event loop (%(default)s)")
    add("--json", action="store_true", help="print JSON Lines, see below")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Play the show that the options describe; return 0 if every result was right."""
    show = Show(
        jobs=named(options.jobs),
        workers=options.workers,
        crash_rate=options.crash_rate,
        seed=random.randrange(10_000) if options.seed is None else options.seed,
        loop=options.loop,
    )
    teller: Teller = JsonLines(show) if options.json else Text(show, coloured=_wants_colour())
    say = partial(print, flush=True)
    with asyncio.Runner(loop_factory=_loop_factory(show.loop)) as runner:
        ending = runner.run(play(show, teller, say))
    return 0 if ending.all_right else 1


def _workers(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _numbers(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of n >= 0 such as 30,31,32")
    return [int(number) for number in numbers]


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not in the range from 0 to below 1, where no job would ever end"
        )
    return rate


def _wants_colour() -> bool:
    # https://no-color.org
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout is not None and sys.stdout.isatty()


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
