"""`python -m benchmarks`: run some or all measures, and print or save what they gave."""

from __future__ import annotations

import argparse
import asyncio
import compileall
import importlib.util
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import asyncpool

from . import __path__ as own_path
from . import runner
from .machine import inspect_machine
from .measures import GROUPS, MEASURES
from .model import Outcome, Settings
from .report import document, facts, text_report
from .volume import best_directory

REPEATS, QUICK_REPEATS = 5, 2
INTERRUPTED, TERMINATED = 130, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = _parse(arguments)
    _compile()
    try:
        with asyncio.Runner(loop_factory=_loop_factory(options.loop)) as asyncio_runner:
            asyncio_runner.run(_run(options))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure asyncpool beside its peers, all in one run, in turn.",
        epilog=_list_of_measures(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="measures (default: all)")
    parser.add_argument("--json", metavar="FILE", help="save all figures; `-` is stdout")
    parser.add_argument("--repeats", type=_positive, help=f"rounds to count (default: {REPEATS})")
    parser.add_argument("--workers", type=_positive, default=2, help="workers of each pool")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default=_best_loop())
    parser.add_argument("--quick", action="store_true", help="small samples: does it all work?")
    parser.add_argument(
        "--directory",
        type=_directory,
        default=best_directory(),
        help="where durable files go; fsync must mean something there (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    known = {name: (name,) for name in MEASURES} | GROUPS
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such measure: {', '.join(unknown)} (there are {', '.join(known)})")
    options.names = [name for given in options.names for name in known[given]]
    if options.repeats is None:
        options.repeats = QUICK_REPEATS if options.quick else REPEATS
    return options


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


def _directory(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {text}")
    return str(Path(text).resolve())


def _list_of_measures() -> str:
    measures = [f"{name:15}{measure.about}" for name, measure in MEASURES.items()]
    groups = [f"{name:15}all of {', '.join(members)}" for name, members in GROUPS.items()]
    return "\n".join([*measures, *groups])


def _best_loop() -> str:
    return "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"


def _compile() -> None:
    """Have bytecode beside the sources, as an installed package has.

    Where Python may not write any, every start of a worker would compile them anew.
    """
    for directory in (*asyncpool.__path__, *own_path):
        compileall.compile_dir(directory, quiet=2)


def _loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


async def _run(options: argparse.Namespace) -> None:
    """Run the measures in turn; show each as soon as it is done."""
    _end_on_sigterm()
    settings = Settings(workers=options.workers, quick=options.quick, directory=options.directory)
    machine = inspect_machine(asyncio.get_running_loop(), options.directory)
    readers = sys.stderr if options.json == "-" else sys.stdout
    print(facts(machine, settings), file=readers)
    outcomes: list[Outcome] = []
    for name in dict.fromkeys(options.names or MEASURES):
        outcome = await runner.run(MEASURES[name], settings, options.repeats, _tell)
        _tell("")
        print(f"\n{text_report(machine, outcome)}", file=readers, flush=True)
        outcomes.append(outcome)
    if options.json is not None:
        _save(options.json, json.dumps(document(machine, settings, outcomes), indent=2))


def _end_on_sigterm() -> None:
    """Let SIGTERM, too, close all pools before the end."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def _tell(progress: str) -> None:
    """Show on a terminal what is going on, in one line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)


def _save(target: str, text: str) -> None:
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
