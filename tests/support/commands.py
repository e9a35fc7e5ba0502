"""The command `asyncpool`, run as users run it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from .scripts import Script


def command(directory: Path, *argv: str, env: Mapping[str, str | None] | None = None) -> Script:
    """Return `python -m asyncpool` with these arguments, to be run or watched."""
    script = Script("", directory, env=env)
    script.command = [sys.executable, "-m", "asyncpool", *argv]
    return script
