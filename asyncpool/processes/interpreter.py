"""How a worker's interpreter is called: like this one, whatever this one was called with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

_PACKAGE_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The package is found at its own place, which then leaves sys.path again: neither it nor the
# current directory may hide a module of the standard library. The parent's path comes later.
_BOOT = (
    "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; "
    "import asyncpool; del sys.path[0]; "
    "from asyncpool.worker.main import main; main()"
)


def worker_command(fds: Sequence[int], stack_signal: int) -> list[str]:
    """Return the command line of a worker that finds its pipes at these descriptors."""
    if not sys.executable:
        raise FileNotFoundError("sys.executable is empty: there is no interpreter for workers")
    numbers = map(str, (*fds, stack_signal))
    return [sys.executable, *_flags(), "-c", _BOOT, _PACKAGE_HOME, *numbers]


def _flags() -> list[str]:
    """Return the options (-O, -I, -W, -X ...) with which this interpreter was started."""
    # Private, but what multiprocessing uses since 2.6; there is no public way to learn them.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def worker_environment(extra: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the environment of a worker, or None for this process's own."""
    return {**os.environ, **extra} if extra else None


def import_path() -> list[str]:
    """Return this process's sys.path, made absolute: a worker may stand elsewhere."""
    here = working_directory() if _has_relative(sys.path) else ""
    return [os.path.normpath(os.path.join(here, entry)) for entry in sys.path if type(entry) is str]


def working_directory() -> str:
    """Return where workers shall stand: here, or at the root if here was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _has_relative(path: Sequence[str]) -> bool:
    return any(not os.path.isabs(entry) for entry in path if type(entry) is str)
