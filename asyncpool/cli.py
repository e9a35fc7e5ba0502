"""The command `asyncpool`: finds the subcommand, and answers for how the process ends.

A subcommand is a module with two functions: `add_to(commands)` adds its parser, whose default `run`
takes the parsed options and returns the exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__

BAD_USAGE, INTERRUPTED, NOBODY_READS = 2, 128 + 2, 128 + 13  # the latter as shells call signals

EXAMPLE = """\
example:
  asyncpool demo --crash-rate 0.5     watch jobs survive the crashes of their workers

exit codes:
  0 all is well, 1 some jobs failed, 2 bad usage, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the usage."""

    def error(self, message: str) -> NoReturn:
        """Complain and exit."""
        self.exit(BAD_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        try:
            return _run(argv)
        finally:
            if sys.stdout is not None:  # it is closed
                sys.stdout.flush()  # at the latest here we learn that nobody reads it
    except BrokenPipeError:
        _discard_output()
        return NOBODY_READS
    except KeyboardInterrupt:
        print("asyncpool: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    options = build_parser().parse_args(argv)
    status: int = options.run(options)
    return status


def build_parser() -> Parser:
    """Return the parser of everything."""
    from .demo import command as demo  # loads much: a Ctrl-C meanwhile must find `main` in charge

    parser = Parser(
        prog="asyncpool",
        description="A process pool for asyncio in which every job survives its workers.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"asyncpool {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (demo,):
        command.add_to(commands)
    return parser


def _discard_output() -> None:
    """Let Python's own flush at the exit write to nowhere, instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
