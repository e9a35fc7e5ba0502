"""The command `asyncpool`: finds the subcommand, and answers for how the process ends.

A subcommand is a module with two functions: `add_to(commands)` adds its parser, whose default `run`
takes the parsed options and returns the exit code.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__

FAILED, BAD_USAGE = 1, 2
INTERRUPTED, NOBODY_READS = 128 + 2, 128 + 13  # what shells make of SIGINT and SIGPIPE

OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

EXAMPLE = """\
examples:
  asyncpool demo --crash-rate 0.5
  asyncpool journal show jobs.log

exit codes:
  0 all is well, 1 something failed, 2 bad usage, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the usage."""

    def error(self, message: str) -> NoReturn:
        """Complain and exit."""
        self.exit(BAD_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        _occupy_standard_streams()
        try:
            return _run(argv)
        finally:
            if sys.stdout is not None:  # it was closed
                sys.stdout.flush()  # at the latest here we learn that it cannot be written
    except BrokenPipeError:
        _discard_output()
        return NOBODY_READS
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        _discard_output()
        print(f"asyncpool: cannot write the output: {error.strerror}", file=sys.stderr)
        return FAILED
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
    from .journal import command as journal

    parser = Parser(
        prog="asyncpool",
        description="A process pool for asyncio in which every job survives its workers.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"asyncpool {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (demo, journal):
        command.add_to(commands)
    return parser


def _occupy_standard_streams() -> None:
    """Let no other file get the number of a stream that was closed: libuv aborts on it."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _discard_output() -> None:
    """Let Python's own flush at the exit write to nowhere, instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
